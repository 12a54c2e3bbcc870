"""The generator keeps all promises but those it is told to break, and knows what must be counted."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antiphon.history.reader import HistoryFiles, rows_of_table
from antiphon.history.schema import SCHEMA
from antiphon.kernel.errors import UsageError
from antiphon.pipeline import reference
from antiphon.pipeline.result import BROKEN, KEPT
from bench import audit_scale, histories
from bench.figures import IncompleteError
from bench.histories import Shape, generate, generate_segments, parse_plant
from bench.history_rows import SEGMENT_ROWS
from bench.memory import MemoryWatch, family
from bench.planting import PLANTED, NoRoomError

SMALL = Shape(events=3000, processes=5, groups=2, views=6, single=0.3, levels=(0.1, 0.3, 0.3, 0.2, 0.1))


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_broken_or_open_where_nothing_was_planted(seed: int, tmp_path: Path) -> None:
    shape = Shape(events=1500, processes=4 + seed % 3, groups=1 + seed % 3, views=seed)
    made = generate(tmp_path, shape, seed=seed)
    audit = reference.audit(tmp_path)
    assert (audit.verdict, audit.events, audit.rows) == (KEPT, made.events, made.rows)
    assert 0.5 * shape.events < made.events < 2 * shape.events
    if seed > 2:
        assert all(finding.checked for finding in audit.findings)


@pytest.mark.parametrize("guarantee", PLANTED)
def test_what_is_planted_is_what_is_counted(guarantee: str, tmp_path: Path) -> None:
    made = generate(tmp_path, SMALL, seed=7, plant={guarantee: 2})
    audit = reference.audit(tmp_path)
    assert audit.verdict == BROKEN
    assert made.planted[guarantee] >= 2
    assert {finding.guarantee: finding.violations for finding in audit.findings if finding.violations} == dict(
        +made.planted
    )


def test_the_same_seed_makes_the_same_history(tmp_path: Path) -> None:
    for name in ("one", "two"):
        generate(tmp_path / name, SMALL, seed=3, plant={"causal": 1})
    generate(tmp_path / "other", SMALL, seed=4, plant={"causal": 1})
    one, two, other = (HistoryFiles.open(tmp_path / name).read_rows() for name in ("one", "two", "other"))
    assert one == two != other


def test_files_are_as_a_recorder_writes_them(tmp_path: Path) -> None:
    generate(tmp_path, Shape(events=60_000, processes=3, groups=1, views=1))
    file = sorted(tmp_path.iterdir())[0]
    assert file.name == "p0-1-00000.parquet"
    assert pq.read_schema(file).types == SCHEMA.types
    assert max(pq.read_metadata(each).row_group(0).num_rows for each in tmp_path.iterdir()) <= SEGMENT_ROWS


def test_segments_are_what_would_go_into_files(tmp_path: Path) -> None:
    written = generate(tmp_path, SMALL, seed=3, plant={"causal": 1})
    made, segments = generate_segments(SMALL, seed=3, plant={"causal": 1})
    rows = [row for segment in segments for row in rows_of_table(segment.table.cast(SCHEMA))]
    assert (made, rows) == (written, HistoryFiles.open(tmp_path).read_rows())


def test_too_much_for_too_short_a_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRoomError, match=r"no room to plant .* of primary"):
        generate(tmp_path, SMALL, plant={"primary": 100})
    with pytest.raises(UsageError, match="'luck' cannot be planted"):
        generate(tmp_path, SMALL, plant={"luck": 1})


def test_the_command_line_tells_what_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(tmp_path), "--events", "4000", "--runs", "2", "--views", "6", "--plant", "causal=1,silence=1"]
    assert histories.main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert reference.audit(tmp_path).runs == 2
    assert told["planted"]["silence"] == 2
    assert parse_plant("causal=1,silence=1") == {"causal": 1, "silence": 1}


@pytest.mark.processes
def test_an_audit_is_measured_and_checked(tmp_path: Path) -> None:
    made = generate(tmp_path, SMALL, plant={"duplication": 1})
    found = audit_scale.audited(tmp_path, made, "--reference")
    assert found["events"] == made.events
    assert 0 < found["proportional_gb"] <= found["resident_gb"] < 2
    assert found["processor_s"] > 0.2
    made.planted["causal"] += 1
    with pytest.raises(IncompleteError, match="was planted"):
        audit_scale.audited(tmp_path, made, "--reference")


def test_memory_is_that_of_a_process_and_its_children() -> None:
    assert family(1)[0] == 1
    assert len(family(1)) > 1
    watch = MemoryWatch(1)
    assert (watch.resident_bytes, watch.proportional_bytes) == (0, 0)
