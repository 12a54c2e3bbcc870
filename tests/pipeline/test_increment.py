"""The incremental audit: at each step of a growing history the same result as a full one, and old rows are not read."""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import Row
from antiphon.history.segments import segment_file
from antiphon.kernel.errors import UsageError
from antiphon.pipeline import reference
from antiphon.pipeline.audit.pieces import plan
from antiphon.pipeline.auditor import audit, audit_increment
from antiphon.pipeline.increment import STATE_FILE, STATE_FOLDER, Reuse, opened
from antiphon.pipeline.result import BROKEN, KEPT, Audit
from tests.pipeline.histories import make_history, rows_of
from tests.pipeline.inprocess import table_of
from tests.pipeline.script import make_rows
from tests.pipeline.test_auditor import without_examples
from tests.pipeline.test_reference_equality import make_rows as make_spoiled_rows
from tests.sampling import seeds

pytestmark = pytest.mark.spark


class Growing:
    """A folder into which a history grows, a segment per log and step, as the recorder would write it."""

    def __init__(self, directory: Path, rows: list[Row], random: Random) -> None:
        self.directory = directory
        self._random = random
        self._logs: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: row.index):
            self._logs[row.run, row.process].append(row)
        self._written = dict.fromkeys(self._logs, 0)
        self._segments = dict.fromkeys(self._logs, 0)

    def step(self, *, last: bool = False) -> None:
        """Some logs come further; in the last step, all come to their ends."""
        for log, rows in self._logs.items():
            done = self._written[log]
            end = len(rows) if last else self._random.randint(done, min(len(rows), done + len(rows) // 2))
            if end == done:
                continue
            folder = self.directory / log[0]
            folder.mkdir(parents=True, exist_ok=True)
            file = segment_file(folder, log[1], 1, self._segments[log])
            pq.write_table(table_of(rows[done:end]), file, row_group_size=40)
            self._written[log], self._segments[log] = end, self._segments[log] + 1


def check_step(spark: SparkSession, directory: Path) -> tuple[Audit, Reuse]:
    """All three auditors agree."""
    found, reuse = audit_increment(directory, spark)
    assert found == audit(directory, spark)
    assert without_examples(found) == without_examples(reference.audit(directory))
    return found, reuse


SPOILED = (16, 19, 23, 25, 34, 35, 37, 38, 50, 71, 77, 160)
"""Seeds whose histories break what those of the lowest ones keep."""


@pytest.mark.random
def test_each_step_of_a_growing_history_is_audited_as_if_it_were_all(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[Row] = []
    for seed in (*seeds(3, 12), *SPOILED):
        own = make_spoiled_rows(Random(seed), corruptions=4 * (seed % 3))
        try:
            reference.audit(own)
        except UnusableHistoryError:
            continue
        rows += [replace(row, run=f"{seed} {row.run}") for row in own]
    growing = Growing(tmp_path, rows, Random(1))
    known = 0
    for step in range(3):
        growing.step(last=step == 2)
        found, reuse = check_step(spark, tmp_path)
        assert found.verdict == BROKEN
        assert reuse.summarised == reuse.row_groups - known
        assert (reuse.judged < reuse.row_groups) == (step > 0)
        known = reuse.row_groups


def write_long_history(tmp_path: Path) -> tuple[Growing, Path]:
    levels = ("fifo", "causal", "agreed", "safe")
    rows = rows_of(make_history(Random(5), processes=4, groups=2, steps=250, levels=levels, views=3))
    return Growing(tmp_path, rows, Random(5)), tmp_path


def test_what_is_known_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    growing, directory = write_long_history(tmp_path)
    for _ in range(3):
        growing.step()
    first = check_step(spark, directory)
    assert (first[1].summarised, first[1].judged) == (first[1].row_groups, first[1].row_groups)
    again = check_step(spark, directory)
    assert again[1] == Reuse(row_groups=first[1].row_groups)
    growing.step(last=True)
    last = check_step(spark, directory)
    assert last[0].verdict == KEPT
    assert last[1].summarised == last[1].row_groups - first[1].row_groups
    assert last[1].summarised <= last[1].judged < last[1].row_groups
    assert last[1].notes == []


def spoil_store(folder: Path) -> None:
    file = max(folder.glob("*.arrow"), key=lambda file: file.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def other_code(folder: Path) -> None:
    manifest = json.loads((folder / STATE_FILE).read_text())
    (folder / STATE_FILE).write_text(json.dumps(manifest | {"code": "other"}))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "has changed since it was written": spoil_store,
    "it was made by another version": other_code,
    "state.json cannot be read": lambda folder: (folder / STATE_FILE).write_text('{"version": 1'),
    "cannot be read (": lambda folder: next(folder.glob("*.arrow")).unlink(),
}


@pytest.mark.parametrize("words", DAMAGES)
def test_a_state_that_cannot_be_believed_is_thrown_away(spark: SparkSession, tmp_path: Path, words: str) -> None:
    rows = make_rows(p="s1 d:p1 quiet", q="d:p1 d:p1 quiet")
    Growing(tmp_path, rows, Random(0)).step(last=True)
    before, _ = audit_increment(tmp_path, spark)
    DAMAGES[words](tmp_path / STATE_FOLDER)
    after, reuse = audit_increment(tmp_path, spark)
    assert after == before
    assert reuse.summarised == 2
    assert len(reuse.notes) == 1
    assert words in reuse.notes[0]
    assert audit_increment(tmp_path, spark)[1] == Reuse(row_groups=2)


def test_what_was_known_of_changed_files_is_thrown_away(spark: SparkSession, tmp_path: Path) -> None:
    good = make_rows(p="s1 d:p1 quiet", q="d:p1 quiet", r="d:p1 quiet")
    Growing(tmp_path, good, Random(0)).step(last=True)
    audit_increment(tmp_path, spark)
    (tmp_path / "r" / "r-1-00000.parquet").unlink()
    bad = make_rows(p="s1 d:p1 quiet", q="d:p1 d:p1 quiet", r="d:p1 quiet")
    pq.write_table(table_of([row for row in bad if row.process == "q"]), tmp_path / "r" / "q-1-00000.parquet")
    found = check_step(spark, tmp_path)
    assert next(f for f in found[0].findings if f.guarantee == "duplication").violations == 1
    assert found[1].summarised == 1
    assert found[1].notes == [
        "what was known of r/q-1-00000.parquet is thrown away: it has changed",
        "what was known of r/r-1-00000.parquet is thrown away: it is gone",
    ]


def test_other_promises_are_judged_anew(spark: SparkSession, tmp_path: Path) -> None:
    Growing(tmp_path, make_rows(promises="creation", p="s1 d:p1 d:p1 quiet"), Random(0)).step(last=True)
    assert audit_increment(tmp_path, spark)[0].verdict == KEPT
    found, reuse = audit_increment(tmp_path, spark, promise=["duplication"])
    assert [finding.violations for finding in found.findings] == [1]
    assert (reuse.summarised, reuse.judged) == (0, 1)


def test_one_audit_at_a_time_works_with_a_state(tmp_path: Path) -> None:
    Growing(tmp_path, make_rows(p="quiet"), Random(0)).step(last=True)
    history = HistoryFiles.open(tmp_path)
    with (
        opened(history, plan(history)),
        pytest.raises(UsageError, match="another incremental audit"),
        opened(history, plan(history)),
    ):
        pass
    with pytest.raises(UsageError, match="is a file"), opened(HistoryFiles.open(history.units[0].file), []):
        pass
