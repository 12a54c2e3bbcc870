"""What a message costs beside groups that were left, and beside many that are alive: counted, not timed."""

import gc
from itertools import pairwise

import pytest

from antiphon import Node, _build
from bench.many_groups import count
from tests.runtime.cluster import run
from tests.runtime.places import HASTY, LOOPBACK

LEFT = 300
LIVE = 300
NODE_GROUPS = 35

needs_lines = pytest.mark.skipif(
    _build.describe().startswith("compiled"), reason="no lines can be counted in the compiled core"
)


@needs_lines
def test_a_message_costs_the_same_after_groups_were_left_and_beside_many() -> None:
    figures = count(LEFT, LIVE)
    assert figures["message_lines"] > 100
    assert figures["after_left_ratio"] < 1.2
    assert figures["objects_per_left_group"] < 0.1
    assert figures["live_ratio"] < 1.2


def test_a_node_keeps_no_objects_of_groups_that_were_left() -> None:
    """Count the objects that can refer to others, after as many groups again. Of the last 64 groups all is kept, to
    answer members that are slow to hear of it; of those before them the last number, which refers to nothing. A leak
    grows in every round; what else the process allocates meanwhile (a cache that fills, a log record) does not."""

    async def test() -> None:
        async with Node("a", address=LOOPBACK, incarnation=1, options=HASTY) as node:
            held = []
            for round_number in range(6):
                for number in range(NODE_GROUPS):
                    group = await node.join(f"group {round_number} {number}", members={"a": node.address})
                    await group.send(b"x")
                    assert await group.leave()
                del group
                gc.collect()
                held.append(len(gc.get_objects()))
            grown = [after - before for before, after in pairwise(held[2:])]
            assert min(grown) < NODE_GROUPS, held

    run(test)
