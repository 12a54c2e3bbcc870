"""The plan for many runs: a shuffle by run, and whole runs judged where they arrive.

What is shuffled are packed pieces; a task gets all of a run and judges it with the very kernels of `--quick`, each log
as one piece. What leaves it are the rows of `antiphon.pipeline.run_results`: verdicts, observations, violations. Runs
of more rows than ROWS_MAX are not for one task: `antiphon.pipeline.auditor` has another plan for them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from antiphon.history.errors import UnusableHistoryError
from antiphon.pipeline.audit.pieces import HeldTask
from antiphon.pipeline.audit_run import judge_runs
from antiphon.pipeline.held import HeldHistory, LogName
from antiphon.pipeline.run_results import RESULTS, problem_row, rows_of
from antiphon.pipeline.scan import FILE, pieces_of_logs
from antiphon.pipeline.workplace import InProcess

ROWS_MAX: Final = 400_000
"""A longer run is judged sooner by many tasks, from two cores on. A task takes about 400 bytes of memory for a row."""


def judge_run(
    packed: pa.Table, promise: Sequence[str] | None, cut_short: Mapping[LogName, str], tell_runs: bool, listing: bool
) -> pa.Table:
    """One run, from all its rows of PACKED_PIECES to its rows of RESULTS."""
    run = packed["run"][0].as_py()
    pieces = pieces_of_logs(packed)
    history = HeldHistory(pieces, {log: cause for log, cause in cut_short.items() if log[0] == run})
    place = InProcess([HeldTask((piece,)) for piece in pieces])
    try:
        judged = judge_runs(place, history, promise, tell_runs=tell_runs, listing=listing)
    except UnusableHistoryError as error:
        return problem_row(run, str(error), _files_named(packed, str(error)))
    return rows_of(run, judged)


def audit_by_run(
    pieces: DataFrame,
    promise: Sequence[str] | None,
    cut_short: Mapping[LogName, str],
    *,
    tell_runs: bool,
    listing: bool,
) -> DataFrame:
    """Rows of RESULTS of all runs of a DataFrame of PACKED_PIECES."""

    def work(key: tuple[Any, ...], packed: pa.Table) -> pa.Table:
        return judge_run(packed, promise, cut_short, tell_runs, listing)

    return pieces.groupBy("run").applyInArrow(work, from_arrow_schema(RESULTS))


def _files_named(packed: pa.Table, problem: str) -> list[str]:
    """The files that share rows of the log that a problem names, where they are several."""
    rows = packed.select(["process", FILE, "first_index", "last_index"]).to_pylist()
    own = [row for row in rows if f"the log of {row['process']} holds two rows" in problem]
    return sorted(
        {
            one[FILE]
            for one in own
            for other in own
            if one[FILE] != other[FILE]
            and one["first_index"] <= other["last_index"]
            and other["first_index"] <= one["last_index"]
        }
    )
