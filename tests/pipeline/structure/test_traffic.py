"""Measuring: the lines of a row group beside a plain count of its rows, and the sums of a history on Spark."""

from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.reader import HistoryFiles
from antiphon.history.recorder import Recorder
from antiphon.history.schema import Row
from antiphon.pipeline.structure.traffic import measure, shares_of
from tests.pipeline.histories import World
from tests.pipeline.inprocess import table_of
from tests.pipeline.structure.traffic_samples import OFFICE, record_office

Place = tuple[str, str]


def slow_counts(rows: list[Row]) -> tuple[dict[str, Counter[Place]], dict[Place, tuple[int, int]]]:
    """What was sent and delivered, and the first and last view, by group and process, row by row."""
    counts: dict[str, Counter[Place]] = {}
    views: dict[Place, tuple[int, int]] = {}
    for row in rows:
        place = (row.group or "", row.process)
        count, size = row.count or 0, row.size or 0
        if row.kind == "deliver":
            counts.setdefault("delivered", Counter())[place] += count
        elif row.kind == "send" and row.destinations is not None:
            counts.setdefault("private", Counter())[place] += count
        elif row.kind == "send":
            counts.setdefault("messages", Counter())[place] += count
            counts.setdefault("bytes", Counter())[place] += size
            counts.setdefault("ordered", Counter())[place] += count if row.level in ("agreed", "safe") else 0
        elif row.kind == "view":
            assert row.view is not None
            for member in row.members or ():
                listed = (row.group or "", member.rpartition("/")[0])
                first, last = views.get(listed, (row.view, row.view))
                views[listed] = min(first, row.view), max(last, row.view)
    return counts, views


@pytest.mark.parametrize("seed", range(5))
def test_the_lines_of_a_table_add_up_to_its_rows(seed: int) -> None:
    random = Random(seed)
    world = World(random, "r", 5, 3, merge=True, late=1)
    world.start(("creation",))
    for _ in range(200):
        name = random.choice(world.names)
        if random.random() < 0.4:
            world.send(name, random.choice(("fifo", "causal", "agreed", "safe")))
        elif random.random() < 0.1:
            world.change_view(world.names)
        else:
            world.deliver(name)
    rows = [row for log in world.logs.values() for row in log.rows()]
    counts, views = slow_counts(rows)
    found = shares_of(table_of(rows)).to_pylist()
    for name, expected in counts.items():
        sums: Counter[Place] = Counter()
        for line in found:
            sums[line["group"], line["process"]] += line[name]
        assert +sums == +expected
    ranges = {
        (line["group"], line["process"]): (line["view_first"], line["view_last"])
        for line in found
        if line["view_first"] is not None
    }
    assert ranges == views


@pytest.mark.spark
def test_a_history_is_measured_over_all_its_files(spark: SparkSession, tmp_path: Path) -> None:
    record_office(tmp_path)
    told: list[str] = []
    traffic = measure(tmp_path, spark, told.append)
    assert {group: sorted(names) for group, names in traffic.members.items()} == {
        group: sorted(names) for group, names in OFFICE.items()
    }
    assert traffic.messages == {group: 4 * len(names) for group, names in OFFICE.items()}
    assert traffic.bytes == {group: 40 * len(names) for group, names in OFFICE.items()}
    assert traffic.ordered == {group: 4 * len(names) if group == "risk" else 0 for group, names in OFFICE.items()}
    dave = traffic.by_place["orders", "dave"]  # of both lives
    assert (dave.view_first, dave.view_last, dave.private, dave.delivered) == (1, 3, 1, 12)
    assert traffic.by_place["audit", "dave"].view_last == 1
    assert traffic.by_place["audit", "erin"].view_last == 2
    assert told == [f"measuring {HistoryFiles.open(tmp_path).rows:,} rows"]


@pytest.mark.spark
def test_a_row_that_makes_no_sense_is_named(spark: SparkSession, tmp_path: Path) -> None:
    record_office(tmp_path)
    file = tmp_path / "alice-1-00000.parquet"
    table = pq.read_table(file)
    kinds = table["kind"].to_pylist()
    kinds[2] = "nonsense"
    pq.write_table(table.set_column(table.schema.get_field_index("kind"), "kind", pa.array(kinds)), file)
    with pytest.raises(UnusableHistoryError, match=r"alice-1-00000.parquet: row 2 makes no sense"):
        measure(tmp_path, spark)


@pytest.mark.spark
def test_a_history_without_groups_has_no_structure(spark: SparkSession, tmp_path: Path) -> None:
    with Recorder(tmp_path, run="r", process="p") as log:
        log.stop(1)
    with pytest.raises(UnusableHistoryError, match="there is no structure to find"):
        measure(tmp_path, spark)
