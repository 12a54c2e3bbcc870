"""Crews of real processes: they do what they are told, and a run that is not complete is refused."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from antiphon.runtime.workers import WorkerError
from bench import crew
from bench.crew import ECHO, Crew, Members
from bench.figures import IncompleteError

pytestmark = pytest.mark.processes


def finish(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(120):
            await work()

    asyncio.run(limited())


def test_a_flood_is_measured_once_everybody_has_everything() -> None:
    async def work() -> None:
        async with Members(2, groups=2) as members:
            measured = await members.flood("agreed", 64, seconds=0.2, warmup=0.1)
            assert all(member["sent"] > 0 and member["rate"] > 0 and member["cpu_s"] > 0 for member in measured)
            silent, _ = await members.flood("causal", 64, seconds=0.2, warmup=0.1, senders=[1])
            assert silent["sent"] == 0
            assert silent["rate"] > 0

    finish(work)


def test_a_message_that_does_not_come_ends_the_run() -> None:
    async def work() -> None:
        async with Members(2) as members:
            await members.all("count")
            with pytest.raises(WorkerError, match="1 messages were sent and 0 came"):
                await members.complete(1)

    finish(work)


def test_more_messages_than_were_sent_end_the_run() -> None:
    async def work() -> None:
        async with Members(2) as members:
            await members.all("count", stride=1)
            sent = await members.one(0, "pace", order="causal", size=64, rate=200.0, seconds=0.2, offset=0.0)
            assert sent["sent"] > 10
            await asyncio.sleep(0.5)
            with pytest.raises(WorkerError, match="messages were sent and"):
                await members.complete(sent["sent"] - 1)

    finish(work)


def test_a_job_that_does_not_end_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with Members(2) as members:
            monkeypatch.setattr(crew, "JOB_S", 2.0)
            with pytest.raises(IncompleteError, match="did not finish 'ask' within 2 s"):
                await members.one(0, "ask", count=1, size=64, order="causal", answers=1)  # nobody answers

    finish(work)


def test_round_trips_to_others_and_to_oneself() -> None:
    async def work() -> None:
        async with Members(3) as members:
            for rank in range(2):
                await members.one(rank, "answer", keep_token=True)
            for order in ("causal", "agreed"):
                asked = await members.one(2, "ask", count=10, size=3000, order=order, answers=2)
                assert len(asked["times_ns"]) == 10
            await members.one(1, "answer", all="fifo")
            await members.one(0, "count")
            asked = await members.one(2, "ask", count=10, size=1, order="fifo", answers=1)
            assert len(asked["times_ns"]) == 10
        async with Members(1) as alone:
            asked = await alone.one(0, "ask_self", count=10, size=1, order="agreed")
            assert len(asked["times_ns"]) == 10

    finish(work)


@pytest.mark.parametrize("wire", ["udp", "tcp", "socket"])
def test_plain_wires_echo(wire: str) -> None:
    async def work() -> None:
        async with Crew(ECHO, ["e1", "e2", "e3"]) as echoes:
            ports = [(await echoes.one(rank, "serve", wire=wire))["port"] for rank in (1, 2)]
            for successive in (False, True):
                asked = await echoes.one(0, "ask", wire=wire, ports=ports, count=10, size=7000, successive=successive)
                assert len(asked["times_ns"]) == 10

    finish(work)


def test_what_waits_for_a_reader_is_not_lost() -> None:
    async def work() -> None:
        async with Members(2) as members:
            await members.all("count", serials=True)
            paused = await members.one(1, "pause")
            flood = members.one(0, "flood", order="causal", size=64, warmup=0.0, seconds=0.2, sends=True, serials=True)
            flooding = asyncio.create_task(flood)
            await asyncio.sleep(0.5)
            resumed = await members.one(1, "resume")  # by now the sender may have to wait for that
            flooded = await flooding
            assert resumed["handed"] == paused["handed"] == 0
            assert resumed["unread"] > 0
            await members.complete(flooded["sent"])

    finish(work)
