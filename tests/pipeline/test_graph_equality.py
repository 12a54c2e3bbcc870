"""The context graph by vectors against its slow twin, on random histories, sound, cut short and spoiled."""

from collections.abc import Iterable, Sequence
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.log import MemoryLog
from antiphon.history.schema import Row
from antiphon.pipeline.audit.logs import gather_logs
from antiphon.pipeline.audit.order import never_sent
from antiphon.pipeline.audit.pieces import Piece
from antiphon.pipeline.audit.summary import Summary, summaries_of, summarise
from antiphon.pipeline.explain import MessageName
from antiphon.pipeline.graph import stability as stable
from antiphon.pipeline.graph.causal import CausalRun, causal_run
from antiphon.pipeline.graph.reduction import edges, slices
from antiphon.pipeline.graph.waves import wave_table
from antiphon.simulator.draw import draw
from antiphon.simulator.run import simulate
from tests.pipeline.corruption import CORRUPTIONS
from tests.pipeline.graph_twin import Edge, Stability, make_twin
from tests.pipeline.histories import make_history, rows_of
from tests.pipeline.inprocess import pieces_of
from tests.sampling import fewer, seeds

LEVELS = (("causal",), ("reliable", "fifo", "causal"), ("fifo", "causal", "agreed", "safe"))


def read_run(pieces: list[Piece]) -> CausalRun:
    """One run, by the functions that Spark runs."""

    def summaries(limits: dict[tuple[str, str], int]) -> list[Summary]:
        batches = [summarise(piece, place, limits) for place, piece in enumerate(pieces)]
        return summaries_of(pa.Table.from_batches(batches))

    (logs,) = gather_logs(summaries({}), {}).values()
    (logs,) = gather_logs(summaries(never_sent(logs)), {}).values()
    return causal_run(pieces[0].run, logs)


def edge_set(tables: Iterable[pa.RecordBatch | pa.Table]) -> list[Edge]:
    """Each single edge."""
    return [
        (
            MessageName(row["group"], row["sender"], row["number"] + step),
            MessageName(row["cause_group"], row["cause_sender"], row["cause_number"] + step),
            row["certain"],
        )
        for table in tables
        for row in table.to_pylist()
        for step in range(row["count"])
    ]


def wave_map(table: pa.Table) -> dict[MessageName, int]:
    return {
        MessageName(row["group"], row["sender"], row["number"] + step): row["wave"] + step
        for row in table.to_pylist()
        for step in range(row["count"])
    }


def stability_map(tables: Iterable[pa.Table]) -> dict[MessageName, Stability]:
    result: dict[MessageName, Stability] = {}
    for row in (row for table in tables for row in table.to_pylist()):
        for step in range(row["count"]):
            message = MessageName(row["group"], row["sender"], row["number"] + step)
            assert message not in result
            result[message] = (row["stable_ns"], row["last"], tuple(row["lacking"]))
    return result


def stability_of(run: CausalRun, pieces: list[Piece]) -> dict[MessageName, Stability]:
    parts = [stable.blocks(run.order)]
    for log in run.logs.values():
        for known in log.pieces:
            parts.append(stable.delivered(pieces[known["task"]], run.order, known["known_end"]))
    table = pa.Table.from_batches(parts)
    keys = dict.fromkeys(zip(table["key"].to_pylist(), table["block"].to_pylist(), strict=True))
    tables = []
    for key, block in keys:
        chosen = [
            k == key and b == block for k, b in zip(table["key"].to_pylist(), table["block"].to_pylist(), strict=True)
        ]
        tables.append(stable.stability(run.order, key, block, table.filter(pa.array(chosen))))
    return stability_map(tables)


def check(rows: Sequence[Row], piece_rows: int) -> int:
    """Compare both; returns how many edges there are."""
    twin = make_twin(rows)
    pieces = pieces_of(rows, piece_rows)
    if twin.circular:
        with pytest.raises(UnusableHistoryError, match="in its own past"):
            read_run(pieces)
        return 0
    run = read_run(pieces)
    found = edge_set(edges(run.order, *bounds) for bounds in slices(run.order))
    assert len(found) == len(set(found))
    assert set(found) == twin.edges
    assert wave_map(wave_table(run.order)) == twin.waves
    assert stability_of(run, pieces) == twin.stability
    return len(found)


def some_history(random: Random) -> list[Row]:
    return rows_of(
        make_history(
            random,
            processes=random.randint(1, 5),
            groups=random.randint(1, 3),
            steps=random.randint(3, 60),
            levels=random.choice(LEVELS),
            crashes=random.randint(0, 1),
            merge=random.random() < 0.7,
            views=random.choice((0, 2)),
        )
    )


@fewer(3)
@given(st.integers(0, 10**9), st.sampled_from([3, 1000]))
def test_both_find_the_same_graph(seed: int, piece_rows: int) -> None:
    check(some_history(Random(seed)), piece_rows)


@fewer(3)
@given(st.integers(0, 10**9), st.integers(1, 4))
def test_also_where_the_history_is_cut_short_or_spoiled(seed: int, corruptions: int) -> None:
    random = Random(seed)
    rows = some_history(random)
    for _ in range(corruptions):
        rows = random.choice(CORRUPTIONS)(random, rows)
    try:
        twin_is_possible = bool(make_twin(rows).past) and bool(read_run(pieces_of(rows, 7)))
    except UnusableHistoryError as error:
        twin_is_possible = "in its own past" in str(error)
    if twin_is_possible:
        check(rows, 7)


@pytest.mark.random
@pytest.mark.parametrize("seed", seeds(20, 400))
def test_in_simulated_runs(seed: int) -> None:
    options = draw(seed, members_max=5)
    options.messages = 5
    logs = [MemoryLog(run="r", process=name) for name in options.process_names()]
    simulate(options, logs)
    assert check(rows_of(logs), 50)
