"""Several incarnations of one process at a time: the later takes the place of the earlier, in one view, and once."""

from random import Random

import pytest

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Leave
from antiphon.kernel.options import MILLISECOND_NS
from tests.parts.membership.wire import GROUP, SECOND_NS, SECONDS, begins_again, founded

STACKS = ("vector", "conversation")


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("old", ["a1", "a3"])
def test_a_later_incarnation_takes_the_place_of_one_that_lives_in_one_view(stack: str, old: str) -> None:
    wire, view = founded(stack)
    name = view.members[view.addresses.index(old)].name
    wire.start("a9", ProcessId(name, 2), None, ("a2",))
    wire.run(10 * SECOND_NS)
    assert len(wire.views["a2"]) == 2, "one change of view"
    assert set(wire.views["a2"][-1].members) == {*view.members, ProcessId(name, 2)} - {ProcessId(name)}
    assert wire.ended[old].excluded, "the earlier incarnation has been told"
    wire.say("a9", b"after")
    wire.run(SECOND_NS)
    assert wire.delivered["a2"][-1] == b"after"


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("members", [1, 2])
def test_who_is_needed_for_a_majority_is_not_succeeded_while_it_lives(stack: str, members: int) -> None:
    wire, view = founded(stack, members)
    wire.start("a9", ProcessId("p1", 2), None, ("a1",))
    wire.run(15 * SECOND_NS)
    assert wire.views["a1"] == [view]
    wire.say("a1", b"after")
    wire.run(SECOND_NS)
    assert wire.delivered[view.addresses[-1]][-1] == b"after"


@pytest.mark.parametrize("stack", STACKS)
def test_two_processes_that_chase_each_other_make_few_views(stack: str) -> None:
    """Each comes back as a later incarnation as soon as it is out."""
    wire, _ = founded(stack)
    began_ns = wire.now_ns
    address, incarnation = "a9", 2
    wire.start(address, ProcessId("p3", incarnation), None, ("a1", "a2"))
    out = "a3"
    while wire.now_ns < began_ns + 20 * SECOND_NS:
        wire.run(10 * MILLISECOND_NS)
        if out in wire.ended:
            del wire.ended[out]
            incarnation += 1
            wire.start(out, ProcessId("p3", incarnation), None, ("a1", "a2"))
            out, address = address, out
    assert 5 < len(wire.views["a1"]) <= 2 + 20
    assert not wire.ended, "and nobody else suffers"


@pytest.mark.parametrize("stack", STACKS)
def test_a_second_process_with_the_same_incarnation_is_refused_and_told_why(stack: str) -> None:
    wire, _ = founded(stack)
    wire.start("a9", ProcessId("p3"), None, ("a2",))
    wire.run(3 * SECOND_NS)
    assert wire.ended["a9"].excluded
    assert "choose a higher incarnation" in wire.ended["a9"].reason
    assert len(wire.views["a1"]) == 1, "the members do not even notice"


@pytest.mark.parametrize("stack", STACKS)
def test_an_earlier_incarnation_of_a_member_is_refused(stack: str) -> None:
    wire, _ = founded(stack)
    wire.start("a9", ProcessId("p3", 5), None, ("a2",))
    wire.run(3 * SECOND_NS)
    wire.start("a8", ProcessId("p3", 4), None, ("a2",))
    wire.run(SECOND_NS)
    assert "choose a higher incarnation" in wire.ended["a8"].reason


@pytest.mark.parametrize("stack", [*STACKS, "domain", "label"])
@pytest.mark.parametrize("talker", ["", "a2", "a1"], ids=["all", "p2", "p1"])
@pytest.mark.parametrize("founder", ["a1", "a3"])
def test_a_founder_that_begins_again_with_the_same_incarnation_is_left_behind(
    stack: str, talker: str, founder: str
) -> None:
    """It lacks what its former life had, and cannot get it any more, whoever sent it."""
    wire, view = founded(stack, talker=talker)
    begins_again(wire, view, founder)
    assert "choose a higher incarnation" in wire.ended[founder].reason
    others = tuple(member for member, address in zip(view.members, view.addresses, strict=True) if address != founder)
    assert wire.views["a2"][-1].members == others
    assert wire.delivered["a2"].count(b"again") >= SECONDS - 1
    assert set(wire.ended) == {founder}, "nobody else suffers"


@pytest.mark.parametrize("stack", [*STACKS, "domain", "label"])
def test_a_founder_that_begins_again_is_left_behind_in_a_later_view(stack: str) -> None:
    """It is told of the view that came after the first, in which nothing was sent, and enters that."""
    wire, view = founded(stack, 4, talker="a2")
    wire.step("a4", Leave(group=GROUP))
    wire.run(3 * SECOND_NS)
    assert [member.name for member in wire.views["a2"][-1].members] == ["p1", "p2", "p3"]
    del wire.ended["a4"]
    for _ in range(20):
        wire.say("a2", b"in the second view")
        wire.run(100 * MILLISECOND_NS)
    begins_again(wire, view, "a1")
    assert set(wire.ended) == {"a1"}
    assert [member.name for member in wire.views["a2"][-1].members] == ["p2", "p3"]
    assert wire.delivered["a3"].count(b"again") >= SECONDS - 1


@pytest.mark.parametrize("stack", [*STACKS, "domain", "label"])
@pytest.mark.parametrize("talker", ["", "a2"], ids=["all", "p2"])
def test_copies_that_come_late_make_nobody_believe_in_a_former_life(stack: str, talker: str) -> None:
    wire, view = founded(stack, talker=talker)
    wire.late = Random(1)
    for number in range(40):
        wire.say(talker or view.addresses[number % 3], b"late")
        wire.run(100 * MILLISECOND_NS)
    assert not wire.ended
    assert wire.views["a1"] == [view]
    assert wire.delivered["a1"].count(b"late") >= 38
