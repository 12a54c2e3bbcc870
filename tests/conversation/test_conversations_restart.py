"""Conversations that come back, at the public API and in virtual time (psync-1989, 5 and 3.3)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from antiphon.conversation import (
    Checkpoint,
    Conversation,
    ConversationLimits,
    DivergedError,
    IncompleteRecoveryError,
    accept_conversation,
    open_conversation,
    restart_conversation,
    take_part,
)
from antiphon.conversation.conversations import _conversations_of
from antiphon.kernel.errors import UsageError
from antiphon.stacks.conversation.free.recovery import ReplayError
from antiphon.stacks.conversation.free.wire import SAID
from tests.conversation.stage import Stage, cut_off, drain, on_stage, until

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


@pytest.mark.parametrize("speaks", ["c", "a"])
def test_who_was_masked_out_while_away_catches_up_when_masked_in(speaks: str) -> None:
    """In a kept conversation: of what was said on either side meanwhile nothing is lost."""

    async def test(stage: Stage) -> None:
        talks = await stage.begin()
        a, b, _ = talks
        for talk in (a, b):
            talk.mask_out("c")
        assert a.masked == ("c",)
        mend = cut_off(stage, "c")
        for number in range(5):
            await stage.talks[speaks].send(b"%d" % number)
        if speaks == "a":
            await drain(b, b"4")
            await b.send(b"b")
            await drain(a, b"b")
        await asyncio.sleep(4)
        mend()
        for talk in (a, b):
            talk.mask_in("c")
        assert "c" not in a.masked
        last = b"4" if speaks == "c" else b"b"
        async with asyncio.timeout(0.1 if speaks == "c" else 10):  # long before c would ask by itself
            for talk in talks:
                if talk.name != speaks and not (speaks == "a" and talk is b):
                    await drain(talk, last)

    on_stage(test)


def test_who_lacks_what_became_stable_without_it_is_told() -> None:
    """Where messages are not kept, their bodies are gone: who was masked out cannot catch up, and learns it."""

    async def test(stage: Stage) -> None:
        a, b, c = await stage.begin(keep=False)
        for talk in (a, b):
            talk.mask_out("c")
        mend = cut_off(stage, "c")
        await a.send(b"a2")
        await drain(b, b"a2")
        await b.send(b"b1")
        await drain(a, b"b1")
        await a.send(b"a3")
        await drain(b, b"a3")
        mend()
        for talk in (a, b):
            talk.mask_in("c")
        with pytest.raises(DivergedError):
            await c.receive(60)
        await a.send(b"go on")
        await drain(b, b"go on")

    on_stage(test)


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
    """a and b tell that c has said twenty messages, and have none of them any more: c is mute, not they diverged."""

    async def test(stage: Stage) -> None:
        checkpoint = await say_much(stage)
        for name in "ab":
            graph = stage.talks[name].core.replica.graph
            for node in graph.in_order():
                if node.mid() != (2, 20):
                    node.body = None
        c = await stage.come_back("c", checkpoint, timeout_s=0.5, accept_less=True)
        assert c.recovery is not None
        assert c.recovery.lacking == [(2, 20)]
        with pytest.raises(UsageError, match="own messages that it lacks"):
            await c.send(b"something else")
        await stage.talks["a"].send(b"unharmed")
        await drain(stage.talks["b"], b"unharmed")

    on_stage(test)


def test_of_two_sides_the_smaller_is_told_that_it_diverged() -> None:
    """c gives number 1 again, against the rule: a and b, who have another message of that number, go on; c does not."""

    async def test(stage: Stage) -> None:
        checkpoint = await say_much(stage)
        node = await stage.node("c")
        conversations = _conversations_of(node)
        talk = conversations.restart(replace(checkpoint, leaves=()), (), node.address)
        core = talk.core
        core.settle_for_less()
        core.recovery = None
        core.replica.sender_filter.strangers = 0
        for name in "ab":
            stage.talks[name].core.replica.learn_life(2, 2)  # as if it had told them that it is back
        core.say(b"another first", SAID)
        await talk.changed()
        with pytest.raises(DivergedError):
            await drain(talk, b"what nobody says")
        await stage.talks["a"].send(b"unharmed")
        await drain(stage.talks["b"], b"unharmed")

    on_stage(test, audited=False)


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


def test_a_program_that_cannot_repeat_its_bytes_adopts_them() -> None:
    async def test(stage: Stage) -> None:
        a, b, c = await stage.begin(first=b"0")
        checkpoint = b.checkpoint()
        await b.send(b"at 12:00")
        await b.send(b"at 12:01")
        for talk in (a, c):
            await drain(talk, b"at 12:01")
        await a.send(b"a2")
        await drain(b, b"a2")
        await b.send(b"at 12:02")
        await drain(a, b"at 12:02")
        await stage.kill("b")
        b = await stage.come_back("b", checkpoint)
        with pytest.raises(ReplayError):
            await b.send(b"at 13:00")
        assert [payload for _, payload in b.former()] == [b"at 12:00", b"at 12:01", b"at 12:02"]
        assert [payload for _, payload in b.adopt()] == [b"at 12:00", b"at 12:01", b"at 12:02"]
        assert b.former() == []
        with pytest.raises(UsageError, match="receive first"):
            await b.send(b"at 13:00")
        await drain(b, b"a2")
        await b.send(b"at 13:00")
        assert await drain(a, b"at 13:00") == [b"at 13:00"]

    on_stage(test)


# ---- 5 -------------------------------------------------------------------------------------------------------------


def test_a_process_started_anew_in_the_same_life_begins_another_conversation() -> None:
    async def test(stage: Stage) -> None:
        first = (await stage.begin(("a", "b")))[0]
        await stage.kill("a")
        node = await stage.node("a", incarnation=1)
        again = await open_conversation(node, {"b": stage.nodes["b"].address}, keep=True)
        assert again.cid != first.cid
        await again.send(b"anew")
        assert (await (await accept_conversation(stage.nodes["b"], 5)).receive(5))[1] == b"anew"
        assert stage.talks["b"].receive_nowait() is None

    on_stage(test, audited=False)


@pytest.mark.parametrize("known_from", ["the checkpoint", "the others", "the disk"])
def test_an_incarnation_is_not_used_twice(known_from: str) -> None:
    async def test(stage: Stage) -> None:
        settings = {"storage": stage.disk} if known_from == "the disk" else {}
        for name in ("a", "b"):
            await stage.node(name, **settings)
        a, b = await stage.begin(("a", "b"))
        checkpoint = b.checkpoint()
        if known_from == "the others":
            await b.send(b"said in life 1")
            await drain(a, b"said in life 1")
        if known_from != "the checkpoint":
            checkpoint = replace(checkpoint, incarnation=0)
        await stage.kill("b")
        node = await stage.node("b", incarnation=1, **settings)
        with pytest.raises(UsageError, match="higher"):
            await restart_conversation(node, checkpoint)
        await stage.kill("b")
        await stage.come_back("b", checkpoint, settings=settings | {"incarnation": 2})

    on_stage(test, audited=False)


# ---- 6 -------------------------------------------------------------------------------------------------------------

FEW = ConversationLimits(nodes_max=16)


async def talk_long(stage: Stage, rounds: int = 40, **settings: Any) -> list[bytes]:
    """A long conversation of three that keep few messages in memory; all that was said."""
    for name in "abc":
        take_part(await stage.node(name, **settings), FEW)
    talks = await stage.begin()
    said = [b"first"]
    for number in range(rounds):
        for speaker in talks:
            said.append(b"%s%d" % (speaker.name.encode(), number))
            await speaker.send(said[-1])
            for hearer in talks:
                if hearer is not speaker:
                    await drain(hearer, said[-1])
    assert all(talk.core.replica.graph.nodes <= 20 for talk in talks)
    return said


@pytest.mark.parametrize("disk", ["its own", "that of others"])
def test_what_the_limits_forget_is_read_from_disk(disk: str) -> None:
    """A participant runs again from the beginning, though nobody has the beginning in memory."""

    async def test(stage: Stage) -> None:
        said = await talk_long(stage, storage=stage.disk)
        checkpoint = replace(stage.talks["c"].checkpoint(), base=b"")
        await stage.kill("c")
        if disk == "that of others":
            for path in (stage.disk / "c.logs").iterdir():
                path.unlink()
        c = await stage.come_back("c", checkpoint, settings={"storage": stage.disk}, again=True)
        got: list[bytes] = []
        for payload in said:
            if payload.startswith(b"c"):
                assert (await c.send(payload)).number == sum(one.startswith(b"c") for one in got) + 1
                got.append(payload)
            else:
                got.append((await c.receive(5))[1])
        assert got == said

    on_stage(test)


def test_a_checkpoint_is_enough_where_the_history_is_gone() -> None:
    """No disk, and everybody has forgotten the beginning."""

    async def test(stage: Stage) -> None:
        await talk_long(stage)
        a, b, c = stage.talks.values()
        checkpoint = Checkpoint.from_bytes(c.checkpoint().to_bytes())
        await c.send(b"after it")
        await drain(a, b"after it")
        await a.send(b"answer")
        await drain(b, b"answer")
        await stage.kill("c")
        c = await stage.come_back("c", checkpoint)
        await c.send(b"after it")
        assert await drain(c, b"answer") == [b"answer"]
        await c.send(b"new")
        await drain(a, b"new")
        assert c.recovery is not None
        assert c.recovery.complete

    on_stage(test, audited=False)  # its history begins in the middle, too


def test_without_disk_and_checkpoint_a_history_that_is_gone_is_told() -> None:
    async def test(stage: Stage) -> None:
        await talk_long(stage)
        checkpoint = stage.talks["c"].checkpoint()
        await stage.kill("c")
        with pytest.raises(IncompleteRecoveryError, match="beginning of its history"):
            await stage.come_back("c", checkpoint, again=True)

    on_stage(test)


# ---- another address -----------------------------------------------------------------------------------------------


def test_participants_may_come_back_elsewhere() -> None:
    """Two of three, one after the other; each knows an address of the other that is no more."""

    async def test(stage: Stage) -> None:
        a, b, c = await stage.begin()
        saved = {talk.name: talk.checkpoint() for talk in (b, c)}
        await stage.kill("b")
        await stage.kill("c")
        first = asyncio.create_task(stage.come_back("b", saved["b"], settings=stage.other_address()))
        await asyncio.sleep(0.3)
        c = await stage.come_back("c", saved["c"], settings=stage.other_address())
        b = await first
        await b.send(b"from b")
        for talk in (a, c):
            await drain(talk, b"from b")
        await c.send(b"from c")
        for talk in (a, b):
            await drain(talk, b"from c")
        assert b.checkpoint().participants == c.checkpoint().participants != saved["b"].participants

    on_stage(test)


# ---- reading -------------------------------------------------------------------------------------------------------


def test_a_conversation_can_be_read_by_async_for() -> None:
    async def test(stage: Stage) -> None:
        a, b = await stage.begin(("a", "b"))
        reading = asyncio.create_task(read_all(b))
        for number in range(3):
            await a.send(b"%d" % number)
        await asyncio.sleep(0.1)
        await b.close()
        assert await reading == [b"0", b"1", b"2"]

    on_stage(test)


async def read_all(talk: Conversation) -> list[bytes]:
    return [payload async for _, payload in talk]
