"""Tests of antiphon.stacks.conversation.free.sender_filter: packets of former incarnations are not taken."""

import pytest

from antiphon.kernel.codec import HEADER_SIZE, seal, unseal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import ADD, PART
from antiphon.stacks.conversation.free.sender_filter import SenderFilter
from antiphon.stacks.conversation.free.wire import BODY_AT, life_of_packet
from antiphon.stacks.conversation.offers import NUMBER
from tests.papers.conversation_table import A, B, C, Talk

CLOCK_NS = 1_700_000_000_000_000_000
"""An incarnation that comes from the clock."""


@pytest.mark.parametrize("later", [2, 1 + (1 << 8), 1 + (1 << 16), 1 + (1 << 32), CLOCK_NS + 1, NUMBER_MAX])
def test_only_the_incarnation_that_is_known_is_trusted(later: int) -> None:
    lives = SenderFilter(2)
    assert lives.trusts(1, 1)
    lives.learn_life(1, later)
    assert lives.trusts(1, later)
    assert not lives.trusts(1, 1)


@pytest.mark.parametrize("size", [10, 3000])
@pytest.mark.parametrize("later", [2, 1 + (1 << 8), 1 + (1 << 16), 1 + (1 << 32)])
def test_a_late_packet_of_a_former_incarnation_is_not_taken(later: int, size: int) -> None:
    """Incarnations from the clock may be alike in any of their bits; the packet may be a slice of a long message."""
    talk = Talk(3, Options(packet_bytes_max=600), keep_bodies=True)
    talk.tell(A)
    talk.send(B, bytes(size))
    late = [packet for packet in talk.take(B, A) if unseal(packet)[0] in (ADD, PART)]
    assert late
    talk.lose(B, C)
    talk.crash(B)
    talk.restart(B, [], life=later)
    talk.settle(5)
    talk.arrive(A, *late)
    assert not talk.holds(A, "b1")
    talk.receive(B)
    talk.tell(B)
    assert talk.holds(A, "b1")


def test_a_packet_too_short_for_an_incarnation_is_malformed() -> None:
    short = seal(NUMBER, ADD, 1, 1, 0, 0, 0, [bytes(BODY_AT - HEADER_SIZE - 1)])
    with pytest.raises(MalformedError):
        life_of_packet(short)
    beyond = seal(NUMBER, ADD, 1, 1, 0, 0, 0, [(NUMBER_MAX + 1).to_bytes(8, "little")])
    with pytest.raises(MalformedError):
        life_of_packet(beyond)
