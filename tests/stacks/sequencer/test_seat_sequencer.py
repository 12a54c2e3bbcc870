"""What the sequencer of a seat writes down of groups that move: whoever goes on with the records holds the same."""

from antiphon.kernel.identity import wire_id
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.mesh_state import OutgoingTransfer
from antiphon.stacks.sequencer.seat_sequencer import SeatSequencer, seat_identity
from antiphon.stacks.sequencer.seat_state import SeatState
from antiphon.stacks.sequencer.seat_ways import SeatLeaders
from antiphon.stacks.sequencer.wire import FrameReader, blob, process_bytes, u64

SEATS = ["s1", "s2"]
GROUP = wire_id("g")


def new_seat(name: str, state: SeatState | None = None, term: int = 1) -> SeatSequencer:
    state = SeatState(Options()) if state is None else state
    return SeatSequencer(name, SEATS, Options(), SeatLeaders(name), state, term, 1, 0, [0] * 16)


def copy_of(seat: SeatSequencer) -> SeatState:
    """What another voter has that was sent all records, one by one; and the same of one that was sent the whole."""
    state, whole = SeatState(Options()), SeatState(Options())
    for record in seat.records:
        state.apply(record)
    for record in seat.state().records():
        whole.apply(record)
    assert state.records() == whole.records()
    return state


def move(source: SeatSequencer, name: str, destination: SeatSequencer) -> OutgoingTransfer:
    """Send the group to the other seat, which takes it over; the acknowledgement is under way."""
    assert source._move([source._groups[GROUP]], destination._address)
    transfer = source._transfers[source._tokens]
    sent = u64(transfer.token) + process_bytes(seat_identity(name, SEATS)) + blob(transfer.data)
    destination._take_over(FrameReader(sent))
    return transfer


def test_where_a_group_went_is_in_the_log() -> None:
    one, other = new_seat("s1"), new_seat("s2")
    one._add_group("g")
    transfer = move(one, "s1", other)
    one._transferred(transfer.token)
    state = copy_of(one)
    assert (state.groups, state.given, state.given_to, state.transfers) == ({}, {GROUP: 0}, {GROUP: "s2"}, {})
    following = new_seat("s1", state, term=2)
    assert following._given_frames(following._home(GROUP)) == one._given_frames(one._home(GROUP))
    assert copy_of(other).groups[GROUP].moves == 1


def test_a_group_that_is_lost_went_nowhere() -> None:
    one, other = new_seat("s1"), new_seat("s2")
    one._add_group("g")
    transfer = move(one, "s1", other)
    del one._transfers[transfer.token]
    one._end_transfer(transfer, "")
    state = SeatState(Options())
    for record in one.records:
        state.apply(record)
    assert (state.groups, state.given, state.given_to) == ({}, {}, {})


def test_a_group_that_comes_back_before_it_was_acknowledged_stays() -> None:
    """The next leader would have given it away again, to a seat that takes it for a repeat: it was nowhere then."""
    one, other = new_seat("s1"), new_seat("s2")
    one._add_group("g")
    away = move(one, "s1", other)
    move(other, "s2", one)
    state = copy_of(one)
    assert (state.groups[GROUP].moves, state.transfers[away.token].groups) == (2, [])
    following = new_seat("s1", state, term=2)
    assert not following._groups[GROUP].is_moving
    following._transferred(away.token)
    assert GROUP in following._groups
    assert not following._transfers
