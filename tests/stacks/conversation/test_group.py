"""Groups on the stack `conversation`: acknowledgements come to an end, safe waits, a paused member takes nothing in."""

from antiphon.kernel.inputs import Pause, Resume
from antiphon.kernel.levels import AGREED, FIFO, SAFE
from antiphon.kernel.options import MILLISECOND_NS
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


def test_acknowledgements_are_not_acknowledged() -> None:
    """One message, an answer from each of the others, and then nothing but heartbeats."""
    table = Table(3, stack=STACK)
    table.send(0, b"m")
    table.settle()
    assert [table.statistics(member)["packets_sent"] for member in range(3)] == [1, 1, 1]
    table.play(1000)
    assert [table.statistics(member)["packets_sent"] for member in range(3)] == [1, 1, 1]


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
