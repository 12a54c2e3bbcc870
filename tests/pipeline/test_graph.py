"""The context graph of known histories, and on Spark."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.log import MemoryLog
from antiphon.history.schema import Row
from antiphon.history.segments import segment_file
from antiphon.pipeline.explain import MessageName
from antiphon.pipeline.graph import reduction
from antiphon.pipeline.graph import stability as stable
from antiphon.pipeline.graph import waves as waves_module
from antiphon.pipeline.graph.context import context_graph
from antiphon.pipeline.graph.reduction import edges
from antiphon.pipeline.graph.waves import wave_table
from antiphon.simulator.draw import draw
from antiphon.simulator.run import simulate
from tests.pipeline.graph_twin import Twin, make_twin
from tests.pipeline.histories import rows_of
from tests.pipeline.inprocess import pieces_of
from tests.pipeline.script import make_rows
from tests.pipeline.test_graph_equality import check, edge_set, read_run, stability_map, stability_of, wave_map

FIGURE_1 = {
    "a": "s1 d:c1 d:c2 d:b1 s2 quiet",
    "b": "d:a1 s1 d:c1 d:c2 d:a2 quiet",
    "c": "d:a1 s1 s2 d:b1 d:a2 quiet",
}
"""psync-1989 figure 1: m1 = a1; m2 = b1 and m3 = c1 after it, independent; m4 = c2 after m3; m5 = a2 after all."""


def short(message: MessageName) -> str:
    return f"{message.sender.removesuffix('/1')}{message.number}"


def graph_of(rows: list[Row]) -> tuple[set[tuple[str, str]], dict[str, int]]:
    order = read_run(pieces_of(rows, 1000)).order
    found = edge_set([edges(order, 0, len(order.key))])
    waves = {short(message): wave for message, wave in wave_map(wave_table(order)).items()}
    return {(short(cause), short(message)) for message, cause, _ in found}, waves


def test_figure_1_of_the_paper() -> None:
    found, waves = graph_of(make_rows(**FIGURE_1))
    assert found == {("a1", "b1"), ("a1", "c1"), ("c1", "c2"), ("b1", "a2"), ("c2", "a2")}
    assert waves == {"a1": 1, "b1": 2, "c1": 2, "c2": 3, "a2": 4}


def test_a_run_is_a_chain_in_one_row() -> None:
    order = read_run(pieces_of(make_rows(a="s1-5 quiet", b="d:a1-3 s1 d:a4-5 quiet"), 1000)).order
    rows = edges(order, 0, len(order.key)).to_pylist()
    assert [(row["sender"], row["number"], row["cause_number"], row["count"]) for row in rows] == [
        ("b/1", 1, 3, 1),
        ("a/1", 2, 1, 4),
    ]


def test_causes_reach_from_group_to_group() -> None:
    found, _ = graph_of(make_rows(a="s1@h quiet", b="d:a1@h s1@g quiet", c="d:b1@g s1@h quiet"))
    assert found == {("a1", "b1"), ("b1", "c1")}


def test_an_edge_is_uncertain_where_something_off_record_lies_before_it() -> None:
    order = read_run(pieces_of(make_rows(a="s1", b="d:a1 d:a2 s1 quiet", c="d:a1 s1 quiet"), 1000)).order
    certain = {(short(message), short(cause)): sure for message, cause, sure in edge_set([edges(order, 0, 4)])}
    assert certain == {("b1", "a2"): False, ("c1", "a1"): True}


def test_who_was_last_and_who_lacks_it() -> None:
    rows = make_rows(a="s1 s2 d:a1 d:a2 quiet", b="d:a1 d:a1 d:a2 crash", c="s1>a d:b9 d:a1 quiet")
    pieces = pieces_of(rows, 3)
    found = stability_of(read_run(pieces), pieces)
    assert {short(message): facts for message, facts in found.items()} == {
        "a1": (3, "c/1", ()),
        "a2": (None, None, ("c/1",)),
        "c1": (None, None, ("a/1",)),
    }


def test_blocks_join_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stable, "BLOCK", 3)
    rows = make_rows(a="s1-4 s5-9 d:a1-9 quiet", b="d:a1-2 d:a3-8 quiet")
    pieces = pieces_of(rows, 3)
    assert stability_of(read_run(pieces), pieces) == make_twin(rows).stability


def test_slices_and_blocks_of_send_runs_join_up(monkeypatch: pytest.MonkeyPatch) -> None:
    options = draw(0, members_max=4)
    options.messages = 6
    logs = [MemoryLog(run="r", process=name) for name in options.process_names()]
    simulate(options, logs)
    monkeypatch.setattr(reduction, "SLICE_RUNS", 5)
    monkeypatch.setattr(waves_module, "BLOCK_RUNS", 3)
    assert check(rows_of(logs), 1000) > 15


def test_a_message_in_its_own_past_is_refused() -> None:
    with pytest.raises(UnusableHistoryError, match="a#1 of g is in its own past"):
        graph_of(make_rows(a="d:b1 s1 quiet", b="d:a1 s1 quiet"))


def write(rows_by_log: list[MemoryLog], directory: Path) -> None:
    for log in rows_by_log:
        table = log.table()
        pq.write_table(table, segment_file(directory, f"{log.run}-{log.process}", 1, 0), row_group_size=20)


@pytest.mark.spark
def test_spark_gives_the_same_for_every_run(spark: SparkSession, tmp_path: Path) -> None:
    twins: dict[str, Twin] = {}
    for seed in range(2):
        options = draw(seed, members_max=4)
        options.messages = 6
        logs = [MemoryLog(run=f"r{seed}", process=name) for name in options.process_names()]
        simulate(options, logs)
        write(logs, tmp_path)
        twins[f"r{seed}"] = make_twin(rows_of(logs))
    graph = context_graph(tmp_path, spark)
    found, waves, stability = (frame.toArrow() for frame in (graph.edges, graph.waves, graph.stability))
    for run, twin in twins.items():

        def of_run(table: pa.Table, run: str = run) -> pa.Table:
            return table.filter(pa.compute.equal(table["run"], run))

        assert set(edge_set([of_run(found)])) == twin.edges
        assert wave_map(of_run(waves)) == twin.waves
        assert stability_map([of_run(stability)]) == twin.stability


@pytest.mark.spark
def test_the_edges_go_to_parquet_and_back(spark: SparkSession, tmp_path: Path) -> None:
    log = MemoryLog(run="r", process="a")
    log.view(0, "g", 1, ["a/1"])
    log.send(1, "g", 1, 1, 3, "causal", 3)
    log.stop(2)
    write([log], tmp_path)
    context_graph(tmp_path, spark).edges.write.parquet(str(tmp_path / "edges"))
    rows = pq.read_table(tmp_path / "edges").to_pylist()
    assert [(row["number"], row["cause_number"], row["count"]) for row in rows] == [(2, 1, 2)]
