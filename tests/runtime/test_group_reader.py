"""Who reads a group and sends to it: told when it would wait for itself, and only then."""

import asyncio
from collections.abc import AsyncIterable
from contextlib import suppress

import pytest

from antiphon import Batch, Group, Message, Node, ReaderBlockedError, ViewChange
from antiphon.kernel.options import Options
from antiphon.runtime import sync
from antiphon.runtime.outbox import MESSAGES_MAX
from tests.runtime.cluster import run

QUEUE = 64
SMALL = Options(pending_bytes_max=10_000)


async def alone(node: Node) -> Group:
    return await node.join("g", members={"a": node.address}, policy="static")


def node() -> Node:
    return Node("a", address="127.0.0.1:0", incarnation=1, options=SMALL, queue_messages_max=QUEUE, linger_s=0.1)


async def answer_twice(group: Group, events: AsyncIterable[object]) -> int:
    """Send two messages for each that is read; how many were sent until that was refused."""
    sent = 1
    await group.send(b"x" * 100)
    with suppress(ReaderBlockedError):
        async for event in events:
            for _ in range(2 if isinstance(event, Message) else 0):
                await group.send(b"x" * 100)
                sent += 1
    return sent


async def send_on(group: Group) -> None:
    while True:
        await group.send_many([b"x" * 100] * 1_000)


@pytest.mark.parametrize("by_node", [False, True])
def test_a_reader_that_would_wait_for_itself_is_told(by_node: bool) -> None:
    async def test() -> None:
        async with node() as here:
            group = await alone(here)
            sent = await answer_twice(group, here if by_node else group)
            assert sent >= MESSAGES_MAX  # the documented bound is there to be used
            # Nothing was lost: whoever reads on finds room again.
            events = aiter(here) if by_node else aiter(group)
            for _ in range(sent // 2):
                await anext(events)
            await group.send(b"now")

    run(test)


def test_a_reader_that_only_sends_is_told() -> None:
    async def test() -> None:
        async with node() as here:
            group = await alone(here)
            assert isinstance(await anext(aiter(group)), ViewChange)  # from here on this task is the reader
            with pytest.raises(ReaderBlockedError):
                await send_on(group)

    run(test)


def test_another_task_may_wait_for_the_reader() -> None:
    async def test() -> None:
        async with node() as here:
            group = await alone(here)

            async def send() -> None:
                for _ in range(10):
                    await group.send_many([b"x" * 100] * 1_000)

            sending = asyncio.create_task(send())
            await asyncio.sleep(0.05)
            assert not sending.done()
            count = 0
            async for event in group.batches():
                count += len(event.payloads) if isinstance(event, Batch) else 0
                if count == 10_000:
                    break
            await sending

    run(test)


def test_whoever_does_not_wait_is_not_refused() -> None:
    async def test() -> None:
        async with node() as here:
            group = await alone(here)
            events = aiter(group)
            await anext(events)
            while group.send_now(b"x" * 100):
                pass
            assert not group.send_now(b"x" * 100)
            assert isinstance(await anext(events), Message)

    run(test)


def send_on_from_a_thread(group: sync.Group) -> None:
    while True:
        group.send_many([b"x" * 100] * 1_000)


def test_a_thread_that_would_wait_for_itself_is_told() -> None:
    with sync.Node(
        "a", address="127.0.0.1:0", incarnation=1, options=SMALL, queue_messages_max=QUEUE, linger_s=0.1
    ) as here:
        group = here.join("g", members={"a": here.address}, policy="static")
        group.recv(timeout_s=10.0)
        with pytest.raises(ReaderBlockedError):
            send_on_from_a_thread(group)
