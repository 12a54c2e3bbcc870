"""Forged datagrams about membership, sent to the sockets of real nodes: none fails, and nobody odd is let in."""

import asyncio
import socket
from random import Random
from typing import Final

import antiphon
from antiphon.kernel.identity import NUMBER_MAX, is_name
from antiphon.runtime.events import StreamEvent
from tests.fuzz.test_membership_fuzz import some_message
from tests.runtime.cluster import run
from tests.runtime.places import HASTY
from tests.table import GROUP

NAMES: Final = ("p1", "p2", "p3")
DATAGRAMS: Final = 2000
LONGEST: Final = 60_000
"""Longer ones do not fit a datagram."""


async def forge(addresses: list[str], random: Random) -> None:
    """Send so many datagrams, each to one of the addresses; now and then the nodes get to read them."""
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:
        while sent < DATAGRAMS:
            for packet in some_message(random):
                host, port = random.choice(addresses).rsplit(":", 1)
                if len(packet) < LONGEST:
                    forger.sendto(packet, (host, int(port)))
                    sent += 1
                if sent % 50 == 0:
                    await asyncio.sleep(0.001)


def test_real_nodes_survive_forged_datagrams() -> None:
    async def test() -> None:
        nodes = [antiphon.Node(name, address="127.0.0.1:0", incarnation=1, options=HASTY) for name in NAMES]
        for node in nodes:
            await node.start()
        members = {node.process.name: node.address for node in nodes}
        groups = await asyncio.gather(*(node.join(GROUP, members=members) for node in nodes))
        first = groups[0].view
        seen: list[list[StreamEvent]] = [[] for _ in nodes]

        async def read(group: antiphon.Group, into: list[StreamEvent]) -> None:
            async for event in group:
                into.append(event)

        async with asyncio.TaskGroup() as tasks:
            readers = [tasks.create_task(read(*each)) for each in zip(groups, seen, strict=True)]
            await forge([node.address for node in nodes], Random(7))
            for number, group in enumerate(groups):
                await group.send(b"%d" % number, order="agreed")  # raises if the node has failed
            while not all(sum(isinstance(event, antiphon.Message) for event in events) == 3 for events in seen):
                await asyncio.sleep(0.01)
            for reader in readers:
                reader.cancel()
        taken = [node.statistics() for node in nodes]
        await asyncio.gather(*(node.close() for node in nodes))
        assert all(counts["datagrams_received"] > DATAGRAMS // 10 for counts in taken), taken
        views = [event.view for events in seen for event in events if isinstance(event, antiphon.ViewChange)]
        for process in {member for view in views for member in view.members} | set(first.members):
            assert is_name(process.name)
            assert 0 < process.incarnation <= NUMBER_MAX
        assert {view.members for view in views} == {first.members}

    run(test)
