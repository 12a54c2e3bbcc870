"""Wishes: bounded, fulfilled by the view that they led to, and no way back for who is gone."""

from antiphon.kernel.identity import ProcessId, View
from antiphon.parts.membership.messages import Proposal
from antiphon.parts.membership.requests import MembershipRequests

A, B, C = (ProcessId(name) for name in "abc")
VIEW = View(1, (A, B, C), ("A", "B", "C"))


def test_wishes_are_open_until_a_view_fulfils_them() -> None:
    wishes = MembershipRequests()
    assert not wishes.are_open()
    assert wishes.let_in(ProcessId("d"), "D", 10)
    wishes.leavers.add(B)
    wishes.installed(View(2, (A, B, C, ProcessId("d"))))
    assert wishes.joiners == {}
    assert wishes.leavers == {B}
    wishes.installed(View(3, (A, C, ProcessId("d"))))
    assert not wishes.are_open()


def test_no_more_want_in_than_there_is_room() -> None:
    wishes = MembershipRequests()
    assert wishes.let_in(ProcessId("d"), "D", 2)
    assert wishes.let_in(ProcessId("e"), "E", 2)
    assert not wishes.let_in(ProcessId("f"), "F", 2)
    assert wishes.let_in(ProcessId("d"), "D elsewhere", 2)
    assert wishes.joiners == {ProcessId("d"): "D elsewhere", ProcessId("e"): "E"}
    for number in range(1_000):
        wishes.let_in(ProcessId(f"n{number}"), "", 10_000)
    assert len(wishes.joiners) == 200


def test_who_left_or_was_given_up_is_gone_but_its_next_life_is_not() -> None:
    wishes = MembershipRequests()
    wishes.decided(VIEW, Proposal(View(2, (A,)), [1], [2], [], [], [], b""))
    assert not wishes.is_gone(A)
    assert wishes.is_gone(B)
    assert wishes.is_gone(C)
    assert not wishes.is_gone(ProcessId("b", 2))


def test_who_was_never_heard_is_remembered_by_those_who_come_after() -> None:
    newcomer = MembershipRequests()
    newcomer.remember(Proposal(View(2, (A,)), [], [], [], [], [], b"", [("c", 1)]))
    assert newcomer.is_gone(C)
    assert newcomer.unheard_with([B, C]) == [("c", 1), ("b", 1)]
    assert newcomer.unheard_with([ProcessId(f"n{number}") for number in range(100)])[0] == ("n0", 1)


def test_only_so_many_are_remembered_as_gone() -> None:
    wishes = MembershipRequests()
    for number in range(1_500):
        view = View(1, (ProcessId(f"n{number}"),))
        wishes.decided(view, Proposal(View(2, ()), [0], [], [], [], [], b""))
    assert len(wishes.gone) == 1_000
    assert wishes.is_gone(ProcessId("n1499"))
    assert not wishes.is_gone(ProcessId("n0"))
