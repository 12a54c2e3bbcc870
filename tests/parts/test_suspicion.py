"""Suspicion: silence that adapts, then doubt, then suspicion; and the ways back."""

import pytest

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.suspicion import Suspicion, silence_limit_ns

OPTIONS = Options()
SECOND_NS = 1000 * MILLISECOND_NS


@pytest.mark.parametrize(
    ("longest_ms", "limit_ms"),
    [(0, 1_000), (200, 1_000), (500, 1_000), (600, 1_200), (3_000, 6_000), (5_000, 10_000), (60_000, 10_000)],
)
def test_the_limit_is_twice_the_longest_gap_within_bounds(longest_ms: int, limit_ms: int) -> None:
    assert silence_limit_ns(longest_ms * MILLISECOND_NS, OPTIONS) == limit_ms * MILLISECOND_NS


def test_silence_leads_to_doubt_and_doubt_to_suspicion() -> None:
    suspicion = Suspicion(3, 0, 0, OPTIONS)
    suspicion.heard(2, SECOND_NS // 2)
    assert suspicion.deadline_ns(NEVER) == SECOND_NS
    assert suspicion.due(SECOND_NS - 1) == []
    assert suspicion.due(SECOND_NS) == [1]
    assert suspicion.due(SECOND_NS) == []
    assert suspicion.suspects == set()
    suspicion.heard(2, SECOND_NS)
    assert suspicion.deadline_ns(NEVER) == SECOND_NS + OPTIONS.doubt_ns
    suspicion.due(SECOND_NS + OPTIONS.doubt_ns)
    assert suspicion.suspects == {1}


def test_hearing_ends_all_suspicion_and_a_long_gap_is_remembered_for_a_while() -> None:
    suspicion = Suspicion(2, 0, 0, OPTIONS)
    suspicion.due(SECOND_NS)
    suspicion.due(2 * SECOND_NS)
    assert suspicion.suspects == {1}
    suspicion.heard(1, 3 * SECOND_NS)
    assert suspicion.suspects == set()
    assert suspicion.due(3 * SECOND_NS + 6 * SECOND_NS - 1) == []
    assert suspicion.due(3 * SECOND_NS + 6 * SECOND_NS) == [1]
    for tenth in range(1, 1000):
        suspicion.heard(1, 9 * SECOND_NS + tenth * SECOND_NS // 10)
    assert suspicion.deadline_ns(NEVER) < 9 * SECOND_NS + 100 * SECOND_NS + 2 * SECOND_NS


def test_a_member_that_others_hear_is_not_suspected() -> None:
    suspicion = Suspicion(2, 0, 0, OPTIONS)
    assert suspicion.due(SECOND_NS) == [1]
    suspicion.vouched(1, SECOND_NS + OPTIONS.doubt_ns // 2)
    assert suspicion.due(SECOND_NS + OPTIONS.doubt_ns) == []
    assert suspicion.suspects == set()


def test_one_vouches_only_for_whom_one_hears() -> None:
    suspicion = Suspicion(2, 0, 0, OPTIONS)
    assert suspicion.hears(1, SECOND_NS // 4)
    assert not suspicion.hears(1, SECOND_NS)
    assert suspicion.hears(0, SECOND_NS)
