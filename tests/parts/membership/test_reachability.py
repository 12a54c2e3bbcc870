"""The reachability matrix: who is lost, which links are cut, and which component goes on."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.parts.membership.policies import PRIMARY_POLICY
from antiphon.parts.membership.reachability import Reachability, component
from antiphon.parts.suspicion import CUT, HEARD, STRAINED

OPTIONS = Options()
MEMBERS = 7
PAIRS = tuple(combinations(range(MEMBERS), 2))


def slow_component(members: set[int], cuts: set[tuple[int, int]]) -> set[int]:
    """All sets, the largest first, and of those the ones with the oldest members."""
    for size in range(len(members), -1, -1):
        for chosen in combinations(sorted(members), size):
            if not any(one in chosen and other in chosen for one, other in cuts):
                return set(chosen)
    raise AssertionError("the empty set has no links")


@given(st.sets(st.integers(0, MEMBERS - 1)), st.sets(st.sampled_from(PAIRS)))
def test_the_component_is_the_largest_and_then_the_oldest(members: set[int], cuts: set[tuple[int, int]]) -> None:
    assert component(members, cuts) == slow_component(members, cuts)


def test_a_component_is_found_among_many_members_with_many_cut_links() -> None:
    """The search is bounded; what it finds is a component, if not the largest."""
    cuts = {(one, other) for one, other in combinations(range(120), 2) if (one * other) % 7 == 3}
    found = component(set(range(120)), cuts)
    assert not any(one in found and other in found for one, other in cuts)
    assert len(found) > 40


def row(**strain: int) -> bytes:
    """The strain of some links, as `to_2=16`; all others are sound, and heard."""
    return bytes([strain.get(f"to_{rank}", HEARD) for rank in range(3)])


def choose(own: bytes, rows: dict[int, bytes], silent: set[int]) -> Reachability:
    """What member 0 of three makes of these rows, when they have stood for long enough."""
    reach = Reachability(3, 0, OPTIONS, PRIMARY_POLICY)
    for at_ns in (0, OPTIONS.doubt_ns):
        reach.take([(rank, 1 + at_ns, row) for rank, row in rows.items()], at_ns)
        reach.choose(own, silent, at_ns)
    return reach


def test_who_complains_of_everybody_is_left_out() -> None:
    reach = choose(row(), {1: row(to_0=CUT, to_2=CUT), 2: row()}, set())
    assert (reach.left_out, reach.lost) == ({1}, set())


def test_who_is_heard_by_all_and_answers_none_is_left_out_and_not_lost() -> None:
    reach = choose(row(to_1=HEARD + CUT), {1: row(), 2: row(to_1=HEARD + CUT)}, set())
    assert (reach.left_out, reach.lost) == ({1}, set())


def test_of_two_that_do_not_hear_each_other_the_younger_is_left_out() -> None:
    reach = choose(row(to_1=CUT), {1: row(to_0=CUT), 2: row()}, set())
    assert (reach.left_out, reach.lost) == ({1}, set())


def test_a_member_that_nobody_hears_is_lost_and_not_who_says_so() -> None:
    reach = choose(row(to_1=7), {2: row(to_1=CUT)}, set())
    assert (reach.left_out, reach.lost) == (set(), {1})


def test_without_a_majority_each_gives_up_whom_it_has_no_link_to() -> None:
    reach = Reachability(5, 0, OPTIONS, PRIMARY_POLICY)  # a ring
    rows = [bytes([CUT if abs(one - other) in (2, 3) else HEARD for other in range(5)]) for one in range(5)]
    for at_ns in (0, OPTIONS.doubt_ns):
        reach.take([(rank, 1 + at_ns, rows[rank]) for rank in range(1, 5)], at_ns)
        reach.choose(rows[0], set(), at_ns)
    assert (reach.left_out, reach.estranged) == (set(), {2, 3})


def test_a_choice_has_to_stand_and_whoever_is_heard_again_is_back_at_once() -> None:
    reach = Reachability(3, 0, OPTIONS, PRIMARY_POLICY)
    reach.take([(2, 1, row())], 0)
    reach.choose(row(to_1=CUT), set(), 0)
    assert (reach.left_out, reach.lost) == (set(), set())
    assert reach.deadline_ns(NEVER) == OPTIONS.doubt_ns
    reach.choose(row(to_1=CUT), set(), OPTIONS.doubt_ns)
    assert reach.left_out == {1}
    assert reach.deadline_ns(NEVER) == NEVER
    reach.choose(row(), set(), OPTIONS.doubt_ns + 1)
    assert reach.left_out == set()


def test_rows_count_for_a_while_and_only_newer_ones_replace_them() -> None:
    reach = Reachability(3, 0, OPTIONS, PRIMARY_POLICY)
    assert reach.take([(1, 5, row(to_2=STRAINED))], 0)
    assert not reach.take([(1, 4, row(to_0=STRAINED))], 0)
    assert not reach.take([(1, 6, row(to_2=STRAINED))], 0)
    assert reach.is_troubled(OPTIONS.silence_ns_min - 1)
    assert not reach.is_troubled(OPTIONS.silence_ns_min)


def test_rows_of_those_complained_about_are_passed_on() -> None:
    reach = Reachability(3, 0, OPTIONS, PRIMARY_POLICY)
    reach.take([(1, 5, row(to_2=CUT)), (2, 3, row())], 0)
    assert reach.rows(row(), 0) == [(0, 1, row()), (2, 3, row())]


@pytest.mark.parametrize("body", [(3, 1, row()), (-1, 1, row()), (0, 0, row()), (0, 1, b""), (0, 1, bytes(4))])
def test_rows_that_cannot_be_are_refused(body: tuple[int, int, bytes]) -> None:
    with pytest.raises(MalformedError):
        Reachability(3, 0, OPTIONS, PRIMARY_POLICY).check([body])
