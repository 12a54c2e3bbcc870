"""One reader for all groups of a node, or one for each: what is promised, and what is refused."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from antiphon import Batch, CausalityDomain, Group, Message, Node, NodeFailedError, ReaderError, ViewChange
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import READS_APART
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import KEPT
from antiphon.runtime.events import BatchEvent
from tests.runtime.cluster import run, stalled, until
from tests.runtime.test_outbox_order import listen

NAMES = ("p", "q", "r")


async def start(apart: bool = False, **settings: Any) -> tuple[list[Node], list[list[Group]]]:
    """Three nodes, each in the groups "a" and "b", of one causality domain or (`apart`) two."""
    nodes = [Node(name, address="127.0.0.1:0", incarnation=1, **settings) for name in NAMES]
    for node in nodes:
        await node.start()
    members = {node.process.name: node.address for node in nodes}
    return nodes, [
        [
            await node.join(
                group, members=members, policy="static", domain=CausalityDomain(name=group if apart else "main")
            )
            for group in ("a", "b")
        ]
        for node in nodes
    ]


async def close(nodes: list[Node]) -> None:
    await asyncio.gather(*(node.close() for node in nodes))


def answer(questions: Group, answers: Group) -> None:
    """Answer each message of one group in the other."""

    def hear(event: BatchEvent) -> None:
        if isinstance(event, Batch):
            for payload in event.payloads:
                assert answers.send_now(b"answer to " + payload)

    questions.listen(hear)


async def read_node(node: Node, count: int, pause_s: float = 0.0) -> list[Message]:
    messages: list[Message] = []
    async for event in node:
        await asyncio.sleep(pause_s)
        if isinstance(event, Message):
            messages.append(event)
            if len(messages) == count:
                break
    return messages


def test_a_slow_reader_of_the_node_reads_each_question_before_its_answer() -> None:
    async def test() -> None:
        nodes, groups = await start()
        answer(*groups[1])
        reading = asyncio.create_task(read_node(nodes[2], 40, 0.002))
        for number in range(20):
            await groups[0][0].send(b"question %d" % number)
            await asyncio.sleep(0.001)
        messages = await reading
        texts = [message.payload for message in messages]
        for number in range(20):
            question = texts.index(b"question %d" % number)
            assert texts.index(b"answer to question %d" % number) > question
        assert {message.group for message in messages} == {"a", "b"}
        await close(nodes)

    run(test)


def test_events_from_before_the_reader_came_are_in_order_too() -> None:
    async def test() -> None:
        nodes, groups = await start()
        heard = listen(groups[1])
        for number in range(10):
            await groups[0][number % 2].send(b"%d" % number)
        await until(lambda: len(heard) == 10)
        await until(lambda: groups[2][0].unread + groups[2][1].unread == 10)
        assert [message.payload for message in await read_node(nodes[2], 10)] == [
            b"%d" % number for number in range(10)
        ]
        assert groups[2][0].unread + groups[2][1].unread == 0
        await close(nodes)

    run(test)


def test_batches_of_the_node_and_groups_joined_later() -> None:
    async def test() -> None:
        nodes, groups = await start()
        reader = nodes[0].batches()
        first = [await anext(reader), await anext(reader)]
        assert [event.group for event in first] == ["a", "b"]
        late = await nodes[0].join("late", members={"p": nodes[0].address}, policy="static")
        await late.send(b"x")
        view, batch = await anext(reader), await anext(reader)
        assert isinstance(view, ViewChange)
        assert isinstance(batch, Batch)
        assert (view.group, batch.group, batch.payloads) == ("late", "late", [b"x"])
        assert await late.close()
        await groups[0][0].send(b"y")
        following = await anext(reader)
        assert isinstance(following, Batch)
        assert following.payloads == [b"y"]
        await close(nodes)
        with pytest.raises(StopAsyncIteration):
            await anext(reader)

    run(test)


def test_a_node_is_read_as_a_whole_or_group_by_group() -> None:
    async def test() -> None:
        nodes, groups = await start()
        by_node, by_group, by_listener = nodes
        aiter(by_node)
        with pytest.raises(ReaderError, match="async for event in node"):
            aiter(groups[0][0])
        with pytest.raises(ReaderError, match="async for event in node"):
            groups[0][1].listen(lambda event: None)
        reader = aiter(groups[1][0])
        with pytest.raises(ReaderError, match="async for event in group"):
            by_group.batches()
        assert (await anext(reader)).group == "a"
        groups[2][0].listen(lambda event: None)
        with pytest.raises(ReaderError, match="listener"):
            aiter(by_listener)
        await close(nodes)

    run(test)


def test_a_full_stream_of_the_node_pauses_all_its_groups() -> None:
    async def test() -> None:
        nodes, groups = await start(queue_messages_max=10)
        for group in groups[0] + groups[1]:
            group.listen(lambda event: None)
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < 30_000:
                await groups[0][sent % 2].send(bytes(1000))
                sent += 1

        sending = asyncio.create_task(send())
        assert await stalled(lambda: sent, 30_000)
        unread = groups[2][0].unread + groups[2][1].unread
        assert 10 <= unread < 2000  # what one step of the engine delivers comes on top
        await read_node(nodes[2], unread + 100)  # and it goes on when there is room
        sending.cancel()
        await asyncio.gather(*(node._close(False, 0.0) for node in nodes))

    run(test)


def test_the_first_reader_of_a_group_divides_what_waits() -> None:
    async def test() -> None:
        nodes, groups = await start(apart=True, queue_messages_max=4)
        for group in groups[0] + groups[1]:
            group.listen(lambda event: None)
        sending = asyncio.create_task(groups[0][0].send_many([b"to a"] * 500))
        await until(lambda: groups[2][0].unread >= 4)  # and all groups of r are paused
        await groups[1][1].send(b"to b")
        events: list[object] = []
        reader = aiter(groups[2][1])
        while len(events) < 2:
            events.append(await anext(reader))
        assert isinstance(events[1], Message)
        assert events[1].payload == b"to b"
        groups[2][0].listen(lambda event: None)
        await sending
        await close(nodes)

    run(test)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
def test_a_listener_that_raises_fails_the_node(error: type[BaseException]) -> None:
    async def test() -> None:
        nodes, groups = await start()

        def hear(event: BatchEvent) -> None:
            if isinstance(event, Batch):
                raise error("a mistake")

        groups[2][0].listen(hear)
        await groups[0][0].send(b"x")
        reader = groups[2][1].batches()
        assert isinstance(await anext(reader), ViewChange)
        with pytest.raises(NodeFailedError, match="CancelledError" if error is not ValueError else "a mistake"):
            await anext(reader)
        with pytest.raises(NodeFailedError):
            await groups[2][1].send(b"y")
        await asyncio.gather(*(node._close(False, 0.0) for node in nodes))

    run(test)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
def test_a_listener_that_raises_at_its_first_call_fails_the_node(error: type[BaseException]) -> None:
    async def test() -> None:
        nodes, groups = await start()

        def hear(event: BatchEvent) -> None:
            raise error("a mistake")

        with pytest.raises(NodeFailedError):
            groups[2][0].listen(hear)
        with pytest.raises(NodeFailedError):
            await groups[2][1].send(b"y")
        await asyncio.gather(*(node._close(False, 0.0) for node in nodes))

    run(test)


@pytest.mark.parametrize("late", [False, True])
def test_listeners_that_come_late_are_noted_as_reading_apart(late: bool, tmp_path: Path) -> None:
    """A message waits in b while the listener of a is told of later ones: the history says that no order between the
    groups was promised. With both listeners there in time it says nothing."""

    async def test() -> None:
        nodes, groups = await start(history=tmp_path)
        heard: list[bytes] = []

        def hear(event: BatchEvent) -> None:
            if isinstance(event, Batch):
                heard.extend(event.payloads)

        for each in groups[0], groups[1]:
            listen(each)
        groups[2][0].listen(hear)
        if not late:
            groups[2][1].listen(hear)
        await groups[0][1].send(b"first, in b")
        await until(lambda: groups[2][1].unread == 1 or not late)
        await groups[0][0].send(b"second, in a")
        await until(lambda: b"second, in a" in heard)
        if late:
            groups[2][1].listen(hear)
        assert heard == ([b"second, in a", b"first, in b"] if late else [b"first, in b", b"second, in a"])
        await close(nodes)
        notes = {row.process: row.label for row in HistoryFiles.open(tmp_path).read_rows() if row.kind == "note"}
        assert notes == ({"r": READS_APART} if late else {})
        (causal,) = (found for found in quick_audit(tmp_path).findings if found.guarantee == "causal")
        assert causal.verdict == KEPT
        assert ("promised to r, which reads its groups apart" in (causal.reason or "")) == late

    run(test)
