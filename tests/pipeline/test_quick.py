"""The audit in one process: the same as the reference auditor's (test_auditor.py compares it with that on Spark)."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import Row
from antiphon.pipeline import quick, reference, view_counts
from antiphon.pipeline.promises import Promises, UnknownGuaranteeError
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import BROKEN, Audit
from tests.pipeline.corruption import CORRUPTIONS
from tests.pipeline.inprocess import BY_FRAMES, logs_of, table_of
from tests.pipeline.script import make_rows
from tests.pipeline.test_auditor import write_history
from tests.pipeline.test_reference_components import make_parted_rows
from tests.pipeline.test_reference_equality import make_rows as make_spoiled_rows


def without_examples(result: Audit) -> Audit:
    """Two auditors may choose different examples."""
    return replace(result, findings=tuple(replace(finding, example=None) for finding in result.findings))


def test_many_runs_at_once(tmp_path: Path) -> None:
    rows: list[Row] = []
    for seed in range(30):
        own = make_spoiled_rows(Random(seed), corruptions=4 * (seed % 3))
        try:
            reference.audit(own)
        except UnusableHistoryError:
            continue
        rows += [replace(row, run=f"{seed} {row.run}") for row in own]
    path = write_history(tmp_path, rows, row_group_size=20)
    found, expected = quick_audit(path), reference.audit(path)
    assert without_examples(found) == without_examples(expected)
    assert [f.guarantee for f in found.findings if f.example] == [f.guarantee for f in expected.findings if f.example]
    assert found.verdict == BROKEN


def test_long_histories_are_read_pass_by_pass_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row for row in make_spoiled_rows(Random(38), corruptions=6) if row.run == "run 0"]
    Random(38).shuffle(rows)
    pq.write_table(table_of(rows), tmp_path / "shuffled.parquet", row_group_size=7)
    held = quick_audit(tmp_path)
    assert held.verdict == BROKEN
    monkeypatch.setattr(quick, "HELD_ROWS_MAX", len(rows) - 1)
    assert quick_audit(tmp_path) == held


def test_parted_groups(tmp_path: Path) -> None:
    rows = [replace(row, run=f"{seed}") for seed in range(12) for row in make_parted_rows(Random(seed), 3 * (seed % 2))]
    path = write_history(tmp_path, rows)
    assert without_examples(quick_audit(path)) == without_examples(reference.audit(path))


def test_views_are_counted_as_the_reference_counts_them() -> None:
    held = Promises({}, frozenset(BY_FRAMES))
    seen: Counter[str] = Counter()
    for seed in range(120):
        rows = [row for row in make_spoiled_rows(Random(seed), 5, CORRUPTIONS) if row.run == "run 0"]
        try:
            expected = {finding.guarantee: finding for finding in reference.audit(rows, BY_FRAMES).findings}
        except UnusableHistoryError:
            continue
        logs = logs_of(rows, 9)
        open_logs = sum(log.open for log in logs["run 0"].values())
        for guarantee, finding in expected.items():
            counts = [each.counts for each in view_counts.count_views(logs, held) if each.guarantee == guarantee]
            assert (
                sum(each.violations for each in counts),
                sum(each.unknown for each in counts),
                sum(each.checked for each in counts),
                sum(each.roots for each in counts),
            ) == (finding.violations, finding.unknown - open_logs, finding.checked, finding.roots), (seed, guarantee)
            seen[guarantee] += finding.violations > 0
    assert min(seen[guarantee] for guarantee in BY_FRAMES) > 5


def test_the_first_violation_is_told_as_the_reference_tells_it() -> None:
    rows = make_rows(promises="primary", p="v2:pq quiet", q="v2:pq quiet", r="v2:rt quiet", t="v2:rt quiet")
    (finding,) = reference.audit(rows).findings
    (found,) = view_counts.count_views(logs_of(rows, 3), Promises({}, frozenset({"primary"})))
    assert found.counts.first_violation is not None
    assert finding.example is not None
    assert found.counts.first_violation.text == finding.example.text
    assert found.counts.first_violation.events == finding.example.events


def test_a_wrong_guarantee_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UnknownGuaranteeError):
        quick_audit(tmp_path / "nonesuch", promise=["fairness"])


@pytest.mark.processes
def test_spark_is_not_even_imported() -> None:
    program = "import sys, antiphon.pipeline.quick, antiphon.cli.auditing; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
