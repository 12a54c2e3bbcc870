"""Groups on the stack `conversation`: acknowledgements come to an end, safe waits, a paused member takes nothing in."""

from antiphon.kernel.inputs import Pause, Resume
from antiphon.kernel.levels import AGREED, FIFO, SAFE
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.packet_kinds import ADD
from tests.table import GROUP, Table

STACK = "conversation"


def test_fifo_messages_come_in_the_order_of_their_context() -> None:
    table = Table(3, stack=STACK)
    table.send(1, b"")
    table.pass_on(1, 0)
    table.send(0, b"1", level=FIFO)
    table.arrive(2, *table.take_data(0, 2))
    assert table.log[2] == []
    table.pass_on(1, 2)
    assert table.log[2] == ["p2#1", "p1#1"]


def acknowledgements(table: Table, member: int) -> int:
    """How often a member has acknowledged without sending."""
    situations = table.engines[member].situations()
    return sum(count for name, count in situations.items() if name.endswith("acknowledgement without a node"))


def test_acknowledgements_are_no_nodes_and_are_not_acknowledged() -> None:
    """One message, a word from each of the others, and then nothing but heartbeats."""
    table = Table(3, stack=STACK)
    table.send(0, b"m", level=AGREED)
    table.settle()
    assert [table.statistics(member)["packets_sent"] for member in range(3)] == [1, 0, 0]
    assert [table.statistics(member)["packets_stable"] for member in range(3)] == [1, 0, 0]
    assert table.log == [["p1#1"]] * 3
    told = [acknowledgements(table, member) for member in range(3)]
    assert 0 < sum(told) <= 9  # they leave at once, so none waits for what the next packet would change
    table.play(1000)
    assert [acknowledgements(table, member) for member in range(3)] == told


def test_an_acknowledgement_that_was_lost_is_asked_for() -> None:
    """Only the sender waits, so the others have no reason of their own to tell what they have."""
    table = Table(3, stack=STACK)
    table.send(0, b"m")
    table.pass_on(0, 1)
    table.pass_on(0, 2)
    for _ in range(40):
        table.wait(MILLISECOND_NS)
        table.drop_all()
    assert [acknowledgements(table, member) for member in range(3)] == [0, 1, 1]
    assert table.statistics(0)["packets_stable"] == 0
    table.play(100)  # less than from heartbeat to heartbeat
    assert table.statistics(0)["packets_stable"] == 1


def test_a_word_does_not_count_before_all_that_its_author_had_sent() -> None:
    """p1 and p2 speak at once, and p1's word of what it has overtakes its message: p2 must not take the wave for whole,
    since p1's message is of it and comes first."""
    table = Table(3, stack=STACK)
    table.send(0, b"b", level=AGREED)
    slow = table.take(0, 1)
    for member in (0, 2):
        table.lose_kinds(member, 1, (ADD,))
    table.send(1, b"a", level=AGREED)
    table.arrive(0, *table.take(1, 0))
    table.arrive(2, *table.take(0, 2), *table.take(1, 2))
    table.wait(10 * MILLISECOND_NS)
    table.pass_on(2, 1)
    table.pass_on(0, 1)
    assert table.log[1] == []
    table.mend()
    table.arrive(1, *slow)
    table.settle()
    assert table.log == [["p1#1", "p2#1"]] * 3


def test_a_member_that_was_silent_for_long_attaches_to_what_it_has() -> None:
    """The others have freed what is stable, but not what may be a leaf of somebody's view."""
    table = Table(3, stack=STACK)
    for number in range(800):
        table.send(0, b"m")
        if number % 8 == 0:
            table.pass_all()
            table.wait(2 * MILLISECOND_NS)
    table.settle()
    held = table.take(0, 2)
    table.send(0, b"last")
    held += table.take(0, 2)  # p3 does not have it
    table.pass_on(0, 1)
    table.send(1, b"follows the last")
    table.send(2, b"follows the last but one")
    table.arrive(2, *held)
    table.settle()
    assert [len(log) for log in table.log] == [803] * 3


def test_fifty_members_agree_on_an_order() -> None:
    table = Table(50, stack=STACK)
    for member in (0, 7, 49):
        table.send(member, b"m", level=AGREED)
    table.send(3, b"to one", to=(44,))
    table.settle(12)
    assert {tuple(name for name in log if "private" not in name) for log in table.log} == {("p1#1", "p8#1", "p50#1")}
    assert [place for place, log in enumerate(table.log) if "private p4#1" in log] == [44]


def test_one_stable_message_completes_its_wave() -> None:
    """p1 and p2 speak at once. When all have answered p2, its wave is whole, though nobody has answered p1."""
    table = Table(3, stack=STACK)
    table.send(0, b"a", level=AGREED)
    table.send(1, b"b", level=AGREED)
    first = table.take(0, 1)
    table.arrive(2, *table.take(0, 2), *table.take(1, 2))
    table.arrive(0, *table.take(1, 0))
    assert table.log[0] == []
    table.wait(MILLISECOND_NS)
    table.pass_on(2, 0)
    assert table.log[0] == ["p1#1", "p2#1"]
    table.arrive(1, *first)
    table.settle()
    assert table.log[0] == table.log[1] == table.log[2]


def test_a_safe_message_waits_until_it_is_stable_itself_and_holds_up_what_follows() -> None:
    table = Table(3, stack=STACK)
    table.send(0, b"a", level=SAFE)
    table.send(1, b"b", level=AGREED)
    first = table.take(0, 1)
    table.arrive(2, *table.take(0, 2), *table.take(1, 2))
    table.arrive(0, *table.take(1, 0))
    table.wait(MILLISECOND_NS)
    table.pass_on(2, 0)
    assert table.log[0] == []
    table.arrive(1, *first)
    table.settle()
    assert table.log[0] == table.log[1] == table.log[2] == ["p1#1", "p2#1"]


def test_a_paused_member_acknowledges_nothing_that_it_has_not_taken_in() -> None:
    table = Table(2, stack=STACK)
    table.step(1, Pause(GROUP))
    table.send(0, b"m", level=SAFE)
    table.play(100)
    assert table.log == [[], []]
    table.step(1, Resume(GROUP))
    table.settle()
    assert table.log == [["p1#1"], ["p1#1"]]


def test_the_very_last_message_is_found_to_be_lost() -> None:
    table = Table(3, stack=STACK)
    table.send(0, b"m")
    table.drop_all()
    table.settle()
    assert table.log[1] == table.log[2] == ["p1#1"]
