"""A peer of the sequencing service: it takes the requests of clients and gives messages their places.

Promise. Every client of this peer delivers, over all its groups, in the order in which this peer placed messages and
changes of members (delivery_rule.py says how clients do that). That order respects causality: what a client sends
after it has sent or delivered something comes later.

Rule. One context for all groups holds the last number of each. An accept of G carries the numbers of all groups
that are owed to some process that G is owed to (sequenced_group.py), after G's own number was raised. A client is
known by its process id, whatever link it comes by: when a link breaks it dials again, says which groups it is in,
asks again for what it has no answer to, and fetches what it missed. A client that is not heard for too long, or
whose link is gone and who does not come back, is excluded: its leave is placed in all its groups, as a failure, and
that incarnation is never taken in again. Time in which this peer itself did nothing does not count as silence of its
clients: it was deaf, and what they said lies in their links.

Requests of one client are placed in the order in which it sent them, whatever the groups: while the history of a
group is full, the client's next request there waits, and what the client sent later waits behind it.

Safe. See delivery_rule.py: whoever is owed places of two groups has both in the contexts of both until it has
reported its leave of one. Nothing of an excluded incarnation is placed after its leave: its requests are dropped.

Live. Clients repeat what has no answer, and repeats are harmless: a join of a member sends its first places again, a
leave of somebody who is no member is answered by its last place or by EXCLUDED, a multicast that has a place is
acknowledged. The order is decided here alone: no member has to say anything for it.

Limits. CLIENTS_MAX clients and GROUPS_MAX groups; who comes beyond that is refused by a link that is hung up.
Requests that wait for room in a history are bounded by what each client may have under way (client.py)."""

from typing import Final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, is_name, wire_id
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.sequencer.acceptance import NamedRequest
from antiphon.stacks.sequencer.client_sessions import ClientSessions
from antiphon.stacks.sequencer.context import Context
from antiphon.stacks.sequencer.load import cost
from antiphon.stacks.sequencer.offers import retained_bytes
from antiphon.stacks.sequencer.replay import replayed_frames
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.served_client import ServedClient
from antiphon.stacks.sequencer.wire import (
    ACKNOWLEDGE,
    ADDRESS,
    CONTEXT,
    CREATE,
    CREATED,
    EXCLUDED,
    FETCH,
    JOIN,
    LEAVE,
    MULTICAST,
    NO_GROUP,
    NUMBERED,
    PROBE,
    QUIT,
    RECEIVED,
    REPLAY,
    RESUME,
    STABLE,
    TICK,
    WELCOME,
    FrameReader,
    carried,
    pairs_bytes,
    pieces,
    u64,
)

GROUPS_MAX: Final = 100_000
_PLACE_BITS: Final = 20
_MILLISECONDS_MAX: Final = (1 << 41) - 1
"""The numbers of a group begin with the time of its creation, a million for each millisecond, and so above those of a
group of the same name that was lost with its sequencer: they are the ids of views, of which none may come twice."""
_CLOCK_JUMP_MAX: Final = 1 << 48
"""No client has delivered so many places more than this peer has heard of."""


class SequencerPeer(ClientSessions):
    """All groups of one sequencer, and what its clients ask for."""

    __slots__ = ("_clock",)

    def __init__(self, process: ProcessId, options: Options, now_ns: int) -> None:
        super().__init__(process, options, now_ns)
        self._clock = 0
        """The stamp of the last place (stamps.py)."""

    # ---- requests --------------------------------------------------------------------------------------------------

    def _take(self, session: ServedClient, reader: FrameReader) -> None:
        kind = reader.u8()
        if kind == MULTICAST:
            self._multicast(session, reader.group(), reader)
        elif kind == RECEIVED:
            self._received(session, reader)
        elif kind == FETCH:
            self._fetch(session, reader.group(), reader.number(), reader.number())
        elif kind == CONTEXT:
            self._raise_clock(reader.number())
            session.requests.tell(reader.pairs())
        elif kind == NUMBERED:
            session.requests.hear(reader.group(), reader.number(), reader.number())
            self._raise_clock(reader.number())
            self._place_requests(session)
        elif kind == PROBE:
            tag = reader.number()
            self._raise_clock(reader.number())
            self._tell(session, carried(TICK, u64(tag), u64(self._clock)))
        elif kind == JOIN:
            name, last_number = reader.text(), reader.number()
            self._raise_clock(reader.number())
            self._join(session, name, last_number, reader.groups())
        elif kind == LEAVE:
            self._leave(session, reader.group())
        elif kind == CREATE:
            self._create(session, reader.text())
        elif kind == RESUME:
            self._tell(session, carried(WELCOME, b"\1" if self.is_alone() else b"\0"))
            session.requests.drop_waiting()
            self._resume(session, reader.pairs())
        elif kind == QUIT:
            self._leaving.append(session)
            session.is_leaving = True
        elif kind == ADDRESS:
            session.address = reader.text()
            for id in session.groups:
                self._tell_addresses(session, self._groups[id])
        elif kind == REPLAY:
            self._replay(session, reader.group(), reader.number(), reader.number())
        else:
            raise MalformedError("kind")

    def _raise_clock(self, stamp: int) -> None:
        """Let what follows have higher stamps than what a client has delivered."""
        if stamp > self._clock + _CLOCK_JUMP_MAX:
            raise MalformedError("clock")
        self._clock = max(self._clock, stamp)

    def _next_stamp(self) -> int:
        self._clock += 1
        return self._clock

    def _create(self, session: ServedClient, name: str) -> None:
        """Create a group; nobody is in it. To create it again changes nothing."""
        self._check_name(name)
        if wire_id(name) not in self._groups:
            self._add_group(name)
        self._tell(session, carried(CREATED, u64(wire_id(name))))

    def _check_name(self, name: str) -> None:
        if not is_name(name.replace("/", "-")):
            raise MalformedError("name")
        if len(self._groups) >= GROUPS_MAX:
            raise MalformedError("groups")

    def _add_group(self, name: str) -> None:
        group = wire_id(name)
        first = min(self._now_ns // MILLISECOND_NS, _MILLISECONDS_MAX) << _PLACE_BITS
        created = SequencedGroup(name, group, first, self._options.window_packets, retained_bytes(self._options))
        created.intersecting = [group]
        self._groups[group] = created
        self._context[group] = created.number

    def _join(self, session: ServedClient, name: str, last_number: int, others: list[int]) -> None:
        group = self._groups.get(wire_id(name))
        if group is None:
            self._tell(session, carried(NO_GROUP, u64(wire_id(name))))
        else:
            self._join_here(session, group, last_number)

    def _join_here(self, session: ServedClient, group: SequencedGroup, last_number: int) -> None:
        """Give the join of a client to a group the next place, if it is no member."""
        id, process = group.id, session.process
        if self._is_dead(process):
            self._tell(session, carried(EXCLUDED, u64(id)))
        elif process in group.members:  # it asks again: it has no answer yet
            self._fetch(session, id, group.reported[process] + 1, group.number)
        else:
            if process in group.reported:  # who comes back has seen that it was out
                self._part(session, group)
            session.groups[id] = None
            self._number(session, group, last_number)
            group.admit(process)
            self._find_overlaps(list(session.groups))
            self._send_all(group, group.join(process, self._context_of_change(group), self._next_stamp()))
            if session.address:
                self._tell_addresses(session, group)

    def _number(self, session: ServedClient, group: SequencedGroup, last_number: int) -> None:
        session.numbered[group.id] = None
        group.last_numbers[session.process] = max(group.last_numbers.get(session.process, 0), last_number)

    def _leave(self, session: ServedClient, id: int) -> None:
        group = self._groups.get(id)
        if group is None or session.process not in group.reported:
            self._tell(session, carried(EXCLUDED, u64(id)))
        elif session.process in group.members:
            session.requests.offer(NamedRequest(group, {}, is_leave=True))
            self._place_requests(session)

    def _multicast(self, session: ServedClient, id: int, reader: FrameReader) -> None:
        group = self._groups.get(id)
        if group is None:
            self._tell(session, carried(NO_GROUP, u64(id)))
            return
        if self._is_dead(session.process):
            self._tell(session, carried(EXCLUDED, u64(id)))
            return
        settled = reader.number()
        request = NamedRequest(group, reader.pairs(), is_leave=False)
        request.settled = settled
        request.served = reader.processes()
        request.data, request.body_at = reader.whole(), reader.position()
        request.first = reader.number()
        request.level = reader.u8()
        request.count = reader.pass_payloads()
        if not reader.is_empty():
            raise MalformedError("messages")
        session.requests.offer(request)
        self._place_requests(session)

    def _place_requests(self, session: ServedClient) -> None:
        """Give places to what a client wants, in its order, whatever the groups, while histories have room and nothing
        is named that has no number."""
        request = session.requests.head()
        while request is not None:
            group = request.group
            if group.is_full():
                self.counts[5] += 1
                group.blocked[session.process] = None
                return
            if request.named and session.requests.is_named(request, self._groups, session.process):
                self.counts[9] += 1
                return
            session.requests.take()
            if request.is_leave:
                self._place_leave(session, group, failed=False)
            else:
                self._place_messages(session, group, request)
            request = session.requests.head()

    def _place_messages(self, session: ServedClient, group: SequencedGroup, request: NamedRequest) -> None:
        last, before = request.first + request.count - 1, group.last_numbers.get(session.process, 0)
        if last <= before:
            self.counts[1] += 1
            self._acknowledge(session, group)
            return
        if request.first > max(before, request.settled) + 1:
            return  # what came before it was dropped while the group was elsewhere: all of it comes again
        context = self._context_of_messages(group, request.level, session.requests.context)
        process, stamp, size = session.process, self._next_stamp(), len(request.data) - request.body_at
        placed = group.accept(process, last, request.data, request.body_at, context, stamp)
        self.counts[0] += 1
        group.spent += cost(request.count, size, len(group.members) - len(request.served))
        group.sent[session.process.name] = group.sent.get(session.process.name, 0) + request.count
        if request.served:
            bare = group.bare_place(process, request.first, request.level, request.count, size, context, stamp)
            self._send_bare(group, placed, bare, request.served)
        else:
            self._send_all(group, placed)
        session.numbered[group.id] = None
        if session.process not in group.members:
            session.is_outside = True
            self._acknowledge(session, group)

    def _retry_blocked(self, group: SequencedGroup) -> None:
        """Serve the clients that wait for room in a history, if there is some, first come first served."""
        while group.blocked and not group.is_full():
            process = next(iter(group.blocked))
            del group.blocked[process]
            session = self._clients.get(process)
            if session is not None:
                self._place_requests(session)

    def _acknowledge(self, session: ServedClient, group: SequencedGroup) -> None:
        last, place = group.last_numbers.get(session.process, 0), group.last_places.get(session.process, 0)
        self._tell(session, carried(ACKNOWLEDGE, u64(group.id), u64(last), u64(place), u64(self._clock)))

    def _place_leave(self, session: ServedClient, group: SequencedGroup, failed: bool) -> None:
        if session.process not in group.members:
            return
        placed = group.leave(session.process, failed, self._context_of_change(group), self._next_stamp())
        self._send_all(group, placed)
        if not failed:
            self._tell(session, placed)

    def _fetch(self, session: ServedClient, id: int, first: int, last: int) -> None:
        """Send again what is still held of these places, as far as the client is owed it."""
        group = self._groups.get(id)
        if group is None or session.process not in group.reported:
            self._tell(session, carried(EXCLUDED, u64(id)))
            return
        self.counts[2] += 1
        last = min(last, group.leave_places.get(session.process, group.number))
        for number in range(max(first, group.reported[session.process] + 1), last + 1):
            self._tell(session, group.history[number])
        self._acknowledge(session, group)

    def _replay(self, session: ServedClient, id: int, first: int, last: int) -> None:
        """Send places of the past to a member."""
        group = self._groups.get(id)
        if group is not None and id in session.groups:
            for sent in replayed_frames(group, first, last):
                self._tell(session, pieces(sent))

    def _resume(self, session: ServedClient, groups: Context) -> None:
        """The groups here that the client is in, as far as it knows, and what it has delivered of each. It has seen the
        end of its membership in those that it has left and does not name. What it has delivered cannot be less than it
        has reported, or more than there is: else it was in a group of the same name that was lost."""
        if groups:
            self.counts[3] += 1
        for id, number in groups.items():
            if id not in session.groups:
                self._resume_elsewhere(session, id)
            elif not self._groups[id].reported[session.process] <= number <= self._groups[id].number:
                self._tell(session, carried(EXCLUDED, u64(id)))
        for id in list(session.groups):
            group = self._groups[id]
            if id not in groups and session.process in group.leave_places and not group.is_moving:
                self._part(session, group)
        stable = {id: self._groups[id].stable for id in session.groups}
        self._tell(session, carried(STABLE, pairs_bytes(stable)))

    def _resume_elsewhere(self, session: ServedClient, id: int) -> None:
        """A client believes to be in a group that owes it nothing here: it was excluded, here or by a sequencer that is
        no more."""
        self._bury(session.process)
        self._tell(session, carried(EXCLUDED, u64(id)))

    def _received(self, session: ServedClient, reader: FrameReader) -> None:
        for id, number in reader.pairs().items():
            self._reported(session.process, id, number)

    def _reported(self, process: ProcessId, id: int, number: int) -> None:
        """A client has delivered everything of a group up to a number."""
        group, session = self._groups.get(id), self._clients.get(process)
        if group is None or group.is_moving or session is None:
            return
        if group.report(process, number):
            self._part(session, group)
        self._retry_blocked(group)
        self._note_stable(group)

    def statistics(self) -> dict[str, int]:
        """What is held now."""
        held = [group.history_bytes for group in self._groups.values()]
        return {
            "groups": len(self._groups),
            "clients": len(self._clients),
            "history_bytes": sum(held),
            "places": self.counts[0],
            "context_entries": self._entries,
            "context_entries_literal": self._entries_literal,
        }
