"""Pasts by source, against the definition: what is in a message's past, step by step."""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from antiphon.history.schema import Row
from antiphon.pipeline.audit import past
from antiphon.pipeline.audit.logs import gather_logs
from antiphon.pipeline.audit.order import Order, close, make_order
from antiphon.pipeline.audit.shipment import open_shipment, write_shipment
from antiphon.pipeline.audit.summary import summaries_of, summarise
from antiphon.pipeline.explain import MessageName
from antiphon.pipeline.reference_past import Pasts
from antiphon.pipeline.reference_world import ReferenceWorld, known_log
from tests.pipeline.histories import PROMISES
from tests.pipeline.inprocess import count, pieces_of
from tests.pipeline.test_reference_equality import by_reference, make_rows, result_of
from tests.sampling import seeds


def order_of(rows: list[Row], piece_rows: int) -> Order:
    batches = [summarise(piece, place, {}) for place, piece in enumerate(pieces_of(rows, piece_rows))]
    [(run, logs)] = gather_logs(summaries_of(pa.Table.from_batches(batches)), {}).items()
    order = make_order(run, logs)
    close(order)
    return order


def one_run(seed: int) -> list[Row]:
    rows = make_rows(Random(seed), corruptions=0)
    return [row for row in rows if row.run == rows[0].run]


@pytest.fixture(params=[False, True], ids=["at once", "in small blocks, mapped"])
def in_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(past, "BLOCK_RUNS", 2)
        monkeypatch.setattr(past, "MAPPED_BYTES", 1)


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.random
def test_the_past_is_what_the_definition_says() -> None:
    compared = 0
    for seed in seeds(20, 250):
        rows = one_run(seed)
        order = order_of(rows, piece_rows=6)
        by_process: dict[str, list[Row]] = {}
        for row in rows:
            by_process.setdefault(f"{row.process}/{row.incarnation}", []).append(row)
        world = ReferenceWorld({name: known_log(name, own, None) for name, own in sorted(by_process.items())}, {})
        expected = Pasts(world)
        for place, (group, sender) in enumerate(order.keys):
            for run in range(order.first_run[place], order.first_run[place + 1]):
                in_past = expected.of(MessageName(group, sender, int(order.start[run])))
                numbers = [
                    max((m.number for m, bit in world.bit.items() if m[:2] == key and bit & in_past), default=0)
                    for key in order.keys
                ]
                assert order.past[run].tolist() == numbers
                compared += 1
    assert compared > 100


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.random
def test_spoiled_histories_are_counted_alike_in_small_blocks() -> None:
    for seed in seeds(6, 150):
        rows = make_rows(Random(10_000 + seed), corruptions=2)
        expected = result_of(lambda rows=rows: by_reference(rows))  # type: ignore[misc]
        counted = result_of(lambda rows=rows: count(rows, piece_rows=7, promise=PROMISES))  # type: ignore[misc]
        assert counted == expected


def test_the_past_can_be_asked_for_in_several_ways() -> None:
    order = order_of(one_run(3), piece_rows=1000)
    runs = np.arange(len(order.key))
    whole = order.past[runs]
    assert whole.shape == (len(order.key), len(order.keys))
    assert whole.any()
    assert np.array_equal(order.past[0], whole[0])
    assert np.array_equal(order.past[runs, 0], whole[:, 0])
    assert np.array_equal(order.past[0 : len(runs), 0], whole[:, 0])
    assert np.array_equal(order.past[runs, order.key], whole[runs, order.key])


def test_numbers_and_counts_of_sources_fit_together() -> None:
    for seed in range(10):
        order = order_of(one_run(seed), piece_rows=1000)
        sources = order.past.sources
        for place, sent in enumerate(order.sent.tolist()):
            numbers = np.arange(sent + 1)
            counts = sources.counts(place, numbers)
            assert np.array_equal(sources.numbers(place, counts), numbers)
            assert (np.diff(counts) > 0).all()


def test_many_messages_need_wide_counts() -> None:
    assert past.scratch((1, 1), 2**31 - 1).dtype == np.int32
    assert past.scratch((1, 1), 2**31).dtype == np.int64


def test_an_order_gets_to_a_worker_as_it_is(tmp_path: Path) -> None:
    order = order_of(one_run(5), piece_rows=10)
    big = np.arange(10_000)
    write_shipment({"order": order, "big": big, "same": big}, tmp_path / "shipment")
    found = open_shipment(str(tmp_path / "shipment"))
    assert np.array_equal(found["order"].past[np.arange(len(order.key))], order.past[np.arange(len(order.key))])
    assert found["order"].keys == order.keys
    assert np.array_equal(found["big"], big)
    assert not found["big"].flags.writeable
    with pytest.raises(FileExistsError):
        write_shipment({}, tmp_path / "shipment")
