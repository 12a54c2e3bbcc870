"""Requests to a group: who answers, who is waited for, and what becomes of those that cannot."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from antiphon import ClosedError, ExcludedError, Message, ProcessId, UsageError, View, ViewChange
from antiphon.toolkit import Reply, Request, Service, UnansweredError
from antiphon.toolkit.messages import Answer
from antiphon.toolkit.requests import FAILED, LATE, OUTSTANDING_MAX, Outstanding
from antiphon.toolkit.service import NO_HANDLER
from tests.runtime.cluster import run, until
from tests.toolkit.hub import Hub


class Desk:
    """One member that answers requests, when `gate` is open."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.gate = asyncio.Event()
        self.gate.set()
        self.heard: list[bytes] = []

    async def handle(self, request: Request) -> bytes:
        self.heard.append(request.payload)
        await self.gate.wait()
        if request.payload == b"raise":
            raise ValueError(f"not by {self.service.process.name}")
        return f"{self.service.process.name} says {request.payload.decode()}".encode()

    async def read(self) -> None:
        async for event in self.service:
            if isinstance(event, Message):
                self.heard.append(event.payload)


@asynccontextmanager
async def desks(hub: Hub, names: str) -> AsyncIterator[list[Desk]]:
    made = [Desk(Service(member)) for member in hub.found(names)]
    for desk in made:
        desk.service.answer(desk.handle)
        await desk.service.__aenter__()
    readers = [asyncio.create_task(desk.read()) for desk in made]
    try:
        yield made
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        for desk in made:
            await desk.service.close()


def said(replies: list[Reply]) -> list[tuple[str, bytes | str]]:
    return [(reply.process.name, reply.payload or reply.error) for reply in replies]


def test_all_answer_in_view_order() -> None:
    async def test() -> None:
        hub = Hub()
        async with desks(hub, "cab") as (first, second, third):
            first.gate.clear()
            asking = asyncio.create_task(second.service.ask(b"hi"))
            await until(lambda: third.heard == [b"hi"])
            first.gate.set()  # the oldest answers last
            assert said(await asking) == [("c", b"c says hi"), ("a", b"a says hi"), ("b", b"b says hi")]
            assert [isinstance(sent, Message) and sent.private for sent in hub.sent] == [False, True, True, True]

    run(test)


@pytest.mark.parametrize(("want", "gates", "count"), [("first", 1, 1), ("majority", 2, 2)])
def test_fewer_replies_are_not_waited_for(want: str, gates: int, count: int) -> None:
    async def test() -> None:
        async with desks(Hub(), "abc") as made:
            for desk in made[gates:]:
                desk.gate.clear()
            replies = await made[0].service.ask(b"hi", want=want)
            assert [reply.process.name for reply in replies] == list("abc")[:count]

    run(test)


def test_none_are_not_waited_for_and_not_sent() -> None:
    async def test() -> None:
        hub = Hub()
        async with desks(hub, "ab") as made:
            assert await made[0].service.ask(b"hi", want="none") == []
            await until(lambda: all(desk.heard == [b"hi"] for desk in made))
            assert len(hub.sent) == 1

    run(test)


@pytest.mark.parametrize("left", [False, True])
def test_a_member_that_is_gone_counts_as_failed(left: bool) -> None:
    async def test() -> None:
        hub = Hub()
        async with desks(hub, "abc") as made:
            made[1].gate.clear()
            asking = asyncio.create_task(made[0].service.ask(b"hi"))
            await until(lambda: made[2].heard == [b"hi"])
            hub.fail("b", left=left)
            assert said(await asking) == [("a", b"a says hi"), ("b", FAILED), ("c", b"c says hi")]

    run(test)


def test_too_many_failures_for_a_majority() -> None:
    async def test() -> None:
        hub = Hub()
        async with desks(hub, "abc") as made:
            for desk in made[1:]:
                desk.gate.clear()
            asking = asyncio.create_task(made[0].service.ask(b"hi", want="majority"))
            await until(lambda: made[2].heard == [b"hi"])
            hub.fail("b", "c")
            with pytest.raises(UnansweredError, match="wanted majority of the replies and got 1 of 3") as caught:
                await asking
            assert said(caught.value.replies) == [("a", b"a says hi"), ("b", FAILED), ("c", FAILED)]

    run(test)


def test_a_handler_that_raises_gives_an_error_and_the_stream_goes_on() -> None:
    async def test() -> None:
        async with desks(Hub(), "ab") as made:
            assert said(await made[0].service.ask(b"raise")) == [
                ("a", "ValueError: not by a"),
                ("b", "ValueError: not by b"),
            ]
            with pytest.raises(UnansweredError):
                await made[0].service.ask(b"raise", want="first")
            assert len(await made[0].service.ask(b"hi")) == 2

    run(test)


def test_a_handler_that_gives_no_bytes_and_a_member_without_one() -> None:
    async def test() -> None:
        async def nonsense(_: Request) -> bytes:
            return "text"  # type: ignore[return-value]

        async with desks(Hub(), "ab") as made:
            made[0].service.answer(nonsense)
            made[1].service._handler = None
            replies = await made[0].service.ask(b"hi")
            assert [reply.error for reply in replies] == [
                "TypeError: the handler gave str, and a reply is bytes",
                NO_HANDLER,
            ]

    run(test)


def test_time_runs_out_with_what_has_come() -> None:
    async def test() -> None:
        async with desks(Hub(), "ab") as made:
            made[1].gate.clear()
            with pytest.raises(UnansweredError, match=r"0\.05 s have passed") as caught:
                await made[0].service.ask(b"hi", timeout_s=0.05)
            assert said(caught.value.replies)[1] == ("b", LATE)
            made[1].gate.set()  # and its late answer disturbs nobody
            assert len(await made[0].service.ask(b"again")) == 2

    run(test)


def test_what_comes_twice_or_unasked_is_ignored() -> None:
    async def test() -> None:
        hub = Hub()
        async with desks(hub, "abc") as made:
            made[1].gate.clear()
            asking = asyncio.create_task(made[0].service.ask(b"hi"))
            await until(lambda: made[2].heard == [b"hi"])
            (stranger,) = hub.join("d")
            forged = Service(stranger)
            for number in (1, 1, 7):
                await forged.tell(Answer(number, b"not asked", ""), ProcessId("a"))
                await made[2].service.tell(Answer(number, b"twice", ""), ProcessId("a"))
            made[1].gate.set()
            assert said(await asking) == [("a", b"a says hi"), ("b", b"b says hi"), ("c", b"c says hi")]

    run(test)


def test_an_answer_may_come_before_the_request_has_its_place() -> None:
    async def test() -> None:
        members = (ProcessId("a"), ProcessId("b"))
        outstanding = Outstanding("all")
        for payload in (b"early", b"twice"):
            outstanding.take(Reply(process=members[1], payload=payload))
        outstanding.take(Reply(process=ProcessId("x"), payload=b"unasked"))
        outstanding.delivered(View(1, members))
        assert not outstanding.done.done()
        outstanding.take(Reply(process=members[0], payload=b"own"))
        assert said(await outstanding.done) == [("a", b"own"), ("b", b"early")]

    run(test)


def test_requests_and_messages_keep_their_order() -> None:
    async def test() -> None:
        async with desks(Hub(), "ab") as made:
            for number in range(5):
                await made[0].service.send(b"m%d" % number)
                await made[0].service.ask(b"r%d" % number)
            assert made[1].heard == [b"%s%d" % (kind, number) for number in range(5) for kind in (b"m", b"r")]

    run(test)


def test_whoever_reads_may_ask_others_but_not_wait_for_itself() -> None:
    async def test() -> None:
        hub = Hub()
        async with desks(hub, "ab") as made, Service(hub.join("c")[0]) as reading:
            async for event in reading:
                assert isinstance(event, ViewChange)
                with pytest.raises(UsageError, match="ask in another task"):
                    await reading.ask(b"hi")
                assert said(await reading.ask(b"hi", want="majority")) == [("a", b"a says hi"), ("b", b"b says hi")]
                break
            assert made[0].heard == [b"hi"]

    run(test)


def test_the_number_of_requests_is_limited() -> None:
    async def test() -> None:
        hub = Hub()
        async with desks(hub, "a") as (desk,):
            desk.gate.clear()
            asking = [asyncio.create_task(desk.service.ask(b"x")) for _ in range(OUTSTANDING_MAX + 10)]
            await until(lambda: len(hub.sent) >= OUTSTANDING_MAX)
            assert len(hub.sent) == OUTSTANDING_MAX
            desk.gate.set()
            assert {len(replies) for replies in await asyncio.gather(*asking)} == {1}

    run(test)


def test_the_end_of_the_group_ends_requests() -> None:
    async def test() -> None:
        hub = Hub()
        async with desks(hub, "ab") as made:
            made[1].gate.clear()
            asking = asyncio.create_task(made[0].service.ask(b"hi"))
            await until(lambda: made[1].heard == [b"hi"])
            hub.members[ProcessId("a")].end()
            with pytest.raises(ClosedError, match="no longer a member of group"):
                await asking
            with pytest.raises(ClosedError):
                await made[0].service.ask(b"hi")

    run(test)


def test_whoever_is_excluded_gets_no_more_replies() -> None:
    async def test() -> None:
        hub = Hub()
        async with desks(hub, "ab") as made:
            made[1].gate.clear()
            asking = asyncio.create_task(made[0].service.ask(b"hi"))
            await until(lambda: made[1].heard == [b"hi"])
            alone = hub.expel("a")
            with pytest.raises(ExcludedError, match="incarnation=2"):
                await asking
            made[1].gate.set()
            hub.readmit(alone)
            await until(lambda: len(made[0].service.view.members) == 2)
            assert len(await made[0].service.ask(b"again")) == 2

    run(test)


def test_wrong_wants_and_strays() -> None:
    async def test() -> None:
        hub = Hub()
        async with desks(hub, "ab") as made:
            with pytest.raises(UsageError, match="all, first, majority, none"):
                await made[0].service.ask(b"hi", want="some")
            with pytest.raises(UsageError, match="a payload is bytes, not str"):
                await made[0].service.send("text")  # type: ignore[arg-type]
            for nonsense in (b"", b"\1", b"\1\xff\xff", b"\7hello", b"\1" + b"\x92\xa3ask\x01"):
                await hub.members[ProcessId("a")].send(nonsense)
            assert len(await made[0].service.ask(b"hi")) == 2
            assert made[1].service.strays == 5

    run(test)
