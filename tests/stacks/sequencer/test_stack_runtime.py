"""The sequencing service through the public API, on real sockets: a peer, members that join by its address, one order
over all groups, links that break, members that die and come back; recorded and audited."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon import LevelNotOfferedError, Message, Node, UsageError, ViewChange
from antiphon.kernel.identity import ProcessId
from antiphon.pipeline import reference
from antiphon.runtime.errors import JoinError, NodeFailedError
from tests.runtime.cluster import read, run
from tests.runtime.places import HASTY, LOOPBACK, free_address


@asynccontextmanager
async def service(count: int, **settings: Any) -> AsyncIterator[tuple[Node, list[Node]]]:
    """A peer of the service, and nodes that can reach it."""
    peer = Node("peer", address=free_address(), options=HASTY)
    nodes = [Node(f"p{number}", address=LOOPBACK, options=HASTY, **settings) for number in range(1, count + 1)]
    async with peer:
        peer.serve("sequencer")
        for node in nodes:
            await node.start()
        try:
            yield peer, nodes
        finally:
            await asyncio.gather(*(node.close(quiet=True) for node in nodes))


def test_members_join_by_the_address_of_a_peer_and_read_one_order(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(3, history=tmp_path) as (peer, nodes):
            groups = [await node.join("g", stack="sequencer", contacts=[peer.address]) for node in nodes]
            for number, group in enumerate(groups):
                for order in ("fifo", "causal", "agreed"):
                    await group.send(f"{number} {order}".encode(), order=order)
                await group.send_many([b"x" * 100] * 500, order="agreed")
            heard = [[(m.sender, m.number) for m in await read(group, 3 * 503)] for group in groups]
            assert heard[0] == heard[1] == heard[2]
            with pytest.raises(LevelNotOfferedError, match="stacks that do: vector"):
                await groups[0].send(b"", order="safe")
            with pytest.raises(UsageError, match="has no barriers"):
                await groups[0].barrier(b"")
            await groups[0].flush()

    run(test)
    audit = reference.audit(tmp_path)
    assert audit.verdict == "kept", audit.findings


def test_one_reader_sees_one_order_over_all_groups(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(3, history=tmp_path) as (peer, nodes):
            for node in nodes:
                for name in ("a", "b", "c"):
                    await node.join(name, stack="sequencer", contacts=[peer.address])
            for _ in range(50):
                for node in nodes:
                    for name in ("a", "b", "c"):
                        await node._groups[name].send(b"m", order="agreed")
            orders = []
            for node in nodes:
                order: list[tuple[str, ProcessId, int]] = []
                async for event in node:
                    if isinstance(event, Message):
                        order.append((event.group, event.sender, event.number))
                        if len(order) == 450:
                            break
                orders.append(order)
            assert orders[0] == orders[1] == orders[2]

    run(test)
    audit = reference.audit(tmp_path)
    assert audit.verdict == "kept", audit.findings


def test_a_member_that_dies_is_excluded_and_one_that_leaves_is_not_called_failed(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(3, history=tmp_path) as (peer, nodes):
            groups = [await node.join("g", stack="sequencer", contacts=[peer.address]) for node in nodes]
            await groups[1].send(b"before")
            assert [m.payload for m in await read(groups[0], 1)] == [b"before"]
            assert await groups[1].leave()
            driver = nodes[2]._driver
            assert driver is not None
            assert driver.devices is not None
            await driver.devices.close()
            driver.stop("killed")
            views = []
            async for event in groups[0]:
                if isinstance(event, ViewChange):
                    views.append((event.left, event.failed))
                    if event.failed:
                        break
            assert views[-2:] == [((nodes[1].process,), ()), ((), (nodes[2].process,))]
            again = await nodes[1].join("g", stack="sequencer", contacts=[peer.address])
            await again.send(b"again")
            assert [m.payload for m in await read(groups[0], 1)] == [b"again"]

    run(test)
    audit = reference.audit(tmp_path)
    assert audit.verdict in ("kept", "unknown"), audit.findings


def test_a_peer_can_be_a_member_of_its_own_groups() -> None:
    async def test() -> None:
        async with service(1) as (peer, (node,)):
            own = await peer.join("g", stack="sequencer", contacts=[peer.address])
            other = await node.join("g", stack="sequencer", contacts=[peer.address])
            await other.send(b"hello", order="agreed")
            assert [m.payload for m in await read(own, 1)] == [b"hello"]

    run(test)


def test_two_peers_bring_groups_together_when_somebody_joins_both(tmp_path: Path) -> None:
    async def test() -> None:
        one, other = free_address(), free_address()
        names = ("p1", "p2", "p3")
        async with Node("s1", address=one, options=HASTY) as first, Node("s2", address=other, options=HASTY) as second:
            first.serve("sequencer", peers=[other])
            second.serve("sequencer", peers=[one])
            nodes = [Node(name, address=LOOPBACK, options=HASTY, history=tmp_path) for name in names]
            for node in nodes:
                await node.start()
            left = await nodes[0].join("left", stack="sequencer", contacts=[one])
            right = await nodes[1].join("right", stack="sequencer", contacts=[other])
            await left.send(b"before", order="agreed")
            await right.send(b"before", order="agreed")
            both = [await nodes[2].join(name, stack="sequencer", contacts=[other, one]) for name in ("left", "right")]
            for number in range(50):
                await left.send(b"%d" % number, order="agreed")
                await right.send(b"%d" % number, order="agreed")
                await both[number % 2].send(b"%d" % number, order="agreed")
            heard = await read(both[0], 75)
            assert [(m.sender, m.number) for m in (await read(left, 76))[1:]] == [(m.sender, m.number) for m in heard]
            heard = await read(both[1], 75)
            assert [(m.sender, m.number) for m in (await read(right, 76))[1:]] == [(m.sender, m.number) for m in heard]
            await asyncio.gather(*(node.close(quiet=True) for node in nodes))

    run(test)
    audit = reference.audit(tmp_path)
    assert audit.verdict == "kept", audit.findings


def test_an_address_at_which_no_link_can_be_accepted_fails_the_node_in_words() -> None:
    async def test() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            async with Node("peer", address=f"127.0.0.1:{taken.getsockname()[1]}") as peer:
                peer.serve("sequencer")
                with pytest.raises(NodeFailedError, match="no link can be accepted there"):
                    await peer.join("g", stack="sequencer", contacts=[peer.address])

    run(test)


def test_who_asks_where_no_peer_is_is_told_so_and_members_cannot_found() -> None:
    async def test() -> None:
        async with service(1) as (_, (node,)):
            with pytest.raises(JoinError):
                await node.join("g", stack="sequencer", contacts=["127.0.0.1:9"], timeout_s=0.5)
            with pytest.raises(UsageError, match="live at a sequencing service"):
                await node.join("g", stack="sequencer", members={"p1": node.address})
            with pytest.raises(UsageError, match="members hold their groups themselves"):
                node.serve("vector")
            node.serve("sequencer")
            with pytest.raises(UsageError, match="is a peer of the sequencing service already"):
                node.serve("sequencer")

    run(test)


def test_a_join_that_waits_for_a_peer_that_is_gone_says_so() -> None:
    async def test() -> None:
        one, gone = free_address(), free_address()
        async with Node("s", address=one, options=HASTY) as peer, Node("p", address=LOOPBACK, options=HASTY) as node:
            peer.serve("sequencer", peers=[gone])
            for group in ("g", "h", "i", "j"):  # their names fall to either peer
                with pytest.raises(JoinError, match="which knows where this group is, cannot be reached"):
                    await node.join(group, stack="sequencer", contacts=[one], timeout_s=0.5)
            with pytest.raises(JoinError, match=r"no peer of the sequencing service answers at 127\.0\.0\.1:1"):
                await peer.join("g", stack="sequencer", contacts=["127.0.0.1:1"], timeout_s=0.5)

    run(test)
