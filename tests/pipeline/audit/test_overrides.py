"""A group that an operator had go on without a majority: the audit says so, by name."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.history.schema import Row
from antiphon.history.segments import segment_file
from antiphon.pipeline import reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.result import BROKEN, KEPT
from tests.pipeline.inprocess import count, counts_of, table_of
from tests.pipeline.script import make_rows

WORD = "an operator's word overrides this promise: "


def recovered(*, majority: bool = False) -> list[Row]:
    """b and e go on without a, c and d, or, if there is a majority, with c."""
    rest = "bce" if majority else "be"
    lines = {name: "crash" for name in "acd" if name not in rest}
    lines |= dict.fromkeys(rest, f"v2:{rest} quiet")
    lines["e"] = f"recover@g recover@g v2:{rest} quiet"
    return make_rows(promises="primary view_agreement", **lines)


def test_primary_is_broken_and_the_reason_names_who_was_told_to_go_on() -> None:
    rows = recovered()
    found = reference.audit(rows).findings[1]
    assert (found.guarantee, found.verdict, found.violations, found.roots) == ("primary", BROKEN, 1, 1)
    assert found.example is not None
    assert found.example.text == "view 2 of g holds only 2 of the 5 members of view 1"
    assert found.reason == f"{WORD}e was told to go on in g without a majority and installed view 2"
    for piece_rows in (1, 2, 100):
        assert count(rows, piece_rows=piece_rows) == counts_of(reference.audit(rows))


def test_a_recovery_that_had_a_majority_is_told_though_nothing_is_broken() -> None:
    found = reference.audit(recovered(majority=True)).findings[1]
    assert found.verdict == KEPT
    assert found.reason == f"{WORD}e was told to go on in g without a majority and installed view 2"


def test_a_recovery_that_led_to_no_view_is_told() -> None:
    rows = make_rows(promises="primary", a="crash", b="crash", c="recover@g stop")
    assert reference.audit(rows).findings[0].reason == f"{WORD}c was told to go on in g without a majority"


def test_two_sides_that_both_went_on_are_one_cause() -> None:
    """The others lived on after all: from view 2 on there are two groups of one name."""
    one, other = "v2:be v3:be v4:be quiet", "v2:acd v3:acd v4:acd quiet"
    lines = dict.fromkeys("acd", other) | {"b": one, "e": f"recover@g {one}"}
    (found,) = reference.audit(make_rows(promises="primary", **lines)).findings
    assert (found.verdict, found.violations, found.roots) == (BROKEN, 3, 1)
    assert "e was told to go on" in (found.reason or "")


def test_no_word_of_it_where_primary_is_not_promised() -> None:
    found = reference.audit(make_rows(promises="view_agreement", a="recover@g v2:a quiet")).findings
    assert [each.reason for each in found] == [None]


@pytest.mark.spark
def test_the_audit_on_spark_says_the_same(spark: SparkSession, tmp_path: Path) -> None:
    rows = recovered()
    for process in "abcde":
        own = [row for row in rows if row.process == process]
        pq.write_table(table_of(own), segment_file(tmp_path, process, 1, 0), row_group_size=2)
    assert audit(tmp_path, spark).findings == reference.audit(tmp_path).findings
