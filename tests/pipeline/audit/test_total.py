"""How total is judged on Spark: by positions alone where all is well, by a graph of deliveries only where it is not."""

from random import Random

import pytest

from antiphon.pipeline.audit import total
from antiphon.pipeline.audit.total import UNPLACED, OrderCycles, Placed, rises
from tests.pipeline.corruption import swap_neighbours
from tests.pipeline.histories import make_history, rows_of
from tests.pipeline.inprocess import count


def refuse(*_: object) -> OrderCycles:
    raise AssertionError("the positions should have been enough")


@pytest.mark.parametrize("seed", range(6))
def test_sound_histories_need_no_graph(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(total, "find_cycles", refuse)
    history = make_history(
        Random(seed), processes=4, groups=2, steps=60, levels=("agreed", "safe"), crashes=1, views=4, barriers=2
    )
    violations, unknown, checked, _ = count(rows_of(history), piece_rows=20, promise=["total"])["total"]
    assert (violations, unknown) == (0, 0)
    assert checked > 5


def test_a_history_out_of_order_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(total, "find_cycles", refuse)
    history = rows_of(make_history(Random(1), processes=3, steps=60, levels=("agreed",)))
    with pytest.raises(AssertionError, match="the positions should have been enough"):
        count(swap_neighbours(Random(1), history), piece_rows=7, promise=["total"])


def test_positions_must_rise_from_piece_to_piece_of_a_log() -> None:
    assert rises([("p", 7, Placed(3, 5)), ("p", 0, Placed(0, 3)), ("q", 0, Placed(1, 2))])
    assert not rises([("p", 0, Placed(0, 3)), ("p", 7, Placed(2, 5))])
    assert not rises([("p", 0, Placed(0, 3)), ("q", 0, UNPLACED)])
