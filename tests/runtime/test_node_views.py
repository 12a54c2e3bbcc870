"""Views on real sockets: members fail, join, leave, stand still and come back, and everyone is told."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.history.reader import HistoryFiles
from antiphon.kernel.declaration import Declaration, declare
from antiphon.kernel.errors import ClosedError, UsageError
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.inputs import MAIN
from antiphon.parts.membership import messages
from antiphon.runtime import AddressError, Excluded, ExcludedError, Group, JoinError, Message, Node, Stalled, ViewChange
from tests.runtime.cluster import run, until
from tests.runtime.places import HASTY, LOOPBACK, Place, Walls, enter, everyone, founded, talk

DECLARED = Declaration(declare("vector", "primary", MAIN, HASTY)).id


def test_the_others_go_on_without_a_member_that_dies() -> None:
    async def test() -> None:
        async with founded() as places:
            await talk(places)
            places[2].kill()
            for change in await everyone(places[:2], "a/1", "b/1"):
                assert (change.joined, change.left, change.failed) == ((), (), (ProcessId("c"),))
                assert change.view.id == 2
            assert places[0].group.view.members == (ProcessId("a"), ProcessId("b"))
            await talk(places[:2])

    run(test)


def test_the_oldest_may_die_too() -> None:
    async def test() -> None:
        async with founded() as places:
            places[0].kill()
            for change in await everyone(places[1:], "b/1", "c/1"):
                assert change.failed == (ProcessId("a"),)
            await talk(places[1:])

    run(test)


def test_a_fourth_is_let_in_and_hears_what_is_said_from_then_on() -> None:
    async def test() -> None:
        async with founded() as places:
            await talk(places)
            fourth = await places[1].join("d")
            assert fourth.group.policy == "primary"
            first = await fourth.view("a/1", "b/1", "c/1", "d/1")
            assert first.joined == first.view.members
            for change in await everyone(places, "a/1", "b/1", "c/1", "d/1"):
                assert (change.joined, change.left, change.failed) == ((ProcessId("d"),), (), ())
            places.append(fourth)
            await talk(places)
            assert [event.sender.name for event in fourth.events if isinstance(event, Message)].count("a") == 1

    run(test)


def test_one_contact_that_answers_is_enough_and_names_are_looked_up() -> None:
    async def test() -> None:
        async with founded("a") as places, Node("x", address=LOOPBACK, incarnation=1) as deaf:
            _, _, port = places[0].node.address.rpartition(":")
            places.append(await enter("b", [deaf.address, f"localhost:{port}"]))
            await everyone(places, "a/1", "b/1")
            await talk(places)

    run(test)


def test_a_member_that_listens_everywhere_is_reached_where_it_asked_from() -> None:
    async def test() -> None:
        async with founded("a") as places:
            node = Node("b", address="0.0.0.0:0", incarnation=1, options=HASTY, linger_s=0.5, insecure=True)
            await node.start()
            places.append(Place(node, await node.join("g", contacts=[places[0].node.address])))
            change = (await everyone(places, "a/1", "b/1"))[0]
            assert change.view.addresses[1] == node.address.replace("0.0.0.0", "127.0.0.1")
            await talk(places)

    run(test)


def test_whoever_leaves_has_left_not_failed() -> None:
    async def test() -> None:
        async with founded() as places:
            await talk(places)
            await places[0].group.send(b"farewell")
            assert await places[0].group.leave()
            for place, change in zip(places[1:], await everyone(places[1:], "b/1", "c/1"), strict=True):
                assert (change.joined, change.left, change.failed) == ((), (ProcessId("a"),), ())
                assert isinstance(place.events[-2], Message)
                assert place.events[-2].payload == b"farewell"  # in the view in which it was sent
            # The one that left still reads what it has, then sees the end.
            assert [event.payload async for event in places[0].group if isinstance(event, Message)] == [b"farewell"]
            with pytest.raises(ClosedError, match=r"a/1 has left group 'g'.*join it again"):
                await places[0].group.send(b"x")
            assert await places[0].group.leave()
            assert await places[0].group.close()
            await talk(places[1:])

    run(test)


def test_whoever_leaves_has_said_all_it_had_to_say() -> None:
    async def test() -> None:
        async with founded(options=replace(HASTY, window_packets=16), linger_s=10.0) as places:
            await places[2].group.send_many([b"x" * 1000] * 500)  # many times what may be on its way at once
            assert await places[2].group.leave()
            for place in places[:2]:
                await place.view("a/1", "b/1")
                assert sum(isinstance(event, Message) for event in place.events) == 500

    run(test)


def test_a_group_over_ipv6_where_there_is_any() -> None:
    async def test() -> None:
        first = Node("a", address="[::1]:0", incarnation=1, options=HASTY, linger_s=0.5)
        try:
            await first.start()
        except AddressError as error:
            pytest.skip(str(error))
        places = [Place(first, await first.join("g", members={"a": first.address}, policy="primary"))]
        second = Node("b", address="[::]:0", incarnation=1, options=HASTY, linger_s=0.5, insecure=True)
        await second.start()
        places.append(Place(second, await second.join("g", contacts=[first.address])))
        await everyone(places, "a/1", "b/1")
        await talk(places)
        await asyncio.gather(first.close(), second.close())

    run(test)


def test_closing_a_node_leaves() -> None:
    async def test() -> None:
        async with founded() as places:
            assert await places[1].node.close()
            for change in await everyone((places[0], places[2]), "a/1", "c/1"):
                assert change.left == (ProcessId("b"),)

    run(test)


def test_all_may_leave_at_once() -> None:
    async def test() -> None:
        async with founded(linger_s=10.0) as places:
            assert await asyncio.gather(*(place.node.close() for place in places)) == [True] * 3

    run(test)


def test_a_minority_says_that_it_stands_still_and_goes_on_when_it_can() -> None:
    async def test() -> None:
        walls = Walls()
        async with founded(faults=walls.faults) as places:
            walls.between(*([place] for place in places))  # each is alone
            for place in places:
                event = await place.until(Stalled)
                assert isinstance(event, Stalled)
                assert event.view.id == 1
            for place in places:
                await place.group.send(b"waiting")
            walls.between()
            # Nobody can have gone on alone, so all are still there.
            for place in places:
                assert await place.message() == b"waiting"
                assert place.group.view.members == (ProcessId("a"), ProcessId("b"), ProcessId("c"))

    run(test)


def test_whoever_is_given_up_wrongly_is_told_and_comes_back_as_another() -> None:
    async def test() -> None:
        walls = Walls()
        async with founded(faults=walls.faults) as places:
            alone = places[2]
            walls.between(places[:2], [alone])
            await everyone(places[:2], "a/1", "b/1")
            await alone.until(Stalled)
            sending = asyncio.create_task(alone.group.send_many([b"x" * 1000] * 20_000))
            walls.between()
            event = await alone.until(Excluded)
            assert isinstance(event, Excluded)
            assert event.view.id == 1
            with pytest.raises(StopAsyncIteration):
                await anext(aiter(alone.group))
            with pytest.raises(ExcludedError, match=r"went on without it; join again .*incarnation=2"):
                await sending
            with pytest.raises(ExcludedError):
                await alone.group.send(b"x")
            assert not await alone.group.leave()
            assert not await alone.node.close()
            places[2] = await places[0].join("c", incarnation=2)
            await everyone(places, "a/1", "b/1", "c/2")
            await talk(places)

    run(test)


def test_a_restarted_process_takes_the_place_of_its_former_life() -> None:
    async def test() -> None:
        async with founded() as places:
            places[2].kill()
            places[2] = await places[0].join("c", incarnation=2)
            await everyone(places, "a/1", "b/1", "c/2")
            assert ProcessId("c") in [gone for event in changes(places[0]) for gone in event.failed]
            await talk(places)
            with pytest.raises(ExcludedError, match="incarnation=2"):
                await places[0].join("c")  # but the former one never comes back

    run(test)


def changes(place: Place) -> list[ViewChange]:
    return [event for event in place.events if isinstance(event, ViewChange)]


def test_nobody_answers() -> None:
    async def test() -> None:
        async with (
            Node("a", address=LOOPBACK, incarnation=1) as node,
            Node("b", address=LOOPBACK, incarnation=1) as deaf,
        ):
            with pytest.raises(JoinError, match=rf"a/1 was not let into group 'g' .* asking {deaf.address}"):
                await node.join("g", contacts=[deaf.address], timeout_s=0.1)
            with pytest.raises(TimeoutError, match="try again"):
                await node.join("g", contacts=[deaf.address], timeout_s=0.1)
            assert await node.close()

    run(test)


def test_a_node_that_closes_while_it_asks_to_be_let_in() -> None:
    async def test() -> None:
        async with (
            Node("a", address=LOOPBACK, incarnation=1) as node,
            Node("b", address=LOOPBACK, incarnation=1) as deaf,
        ):
            joining = asyncio.create_task(node.join("g", contacts=[deaf.address]))
            await asyncio.sleep(0)
            await node.close()
            with pytest.raises(ClosedError):
                await joining

    run(test)


def test_what_members_agree_on_may_be_longer_than_a_packet() -> None:
    async def test() -> None:
        names = [letter * 150 for letter in "abc"]
        async with founded(names, options=replace(HASTY, packet_bytes_max=300)) as places:
            await places[2].group.leave()
            await everyone(places[:2], f"{names[0]}/1", f"{names[1]}/1")
            assert len(repr(places[0].group.view)) > 300  # and this is but a part of what they told each other

    run(test)


@pytest.mark.parametrize("address", ["nonsense", "localhost:7400", "[::1]:7400", "127.0.0.1:0", "?:1", ""])
def test_a_stranger_with_an_impossible_address_harms_nobody(address: str) -> None:
    async def test() -> None:
        async with founded() as places:
            stranger = messages.MembershipMessage(messages.JOIN, ProcessId("x"), address, 0)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                host, port = places[0].node.address.split(":")
                for datagram in stranger.encode(1, wire_id("g"), DECLARED, HASTY.packet_bytes_max):
                    sock.sendto(datagram, (host, int(port)))
            # It is let in, cannot be reached, and so is soon given up.
            await everyone(places, "a/1", "b/1", "c/1", "x/1")
            for change in await everyone(places, "a/1", "b/1", "c/1"):
                assert change.failed == (ProcessId("x"),)
            await talk(places)

    run(test)


def test_a_stranger_whose_address_is_no_text_is_not_let_in() -> None:
    async def test() -> None:
        async with founded() as places:
            stranger = messages.MembershipMessage(messages.JOIN, ProcessId("x"), "\0:1", 0)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                host, port = places[0].node.address.split(":")
                for datagram in stranger.encode(1, wire_id("g"), DECLARED, HASTY.packet_bytes_max):
                    sock.sendto(datagram, (host, int(port)))
            await talk(places)
            assert len(places[0].group.view.members) == 3

    run(test)


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ({}, "either its founding members, or contacts"),
        ({"members": {"a": LOOPBACK}, "contacts": [LOOPBACK]}, "either its founding members, or contacts"),
        ({"contacts": "127.0.0.1:7400"}, "a list of addresses"),
        ({"contacts": {"127.0.0.1:7400"}}, "a list of addresses or a discovery, not a set"),
        ({"contacts": ["127.0.0.1"]}, "host:port"),
        ({"contacts": ["127.0.0.1:7400"], "policy": "static"}, "nobody can be let into"),
        ({"members": {"a": LOOPBACK}, "policy": "dynamic"}, "has no policy 'dynamic'"),
    ],
)
def test_ways_in_that_cannot_be(way: dict[str, Any], why: str) -> None:
    async def test() -> None:
        async with Node("a", address=LOOPBACK, incarnation=1) as node:
            with pytest.raises(UsageError, match=why):
                await node.join("g", **way)
            group = await node.join("g", members={"a": node.address}, policy="static")  # nothing of it is left behind
            with pytest.raises(UsageError, match="is static"):
                await group.leave()

    run(test)


def test_the_view_changes_unless_it_is_asked_to_stay() -> None:
    async def test() -> None:
        nodes = [Node(name, address=LOOPBACK, incarnation=1, options=HASTY) for name in "abc"]
        for node in nodes:
            await node.start()
        members = {node.process.name: node.address for node in nodes}
        places = [Place(node, await node.join("g", members=members)) for node in nodes]
        assert places[0].group.policy == "primary"
        places[2].kill()
        await places[0].view("a/1", "b/1")
        await asyncio.gather(*(place.node.close() for place in places))

    run(test)


def test_a_process_that_starts_again_takes_its_incarnation_from_the_clock() -> None:
    async def test() -> None:
        async with founded("ab") as places:
            lives: list[ProcessId] = []
            for _ in range(2):
                node = Node("c", address=LOOPBACK, options=HASTY, incarnation=None)
                await node.start()
                place = Place(node, await node.join("g", contacts=[places[0].node.address]))
                lives.append(node.process)
                place.kill()
                await asyncio.sleep(0.002)
            assert lives[0] < lives[1]
            assert lives[1].incarnation < 2**62
            await places[0].view("a/1", "b/1", repr(lives[1]))
            await places[0].view("a/1", "b/1")

    run(test)


def test_who_left_with_messages_unsent_comes_back_and_numbers_go_on_after_them(tmp_path: Path) -> None:
    """What waited in the outbox when the process left is lost, and was recorded; its numbers are not given again."""

    async def test() -> None:
        options = replace(HASTY, pending_bytes_max=2000, window_packets=4)
        a, b = [
            Node(name, address=LOOPBACK, incarnation=1, options=options, queue_messages_max=1, history=tmp_path)
            for name in "ab"
        ]
        await a.start()
        await b.start()
        members = {"a": a.address, "b": b.address}
        groups = [await node.join("g", members=members) for node in (a, b)]
        lost = 0
        while groups[0]._lane.messages < 20:  # nobody reads: after a while the engine takes no more
            await groups[0].send(bytes(200))
            await asyncio.sleep(0)
            lost += 1
        assert not await groups[0].leave(timeout_s=0.5), "not all that it sent is at all members"
        reading = asyncio.create_task(read_all(groups[1]))
        with pytest.raises(JoinError):
            await a.join("g", contacts=["127.0.0.1:1"], timeout_s=0.2)
        back = await a.join("g", contacts=[b.address])
        listening = asyncio.create_task(read_all(back))
        await back.send(b"after")
        await until(lambda: any(message.payload == b"after" for message in reading_seen))
        (number,) = {message.number for message in reading_seen if message.payload == b"after"}
        assert number == lost + 1
        reading.cancel()
        listening.cancel()
        await asyncio.gather(a.close(), b.close(), reading, listening, return_exceptions=True)

    reading_seen: list[Message] = []

    async def read_all(group: Group) -> None:
        async for event in group:
            if isinstance(event, Message):
                reading_seen.append(event)

    run(test)
    rows = [row for row in HistoryFiles.open(tmp_path).read_rows() if row.kind == "send" and row.process == "a"]
    called = [number for row in rows for number in range(row.number or 0, (row.number or 0) + (row.count or 0))]
    assert called == list(range(1, len(called) + 1))
    assert called[-1] == max(message.number for message in reading_seen)
