"""What is kept of a failing seed: its whole history, and a smaller run that breaks the same promise, ready as a test.

    failing/<kind>-<seed>/
      history/           the run of the seed, as it was, for `antiphon audit`
      script.json        the same run, spelled out
      shrunk/history/    the smaller run
      shrunk/script.json
      test_<kind>_<seed>.py   fails while the smaller run breaks a promise, passes from then on
      facts.json         the figures for the summary

The folder appears by a rename when all of it is there. A seed is run anew for this, since it decides its run.
"""

import json
import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from antiphon.history.segments import segment_file
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.campaign.chunks import FAILING
from antiphon.pipeline.campaign.contract import Simulator
from antiphon.pipeline.campaign.judge import Judgement, SimulatedRun, judge
from antiphon.pipeline.campaign.regression import regression_test
from antiphon.pipeline.campaign.shrink import Shrunk, shrink


@dataclass(frozen=True, kw_only=True)
class FailingSeed:
    """A seed that failed, as the result table has it."""

    seed: int
    kind: str
    guarantee: str
    """The first that it broke, or left unknown."""
    verdict: str
    events: int
    explanation: str

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is kept of one failing seed; `shrunk_…` are of the smaller run, and None where none was found: the script
    of a seed with members that stay is nearly, but not always quite, the same run."""

    seed: int
    kind: str
    guarantee: str
    verdict: str
    events: int
    processes: int
    actions: int
    shrunk_events: int | None = None
    shrunk_processes: int | None = None
    shrunk_actions: int | None = None
    shrink_runs: int = 0
    is_minimal: bool = False
    explanation: str = ""
    test: str | None = None
    """The test's file, in the folder."""

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.seed}"


def choose(failing: Iterable[FailingSeed], most: int) -> list[FailingSeed]:
    """Which failing seeds to keep: of each broken guarantee in turn, the one with the fewest events."""
    by_guarantee: dict[str, list[FailingSeed]] = defaultdict(list)
    for seed in sorted(failing, key=lambda seed: (seed.events, seed.seed)):
        by_guarantee[seed.guarantee].append(seed)
    turns = zip_longest(*(by_guarantee[guarantee] for guarantee in sorted(by_guarantee)))
    return [seed for turn in turns for seed in turn if seed is not None][:most]


def keep_failing(simulator: Simulator, directory: Path, failing: FailingSeed, runs_max: int) -> Kept:
    """Run the seed again, shrink it, and keep both; or read what was kept before."""
    folder = directory / FAILING / failing.name
    if (folder / "facts.json").exists():
        return read_kept(folder)
    making = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    run = simulator.run_seed(failing.seed)
    judgement = judge(run)
    write_history(making / "history", run)
    script = simulator.script_of(failing.seed)
    _write_json(making / "script.json", script)
    shrunk = shrink(simulator, script, failing.guarantee, failing.verdict, runs_max)
    kept = Kept(
        seed=failing.seed,
        kind=failing.kind,
        guarantee=failing.guarantee,
        verdict=failing.verdict,
        events=judgement.events,
        processes=len(script["processes"]),
        actions=len(script["actions"]),
        explanation=failing.explanation,
    )
    if shrunk is not None:
        kept = _with_shrunk(making, kept, shrunk)
    _write_json(making / "facts.json", asdict(kept))
    making.rename(folder)
    return kept


def _with_shrunk(folder: Path, kept: Kept, shrunk: Shrunk) -> Kept:
    write_history(folder / "shrunk" / "history", shrunk.run)
    _write_json(folder / "shrunk" / "script.json", shrunk.script)
    result = Kept(
        **{
            **asdict(kept),
            "shrunk_events": shrunk.judgement.events,
            "shrunk_processes": len(shrunk.script["processes"]),
            "shrunk_actions": len(shrunk.script["actions"]),
            "shrink_runs": shrunk.runs,
            "is_minimal": shrunk.is_minimal,
            "explanation": _explanation(shrunk.judgement, kept),
            "test": f"test_{kept.kind}_{kept.seed}.py",
        }
    )
    (folder / str(result.test)).write_text(regression_test(result, shrunk.script), encoding="utf-8")
    return result


def _explanation(judgement: Judgement, kept: Kept) -> str:
    """What the smaller run shows, in words."""
    wanted = (kept.guarantee, kept.verdict)
    return next(
        problem.text for problem in judgement.problems if (problem.guarantee, problem.verdict) == wanted
    )  # fmt: skip


def read_kept(folder: Path) -> Kept:
    try:
        return Kept(**json.loads((folder / "facts.json").read_text()))
    except (ValueError, TypeError) as error:
        raise UsageError(f"{folder} is damaged; remove it, and the seed will be run again") from error


def write_history(directory: Path, run: SimulatedRun) -> None:
    """The logs as files, one each; a log without a row leaves none."""
    directory.mkdir(parents=True)
    for log in run.logs:
        table = log.table()
        if table.num_rows:
            file = segment_file(directory, log.process, log.incarnation, 0)
            pq.write_table(table, file, compression="zstd")


def _write_json(file: Path, document: dict[str, Any]) -> None:
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
