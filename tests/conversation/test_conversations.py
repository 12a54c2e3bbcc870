"""Conversations over real sockets on loopback: whatever the network does, messages come in an order of the context."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.conversation import (
    Conversation,
    ConversationTimeoutError,
    RemovedError,
    accept_conversation,
    open_conversation,
    restart_conversation,
    stored_conversations,
    take_part,
)
from antiphon.kernel.errors import ClosedError, MessageTooLargeError, UsageError
from antiphon.kernel.options import Options
from antiphon.runtime import Node
from antiphon.runtime.stores import path_of, read_log
from antiphon.stacks.conversation.free.store import log_of
from tests.runtime.cluster import bad_network, run, until


@asynccontextmanager
async def people(names: Sequence[str] = ("a", "b", "c"), **settings: Any) -> AsyncIterator[list[Node]]:
    """Nodes on free ports."""
    nodes = [Node(name, address="127.0.0.1:0", incarnation=1, seed=seed, **settings) for seed, name in enumerate(names)]
    for node in nodes:
        await node.start()
    try:
        yield nodes
    finally:
        await asyncio.gather(*(node.close() for node in nodes))


async def begin(nodes: Sequence[Node], first: bytes = b"first", *, keep: bool = False) -> list[Conversation]:
    """A conversation of all, opened by the first, in which everybody has received the first message."""
    others = {node.process.name: node.address for node in nodes[1:]}
    accepting = [asyncio.create_task(accept_conversation(node, timeout_s=10)) for node in nodes[1:]]
    opened = await open_conversation(nodes[0], others, keep=keep)
    await asyncio.sleep(0)  # so that those who accept are there
    await opened.send(first)
    talks = [opened, *[await accepted for accepted in accepting]]
    for talk in talks[1:]:
        assert (await talk.receive(timeout_s=10))[1] == first
    return talks


def test_a_question_and_its_answer() -> None:
    async def test() -> None:
        async with people(("alice", "bob")) as nodes:
            alice, bob = await begin(nodes, b"shall we?")
            assert alice.cid == bob.cid
            assert alice.participants == bob.participants == ("alice", "bob")
            await bob.send(b"we shall")
            handle, payload = await alice.receive(timeout_s=5)
            assert (payload, alice.sender(handle)) == (b"we shall", "bob")
            question = alice.prev(handle)[0]
            assert alice.sender(question) == "alice"
            assert alice.precedes(question, handle)
            assert not alice.precedes(handle, question)
            assert alice.next(question) == [handle] == alice.leaves()
            assert alice.roots() == [question]
            assert alice.stable(question)
            assert not alice.stable(handle)
            assert alice.n_stable(handle, 1)
            assert not alice.n_stable(handle, 2)
            assert not alice.outstanding()

    run(test)


def test_nobody_calls_in_time() -> None:
    async def test() -> None:
        async with people(("a",)) as (node,):
            with pytest.raises(ConversationTimeoutError, match="nobody began") as caught:
                await accept_conversation(node, timeout_s=0.01)
            assert caught.value.timeout_s == 0.01
            assert isinstance(caught.value, TimeoutError)

    run(test)


def test_nothing_is_said_in_time() -> None:
    async def test() -> None:
        async with people(("a", "b")) as nodes:
            talk, _ = await begin(nodes)
            with pytest.raises(ConversationTimeoutError, match="no message"):
                await talk.receive(timeout_s=0.01)
            assert talk.receive_nowait() is None
            assert not await talk.changed(timeout_s=0.0)

    run(test)


def test_what_was_begun_early_waits_to_be_accepted() -> None:
    """Up to then only the first message is kept; the others are recovered."""

    async def test() -> None:
        async with people(("a", "b")) as (one, other):
            with pytest.raises(ConversationTimeoutError):
                await accept_conversation(other, timeout_s=0)
            talk = await open_conversation(one, {"b": other.address})
            for number in range(5):
                await talk.send(b"%d" % number)
            await until(lambda: other.statistics().get("dropped_pending", 0) == 4)
            accepted = await accept_conversation(other, timeout_s=5)
            got = [(await accepted.receive(timeout_s=5))[1] for _ in range(5)]
            assert got == [b"0", b"1", b"2", b"3", b"4"]

    run(test)


class Speaker:
    """Sends a number of messages, each with all that was sent or received before, and checks that of all others'."""

    def __init__(self, talk: Conversation, count: int) -> None:
        self.talk = talk
        self.count = count
        self.seen: set[bytes] = {b"first"}

    async def run(self) -> None:
        for number in range(self.count):
            said = b"%s%d" % (self.talk.name.encode(), number)
            await self.talk.send(said + b":" + b" ".join(sorted(self.seen)))
            self.seen.add(said)
            while (got := self.talk.receive_nowait()) is not None:
                self.take(got[1])
            await asyncio.sleep(0)
        while len(self.seen) < 1 + self.count * len(self.talk.participants):
            self.take((await self.talk.receive(timeout_s=20))[1])

    def take(self, payload: bytes) -> None:
        said, _, context = payload.partition(b":")
        assert said not in self.seen
        assert self.seen.issuperset(context.split())
        self.seen.add(said)


@pytest.mark.parametrize("bad", [False, True])
def test_all_get_everything_in_an_order_of_the_context(bad: bool) -> None:
    async def test() -> None:
        faults = bad_network(0.2) if bad else []
        async with people(("a", "b", "c", "d"), faults=faults) as nodes:
            talks = await begin(nodes)
            speakers = [Speaker(talk, 40) for talk in talks]
            await asyncio.gather(*(speaker.run() for speaker in speakers))
            assert all(len(speaker.seen) == 161 for speaker in speakers)

    run(test)


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_long_messages_go_in_parts(loss: float) -> None:
    async def test() -> None:
        settings = {"options": Options(), "faults": bad_network(loss) if loss else []}
        async with people(("a", "b", "c"), **settings) as nodes:
            long = bytes(range(256)) * 4000
            talks = await begin(nodes, long)
            await talks[1].send(long[::-1])
            for talk in (talks[0], talks[2]):
                assert (await talk.receive(timeout_s=20))[1] == long[::-1]

    run(test)


def test_by_multicast_or_one_by_one_it_is_the_same() -> None:
    async def test() -> None:
        async with people(("a", "b", "c"), multicast="239.255.74.9:17499") as nodes:
            talks = await begin(nodes)
            speakers = [Speaker(talk, 20) for talk in talks]
            await asyncio.gather(*(speaker.run() for speaker in speakers))

    run(test)


def test_a_sender_waits_while_nobody_answers() -> None:
    async def test() -> None:
        async with people(("a", "b")) as nodes:
            one, other = await begin(nodes)
            sent = 0

            async def send_much() -> None:
                nonlocal sent
                for _ in range(3000):
                    await one.send(b"x")
                    sent += 1

            sending = asyncio.create_task(send_much())
            await until(lambda: sent >= 1023)
            assert not await one.changed(timeout_s=0.05) or sent == 1023
            while not sending.done():
                while other.receive_nowait() is not None:
                    pass
                await other.send(b"go on")
                await asyncio.sleep(0.001)
            assert sent == 3000

    run(test)


def test_after_close_nothing_comes_and_nothing_goes() -> None:
    async def test() -> None:
        async with people(("a", "b")) as nodes:
            one, other = await begin(nodes)
            await other.close()
            await one.send(b"are you there?")
            await until(lambda: nodes[1].statistics().get("dropped_closed", 0) > 0)
            with pytest.raises(ClosedError):
                await other.send(b"no")
            with pytest.raises(ClosedError):
                await other.receive()
            with pytest.raises(ConversationTimeoutError):
                await accept_conversation(nodes[1], timeout_s=0.05)

    run(test)


def test_who_waits_is_woken_when_the_node_closes() -> None:
    async def test() -> None:
        async with people(("a", "b")) as nodes:
            one, _ = await begin(nodes)
            receiving = asyncio.create_task(one.receive())
            accepting = asyncio.create_task(accept_conversation(nodes[0]))
            await asyncio.sleep(0)
            await nodes[0].close()
            for waiting in (receiving, accepting):
                with pytest.raises(ClosedError):
                    await waiting

    run(test)


def test_who_closes_on_what_it_received_is_not_called_again() -> None:
    """Nothing of a conversation that is closed is due any more, also if it was when the last message came."""

    async def test() -> None:
        async with people(("a", "b")) as nodes:
            one, other = await begin(nodes)
            await one.send(b"bye")
            assert (await other.receive(timeout_s=5))[1] == b"bye"
            await other.close()
            await asyncio.sleep(0.3)  # several times as long as it takes until what may be lost is looked for
            again, _ = await begin(nodes)
            assert again.cid != one.cid

    run(test)


def test_the_node_says_what_its_conversations_may_hold() -> None:
    """Beyond the threshold the earliest messages that are stable are forgotten, and the talk goes on."""

    async def test() -> None:
        async with people(("a", "b")) as nodes:
            for node in nodes:
                take_part(node, antiphon.conversation.ConversationLimits(nodes_max=8))
            one, other = await begin(nodes)
            for number in range(40):
                for speaker, hearer in ((other, one), (one, other)):
                    await speaker.send(b"%d" % number)
                    assert (await hearer.receive(timeout_s=5))[1] == b"%d" % number
            assert one.core.replica.graph.nodes <= 8
            assert other.core.replica.graph.nodes <= 8

    run(test)


@pytest.mark.parametrize(("name", "value"), [("unstable_max", 0), ("nodes_max", -1), ("held_bytes_max", 0)])
def test_limits_that_cannot_be_are_refused(name: str, value: int) -> None:
    with pytest.raises(UsageError, match=f"{name} is {value}; it must be at least"):
        antiphon.conversation.ConversationLimits(**{name: value})


def test_mistakes_are_told() -> None:
    async def test() -> None:
        async with people(("a", "b")) as nodes:
            with pytest.raises(UsageError, match="somebody"):
                await open_conversation(nodes[0], {})
            with pytest.raises(UsageError, match="takes part anyway"):
                await open_conversation(nodes[0], {"a": nodes[0].address})
            one, _ = await begin(nodes)
            with pytest.raises(UsageError, match="the participants are a, b"):
                one.mask_out("x")
            with pytest.raises(MessageTooLargeError):
                await one.send(bytes(64 * 1024 * 1024 + 1))

    run(test)


def test_groups_and_conversations_share_a_socket() -> None:
    async def test() -> None:
        async with people(("a", "b")) as nodes:
            members = {node.process.name: node.address for node in nodes}
            groups = [await node.join("g", members=members, policy="static") for node in nodes]
            one, other = await begin(nodes)
            await groups[0].send(b"in the group")
            await one.send(b"in the conversation")
            assert (await other.receive(timeout_s=5))[1] == b"in the conversation"
            async for event in groups[1]:
                if isinstance(event, antiphon.Message):
                    assert event.payload == b"in the group"
                    break

    run(test)


@pytest.mark.parametrize("again", [False, True])
def test_a_participant_comes_back(again: bool) -> None:
    """From a checkpoint it receives again what came since; from the beginning, everything, and says nothing twice."""

    async def test() -> None:
        async with people(("a", "b", "c")) as nodes:
            talks = await begin(nodes, keep=True)
            a, b, c = talks
            await b.send(b"b1")
            assert (await a.receive(timeout_s=5))[1] == b"b1"
            checkpoint = b.checkpoint()
            await a.send(b"a2")
            assert (await b.receive(timeout_s=5))[1] == b"a2"
            await b.send(b"b2")
            while (await c.receive(timeout_s=5))[1] != b"b2":
                pass
            address = nodes[1].address
            await nodes[1].close()
            await c.send(b"meanwhile")
            async with Node("b", address=address, incarnation=2) as back:
                b = await restart_conversation(back, checkpoint, again=again, timeout_s=10)
                assert b.recovery is not None
                assert b.recovery.complete
                got = []
                if again:
                    got.append((await b.receive(timeout_s=5))[1])
                    handle = await b.send(b"b1")
                    assert handle.mid() == (1, 1)
                got.append((await b.receive(timeout_s=5))[1])
                handle = await b.send(b"b2")
                assert handle.mid() == (1, 2)
                got.append((await b.receive(timeout_s=5))[1])
                assert got == [*([b"first"] if again else []), b"a2", b"meanwhile"]
                assert (await b.send(b"b3")).mid() == (1, 3)
                assert a.restarted() == ["b"]
                assert a.restarted() == []
                while (await a.receive(timeout_s=5))[1] != b"b3":
                    pass

    run(test)


def test_one_is_removed_by_all_and_comes_back() -> None:
    async def test() -> None:
        async with people(("a", "b", "c")) as nodes:
            a, b, c = await begin(nodes, keep=True)
            await c.send(b"c1")
            checkpoint = c.checkpoint()
            a.remove("c")
            await until(lambda: a.removed == b.removed == ("c",))
            with pytest.raises(RemovedError, match="come back"):
                await c.receive(timeout_s=10)
            address = nodes[2].address
            await nodes[2].close()
            async with Node("c", address=address, incarnation=2) as back:
                c = await restart_conversation(back, checkpoint, again=True)
                await until(lambda: bool(a.core.restarted))
                assert a.restarted() == ["c"]
                a.add("c")
                await until(lambda: a.removed == b.removed == ())
                assert (await c.receive(timeout_s=5))[1] == b"first"
                await c.send(b"c1")
                while not c.core.may_note():
                    assert c.receive_nowait() is None
                    await c.changed()
                await c.send(b"back")
                while (await b.receive(timeout_s=5))[1] != b"back":
                    pass

    run(test)


def test_what_was_written_down_is_there_when_nobody_else_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with people(("a", "b"), storage=tmp_path) as nodes:
            a, b = await begin(nodes, keep=True)
            await b.send(b"b1")
            assert (await a.receive(timeout_s=5))[1] == b"b1"
            await a.send(b"a2")
            assert (await b.receive(timeout_s=5))[1] == b"a2"
            address = nodes[1].address
        path = path_of(tmp_path / "b.logs", log_of(b.cid))
        path.write_bytes(path.read_bytes() + b"half a rec")
        async with Node("b", address=address, incarnation=2, storage=tmp_path) as back:
            (checkpoint,) = await stored_conversations(back)
            assert checkpoint.cid == b.cid
            talk = await restart_conversation(back, checkpoint, again=True, timeout_s=0.05, accept_less=True)
            assert talk.recovery is not None
            assert talk.recovery.silent == [0]
            assert (await talk.receive(timeout_s=1))[1] == b"first"
            assert (await talk.send(b"b1")).mid() == (1, 1)
            assert (await talk.receive(timeout_s=1))[1] == b"a2"
            with pytest.raises(UsageError, match="majority"):
                await talk.send(b"b2")
        records = [record for record in read_log(path) if len(record) > 20]
        assert len(records) == 3

    run(test)


def test_a_part_of_the_history_is_better_than_none_and_is_told() -> None:
    async def test() -> None:
        async with people(("a", "b", "c")) as nodes:
            talks = await begin(nodes, keep=True)
            await talks[1].send(b"b1")
            assert (await talks[0].receive(timeout_s=5))[1] == b"b1"
            checkpoint = talks[1].checkpoint()
            address = nodes[1].address
            await nodes[1].close()
            await nodes[2].close()
            async with Node("b", address=address, incarnation=2) as back:
                talk = await restart_conversation(back, checkpoint, timeout_s=0.3, accept_less=True)
                assert talk.recovery is not None
                assert not talk.recovery.complete
                assert talk.recovery.silent == [2]
                assert talk.recovery.lacking == []
                assert [leaf.mid() for leaf in talk.leaves()] == [(1, 1)]

    run(test)
