"""Filters over conversations whose participants come back, in virtual time (psync-1989, 5.2)."""

import asyncio
from collections.abc import Callable

import pytest

from antiphon.conversation import Checkpoint, Conversation, ConversationFilter, ordered_broadcast, virtual_circuit
from antiphon.parts.message_graph import GraphNode as Handle
from antiphon.stacks.conversation.free.recovery import ReplayError
from antiphon.stacks.conversation.library.broadcast import OrderedBroadcast
from tests.conversation.stage import Stage, cut_off, on_stage, until


class Ledger:
    """A deterministic program: all that it was handed, in order; it answers every third message of others."""

    def __init__(self, name: str, answers: bool = True) -> None:
        self.name = name
        self.seen: list[bytes] = []
        self.broadcast: ConversationFilter[OrderedBroadcast, tuple[Handle, bytes]] | None = None
        self.answers = answers
        self.on_seen: Callable[[], None] | None = None

    def take(self, one: tuple[Handle, bytes]) -> None:
        self.seen.append(one[1])
        if self.answers and len(self.seen) % 3 == 0 and b"!" not in one[1] and self.broadcast is not None:
            self.broadcast.offer(b"%s!%s" % (self.name.encode(), one[1]))
        if self.on_seen is not None:
            self.on_seen()


class Cast:
    """Three participants with an ordered broadcast each."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.ledgers: dict[str, Ledger] = {}
        self.filters: dict[str, ConversationFilter[OrderedBroadcast, tuple[Handle, bytes]]] = {}

    async def begin(self) -> None:
        talks = await self.stage.begin(first=b"\xffbegin")
        for talk in talks:
            await self.enter(talk, Ledger(talk.name))

    async def enter(self, talk: Conversation, ledger: Ledger) -> None:
        self.ledgers[talk.name] = ledger
        self.filters[talk.name] = ledger.broadcast = ordered_broadcast(talk, ledger.take)
        await self.filters[talk.name].__aenter__()

    async def speak(self, name: str, first: int, last: int) -> None:
        for number in range(first, last):
            await self.filters[name].room()
            self.filters[name].offer(b"%s%d" % (name.encode(), number))
            if number % 4 == 0:
                await asyncio.sleep(0.002)

    def burst(self, name: str, last: int) -> None:
        """Offer so much before anything comes."""
        for number in range(last):
            self.filters[name].offer(b"%s%d" % (name.encode(), number))

    async def settle(self, *names: str) -> None:
        for name in names:
            await self.filters[name].settled(60)
        await until(lambda: len({len(self.ledgers[name].seen) for name in names}) == 1)
        await asyncio.sleep(0.5)

    def orders(self) -> list[list[bytes]]:
        return [ledger.seen for ledger in self.ledgers.values()]


def test_running_again_gives_the_order_of_before() -> None:
    """Each had said much, packed as the time fell; the program that runs again gets the same messages in the same
    places, and nothing that it offers again is sent."""

    async def test(stage: Stage) -> None:
        cast = Cast(stage)
        await cast.begin()
        cast.burst("b", 20)
        await asyncio.gather(*(cast.speak(name, 0, 20) for name in "ac"))
        await cast.settle("a", "b", "c")
        before = list(cast.ledgers["b"].seen)
        assert before == cast.ledgers["a"].seen
        checkpoint = stage.talks["b"].checkpoint()
        await stage.kill("b")
        await cast.speak("a", 20, 25)
        b = await stage.come_back("b", checkpoint, again=True)
        await cast.enter(b, Ledger("b"))
        cast.burst("b", 20)
        await cast.settle("a", "b", "c")
        assert cast.ledgers["b"].seen[: len(before)] == before
        assert cast.ledgers["a"].seen == cast.ledgers["b"].seen == cast.ledgers["c"].seen
        assert cast.filters["b"].former() == []
        for number in range(20):
            assert cast.ledgers["a"].seen.count(b"b%d" % number) == 1

    on_stage(test)


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_no_message_is_lost_or_doubled_from_a_checkpoint(at: int) -> None:
    """A checkpoint in the middle of everything: messages wait for their places, are handed out in a row, and wait to be
    sent. The participant fails later, and comes back to that point."""

    async def test(stage: Stage) -> None:
        cast = Cast(stage)
        await cast.begin()
        saved: list[tuple[Checkpoint, list[bytes]]] = []
        ledger = cast.ledgers["b"]

        def save() -> None:
            if len(ledger.seen) == at + 1:
                saved.append((stage.talks["b"].checkpoint(), list(ledger.seen)))

        ledger.on_seen = save
        cast.burst("b", 20)  # a checkpoint finds all of these offered
        await asyncio.gather(*(cast.speak(name, 0, 20) for name in "ac"))
        await until(lambda: bool(saved))
        await cast.settle("a", "b", "c")
        before = list(ledger.seen)
        await stage.kill("b")
        checkpoint, seen = saved[0]
        b = await stage.come_back("b", Checkpoint.from_bytes(checkpoint.to_bytes()))
        again = Ledger("b")
        again.seen = list(seen)
        await cast.enter(b, again)
        await cast.speak("c", 20, 25)
        await cast.settle("a", "b", "c")
        assert again.seen[: len(before)] == before
        assert cast.ledgers["a"].seen == again.seen == cast.ledgers["c"].seen

    on_stage(test)


def test_a_program_that_offers_something_else_is_told_and_may_adopt() -> None:
    async def test(stage: Stage) -> None:
        cast = Cast(stage)
        await cast.begin()
        for ledger in cast.ledgers.values():
            ledger.answers = False
        checkpoint = stage.talks["b"].checkpoint()
        await cast.speak("b", 0, 5)
        await cast.settle("a", "b", "c")
        await stage.kill("b")
        b = await stage.come_back("b", checkpoint)
        await cast.enter(b, Ledger("b", answers=False))
        with pytest.raises(ReplayError):
            cast.filters["b"].offer(b"something else")
        assert cast.filters["b"].adopt() == [b"b%d" % number for number in range(5)]
        cast.filters["b"].offer(b"something else")
        await cast.settle("a", "b", "c")
        assert cast.ledgers["a"].seen == cast.ledgers["b"].seen
        assert cast.ledgers["a"].seen[-1] == b"something else"

    on_stage(test)


@pytest.mark.parametrize("again", [True, False])
def test_an_end_of_a_circuit_comes_back(again: bool) -> None:
    async def test(stage: Stage) -> None:
        a, b = await stage.begin(("a", "b"))
        got: dict[str, list[bytes]] = {"a": [], "b": []}
        one = virtual_circuit(a, lambda taken: got["a"].append(taken[1]))
        other = virtual_circuit(b, lambda taken: got["b"].append(taken[1]))
        async with one, other:
            for number in range(10):
                one.offer(b"a%d" % number)
                other.offer(b"b%d" % number)
            await one.settled(10)
            checkpoint = b.checkpoint()
            for number in range(10, 20):
                one.offer(b"a%d" % number)
                other.offer(b"b%d" % number)
            await one.settled(10)
            await other.settled(10)
            await stage.kill("b")
            b = await stage.come_back("b", checkpoint, again=again)
            seen = [] if again else got["b"][:10]
            async with virtual_circuit(b, lambda taken: seen.append(taken[1])) as back:
                for number in range(0 if again else 10, 25):
                    back.offer(b"b%d" % number)
                await back.settled(10)
                await until(lambda: len(got["a"]) == 25)
                assert seen == [b"a%d" % number for number in range(20)]
                assert got["a"] == [b"b%d" % number for number in range(25)]

    on_stage(test)


def test_what_was_handed_out_is_not_lost_with_its_sender() -> None:
    """b is cut off: what it says is in nobody else's hands, though the wave in which it stands is complete. It is not
    handed out before others have it, or b would have acted on what is lost when it fails."""

    async def test(stage: Stage) -> None:
        cast = Cast(stage)
        await cast.begin()
        for ledger in cast.ledgers.values():
            ledger.answers = False
        await cast.speak("a", 0, 3)
        await cast.settle("a", "b", "c")
        checkpoint = stage.talks["b"].origin()
        graph = stage.talks["b"].core.replica.graph
        cut_off(stage, "b", inwards=False)  # it still hears the others
        cast.filters["b"].offer(b"said in vain")
        await asyncio.sleep(0.001)
        await cast.speak("a", 3, 4)
        await cast.speak("c", 0, 1)
        await asyncio.sleep(2)
        assert graph.last[1] > 0
        before = list(cast.ledgers["b"].seen)
        await stage.kill("b")
        b = await stage.come_back("b", checkpoint, again=True)
        await cast.enter(b, Ledger("b", answers=False))
        cast.filters["b"].offer(b"said in vain")
        await cast.settle("a", "b", "c")
        assert cast.ledgers["b"].seen[: len(before)] == before

    on_stage(test)


def test_an_acknowledgement_that_was_lost_is_sent_again_whatever_was_said_before() -> None:
    """b acknowledges what c says before it hears what a has said meanwhile, acknowledges that, too, and fails; the
    second acknowledgement is lost. When b runs again the first comes after the message of a, but does not follow it."""

    async def test(stage: Stage) -> None:
        cast = Cast(stage)
        await cast.begin()
        await cast.settle("a", "b", "c")
        for ledger in cast.ledgers.values():
            ledger.answers = False
        checkpoint = stage.talks["b"].checkpoint()
        last, received = stage.talks["a"].core.replica.graph.last, stage.talks["b"].core.view.received
        before, heard = list(last), list(received)
        mend = cut_off(stage, "a", inwards=False)
        cast.filters["a"].offer(b"a0")
        cast.filters["c"].offer(b"c0")
        await until(lambda: last[1] > before[1])
        assert received[0] == heard[0]
        mend()
        cut_off(stage, "b", inwards=False)
        await until(lambda: received[0] > heard[0])
        await asyncio.sleep(0.1)
        await stage.kill("b")
        b = await stage.come_back("b", checkpoint, again=True)
        await cast.enter(b, Ledger("b", answers=False))
        await cast.settle("a", "b", "c")
        assert sorted(cast.ledgers["a"].seen) == [b"a0", b"c0"]
        assert cast.ledgers["a"].seen == cast.ledgers["b"].seen == cast.ledgers["c"].seen

    on_stage(test)
