"""Sites of several processes: samples of the sweep, tables, frames that anybody may have made, and real sockets."""

import asyncio
from random import Random

import pytest

import antiphon
from antiphon.engine import Engine
from antiphon.kernel.calls import Frames, Hang, Listen, accepted_link
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Open, Tick
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import LinkFrames, LinkUp
from antiphon.stacks.label.site_frames import (
    ATTACH,
    BEAT,
    DEAD,
    ENTER,
    ENTERS,
    FAILS,
    GBCAST,
    LEAVES,
    SEND,
    GroupChange,
    SiteMessage,
    SiteReader,
    SiteRecord,
    encode_frame,
    encode_send,
    read_change,
    read_message,
    read_records,
    read_send,
)
from antiphon.stacks.label.site_groups import DEAD_MAX, GroupTable, read_table
from tests.runtime.cluster import run
from tests.runtime.places import HASTY, LOOPBACK
from tests.stacks.label.site_sweep import random_case, run_at_sites

A, B, C = (ProcessId(name, 3) for name in "abc")
S, T = ProcessId("10.0.0.1:7400", 1), ProcessId("10.0.0.2:7400", 1)


@pytest.mark.parametrize("seed", range(24))
def test_promises_hold_at_sites_in_random_scenes_with_crashes(seed: int) -> None:
    assert run_at_sites(random_case(seed))[0] == []


@pytest.mark.parametrize("part", range(4))
def test_promises_hold_whoever_dies_of_three_sites_with_two_processes(part: int) -> None:
    effects = run_at_sites((1, 3, 2, (), 0))[1]
    for effect in range(1 + 5 * part, effects, 20):
        assert run_at_sites((1, 3, 2, (effect,), 0))[0] == [], effect


# ---- the table -------------------------------------------------------------------------------------------------------


def changed(table: GroupTable, view: int, *records: tuple[ProcessId, int, ProcessId]) -> list[tuple[str, str]]:
    """The views that follow from these records, as names, and who is out."""
    made = [(site, SiteRecord(kind, 7, process)) for site, kind, process in records]
    changes, departures = table.change(View(view, (S, T)), made, ())
    told = [(f"{each.view.id}", " ".join(map(repr, each.view.members))) for each in changes]
    return told + [("dead" if each.is_dead else "left", repr(each.process)) for each in departures]


def test_records_change_the_table_in_their_order() -> None:
    table = GroupTable()
    assert changed(table, 2, (S, ENTERS, A), (T, ENTERS, B)) == [("2", "a/3 b/3")]
    assert changed(table, 3, (S, ENTERS, C), (S, LEAVES, A)) == [("3", "b/3 c/3"), ("left", "a/3")]
    assert changed(table, 4) == []
    assert changed(table, 5, (T, FAILS, B)) == [("5", "c/3"), ("dead", "b/3")]
    assert changed(table, 6, (S, LEAVES, C)) == [("6", ""), ("left", "c/3")]
    assert table.groups == {}


def test_a_site_speaks_for_its_own_processes_only() -> None:
    table = GroupTable()
    changed(table, 2, (S, ENTERS, A), (T, ENTERS, B))
    assert changed(table, 3, (T, FAILS, A), (T, LEAVES, A)) == []
    assert changed(table, 4, (T, ENTERS, A)) == [("dead", "a/3")]


def test_of_a_name_one_life_is_in_the_groups_at_a_time() -> None:
    table = GroupTable()
    changed(table, 2, (S, ENTERS, A), (T, ENTERS, B))
    later = ProcessId("a", 4)
    assert changed(table, 3, (T, ENTERS, later)) == [("3", "b/3 a/4"), ("dead", "a/3")]
    assert changed(table, 4, (S, ENTERS, A)) == [("dead", "a/3")]
    assert table.is_dead(A)
    assert not table.is_dead(later)


def test_a_table_is_read_as_it_was_written() -> None:
    table = GroupTable()
    changed(table, 2, (S, ENTERS, A), (T, ENTERS, B))
    changed(table, 3, (T, FAILS, B))
    copy = read_table(SiteReader(table.encode()))
    assert copy.encode() == table.encode()
    assert copy.is_member(7, A, S)
    assert copy.is_dead(B)
    for length in range(len(table.encode())):
        with pytest.raises(MalformedError):
            read_table(SiteReader(table.encode()[:length]))


def test_the_dead_are_remembered_within_a_limit() -> None:
    table = GroupTable()
    for count in range(DEAD_MAX + 5):
        changed(table, count + 2, (S, FAILS, ProcessId(f"x{count}")))
    assert not table.is_dead(ProcessId("x4"))
    assert table.is_dead(ProcessId("x5"))


# ---- frames ----------------------------------------------------------------------------------------------------------


def test_frames_are_read_as_they_were_written() -> None:
    message = SiteMessage(1 << 63, A, 5, (B, C), [b"one", b"", b"three"])
    ticket, level, label, body = read_send(SiteReader(encode_send(9, CAUSAL, "clock=1", message.encode()), 1))
    read = read_message(SiteReader(body))
    assert (ticket, level, label) == (9, CAUSAL, "clock=1")
    assert (read.group, read.sender, read.first, read.destinations) == (1 << 63, A, 5, (B, C))
    assert read.payloads == [b"one", b"", b"three"]
    change = read_change(SiteReader(GroupChange(7, View(3, (A, B)), 2, False, (B,), (), (C,)).encode(), 1))
    assert (change.group, change.view.id, change.parent, change.founded) == (7, 3, 2, False)
    assert (change.view.members, change.joined, change.left, change.failed) == ((A, B), (B,), (), (C,))
    records = read_records(SiteRecord(ENTERS, 7, A).encode() + SiteRecord(GBCAST, 8, B, 4, b"rank").encode())
    assert [(each.kind, each.group, each.process, each.number, each.payload) for each in records] == [
        (ENTERS, 7, A, 0, b""), (GBCAST, 8, B, 4, b"rank"),
    ]  # fmt: skip


def test_nothing_that_comes_by_a_link_raises_out_of_the_engine() -> None:
    """Whatever a process says, its site goes on; it says that the process is dead, and hangs up."""
    random = Random(1)
    good = [
        encode_frame(ENTER, 7), encode_frame(BEAT),
        encode_send(1, CAUSAL, "", SiteMessage(7, A, 1, (), [b"m"]).encode()),
    ]  # fmt: skip
    for case in range(300):
        engine = Engine(S, Random(0), Options())
        opened = engine.step(Open(stack="label", role="site", address="10.0.0.1:7400"), 0)
        listens = [call.token for call in opened.calls or () if isinstance(call, Listen)]
        engine.step(Tick(), 10**9)
        link = accepted_link(listens[0], 1)
        engine.step(LinkUp(link, A, listens[0]), 10**9)
        frame = bytearray(random.choice(good))
        for _ in range(random.randrange(3)):
            frame[random.randrange(len(frame))] = random.randrange(256)
        bad = bytes(frame[: random.randrange(len(frame) + 1)])
        effects = engine.step(LinkFrames(link, [encode_frame(ATTACH), bad, good[case % 3]]), 10**9)
        calls = effects.calls or ()
        if bad[:1] == bytes([SEND]):  # of a group that the process is not in
            assert any(isinstance(call, Hang) for call in calls)
            assert any(isinstance(call, Frames) and call.frames[-1][0] == DEAD for call in calls)
        engine.step(Tick(), 2 * 10**9)


# ---- real sockets ----------------------------------------------------------------------------------------------------


def test_processes_are_attached_to_sites_over_real_sockets() -> None:
    """A site with three processes: one of them is killed, and the others are told of it though its site lives."""

    async def test() -> None:
        async with antiphon.Node("s", address=LOOPBACK, options=HASTY) as one:
            one.serve("label")
            nodes = [antiphon.Node(name, address=LOOPBACK, options=HASTY) for name in "abc"]
            for node in nodes:
                await node.start()
            try:
                groups = [await node.join("g", stack="label", policy="sites", contacts=[one.address]) for node in nodes]
                async with asyncio.timeout(30):
                    while len(groups[0].view.members) < 3:
                        await asyncio.sleep(0.01)
                orders: tuple[antiphon.Order, ...] = ("causal", "agreed", "safe", "fifo")
                for count in range(40):
                    await groups[count % 3].send(b"%d" % count, order=orders[count % 4])
                await groups[1].send(bytes(500_000), to=[nodes[0].process])
                await groups[0].flush()
                heard = [await messages(group, 40) for group in groups]
                assert [sorted(each) for each in heard] == [sorted(b"%d" % count for count in range(40))] * 3
                assert len((await messages(groups[0], 1))[0]) == 500_000
                killed = nodes[2]._driver
                assert killed is not None
                killed.stop("killed")
                async with asyncio.timeout(30):
                    while len(groups[0].view.members) > 2:
                        await asyncio.sleep(0.01)
                assert [member.name for member in groups[1].view.members] == ["a", "b"]
                with pytest.raises(UsageError, match="attached to site"):
                    await nodes[0].join("h", stack="label", policy="sites", contacts=["127.0.0.1:1"])
            finally:
                for node in nodes[:2]:
                    await node.close()

    run(test)


async def messages(group: antiphon.Group, count: int) -> list[bytes]:
    """So many messages, as the application reads them."""
    found: list[bytes] = []
    async with asyncio.timeout(30):
        async for event in group:
            if isinstance(event, antiphon.Message):
                found.append(event.payload)
                if len(found) == count:
                    break
    return found
