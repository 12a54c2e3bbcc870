"""Conversations that come back, at the public API and in virtual time (psync-1989, 5 and 3.3)."""

import asyncio

import pytest

from antiphon.conversation import (
    Checkpoint,
    IncompleteRecoveryError,
    accept_conversation,
    open_conversation,
    restart_conversation,
)
from antiphon.kernel.errors import UsageError
from tests.conversation.stage import Stage, drain, on_stage, until

# ---- 4, 8, 9, 10 ---------------------------------------------------------------------------------------------------


def test_the_drain_of_figures_6_and_8_ends_after_a_removal() -> None:
    """Votes are messages of the graph that nobody receives; nothing is outstanding that cannot be received."""

    async def test(stage: Stage) -> None:
        a, b, _ = await stage.begin()
        await stage.kill("c")
        a.remove("c")
        await until(lambda: a.removed == b.removed == ("c",))
        for talk in (a, b):
            async with asyncio.timeout(5):
                while talk.outstanding():
                    await talk.receive()

    on_stage(test)


def test_stable_is_asked_of_the_view() -> None:
    """Figure 8 on the public API: while the view lacks what makes a message stable, its wave may be incomplete."""

    async def test(stage: Stage) -> None:
        a, b, c = await stage.begin()
        one = await b.send(b"b1")
        await until(lambda: c.outstanding() and a.outstanding())
        await drain(c, b"b1")
        await c.send(b"c1")
        await until(lambda: a.core.replica.graph.last == [1, 1, 1])
        first = a.roots()[0]
        assert not a.stable(first), "nothing that follows it was received"
        await drain(a, b"c1")
        assert a.stable(first)
        assert b.stable(b.roots()[0]) == (b.next(one) != [])

    on_stage(test)


def test_who_was_masked_out_while_away_catches_up_when_masked_in() -> None:
    pass


def test_what_was_begun_before_the_first_call_is_accepted() -> None:
    """No call to conversations was made when the first message came, and it is not sent again."""

    async def test(stage: Stage) -> None:
        one, other = await stage.node("a"), await stage.node("b")
        talk = await open_conversation(one, {"b": other.address})
        await talk.send(b"early")
        await asyncio.sleep(0.01)
        await talk.close()
        accepted = await accept_conversation(other, timeout_s=1)
        assert (await accepted.receive(1))[1] == b"early"

    on_stage(test)


# ---- 1 -------------------------------------------------------------------------------------------------------------


async def say_much(stage: Stage) -> Checkpoint:
    """Three participants, of which c has said twenty messages; a checkpoint of the beginning."""
    a, b, c = await stage.begin()
    checkpoint = c.checkpoint()
    for number in range(20):
        await c.send(b"c%d" % number)
    for talk in (a, b):
        await drain(talk, b"c19")
    await stage.kill("c")
    return checkpoint


def test_an_incomplete_recovery_is_an_error_and_harms_nobody() -> None:
    """b is away, so that not everybody answers: nothing is sent, and c can try again when b is back."""

    async def test(stage: Stage) -> None:
        checkpoint = await say_much(stage)
        of_b = stage.talks["b"].checkpoint()
        await stage.kill("b")
        with pytest.raises(IncompleteRecoveryError, match="b did not answer") as caught:
            await stage.come_back("c", checkpoint, timeout_s=0.5)
        assert caught.value.silent == ("b",)
        b = stage.come_back("b", of_b)
        c = restart_conversation(stage.nodes["c"], checkpoint)
        talk, _ = await asyncio.gather(c, b)
        for number in range(20):
            await talk.send(b"c%d" % number)
        await talk.send(b"new")
        assert await drain(stage.talks["a"], b"new") == [b"new"]

    on_stage(test)


def test_who_accepted_less_sends_nothing_without_a_majority() -> None:
    """Both others are away. What c said before is nowhere here, and is not said again under other numbers."""

    async def test(stage: Stage) -> None:
        checkpoint = await say_much(stage)
        saved = {name: stage.talks[name].checkpoint() for name in "ab"}
        for name in "ab":
            await stage.kill(name)
        c = await stage.come_back("c", checkpoint, timeout_s=0.5, accept_less=True)
        assert c.recovery is not None
        assert c.recovery.silent == [0, 1]
        with pytest.raises(UsageError, match="majority"):
            await c.send(b"something else")
        await asyncio.gather(*[stage.come_back(name, saved[name]) for name in "ab"])
        await until(lambda: c.core.may_send())
        assert [payload for _, payload in c.former()] == [b"c%d" % number for number in range(20)]

    on_stage(test)


def test_who_accepted_less_sends_nothing_while_own_messages_are_lacking() -> None:
    """a and b have answered that c said twenty messages, and then are cut off."""

    async def test(stage: Stage) -> None:
        checkpoint = await say_much(stage)
        late = asyncio.create_task(stage.come_back("c", checkpoint, timeout_s=0.5, accept_less=True))
        await asyncio.sleep(0)
        for name in "ab":
            replica = stage.talks[name].core.replica
            await until(
                lambda replica=replica: "asked" in stage.talks["c"].core.replica.counts if "c" in stage.talks else True
            )  # type: ignore[misc]
        c = await late
        assert c.core.is_mute() == bool(c.recovery and c.recovery.own_lacking(c.core.replica.graph))

    on_stage(test)


# ---- 3 -------------------------------------------------------------------------------------------------------------


def test_a_publisher_that_runs_again_goes_on_where_it_was() -> None:
    async def test(stage: Stage) -> None:
        a, b, c = await stage.begin(first=b"0")
        for number in range(1, 5):
            await a.send(b"%d" % number)
        for talk in (b, c):
            await drain(talk, b"4")
        await b.send(b"noise")
        await drain(c, b"noise")
        checkpoint = a.checkpoint()
        await stage.kill("a")
        a = await stage.come_back("a", checkpoint, again=True)
        for number in range(8):
            await a.send(b"%d" % number)
        assert await drain(b, b"7") == [b"5", b"6", b"7"]

    on_stage(test)
