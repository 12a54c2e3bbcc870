"""Suspicion: silence that adapts, then doubt, then loss; the strain of links; and the ways back."""

import pytest

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.suspicion import CUT, HEARD, STRAIN_MAX, STRAINED, Suspicion, silence_limit_ns

OPTIONS = Options()
SECOND_NS = 1000 * MILLISECOND_NS


@pytest.mark.parametrize(
    ("longest_ms", "limit_ms"),
    [(0, 1_000), (200, 1_000), (500, 1_000), (600, 1_200), (3_000, 6_000), (5_000, 10_000), (60_000, 10_000)],
)
def test_the_limit_is_twice_the_longest_gap_within_bounds(longest_ms: int, limit_ms: int) -> None:
    assert silence_limit_ns(longest_ms * MILLISECOND_NS, OPTIONS) == limit_ms * MILLISECOND_NS


def test_silence_leads_to_doubt_and_doubt_to_loss() -> None:
    suspicion = Suspicion(3, 0, 0, OPTIONS)
    suspicion.heard(2, SECOND_NS // 2)
    assert suspicion.deadline_ns(NEVER) == SECOND_NS
    assert not suspicion.due(SECOND_NS - 1, set())
    assert suspicion.due(SECOND_NS, set())
    assert not suspicion.due(SECOND_NS, set())
    assert suspicion.lost == set()
    suspicion.heard(2, SECOND_NS)
    assert suspicion.deadline_ns(NEVER) == SECOND_NS + OPTIONS.doubt_ns
    suspicion.due(SECOND_NS + OPTIONS.doubt_ns, set())
    assert suspicion.lost == {1}


def test_hearing_ends_all_suspicion_and_a_long_gap_is_remembered_for_a_while() -> None:
    suspicion = Suspicion(2, 0, 0, OPTIONS)
    suspicion.due(SECOND_NS, set())
    suspicion.due(2 * SECOND_NS, set())
    assert suspicion.lost == {1}
    suspicion.heard(1, 3 * SECOND_NS)
    assert suspicion.lost == set()
    assert not suspicion.due(3 * SECOND_NS + 6 * SECOND_NS - 1, set())
    assert suspicion.due(3 * SECOND_NS + 6 * SECOND_NS, set())
    for tenth in range(1, 1000):
        suspicion.heard(1, 9 * SECOND_NS + tenth * SECOND_NS // 10)
    assert suspicion.deadline_ns(NEVER) < 9 * SECOND_NS + 100 * SECOND_NS + 2 * SECOND_NS


def test_a_member_that_others_hear_is_not_lost_while_they_do() -> None:
    suspicion = Suspicion(2, 0, 0, OPTIONS)
    suspicion.due(SECOND_NS, set())
    suspicion.due(SECOND_NS + OPTIONS.doubt_ns, {1})
    assert suspicion.lost == set()
    assert suspicion.deadline_ns(NEVER) == SECOND_NS + 2 * OPTIONS.doubt_ns
    suspicion.due(SECOND_NS + 2 * OPTIONS.doubt_ns, set())
    assert suspicion.lost == {1}


@pytest.mark.parametrize(
    ("silent_ms", "strain"),
    [
        (0, HEARD),
        (499, HEARD + 3),
        (500, 4),
        (999, 7),
        (1000, STRAINED),
        (2000, CUT),
        (90_000, STRAIN_MAX),
    ],
)
def test_strain_is_silence_in_eighths_of_the_limit(silent_ms: int, strain: int) -> None:
    suspicion = Suspicion(2, 0, 0, OPTIONS)
    assert suspicion.row(silent_ms * MILLISECOND_NS) == bytes((HEARD, strain))


def test_only_who_was_heard_lately_counts_as_heard_however_long_it_may_be_silent() -> None:
    suspicion = Suspicion(2, 0, 0, OPTIONS)
    suspicion.heard(1, 4 * SECOND_NS)  # it may be silent for 8 s now
    assert suspicion.is_heard(1, 4 * SECOND_NS + 400 * MILLISECOND_NS)
    assert not suspicion.is_heard(1, 4 * SECOND_NS + 600 * MILLISECOND_NS)
    assert suspicion.strain(1, 12 * SECOND_NS) == STRAINED


def test_a_member_that_is_heard_but_does_not_answer_strains_its_link() -> None:
    suspicion = Suspicion(2, 0, 0, OPTIONS)
    suspicion.asked(1, SECOND_NS)
    suspicion.asked(1, 5 * SECOND_NS)
    suspicion.heard(1, SECOND_NS + OPTIONS.silence_ns_max)
    assert suspicion.strain(1, SECOND_NS + OPTIONS.silence_ns_max) == CUT
    suspicion.answered(1)
    assert suspicion.strain(1, SECOND_NS + OPTIONS.silence_ns_max) == 0


def test_standing_still_is_nobodys_silence() -> None:
    suspicion = Suspicion(2, 0, 0, OPTIONS)
    suspicion.asked(1, 0)
    suspicion.stood_still(20 * SECOND_NS)
    assert not suspicion.due(20 * SECOND_NS + SECOND_NS - 1, set())
    assert suspicion.strain(1, 20 * SECOND_NS) == 0


def test_a_member_that_is_heard_but_acknowledges_nothing_strains_its_link() -> None:
    suspicion = Suspicion(2, 0, 0, OPTIONS)
    suspicion.acknowledged(1, 0, 0, 0)
    suspicion.acknowledged(1, 0, 5, SECOND_NS)  # five packets have left just now
    for second in range(2, 13):
        suspicion.heard(1, second * SECOND_NS)
        suspicion.acknowledged(1, 4, 5 + second, second * SECOND_NS)
    assert suspicion.strain(1, 12 * SECOND_NS) == CUT
    suspicion.acknowledged(1, 5, 50, 12 * SECOND_NS)
    assert suspicion.strain(1, 12 * SECOND_NS) == 0


def test_who_is_heard_after_a_long_silence_may_be_followed_by_others() -> None:
    suspicion = Suspicion(3, 0, 0, OPTIONS)
    assert not suspicion.are_returning(0)
    suspicion.heard(1, SECOND_NS // 2 - 1)
    assert not suspicion.are_returning(SECOND_NS // 2 - 1)
    suspicion.heard(1, 2 * SECOND_NS)
    assert suspicion.are_returning(2 * SECOND_NS + 2 * OPTIONS.retry_ns - 1)
    suspicion.heard(2, 2 * SECOND_NS + OPTIONS.retry_ns)
    assert not suspicion.are_returning(2 * SECOND_NS + 2 * OPTIONS.retry_ns), "one return is not put off by the next"
