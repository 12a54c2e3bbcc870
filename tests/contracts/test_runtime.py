"""What every stack owes a program, over real sockets: all levels, members that die, come and go, a bad network."""

from collections.abc import Sequence
from typing import cast

import pytest

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import Order
from antiphon.runtime import Barrier
from antiphon.stacks.registry import offer
from tests.runtime.cluster import bad_network, run
from tests.runtime.places import Place, everyone, founded, talk

ORDERED = ((b"agreed", b"safe", b"causal-total"), (b"abcast",))
"""Levels whose messages come in one order everywhere, one with the other."""


async def say_in_all_orders(places: Sequence[Place], orders: Sequence[Order]) -> list[list[bytes]]:
    """Each says something at each level; what each hears, in its order."""
    for order in orders:
        for place in places:
            await place.group.send(f"{place.process} {order}".encode(), order=order)
    return [[await place.message() for _ in range(len(places) * len(orders))] for place in places]


def test_everybody_hears_everything_at_all_levels_through_a_bad_network(stack: str) -> None:
    orders = [cast("Order", level) for level in offer(stack).levels]

    async def test() -> None:
        async with founded(stack=stack, faults=bad_network()) as places:
            heard = await say_in_all_orders(places, orders)
            assert all(sorted(log) == sorted(heard[0]) for log in heard)
            assert len(heard[0]) == len(places) * len(orders)
            for levels in ORDERED:
                ordered = [[said for said in log if said.split()[-1] in levels] for log in heard]
                assert all(log == ordered[0] for log in ordered)

    run(test)


def test_members_die_come_and_go(stack: str) -> None:
    async def test() -> None:
        async with founded(stack=stack) as places:
            await talk(places)
            await places[0].die()
            for change in await everyone(places[1:], "b/1", "c/1"):
                assert change.failed == (ProcessId("a"),)
            await talk(places[1:])
            fourth = await places[1].join("d")
            places.append(fourth)
            await everyone(places[1:], "b/1", "c/1", "d/1")
            await talk(places[1:])
            await places[1].group.leave()
            for change in await everyone(places[2:], "c/1", "d/1"):
                assert change.left == (ProcessId("b"),)
            await talk(places[2:])

    run(test)


@pytest.mark.capable("barriers")
def test_a_barrier_comes_at_the_same_place_everywhere(stack: str) -> None:
    async def test() -> None:
        async with founded(stack=stack) as places:
            for place in places:
                await place.group.send(b"before")
            await places[1].group.barrier(b"now")
            for place in places:
                reached = await place.until(Barrier)
                assert isinstance(reached, Barrier)
                assert reached.payload == b"now"

    run(test)
