"""Two participants that speak by turns (psync-1989, 4.1)."""

from random import Random

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.library.continuity import Continuity
from tests.stacks.conversation.library.plays import TIMEOUT_NS
from tests.stacks.conversation.library.stage import Actor, Stage, bad_stage


@pytest.mark.parametrize("seed", range(40))
def test_two_speak_by_turns_and_nothing_else_is_sent(seed: int) -> None:
    stage = bad_stage(seed, 2)
    turns = [Continuity(host, tries=200, timeout_ns=TIMEOUT_NS) for host in stage.hosts]
    heard: list[list[bytes]] = [[], []]

    def make(conversation: ConversationCore, rank: int) -> Actor:
        def poll(now_ns: int) -> None:
            said = turns[rank].poll(now_ns)
            if said is None:
                return
            heard[rank].append(said)
            if said == b"bye":
                return
            turns[rank].say(b"bye" if len(heard[rank]) == 5 and rank == 0 else b"%d" % len(heard[rank]), now_ns)
            if len(heard[rank]) == 5 and rank == 0:
                turns[rank].over()

        return Actor(poll, turns[rank].deadline_ns)

    stage.cast(make)
    turns[0].say(b"hello", 0)
    stage.flush(0)
    stage.rest()
    assert heard == [[b"1", b"2", b"3", b"4", b"5"], [b"hello", b"1", b"2", b"3", b"4", b"bye"]]
    assert stage.hosts[0].replica.graph.last == [6, 5]
    assert not any(turn.has_failed() for turn in turns)


def test_speaking_out_of_turn_is_refused() -> None:
    turns = [Continuity(host, tries=1, timeout_ns=TIMEOUT_NS) for host in Stage(2, Random(1)).hosts]
    turns[0].say(b"x", 0)
    for turn in turns:
        with pytest.raises(UsageError):
            turn.say(b"y", 0)
