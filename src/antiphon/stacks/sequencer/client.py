"""A process as a client of the sequencing service: its links, all its groups, and the order between them.

Promise. Places are delivered in the order that the level asks for (delivery_rule.py, stamps.py), over all groups of
this process, each once, from the place of the join to that of the leave; through links that break and groups that
move.

Rule. There is a link to each peer that holds a group of this process. `delivered` is the delivery context: the number
of the last place that was delivered in each group. A group that this process has asked to join has the number BOTTOM
there: whatever carries a number of that group waits until the join has its place, for the group may have been joined
already at that point of the order. Places that come ahead of their turn stay in the hold-back queue; those that came
before are dropped. What was delivered is reported in batches.
  The context of this process (section 5) has, for each group, the number of the last place that it has delivered, that
  the contexts of delivered places name, or that its own messages have. Each peer is told what has risen before the
  next message goes there. Entries that are stable are dropped. With each batch go the numbers of own messages to other
  groups that have no place (acceptance.py), so sending never waits for the network.
  When a link breaks, or the service is silent for too long (service_link.py), the client dials again; if nobody
  answers, it looks for its groups at the next contact. By a new link it says which groups it is in, asks again for
  joins and leaves that have no answer, fetches what follows its last delivery in each group, sends again the messages
  that have no place, and probes, so that it knows when all of that was answered. A group that has moved is resumed in
  the same way at its new peer. A process that is excluded from one group gives up all: else what it had under way
  there could be missing from what its other messages follow.

Safe. T1, T2, CT2, and the order of stamps. The hold-back queue is keyed by group and number, so a place that comes
twice is there once.

Live. The service keeps each place until this process has reported it, so what is fetched is there. Places that stay
in the hold-back queue name what they wait for, and that is fetched again, more and more slowly; clocks are probed.

Limits. The hold-back queue holds at most what the histories of the sequencers hold for this process's groups.
"""

from typing import Final, final

from antiphon.kernel.calls import Hang
from antiphon.kernel.effects import NEVER, Effects, Replayed, ReplayEnded, RequestRefused, Writable
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId, wire_id
from antiphon.kernel.inputs import Send
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.client_links import OUTSIDE_GROUPS_MAX, SERVICE_REACHED, ClientLinks, OutsideSender
from antiphon.stacks.sequencer.context import BOTTOM, Context
from antiphon.stacks.sequencer.delivery_rule import is_deliverable, missing
from antiphon.stacks.sequencer.member import OwnMessages, SequencerMember, sizes_of
from antiphon.stacks.sequencer.place import Place, is_ordered, read_accept, read_change, read_order, read_place
from antiphon.stacks.sequencer.replay import ReplayJob
from antiphon.stacks.sequencer.service_link import DIALS_MAX, ServiceLink
from antiphon.stacks.sequencer.stamps import comes_before
from antiphon.stacks.sequencer.wire import (
    ACCEPT,
    ACKNOWLEDGE,
    CHANGE,
    CREATE,
    CREATED,
    EXCLUDED,
    FETCH,
    MEMBERS,
    MOVED,
    NO_GROUP,
    ORDER,
    PEERS,
    PROBE,
    QUIT,
    RECEIVED,
    REPLAY,
    REPLAYED,
    STABLE,
    TICK,
    WAITING,
    WELCOME,
    FrameReader,
    carried,
    pairs_bytes,
    text,
    u64,
)

_PEERS_MAX: Final = 1000


@final
class ServiceClient(ClientLinks):
    """All that one process has with the service."""

    __slots__ = ("_fetch_at_ns", "_fetches", "_job", "_report_at_ns", "_reports", "_unreported", "ended")

    def __init__(self, process: ProcessId, options: Options) -> None:
        super().__init__(process, options)
        self._fetch_at_ns = NEVER
        self._fetches = 0
        """Fetches in a row without a delivery."""
        self._reports: Context = {}
        """What was delivered and not reported."""
        self._unreported = 0
        self._report_at_ns = NEVER
        self._job: ReplayJob | None = None
        """What is being told again (replay.py)."""
        self.ended: list[SequencerMember] = []
        """Members that this step has ended."""

    # ---- senders that are no members, and what peers answer ----------------------------------------------------------

    def send_outside(self, input: Send, effects: Effects, now_ns: int) -> int:
        """Take messages for a group that this process is not in, from the front; how many. Raises UsageError."""
        if not self._contacts:
            raise UsageError(f"to send to group {input.group!r} from outside, open the role 'client' with a contact")
        sizes = sizes_of(input.payloads, self._options.message_bytes_max)
        group = wire_id(input.group)
        sender = self._outside.get(group)
        if sender is None:
            if len(self._outside) >= OUTSIDE_GROUPS_MAX:
                raise UsageError(f"this process sends to {OUTSIDE_GROUPS_MAX} groups from outside already; join some")
            sender = self._outside[group] = OutsideSender(input.group, group, self._former_numbers.pop(group, 0))
        names = self.names_for(group)
        taken, sent = sender.own.take(input.payloads, sizes, input.level, self.tickets, names)
        if taken:
            self.unplaced[group] = sender.own
            if input.request:
                sender.requests.append(input.request)
            self.send_messages(group, sent)
        return taken

    def held(self, group_id: int) -> int:
        return len(self._held.get(group_id, {}))

    def outstanding_outside(self, group: str) -> int:
        sender = self._outside.get(wire_id(group))
        return 0 if sender is None else sender.own.outstanding()

    def receive(self, id: int, received: list[bytes], effects: Effects, now_ns: int) -> None:
        """Take what a peer has sent. What makes no sense ends the link."""
        self._now_ns = now_ns
        link = self._by_id[id]
        link.heard_ns = now_ns
        try:
            for piece in received:
                data = link.assembler.take(piece)
                if data is not None:
                    self._take(link, FrameReader(data, 1), effects, now_ns)
        except MalformedError:
            effects.call(Hang(id))
            self.link_down(id, now_ns)

    def _take(self, link: ServiceLink, reader: FrameReader, effects: Effects, now_ns: int) -> None:
        kind = reader.u8()
        if kind == ACCEPT:
            self._arrive(link, read_accept(reader), effects, now_ns)
        elif kind == CHANGE:
            self._arrive(link, read_change(reader), effects, now_ns)
        elif kind == ORDER:
            self._arrive(link, read_order(reader), effects, now_ns)
        elif kind == STABLE:
            for group, number in reader.pairs().items():
                if self._context.get(group, NUMBER_MAX) <= number:
                    del self._context[group]
                if group in self._members:
                    self._members[group].told_stable(number)
        elif kind == ACKNOWLEDGE:
            self._acknowledged(reader.group(), reader.number(), reader.number(), reader.number(), effects)
        elif kind == NO_GROUP:
            self._no_group(link, reader.group(), effects)
        elif kind == EXCLUDED:
            self._excluded(reader.group(), effects)
        elif kind == MOVED:
            self._moved(link, reader.group(), reader.text())
        elif kind == WAITING:
            group, address = reader.group(), reader.text()
            if group in self._asked:
                self._waits[group] = address
        elif kind == CREATED:
            self._creating.pop(reader.group(), None)
        elif kind == WELCOME:
            link.dials = 0
            link.is_alone = bool(reader.u8())
        elif kind == REPLAYED:
            self._replayed(reader, effects)
        elif kind == MEMBERS:
            group, processes = reader.group(), reader.processes()
            self.exchange.told(group, {process: reader.text() for process in processes})
        elif kind == PEERS:
            addresses = [reader.text() for _ in range(min(reader.number(), _PEERS_MAX))]
            self._knows_peers = len(addresses) > 1
            self.meet(tuple(addresses), now_ns)
        elif kind == TICK:
            link.synced = max(link.synced, reader.number())
            link.clock = max(link.clock, reader.number())
            link.is_probing = False
            self.deliver_held(effects, now_ns)
        else:
            raise MalformedError("kind")

    # ---- the past --------------------------------------------------------------------------------------------------

    def replay(self, places: dict[str, int]) -> None:
        """Ask for what was placed before this process joined these groups. Raises UsageError."""
        spans: dict[int, tuple[int, int]] = {}
        for name, first in places.items():
            member = self._members.get(wire_id(name))
            if member is None or not member.first_place:
                raise UsageError(f"to be told what was multicast in group {name!r} before, join it first")
            spans[member.group_id] = (first, member.first_place - 1)
        if self._job is not None:
            raise UsageError("what was multicast before is being told already; wait for the end of that")
        self._job = ReplayJob(spans)
        self._ask_replays(self._job, list(spans))

    def _ask_replays(self, job: ReplayJob, groups: list[int]) -> None:
        for group in groups:
            if group in job.missing:
                first, last = job.spans[group]
                job.places[group] = {}
                self._link_of(group).send(carried(REPLAY, u64(group), u64(first), u64(last)))

    def _resume(self, link: ServiceLink, groups: list[int]) -> None:
        super()._resume(link, groups)
        if self._job is not None:
            self._ask_replays(self._job, groups)

    def _replayed(self, reader: FrameReader, effects: Effects) -> None:
        group, is_last, kept = reader.group(), reader.u8(), reader.number()
        places = [read_place(FrameReader(reader.blob())) for _ in range(reader.number())]
        job = self._job
        member = self._members.get(group)
        if job is None or member is None:
            return
        if job.take(group, kept, places, bool(is_last)):
            self._job = None
            effects.events.append(ReplayEnded(SERVICE_REACHED, member.group, kept))
        elif not job.missing:
            self._job = None
            for place in job.in_order():
                told = self._members.get(place.group)
                if told is not None and place.sender is not None:
                    effects.events.append(
                        Replayed(SERVICE_REACHED, told.group, place.number, place.sender, place.first, place.level,
                                 place.payloads)
                    )  # fmt: skip
            effects.events.append(ReplayEnded(SERVICE_REACHED))

    def _acknowledged(self, group: int, last: int, place: int, stamp: int, effects: Effects) -> None:
        sender = self._outside.get(group)
        if sender is None:
            return
        sender.own.placed(last, 1)
        sender.own.stable(1)
        if last:
            self.own_placed(group, sender.own, last, place, stamp)
        if not sender.own.outstanding():
            sender.requests.clear()
        if sender.own.is_blocked and sender.own.has_room():
            sender.own.is_blocked = False
            effects.events.append(Writable(sender.group))

    def own_placed(self, group: int, own: OwnMessages, last: int, place: int, stamp: int) -> None:
        """Own messages to a group have places: other peers at which something waits for that are told (rule 2)."""
        if not own.without_place():
            self.unplaced.pop(group, None)
        if self._is_alone() or last <= self._own_places.get(group, (0, 0))[0]:
            return
        self._own_places[group] = (last, place)
        self._clock = max(self._clock, stamp)
        self._rise(group, place)
        if len(self._links) > 1:
            self._tell_numbered(group, self._where.get(group, ""))

    def _no_group(self, link: ServiceLink, group: int, effects: Effects) -> None:
        """A group does not exist: create it to join it; who only sends is refused."""
        member = self._members.get(group)
        if member is not None:
            if self.delivered[group] > BOTTOM:  # the answer to a request that was repeated elsewhere
                return
            self._creating[group] = None
            link.send(carried(CREATE, text(member.group)))
            self._ask_join(link, member)
        else:
            self._refuse(group, "the sequencing service has no group of this name", effects)

    def _refuse(self, group: int, reason: str, effects: Effects) -> None:
        sender = self._outside.pop(group, None)
        self.unplaced.pop(group, None)
        self._where.pop(group, None)
        if sender is not None:
            self._note_number(group, sender.own.last_number)
            self._never_placed(group, sender.own.last_number)
            effects.events += [RequestRefused(sender.group, request, reason) for request in sender.requests]

    def _excluded(self, group: int, effects: Effects) -> None:
        """The service has given this process up in one group: it ends in all."""
        if group not in self._members:
            self._refuse(group, "the sequencing service has excluded this process", effects)
            return
        for member in list(self._members.values()):
            self.forget(member)
            member.end(effects, excluded=True)
            self.ended.append(member)
        for outside in list(self._outside):
            self._refuse(outside, "the sequencing service has excluded this process", effects)
        for link in self._links.values():
            link.send(carried(QUIT))

    # ---- delivery --------------------------------------------------------------------------------------------------

    def _arrive(self, link: ServiceLink, place: Place, effects: Effects, now_ns: int) -> None:
        link.clock = max(link.clock, place.stamp)
        member = self._members.get(place.group)
        if member is None:
            if self._process in place.left:  # the report of it was lost
                link.send(carried(RECEIVED, pairs_bytes({place.group: place.number})))
            return
        number = self.delivered[place.group]
        if number == BOTTOM and self._process in place.joined and place.number > member.last_view:
            number = self.delivered[place.group] = place.number - 1
            self._asked.pop(place.group, None)
            self._waits.pop(place.group, None)
            member.first_place = place.number
            self._drop_held(place.group, number)
        if number != BOTTOM and place.number <= number:
            return
        member.arrived(place, effects)
        if place.is_bare and not self.exchange.fill(place) and place.number in self._held.get(place.group, {}):
            return
        if not self._held and not member.is_paused and self._has_turn(place):
            self._deliver(member, place, effects, now_ns)
            return
        self._held.setdefault(place.group, {})[place.number] = place
        self.deliver_held(effects, now_ns)

    def _drop_held(self, group: int, number: int) -> None:
        """Drop what was held of a former membership."""
        held = {at: place for at, place in self._held.pop(group, {}).items() if at > number}
        if held:
            self._held[group] = held

    def receive_bodies(self, id: int, received: list[bytes], effects: Effects, now_ns: int) -> None:
        """Take what another member has sent by itself: places may wait for it."""
        is_filled = False
        for group, sender, first in self.exchange.receive(id, received, effects):
            for place in self._held.get(group, {}).values():
                if place.is_bare and place.first == first and place.sender == sender:
                    is_filled = self.exchange.fill(place) or is_filled
        if is_filled:
            self.deliver_held(effects, now_ns)

    def _has_turn(self, place: Place) -> bool:
        if place.is_bare or not is_deliverable(place.context, place.group, self.delivered):
            return False
        return not is_ordered(place) or self._is_alone() or self._is_lowest(place)

    def _is_lowest(self, place: Place) -> bool:
        """Whether nothing that this process is owed comes before a place in the order of stamps (stamps.py)."""
        if self._asked:
            return False
        for group, places in self._held.items():
            if group != place.group:
                head = places.get(self.delivered.get(group, BOTTOM) + 1)
                if head is None or comes_before(head.stamp, group, place.stamp, place.group):
                    return False
        for group in self.delivered:
            if group != place.group and group not in self._held:
                link = self._links.get(self._where.get(group, ""))
                if link is None or not link.is_open or link.clock < place.stamp:
                    return False
                if self._sync.get(group, 0) > link.synced:
                    return False
        return True

    def _probe(self) -> None:
        """Ask peers that may have something that comes before what is held."""
        wanted = 0
        for group, places in self._held.items():
            head = places.get(self.delivered.get(group, BOTTOM) + 1)
            if head is not None and is_ordered(head):
                wanted = max(wanted, head.stamp)
        for link in self._links.values():
            if link.clock < wanted and link.is_open and not link.is_probing:
                link.is_probing = True
                self.counts[0] += 1
                link.send(carried(PROBE, u64(link.synced), u64(wanted)))

    def deliver_held(self, effects: Effects, now_ns: int) -> None:
        found = True
        while found:
            found = False
            for group in list(self._held):
                member = self._members.get(group)
                places = self._held.get(group)
                while member is not None and places and not member.is_paused:
                    place = places.get(self.delivered.get(group, BOTTOM) + 1)
                    if place is None or not self._has_turn(place):
                        break
                    del places[place.number]
                    if not places:
                        del self._held[group]
                    self._deliver(member, place, effects, now_ns)
                    found = True
        if not self._held:
            self._fetch_at_ns = NEVER
            return
        if self._fetch_at_ns == NEVER:
            self._fetch_at_ns = now_ns + self._options.resend_interval_ns
        if not self._is_alone():
            self._probe()

    def _deliver(self, member: SequencerMember, place: Place, effects: Effects, now_ns: int) -> None:
        self.delivered[place.group] = place.number
        self._reports[place.group] = place.number
        if not self._is_alone():
            self._clock = max(self._clock, place.stamp)
            for group, number in place.context.items():
                self._rise(group, number)
        self._fetches = 0
        self._unreported += 1
        if self._unreported >= self._options.ack_every_packets:
            self._report()
        elif self._report_at_ns == NEVER:
            self._report_at_ns = now_ns + self._options.ack_delay_ns
        member.deliver(place, effects)
        if place.left or place.failed:
            self.exchange.gone(place.group, place.left + place.failed)
        if member.over:
            self._report()
            self.forget(member)
            self.ended.append(member)

    def _report(self) -> None:
        """Tell each peer what was delivered of the groups there."""
        self._unreported = 0
        self._report_at_ns = NEVER
        for link in self._links.values():
            if link.is_open:
                here = {
                    group: number for group, number in self._reports.items() if self._where.get(group) == link.address
                }
                link.send(carried(RECEIVED, pairs_bytes(here)))
        self._reports = {}

    def _fetch_missing(self) -> None:
        """Ask again for what held places wait for."""
        wanted: dict[int, tuple[int, int]] = {}
        for group, places in self._held.items():
            first = places[min(places)]
            for other, start, end in missing(first.context, group, self.delivered):
                if start not in self._held.get(other, {}) and self.delivered[other] != BOTTOM:
                    wanted[other] = (start, max(end, wanted.get(other, (0, 0))[1]))
            bare = [place.number for place in places.values() if place.is_bare]
            if bare:
                start, end = wanted.get(group, (bare[0], bare[0]))
                wanted[group] = (min(start, *bare), max(end, *bare))
        for group, (start, end) in wanted.items():
            self._link_of(group).send(carried(FETCH, u64(group), u64(start), u64(end)))

    # ---- time ------------------------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Send what this step has for the service."""
        if len(self._links) > 1:
            self._drop_idle_links(effects)
        for link in self._links.values():
            link.finish(effects, now_ns)
        if self.exchange.address:
            self.exchange.finish(effects)

    def deadline_ns(self) -> int:
        deadline_ns = min(self._report_at_ns, self._fetch_at_ns)
        if self.exchange.address:
            deadline_ns = min(deadline_ns, self.exchange.deadline_ns())
        for link in self._links.values():
            deadline_ns = min(deadline_ns, link.deadline_ns(self._options, self._knows_peers))
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        """Do what is due, but for dialling."""
        self._now_ns = now_ns
        options = self._options
        says = now_ns >= self._report_at_ns
        for link in list(self._links.values()):
            if link.id and now_ns >= link.give_up_ns(options, self._knows_peers):
                effects.call(Hang(link.id))
                if self._knows_peers:  # another one goes on in its place
                    link.dials = DIALS_MAX
                self.link_down(link.id, now_ns)
                continue
            if now_ns >= link.ask_ns(options, self._knows_peers):
                link.asked_ns = now_ns
                link.send(carried(PROBE, u64(link.synced), u64(0)))
            if link.is_open and now_ns >= link.said_ns + options.heartbeat_interval_ns:
                says = True
        if says:
            self._report()
        if now_ns >= self._fetch_at_ns:
            self._fetches += 1
            wait_ns = min(options.resend_interval_ns << min(self._fetches, 10), options.resend_interval_ns_max)
            self._fetch_at_ns = now_ns + wait_ns
            self._fetch_missing()
