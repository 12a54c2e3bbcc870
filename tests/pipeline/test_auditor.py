"""The audit on Spark: the same result as the reference auditor's, from files of every kind."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import Row
from antiphon.history.segments import segment_file
from antiphon.pipeline import reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.promises import UnknownGuaranteeError
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN, Audit
from tests.pipeline.histories import PROMISES, make_history, rows_of
from tests.pipeline.inprocess import table_of
from tests.pipeline.parted_histories import PARTED_PROMISES
from tests.pipeline.script import make_rows
from tests.pipeline.test_reference_components import make_parted_rows
from tests.pipeline.test_reference_equality import make_rows as make_spoiled_rows

pytestmark = pytest.mark.spark


def write_history(directory: Path, rows: list[Row], row_group_size: int = 50) -> Path:
    """One directory per run, one file per log, as the recorder would."""
    logs: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        logs[row.run, row.process, row.incarnation].append(row)
    for (run, process, incarnation), own in logs.items():
        (directory / run).mkdir(parents=True, exist_ok=True)
        table = table_of(sorted(own, key=lambda row: row.index))
        pq.write_table(table, segment_file(directory / run, process, incarnation, 0), row_group_size=row_group_size)
    return directory


def without_examples(result: Audit) -> Audit:
    """Two auditors may choose different examples."""
    findings = tuple(replace(finding, example=None) for finding in result.findings)
    return replace(result, findings=findings)


def check_equal(spark: SparkSession, path: Path) -> Audit:
    found, expected = audit(path, spark), reference.audit(path)
    assert quick_audit(path) == found, "in one process the same, to the examples"
    assert without_examples(found) == without_examples(expected)
    assert [f.guarantee for f in found.findings if f.example] == [f.guarantee for f in expected.findings if f.example]
    return found


def test_many_runs_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Right and spoiled ones together; whatever is wrong in one must not spill over into another."""
    rows: list[Row] = []
    for seed in (*range(18), 38, 71, 77, 160, 172):  # the later ones break what the others keep
        own = make_spoiled_rows(Random(seed), corruptions=4 * (seed % 3))
        try:
            reference.audit(own)
        except UnusableHistoryError:
            continue
        rows += [replace(row, run=f"{seed} {row.run}") for row in own]
    result = check_equal(spark, write_history(tmp_path, rows, row_group_size=20))
    assert [finding.verdict for finding in result.findings] == [BROKEN] * len(PROMISES)
    assert result.runs > 24


def test_a_right_history(spark: SparkSession, tmp_path: Path) -> None:
    levels = ("reliable", "fifo", "causal")
    rows = rows_of(make_history(Random(1), processes=5, groups=3, steps=300, levels=levels, views=6))
    assert max(row.view or 0 for row in rows) > 1
    told: list[str] = []
    result = audit(write_history(tmp_path, rows), spark, progress=told.append)
    assert result.verdict == KEPT
    assert without_examples(result) == without_examples(reference.audit(tmp_path))
    assert len(told) == 3


def test_all_in_one_file_in_any_order(spark: SparkSession, tmp_path: Path) -> None:
    rows = rows_of(make_history(Random(2), processes=3, groups=2, steps=80))
    Random(2).shuffle(rows)
    pq.write_table(table_of(rows), tmp_path / "all.parquet", row_group_size=20)
    assert check_equal(spark, tmp_path).verdict == KEPT


def test_examples_are_the_same_on_short_histories(spark: SparkSession, tmp_path: Path) -> None:
    rows = make_rows(
        p="s1 d:p1 d:q1@h d:r1 d:r1 d:q9@h quiet", q="d:p1 s1@h d:q1@h quiet", r="d:q1@h s1 d:p1 d:r1 quiet"
    )
    result = check_equal(spark, write_history(tmp_path, rows))
    expected = reference.audit(tmp_path)
    assert [finding.example for finding in result.findings] == [finding.example for finding in expected.findings]
    assert sum(finding.example is not None for finding in result.findings) == 4


def test_a_long_chain_is_told_step_by_step(spark: SparkSession, tmp_path: Path) -> None:
    rows = make_rows(
        a="s1 d:a1 d:b1~fifo d:c1 quiet",
        b="d:a1 s1~fifo d:b1~fifo d:c1 quiet",
        c="d:b1~fifo s1 d:c1 d:a1 quiet",
    )
    causal = next(f for f in check_equal(spark, write_history(tmp_path, rows)).findings if f.guarantee == "causal")
    assert causal.example is not None
    assert causal.example.text == (
        "c delivered c#1 before a#1, although b sent #1 after delivering a#1 and c sent #1 after delivering b#1"
    )
    start = 2  # start and view row come first
    assert causal.example.events == (
        *(("a/1", start), ("b/1", start), ("b/1", start + 1), ("c/1", start), ("c/1", start + 1)),
        *(("c/1", start + 2), ("c/1", start + 3)),
    )


def test_named_guarantees_replace_the_promised(spark: SparkSession, tmp_path: Path) -> None:
    write_history(tmp_path, make_rows(promises="creation", p="s1 d:p1 d:p1 quiet"))
    assert audit(tmp_path, spark).verdict == KEPT
    assert [f.verdict for f in audit(tmp_path, spark, promise=["duplication"]).findings] == [BROKEN]
    with pytest.raises(UnknownGuaranteeError, match="'fun' is no guarantee"):
        audit(tmp_path, spark, promise=["fun"])


def test_leftover_files(spark: SparkSession, tmp_path: Path) -> None:
    write_history(tmp_path, make_rows(p="s1 d:p1 quiet", q="d:p1 quiet"))
    (tmp_path / "r" / "q-1-00001.parquet.partial").touch()
    result = check_equal(spark, tmp_path)
    assert result.verdict == UNKNOWN
    assert result.findings[0].reason == (
        "1 check is undecided: the log of q/1 is cut short after 4 rows (q-1-00001.parquet.partial was never completed)"
    )


def test_a_truncated_log_beside_whole_ones(spark: SparkSession, tmp_path: Path) -> None:
    write_history(tmp_path, make_rows(p="s1 d:p1 quiet", q="d:p1 quiet"))
    file = tmp_path / "r" / "p-1-00000.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    assert check_equal(spark, tmp_path).verdict == UNKNOWN


def test_a_log_of_which_nothing_is_left_but_its_name(spark: SparkSession, tmp_path: Path) -> None:
    write_history(tmp_path, make_rows(p="s1 d:p1 quiet"))
    (tmp_path / "r" / "z-1-00000.parquet.partial").touch()
    result = check_equal(spark, tmp_path)
    assert [finding.unknown for finding in result.findings] == [1] * 6


UNUSABLE: list[tuple[str, dict[str, str]]] = [
    ("sends message 3 to g where 2 should come", {"p": "s1 s3 quiet"}),
    ("goes on after its stop or crash row", {"p": "s1 quiet d:p1"}),
    ("no start row says what was promised", {"p": "quiet", "promises": ""}),
]


@pytest.mark.parametrize(("words", "lines"), UNUSABLE)
def test_unusable_logs(spark: SparkSession, tmp_path: Path, words: str, lines: dict[str, str]) -> None:
    write_history(tmp_path, make_rows(**lines))
    with pytest.raises(UnusableHistoryError, match=words):
        audit(tmp_path, spark)


def test_a_row_that_makes_no_sense_is_named(spark: SparkSession, tmp_path: Path) -> None:
    rows = [replace(row, level="best") if row.kind == "deliver" else row for row in make_rows(p="s1 d:p1 quiet")]
    write_history(tmp_path, rows, row_group_size=2)
    with pytest.raises(UnusableHistoryError, match=r"p-1-00000\.parquet: row 3 makes no sense: level 'best'"):
        audit(tmp_path, spark)


def test_the_same_row_in_two_files(spark: SparkSession, tmp_path: Path) -> None:
    rows = make_rows(p="s1 d:p1 quiet")
    write_history(tmp_path, rows)
    pq.write_table(table_of(rows[2:3]), tmp_path / "r" / "p-1-00001.parquet")
    with pytest.raises(UnusableHistoryError, match="two rows with the same index"):
        audit(tmp_path, spark)


def test_a_foreign_table(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"price": [1.5]}), tmp_path / "sales.parquet")
    with pytest.raises(UnusableHistoryError, match="it is no history of Antiphon"):
        audit(tmp_path, spark)


def test_groups_that_part_and_merge(spark: SparkSession, tmp_path: Path) -> None:
    """Right and spoiled ones together: judged per component, as by the reference auditor."""
    rows: list[Row] = []
    for seed in range(6, 18):
        own = make_parted_rows(Random(seed), corruptions=2 * (seed % 3))
        try:
            reference.audit(own, PARTED_PROMISES)
        except UnusableHistoryError:
            continue
        rows += [replace(row, run=f"run {seed}") for row in own]
    found = check_equal(spark, write_history(tmp_path, rows, row_group_size=20))
    broken = {finding.guarantee for finding in found.findings if finding.verdict == BROKEN}
    assert {"transitional", "merged", "safe", "fifo", "settled"} <= broken
