"""Founding by name: when the first may propose and enter, and whom the others follow."""

from antiphon.kernel.identity import NUMBER_MAX, ProcessId
from antiphon.parts.membership.founding import Founding

LISTED = tuple((name, f"at {name}") for name in "abcde")
A, B, C, D, E = [ProcessId(name, 5) for name in "abcde"]


def first(needs_all: bool = False) -> Founding:
    return Founding(LISTED, A, needs_all, after_ns=100)


def members(founding: Founding) -> tuple[ProcessId, ...]:
    assert founding.proposal is not None
    return founding.proposal.view.members


def test_the_first_proposes_at_once_when_all_are_outside() -> None:
    founding = first()
    for process in (E, B, D):
        founding.meet(process, f"now at {process.name}")
        assert not founding.propose(False, 0)
    founding.meet(C, "at c")
    assert founding.propose(False, 0)
    assert members(founding) == (A, B, C, D, E)
    assert founding.proposal is not None
    assert founding.proposal.view.addresses == ("at a", "now at b", "at c", "now at d", "now at e")
    assert not founding.propose(False, 0), "once"


def test_after_a_while_a_majority_will_do_unless_members_were_heard() -> None:
    founding = first()
    founding.meet(C, "at c")
    assert not founding.propose(False, 100), "two of five"
    founding.meet(D, "at d")
    assert not founding.propose(False, 99)
    assert not founding.propose(True, 100), "somebody is a member: the group exists"
    assert founding.propose(False, 100)
    assert members(founding) == (A, C, D)


def test_under_static_all_are_needed() -> None:
    founding = first(needs_all=True)
    for process in (B, C, D):
        founding.meet(process, "somewhere")
    assert not founding.propose(False, NUMBER_MAX)
    founding.meet(E, "at e")
    assert founding.propose(False, 0)
    for process in (B, C, D):
        founding.confirm(process)
        assert not founding.may_enter()
    founding.confirm(E)
    assert founding.may_enter()


def test_the_first_enters_when_a_majority_has() -> None:
    founding = first()
    for process in (B, C, D, E):
        founding.meet(process, "somewhere")
    founding.propose(False, 0)
    founding.confirm(E)
    assert not founding.may_enter()
    assert [process for process, _ in founding.unconfirmed()] == [B, C, D]
    founding.confirm(B)
    assert founding.may_enter()


def test_who_has_answered_a_life_of_the_first_follows_no_earlier_one() -> None:
    founding = Founding(LISTED, C, False, after_ns=0)
    assert founding.answer(ProcessId("a", 7))
    assert founding.answer(ProcessId("a", 9))
    assert not founding.answer(ProcessId("a", 8))
    assert not founding.answer(ProcessId("b", 99)), "it is not the first"
    assert founding.is_outdated(ProcessId("a", 8))
    assert not founding.is_outdated(ProcessId("a", 9))
    assert not founding.is_outdated(ProcessId("b", 1)), "a member that has entered may pass the view on"
    founding.meet(B, "somewhere")
    assert not founding.propose(False, 10**9), "only the first founds"


def test_of_two_lives_of_one_name_the_later_counts_and_strangers_do_not() -> None:
    founding = Founding(LISTED[:2], A, False, after_ns=0)
    founding.meet(ProcessId("x", 1), "somewhere")
    assert not founding.propose(False, -1)
    founding.meet(ProcessId("b", 8), "new", last_view=3)
    founding.meet(ProcessId("b", 7), "old", last_view=9)
    assert founding.propose(False, -1)
    assert members(founding) == (A, ProcessId("b", 8))
    assert founding.proposal is not None
    assert founding.proposal.view.id == 4
