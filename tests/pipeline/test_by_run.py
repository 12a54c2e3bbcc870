"""Whole runs judged in one task, and their results put together: the same as the audit in one process."""

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import Row
from antiphon.pipeline import reference
from antiphon.pipeline.by_run import judge_run
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.run_results import combine, violations_of
from tests.pipeline.histories import PROMISES
from tests.pipeline.inprocess import table_of
from tests.pipeline.script import make_rows
from tests.pipeline.test_auditor import write_history
from tests.pipeline.test_reference_components import make_parted_rows
from tests.pipeline.test_reference_equality import make_rows as make_spoiled_rows
from tests.pipeline.test_scan import as_file, packed, packed_from


def some_runs() -> list[Row]:
    """Right and spoiled runs."""
    rows: list[Row] = []
    for seed in (*range(18), 38, 71, 77, 160, 172):  # the later ones break what the others keep
        own = make_spoiled_rows(Random(seed), corruptions=4 * (seed % 3))
        try:
            reference.audit(own)
        except UnusableHistoryError:
            continue
        rows += [replace(row, run=f"{seed} {row.run}") for row in own]
    for seed in range(4):
        rows += [replace(row, run=f"parted {seed}") for row in make_parted_rows(Random(seed), 2 * (seed % 3))]
    return rows


def results(rows: list[Row], promise: list[str] | None = None, batch_rows: int = 25) -> pa.Table:
    """What the tasks of all runs send, in an order of Spark's choosing."""
    runs: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        runs[row.run].append(row)
    found = []
    for own in reversed(runs.values()):
        pieces = packed(table_of(own), batch_rows)
        found.append(judge_run(pieces, promise, {}, len(runs) > 1, True))
    return pa.concat_tables(found)


def test_the_same_as_in_one_process_and_every_violation_listed(tmp_path: Path) -> None:
    rows = some_runs()
    of_runs = results(rows)
    found = combine(of_runs, None)
    assert found == quick_audit(write_history(tmp_path, rows)), "to the examples and the words"
    assert found.runs > 12
    assert {finding.guarantee for finding in found.findings if finding.violations} >= set(PROMISES)
    listed: Counter[str] = Counter()
    for violation in violations_of(of_runs.to_pylist()):
        listed[violation.guarantee] += violation.count
        assert violation.reason
    assert dict(listed) == {finding.guarantee: finding.violations for finding in found.findings if finding.violations}


def test_a_delivery_is_listed_with_its_message_and_its_cause() -> None:
    rows = make_rows(p="s1 s2 d:p1 d:p2 quiet", q="d:p2 d:p1 quiet")
    (fifo,) = (each for each in violations_of(results(rows).to_pylist()) if each.guarantee == "fifo")
    assert (fifo.run, fifo.group, fifo.process, fifo.index) == ("r", "g", "q/1", 2)
    assert (fifo.sender, fifo.number, fifo.count) == ("p/1", 2, 1)
    assert fifo.reason == "delivered before an earlier message of its sender: p#1 of g"
    assert fifo.root_cause == "p#1 of g"


def test_a_lacking_message_is_listed_with_the_process_that_lacks_it() -> None:
    rows = make_rows(p="s1 s2 d:p1 d:p2 quiet", q="d:p1 quiet")
    (lacked,) = (each for each in violations_of(results(rows).to_pylist()) if each.guarantee == "settled")
    assert (lacked.process, lacked.sender, lacked.number, lacked.count) == ("q/1", "p/1", 2, 1)


def test_named_guarantees_replace_the_promised() -> None:
    rows = make_rows(promises="creation", p="s1 d:p1 d:p1 quiet")
    assert [each.guarantee for each in combine(results(rows, ["duplication"]), ["duplication"]).findings] == [
        "duplication"
    ]


def test_what_another_system_claims_and_nothing_checks_is_unknown(tmp_path: Path) -> None:
    own = make_rows(promises="creation safe", p="s1 d:p1 quiet")
    rows = [replace(row, label=row.label and row.label.replace("{", '{"claimed": true, ', 1)) for row in own]
    rows = [row if row.kind == "start" else replace(row, label=old.label) for row, old in zip(rows, own, strict=True)]
    found = combine(results(rows), None)
    assert found == quick_audit(write_history(tmp_path, rows))
    assert [finding.verdict for finding in found.findings] == ["kept", "unknown"]


def test_an_unusable_run_makes_the_history_unusable() -> None:
    rows = [*make_rows(p="s1 d:p1 quiet"), *(replace(row, run="x") for row in make_rows(p="s1 s3 quiet"))]
    with pytest.raises(UnusableHistoryError, match="sends message 3 to g where 2 should come"):
        combine(results(rows), None)


def test_a_row_that_is_there_twice_names_the_files() -> None:
    rows = make_rows(p="s1 d:p1 quiet")
    pieces = packed_from({"4.parquet": as_file(table_of(rows)), "5.parquet": as_file(table_of([rows[2]]))})
    (row,) = judge_run(pieces, None, {}, False, False).to_pylist()
    assert (row["problem"], row["files"]) == (
        "the log of p/1 holds two rows with the same index",
        ["4.parquet", "5.parquet"],
    )


def test_a_log_that_was_cut_short_is_told_with_its_cause() -> None:
    rows = make_rows(p="s1 d:p1 quiet", q="d:p1 quiet")
    pieces = packed(table_of(rows), 100)
    found = combine(judge_run(pieces, None, {("r", "q/1"): "it rained", ("x", "p/1"): "no"}, False, False), None)
    assert {finding.verdict for finding in found.findings} == {"unknown"}
    assert "the log of q/1 is cut short after 4 rows (it rained)" in (found.findings[0].reason or "")
