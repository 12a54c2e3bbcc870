"""What an audit found in a run, as rows: what leaves a task that judges whole runs, and what result tables are made of.

A row is of one `kind`: the verdict on a guarantee in a run, an observation of a member, a violation, the size of a run,
or the problem that makes a run unusable. `combine` puts the verdicts of all runs together, in the order of their names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

import pyarrow as pa

from antiphon.history.errors import UnusableHistoryError
from antiphon.pipeline.audit_run import JudgedRuns
from antiphon.pipeline.guarantees import CHECKED
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.result import Audit, Example, MemberObservation, Violation
from antiphon.pipeline.verdicts import Tally, conclude, finding

VERDICT, OBSERVATION, VIOLATION, SIZE, PROBLEM = "verdict", "observation", "violation", "size", "problem"

_TEXTS: Final = ("open_logs", "overrides", "readers_apart")
"""Lists of a tally; so many words of each leave a run, and how many there were."""
TEXTS_MAX: Final = 5
_EVENT: Final = (("process", pa.string()), ("index", pa.int64()))
_OBSERVED: Final = (
    *("sent", "delivered", "delivered_bytes", "latency_ns_p50", "latency_ns_p99", "latency_ns_max"),
    *("first_ns", "last_ns"),
)

RESULTS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "kind", "guarantee", "group", "process")),
        # A verdict…
        ("verdict", pa.string()),
        ("claimed", pa.bool_()),  # of another system's log: where nothing could be checked, it is unknown
        *((name, pa.int64()) for name in ("violations", "unknown", "checked", "roots")),
        ("reason", pa.string()),
        ("example", pa.string()),
        ("example_events", pa.list_(pa.struct(_EVENT))),
        *((name, pa.list_(pa.string())) for name in _TEXTS),
        *((f"{name}_count", pa.int64()) for name in _TEXTS),
        # …an observation…
        *((name, pa.int64()) for name in _OBSERVED),
        ("ending", pa.string()),
        # …a violation…
        *((name, pa.int64()) for name in ("index", "number", "count")),
        *((name, pa.string()) for name in ("sender", "root_cause")),
        # …the size of a run, and what makes it unusable, with the files in which that shows.
        *((name, pa.int64()) for name in ("events", "rows")),
        ("problem", pa.string()),
        ("files", pa.list_(pa.string())),
    ]
)


def rows_of(run: str, judged: JudgedRuns) -> pa.Table:
    """What was found in one run."""
    rows: list[dict[str, Any]] = [{"kind": SIZE, "events": judged.events, "rows": judged.rows}]
    for guarantee in judged.promises.all():
        named = judged.promises.must_be_checked(guarantee)
        row = _verdict(guarantee, judged.tallies.get(guarantee, Tally()), named)
        rows.append({"kind": VERDICT, "claimed": guarantee in judged.promises.claimed} | row)
    rows += [{"kind": OBSERVATION} | asdict(observed) for observed in judged.observations]
    rows += [{"kind": VIOLATION} | asdict(violation) for violation in judged.violations]
    return pa.Table.from_pylist([row | {"run": run} for row in rows], RESULTS)


def problem_row(run: str, problem: str, files: Sequence[str]) -> pa.Table:
    """Why a run is unusable."""
    return pa.Table.from_pylist([{"run": run, "kind": PROBLEM, "problem": problem, "files": list(files)}], RESULTS)


def _verdict(guarantee: str, tally: Tally, named: bool) -> dict[str, Any]:
    found = finding(guarantee, tally, named)
    row: dict[str, Any] = {"guarantee": guarantee, "verdict": found.verdict, "reason": found.reason}
    row |= {name: getattr(found, name) for name in ("violations", "unknown", "checked", "roots")}
    if found.example is not None:
        row |= {"example": found.example.text, "group": found.example.group}
        row["example_events"] = [{"process": process, "index": index} for process, index in found.example.events]
    for name in _TEXTS:
        texts = getattr(tally, name)
        row |= {name: texts[:TEXTS_MAX], f"{name}_count": len(texts)}
    return row


def combine(rows: pa.Table, promise: Sequence[str] | None, name_of: Mapping[str, str] | None = None) -> Audit:
    """The whole result, from the rows of all runs, in any order. `name_of` a problem: the files that it is in."""
    problems = sorted(row["problem"] for row in rows.to_pylist() if row["kind"] == PROBLEM)
    if problems:
        where = (name_of or {}).get(problems[0], "")
        raise UnusableHistoryError(None, problems[0] + where)
    tallies = {guarantee: Tally() for guarantee in CHECKED}
    promised: set[str] = set()
    claimed: set[str] = set()
    events = count = runs = 0
    observations: list[MemberObservation] = []
    for row in rows.sort_by("run").to_pylist():
        if row["kind"] == SIZE:
            events, count, runs = events + row["events"], count + row["rows"], runs + 1
        elif row["kind"] == VERDICT:
            promised.add(row["guarantee"])
            claimed.update([row["guarantee"]] if row["claimed"] else [])
            _add(tallies.setdefault(row["guarantee"], Tally()), row)
        elif row["kind"] == OBSERVATION:
            observations.append(MemberObservation(**{each.name: row[each.name] for each in fields(MemberObservation)}))
    every = None if promise is None else frozenset(promise)
    promises = Promises({("", ""): frozenset(promised)}, every, frozenset(claimed))
    return conclude(promises, tallies, events=events, rows=count, runs=runs, observations=observations)


def _add(tally: Tally, row: Mapping[str, Any]) -> None:
    tally.violations += row["violations"]
    tally.unknown += row["unknown"]
    tally.checked += row["checked"]
    tally.roots += row["roots"]
    for name in _TEXTS:
        texts, count = row[name] or [], row[f"{name}_count"] or 0
        # Those beyond the first few are counted, and never shown.
        getattr(tally, name).extend([*texts, *[""] * (count - len(texts))])
    if row["example"] is not None and tally.example is None:
        shown = tuple((event["process"], event["index"]) for event in row["example_events"])
        tally.example = Example(text=row["example"], run=row["run"], group=row["group"], events=shown)


def violations_of(rows: Iterable[Mapping[str, Any]]) -> list[Violation]:
    """The violations among rows."""
    names = [each.name for each in fields(Violation)]
    return [Violation(**{name: row[name] for name in names}) for row in rows if row["kind"] == VIOLATION]
