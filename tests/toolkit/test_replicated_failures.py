"""Replicated objects whose participants fail, in virtual time."""

import asyncio
from contextlib import suppress

import pytest

from antiphon.conversation import Conversation, RemovedError
from antiphon.toolkit import ReplicatedObject, commuting, ordered
from tests.conversation.stage import Stage, on_stage, until


class Purse(ReplicatedObject):
    def __init__(self, conversation: Conversation, remove_silent: bool = True) -> None:
        super().__init__(conversation, remove_silent=remove_silent)
        self.value = 0

    @commuting
    def put(self, amount: int) -> int:
        self.value += amount
        return amount

    @ordered
    def take(self, amount: int) -> int:
        self.value -= amount
        return self.value


async def purses(stage: Stage, keep: bool = False) -> list[Purse]:
    talks = await stage.begin(keep=keep, first=b"\xffbegin")
    made = [Purse(talk) for talk in talks]
    for purse in made:
        await purse.__aenter__()
    return made


def test_whoever_is_killed_does_not_hold_up_the_others() -> None:
    async def test(stage: Stage) -> None:
        a, b, _ = await purses(stage)
        await a.put(10)
        await stage.kill("c")
        assert await asyncio.wait_for(b.take(3), 30) in (-3, 7)
        await until(lambda: a.conversation.removed == ("c",))
        await a.settled(30)
        await until(lambda: a.value == b.value == 7)
        for purse in (a, b):
            await purse.__aexit__(None, None, None)

    on_stage(test)


def test_a_call_that_waits_fails_when_its_participant_is_removed() -> None:
    """c is cut off with an ordered call under way; the others go on without it."""

    async def test(stage: Stage) -> None:
        a, b, c = await purses(stage)
        waiting = asyncio.create_task(c.take(1))
        a.conversation.remove("c")
        await until(lambda: a.conversation.removed == b.conversation.removed == ("c",))
        with suppress(RemovedError):  # it may have been executed before
            await asyncio.wait_for(waiting, 30)
        with pytest.raises(RemovedError):
            await asyncio.wait_for(c.take(1), 30)
        for purse in (a, b, c):
            await purse.__aexit__(None, None, None)

    on_stage(test)


def test_a_copy_runs_again_and_its_calls_return_what_they_did() -> None:
    async def test(stage: Stage) -> None:
        a, b, c = await purses(stage, keep=True)
        checkpoint = b.conversation.origin()
        assert [await b.put(5), await b.take(1), await b.put(2)] == [5, 4, 2]
        await a.put(100)
        await until(lambda: a.value == b.value == c.value == 106)
        await stage.kill("b")
        again = Purse(await stage.come_back("b", checkpoint, again=True))
        async with again:
            assert [await again.put(5), await again.take(1), await again.put(2)] == [5, 4, 2]
            await again.put(1000)
            await until(lambda: a.value == again.value == c.value == 1106)
        for purse in (a, c):
            await purse.__aexit__(None, None, None)

    on_stage(test)
