"""The two handshakes (psync-1989, 3.4): how all begin, and how all end."""

from random import Random

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.stacks.conversation.library.handshake import FAILED, TALKING
from tests.stacks.conversation.library.plays import session_problem, sessions_of
from tests.stacks.conversation.library.stage import Stage


@pytest.mark.parametrize("seed", range(80))
def test_all_begin_talk_and_end(seed: int) -> None:
    assert session_problem(seed) is None


def test_the_beginning_takes_three_ways() -> None:
    stage = Stage(3, Random(1))
    sessions = sessions_of(stage)
    stage.rest()
    assert all(session.phase == TALKING for session in sessions)
    assert stage.hosts[0].replica.graph.last == [2, 1, 1]


def test_a_beginning_without_somebody_fails() -> None:
    stage = Stage(3, Random(1))
    stage.dead.add(2)
    sessions = sessions_of(stage, tries=3)
    stage.rest()
    assert [sessions[0].phase, sessions[1].phase] == [FAILED, FAILED]
    with pytest.raises(UsageError):
        sessions[0].send(b"x")


def test_an_end_without_somebody_fails() -> None:
    stage = Stage(3, Random(1))
    sessions = sessions_of(stage, tries=3)
    stage.rest()
    stage.dead.add(2)
    sessions[0].end(stage.now_ns)
    stage.flush(0)
    stage.rest()
    assert [sessions[0].phase, sessions[1].phase] == [FAILED, FAILED]
