"""Everything of a history that the page shows beside the audit itself, read in bounded memory.

A page shows one run: that of the first counterexample, else the one in which most was delivered. The data for the
script are plain values that become JSON; nothing in them is larger than the limits of `timeline`, `stretch` and
`latencies` allow, however long the history is.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow.dataset as ds

from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import SCHEMA
from antiphon.pipeline.result import BROKEN, Audit
from antiphon.report.latencies import latency_data, measure
from antiphon.report.rows import Place
from antiphon.report.scan import RunScan
from antiphon.report.source import example_rows
from antiphon.report.stretch import explorer_data, focus_of, read_stretch
from antiphon.report.survey import survey
from antiphon.report.timeline import timeline_data
from antiphon.report.window import Window, example_window

EXAMPLES_MAX: Final = 20


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What was read."""

    run: str | None
    """The run that is shown; None if there is nothing to show."""
    data: dict[str, Any] = field(default_factory=dict)
    examples: dict[str, Window] = field(default_factory=dict)
    """The picture of each broken guarantee."""


def contents_of(audit: Audit, path: Path) -> Contents:
    """Read what the page shows of the history at `path`."""
    history = HistoryFiles.open(path)
    examples = _examples(audit, history)
    run = _run_to_show(audit, examples)
    if run is None:
        return Contents(run=None, examples=examples)
    scan = RunScan(history, run)
    seen = survey(scan)
    if not seen.rows:
        return Contents(run=None, examples=examples)
    steps, steps_ns, what = _steps(audit, examples, run)
    stretch = read_stretch(scan.files, run, seen, focus_of(seen, steps_ns, what), [place[0] for place in steps])
    data = {
        "duration": seen.last_ns - seen.first_ns,
        "timeline": timeline_data(seen.lives, seen.first_ns),
        "explorer": explorer_data(stretch, seen, steps),
        "latency": latency_data(measure(scan, seen), seen.sends.stride),
    }
    return Contents(run=run, data=data, examples=examples)


def _examples(audit: Audit, history: HistoryFiles) -> dict[str, Window]:
    files = sorted({unit.file for unit in history.units})
    dataset = ds.dataset(files, schema=SCHEMA, format="parquet")
    result: dict[str, Window] = {}
    for finding in audit.findings:
        if finding.verdict == BROKEN and finding.example is not None and len(result) < EXAMPLES_MAX:
            window = example_window(example_rows(dataset, finding.example), finding)
            if window is not None:
                result[finding.guarantee] = window
    return result


def _run_to_show(audit: Audit, examples: dict[str, Window]) -> str | None:
    for finding in audit.findings:
        if finding.guarantee in examples and finding.example is not None:
            return finding.example.run
    delivered: Counter[str] = Counter()
    for member in audit.observations:
        delivered[member.run] += member.delivered + 1
    return max(sorted(delivered), key=lambda run: delivered[run], default=None)


def _steps(audit: Audit, examples: dict[str, Window], run: str) -> tuple[tuple[Place, ...], list[int], str]:
    """The steps of the first counterexample of the run, when they happened, and what they are."""
    for finding in audit.findings:
        window = examples.get(finding.guarantee)
        if window is not None and finding.example is not None and finding.example.run == run:
            times = [row.time_ns for row in window.rows if row.place in window.steps]
            return window.steps, times, f"the violation of {finding.guarantee}"
    return (), [], ""
