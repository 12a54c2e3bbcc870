"""The sequencer of a seat, as the leader of its log runs it: a peer among seats (mesh.py) that writes down what it
does.

Rule. Whatever would have to be known to somebody that goes on in its place becomes a record, in the order in which it
happens: places with their bodies, groups that come or go, what is stable, numbers that joins bring along, who is
buried, transfers from their beginning to their end. The records of a step are one entry of the log. All that the step
has for clients and for other seats waits until that entry may be told (seat_log.py). What is not written down comes
again by itself: clients repeat what has no answer, report what they have, and say who they are; seats tell each other
which groups they hold whenever a way between them opens.

The addresses that this sequencer knows are names of seats, so a peer that fails is, to the other seats, a link that
broke: a transfer that was under way is sent again by the next leader, under the same token, and taken over once.

Safe. A seat says of a client that nobody knows it, which ends it, only if all other seats have answered: one whose
leader has failed may hold its groups.

Deviation from mesh.py: a client that was known when the leader failed is given the time that it may need to find the
next one (service_link.py), and `silence_ns_max` where no other process goes on and the same one has to come back. As
long as it is not given up, what it has not reported is not stable, and whoever waits for that (`flush`) waits with
it."""

from typing import Final, final

from antiphon.kernel.calls import Call
from antiphon.kernel.effects import Effects
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.mesh import MeshPeer
from antiphon.stacks.sequencer.mesh_state import OutgoingTransfer, PeerLink
from antiphon.stacks.sequencer.seat_state import (
    GivenAway,
    SeatState,
    clock_record,
    dead_record,
    drop_record,
    end_record,
    forget_record,
    give_record,
    group_record,
    number_record,
    part_record,
    place_record,
    stable_record,
    taken_record,
)
from antiphon.stacks.sequencer.seat_ways import SeatLeaders
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.served_client import ServedClient
from antiphon.stacks.sequencer.service_link import arrival_ns
from antiphon.stacks.sequencer.wire import FrameReader

_TERM_BITS: Final = 32


def seat_identity(seat: str, seats: list[str]) -> ProcessId:
    """Who a seat is to other seats, whoever leads it."""
    return ProcessId(f"seat {seats.index(seat)}")


@final
class SeatSequencer(MeshPeer):
    """One seat, at its leader."""

    __slots__ = ("_is_restoring", "_leaders", "_replicas", "effects", "records")

    def __init__(
        self,
        seat: str,
        seats: list[str],
        options: Options,
        leaders: SeatLeaders,
        state: SeatState,
        term: int,
        replicas: int,
        now_ns: int,
        counts: list[int],
    ) -> None:
        others = [other for other in seats if other != seat]
        super().__init__(seat_identity(seat, seats), options, seat, others, now_ns)
        self.counts = counts
        self._leaders = leaders
        self._replicas = replicas
        self.records: list[bytes] = []
        """What this step has changed."""
        self.effects = Effects()
        """What this seat wants done; the host takes it out."""
        self._tokens = term << _TERM_BITS
        self._is_restoring = True
        self._restore(state, now_ns)
        self._is_restoring = False

    def _record(self, record: bytes) -> None:
        if not self._is_restoring:
            self.records.append(record)

    def take_calls(self) -> list[Call]:
        """What this step wants done, once its records may be told."""
        calls, self.effects.calls = self.effects.calls or [], None
        return calls

    # ---- from one leader to the next -------------------------------------------------------------------------------

    def _restore(self, state: SeatState, now_ns: int) -> None:
        """Go on with what the log holds. Clients that are in it have some time to come."""
        options = self._options
        patience_ns = options.silence_ns_max
        if self._replicas:
            patience_ns = min(patience_ns, arrival_ns(options, self._replicas))
        grace_ns = max(0, patience_ns - options.silence_ns_min)
        self._dead, self._given, self._taken = state.dead, state.given, state.taken
        self._given_to = state.given_to
        self._clock = state.clock
        for id, group in state.groups.items():
            group.blocked = {}
            group.is_moving = False
            group.intersecting = [id]
            self._groups[id] = group
            self._context[id] = group.number
            if self._home(id) == self._address:
                self._locations.note(id, group.moves, self._address)
            for process in (*group.reported, *group.last_numbers):
                session = self._clients.get(process)
                if session is None:
                    session = self._clients[process] = ServedClient(process, now_ns + grace_ns)
                if process in group.reported:
                    session.groups[id] = None
                if process in group.last_numbers:
                    session.numbered[id] = None
                    session.is_outside = session.is_outside or process not in group.members
        self._find_overlaps(list(state.groups))
        for token, given in state.transfers.items():
            groups = [self._groups[id] for id in given.groups if id in self._groups]
            super()._start(OutgoingTransfer(token, given.address, groups))

    def state(self) -> SeatState:
        """What this seat holds, as a copy would."""
        state = SeatState(self._options)
        state.groups = self._groups
        state.clock = self._clock
        state.dead, state.given, state.taken = self._dead, self._given, self._taken
        state.given_to = self._given_to
        for token, transfer in self._transfers.items():
            state.transfers[token] = GivenAway(transfer.address, [group.id for group in transfer.groups])
        return state

    # ---- what is written down --------------------------------------------------------------------------------------

    def _add_group(self, name: str) -> None:
        super()._add_group(name)
        self._record(group_record(self._groups[next(reversed(self._groups))]))

    def _found(self, name: str, moves: int) -> None:
        before = len(self._groups)
        super()._found(name, moves)
        if len(self._groups) > before:  # with the count of its moves
            self._record(group_record(self._groups[next(reversed(self._groups))]))

    def _drop_group(self, group: SequencedGroup) -> None:
        super()._drop_group(group)
        self._record(drop_record(group.id, group.moves, self._given_to.get(group.id, "")))

    def _note_place(self, group: SequencedGroup, placed: list[bytes]) -> None:
        self._record(place_record(group, placed))

    def _number(self, session: ServedClient, group: SequencedGroup, last_number: int) -> None:
        super()._number(session, group, last_number)
        if last_number:
            self._record(number_record(group.id, session.process, last_number))

    def _part(self, session: ServedClient, group: SequencedGroup) -> None:
        super()._part(session, group)
        self._record(part_record(group.id, session.process))

    def _bury(self, process: ProcessId) -> None:
        super()._bury(process)
        self._record(dead_record(process))

    def _exclude(self, session: ServedClient, effects: Effects) -> None:
        super()._exclude(session, effects)
        self._record(forget_record(session.process))

    def _tell_stable(self) -> None:
        self._record(stable_record({id: self._groups[id].stable for id in self._stabler}))
        super()._tell_stable()

    def _start(self, transfer: OutgoingTransfer) -> None:
        self._record(give_record(transfer.token, transfer.address, [group.id for group in transfer.groups]))
        super()._start(transfer)

    def _take_over(self, reader: FrameReader) -> list[bytes]:
        groups, taken = dict(self._groups), dict(self._taken)
        given = {token: len(transfer.groups) for token, transfer in self._transfers.items()}
        answer = super()._take_over(reader)
        for source, token in self._taken.items():
            if taken.get(source, 0) != token:
                self._record(taken_record(source, token))
        for id, group in self._groups.items():
            if groups.get(id) is not group:
                self._record(group_record(group))
        for token, transfer in self._transfers.items():
            if len(transfer.groups) != given[token]:  # one has come back before it was acknowledged that it had left
                self._record(give_record(token, transfer.address, [group.id for group in transfer.groups]))
        return answer

    def _transferred(self, token: int) -> None:
        is_known = token in self._transfers
        super()._transferred(token)
        if is_known:
            self._record(end_record(token))

    # ---- clients that come from elsewhere --------------------------------------------------------------------------

    def _place_for_client(self, address: str) -> str:
        return self._leaders.way_to(address)

    def _is_gone(self, link: PeerLink) -> bool:
        """A seat that is not reached has no leader now, and holds its groups all the same."""
        return False

    def _raise_clock(self, stamp: int) -> None:
        before = self._clock
        super()._raise_clock(stamp)
        if self._clock > before:
            self._record(clock_record(self._clock))

    def knows(self, process: ProcessId) -> bool:
        """Whether this seat has groups of a client."""
        session = self._clients.get(process)
        return session is not None and bool(session.groups)
