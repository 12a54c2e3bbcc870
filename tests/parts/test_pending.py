"""The pending queue: messages become loads, every one once and in order, and the queue is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.parts.pending import PendingQueue, TicketCounter


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.binary(max_size=60), min_size=1, max_size=5)), max_size=8),
    st.integers(30, 80),
)
def test_loads_hold_every_message_once_in_order(sends: list[tuple[int, list[bytes]]], capacity: int) -> None:
    stream = PendingQueue(Options())
    expected: list[tuple[int, bytes]] = []
    for level, payloads in sends:
        stream.accept(payloads, level)
        expected += [(level, payload) for payload in payloads]
    got: list[tuple[int, bytes]] = []
    parts: list[bytes] = []
    while stream.runs:
        load = stream.next_load(capacity, 20)
        assert load.first_message == len(got) + 1
        if load.total:
            assert load.index == len(parts)
            assert len(load.fragment) <= 20
            parts.append(load.fragment)
            if load.complete:
                assert load.total == len(parts)
                assert load.complete == [b"".join(parts)]
                parts = []
        else:
            assert sum(len(payload) + 2 for payload in load.complete) <= capacity
        got += [(load.level, payload) for payload in load.complete]
    assert got == expected
    assert stream.pending_bytes == 0
    assert stream.messages() == 0


def test_pending_is_bounded_and_says_when_it_has_room_again() -> None:
    stream = PendingQueue(Options(pending_bytes_max=100))
    assert stream.accept([b"x" * 18] * 9, 2) == 5
    assert stream.accept([b"y"], 2) == 0
    assert not stream.take_writable()
    stream.next_load(60, 1000)
    assert stream.pending_bytes == 40
    assert stream.take_writable()
    assert not stream.take_writable()


def test_an_oversized_message_is_accepted_into_an_empty_queue() -> None:
    stream = PendingQueue(Options(pending_bytes_max=10))
    assert stream.accept([b"x" * 50, b"y"], 2) == 1


def test_a_message_in_fragments_starts_again_in_a_new_view() -> None:
    stream = PendingQueue(Options())
    stream.accept([b"0123456789"], 2)
    assert stream.next_load(5, 4).fragment == b"0123"
    stream.restart_message()
    assert [stream.next_load(5, 4).fragment for _ in range(3)] == [b"0123", b"4567", b"89"]
    assert not stream.runs


def test_runs_keep_what_they_are_for() -> None:
    """Level, destination, barrier and place among all that the process sends."""
    tickets = TicketCounter()
    queue, other = PendingQueue(Options(), 0, tickets), PendingQueue(Options(), 0, tickets)
    queue.accept([b"all"], 2)
    queue.accept([b"one", b"more"], 2, (ProcessId("b"),))
    other.accept([b"elsewhere"], 2)
    queue.accept([b"now"], 4, (), True)
    assert (queue.runs[0].ticket, queue.next_message()) == (1, 1)
    assert queue.take_message() == (1, b"all")
    assert (queue.runs[0].destinations, queue.runs[0].ticket) == ((ProcessId("b"),), 2)
    assert [queue.take_message(), queue.take_message()] == [(2, b"one"), (3, b"more")]
    assert (queue.runs[0].barrier, queue.runs[0].level, queue.runs[0].ticket) == (True, 4, 4)
    assert queue.take_message() == (4, b"now")
    assert (bool(queue.runs), queue.pending_bytes, queue.next_message()) == (False, 0, 5)


def test_a_load_does_not_reach_over_the_end_of_a_run() -> None:
    queue = PendingQueue(Options())
    queue.accept([b"a", b"b"], 2)
    queue.accept([b"c"], 2, (ProcessId("b"),))
    assert queue.next_load(1_000, 1_000).complete == [b"a", b"b"]
    assert queue.runs[0].destinations == (ProcessId("b"),)


def test_what_fits_is_whole_and_not_begun() -> None:
    queue = PendingQueue(Options())
    queue.accept([b"0123456789"], 2)
    assert queue.fits(12)
    assert not queue.fits(11)
    queue.next_load(5, 4)
    assert not queue.fits(1_000)
