"""A member that was excluded and comes back by itself (Node(rejoin=True)) gets the state anew."""

import asyncio

from antiphon import Excluded, Node, ViewChange
from antiphon.testing import Host, simulate
from antiphon.toolkit import Service
from tests.runtime.cluster import run, until
from tests.runtime.places import HASTY, LOOPBACK, Walls
from tests.runtime.places import Place as Room
from tests.toolkit.ledger import Ledger
from tests.toolkit.test_real import Place


def test_whoever_was_excluded_comes_back_with_the_state() -> None:
    async def test() -> None:
        walls = Walls()
        places: list[Place] = []
        rooms: list[Room] = []
        for name in "abc":
            node = Node(
                name, address=LOOPBACK, incarnation=1, options=HASTY, linger_s=0.5, rejoin=True, faults=walls.faults
            )
            await node.start()
            members = None if places else {name: node.address}
            contacts = [place.node.address for place in places]
            group = await node.join("g", members=members, contacts=contacts, policy="primary")
            places.append(Place(node, await Ledger(group).open()))
            rooms.append(Room(node, group))
        try:
            await places[0].service.send(b"one")
            for place in places:
                await place.ledger.until(b"one")
            walls.between(rooms[:1], rooms[1:])  # a, the oldest, is alone
            await until(lambda: len(places[1].service.view.members) == 2)
            await places[1].service.send(b"two", order="agreed")
            await places[2].ledger.until(b"one", b"two")
            walls.between()
            await places[0].ledger.until(b"one", b"two")
            assert any(isinstance(event, Excluded) for event in places[0].ledger.events)
            assert places[0].ledger.restores == 1
            await places[0].service.send(b"three")
            for place in places:
                await place.ledger.until(b"one", b"two", b"three")
            assert repr(places[0].service.process) == "a/2"
        finally:
            for place in places:
                await place.close()

    run(test)


def test_who_founds_a_group_again_that_all_have_left_has_the_state() -> None:
    """Its view is not the first: ids go on after those that this process has seen."""

    async def main(host: Host) -> list[tuple[int, bool]]:
        seen: list[tuple[int, bool]] = []
        async with Node("a", address=host.at()) as node:
            for _ in range(2):
                group = await node.join("g", members={"a": host.at()})
                ledger = Ledger(group)
                async with Service(group, snapshot=ledger.snapshot, restore=ledger.restore) as service:
                    async with asyncio.timeout(5):
                        event = await anext(service)
                assert isinstance(event, ViewChange)
                seen.append((event.view.id, event.founded))
                await group.leave()
        return seen

    result = simulate({"a": main}, seed=1, faults="none")
    assert result.kept, result.report("…")
    assert [founded for _, founded in result.returned["a"]] == [True, True]
    assert result.returned["a"][1][0] > 1
