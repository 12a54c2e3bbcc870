"""A process as a client of the sequencing service: one link, all its groups, and the order between them.

Promise. Places are delivered in the order in which the sequencer gave them, over all groups of this process
(delivery_rule.py), each once, from the place of the join to that of the leave; through links that break.

Rule. `delivered` is the delivery context: the number of the last place that was delivered in each group. A group
that this process has asked to join has the number BOTTOM there: whatever carries a number of that group waits until
the join has its place, for the group may have been joined already at that point of the order. Places that come
ahead of their turn stay in the hold-back queue; those that came before are dropped. What was delivered is reported
in batches. When a link breaks, or the service is silent for too long, the client dials again, the next contact each
time. By the new link it says which groups it is in, asks again for joins and leaves that have no answer, fetches
what follows its last delivery in each group, and sends again the messages that have no place.

Safe. T1 and T2. The hold-back queue is keyed by group and number, so a place that comes twice is there once.

Live. The service keeps each place until this process has reported it, so what is fetched is there. Places that stay
in the hold-back queue name what they wait for, and that is fetched again, more and more slowly.

Limits. The hold-back queue holds at most what the histories of the sequencer hold for this process's groups.
"""

from typing import Final, final

from antiphon.kernel.calls import Dial, Frames, Hang
from antiphon.kernel.effects import NEVER, Changed, Effects, RequestRefused, Writable
from antiphon.kernel.errors import MalformedError, MessageTooLargeError, UsageError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId, wire_id
from antiphon.kernel.inputs import Send
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.context import BOTTOM, Context
from antiphon.stacks.sequencer.delivery_rule import is_deliverable, missing
from antiphon.stacks.sequencer.member import MemberService, OwnBatch, OwnMessages, SequencerMember
from antiphon.stacks.sequencer.offers import CLIENT, OFFERS
from antiphon.stacks.sequencer.place import Place, read_accept, read_change
from antiphon.stacks.sequencer.wire import (
    ACCEPT,
    ACKNOWLEDGE,
    CHANGE,
    CREATE,
    CREATED,
    EXCLUDED,
    FETCH,
    JOIN,
    LEAVE,
    MOVED,
    NO_GROUP,
    PEERS,
    RECEIVED,
    RESUME,
    STABLE,
    FrameAssembler,
    FrameReader,
    frame,
    groups_bytes,
    pairs_bytes,
    pieces,
    text,
    u64,
)

_OVERHEAD_BYTES: Final = 1024 * 1024
_PEERS_MAX: Final = 1000
_DIALS_MAX: Final = 3
"""After so many tries in vain another contact is tried."""
_TO_THE_END: Final = NUMBER_MAX
"""Fetch all that there is."""
OUTSIDE_GROUPS_MAX: Final = 10_000
"""Groups that a process sends to without being in them."""
SERVICE_REACHED: Final = f"{OFFERS.name}/{CLIENT}"
"""What `Changed` names when the client has a link to the service."""


def _ticket_of(batch: OwnBatch) -> int:
    return batch.ticket


@final
class OutsideSender:
    """What a process sends to a group that it is not in."""

    __slots__ = ("group", "own", "requests")

    def __init__(self, group: str, group_id: int, last_number: int) -> None:
        self.group = group
        self.own = OwnMessages(group_id, last_number)
        self.requests: list[int] = []
        """Of messages without a place."""


@final
class ServiceClient(MemberService):
    """All that one process has with the service."""

    __slots__ = (
        "_assembler",
        "_contacts",
        "_creating",
        "_dial_at_ns",
        "_dials",
        "_fetch_at_ns",
        "_fetches",
        "_former_numbers",
        "_heard_ns",
        "_held",
        "_is_open",
        "_knows_peers",
        "_members",
        "_next_address",
        "_options",
        "_out",
        "_outside",
        "_process",
        "_report_at_ns",
        "_reports",
        "_said_ns",
        "_seat",
        "_unreported",
        "delivered",
        "ended",
        "link",
    )

    def __init__(self, process: ProcessId, options: Options) -> None:
        super().__init__()
        self._process = process
        self._options = options
        self._contacts: list[str] = []
        self._next_address = ""
        """Where the service was last, or said to be; "" to try the contacts in turn."""
        self._knows_peers = False
        """All peers are among the contacts, and any of them may go on in another's place."""
        self._seat = ""
        """Which sequencer there was said to have this client, where peers are replicated (seat_host.py)."""
        self.link = 0
        """0 while none is dialled."""
        self._is_open = False
        self._dial_at_ns = NEVER
        self._dials = 0
        """Tries since the last link that opened."""
        self._heard_ns = 0
        self._said_ns = 0
        self._assembler = FrameAssembler(0)
        self._members: dict[int, SequencerMember] = {}
        self._creating: dict[int, None] = {}
        """Groups that did not exist when this process asked to join them."""
        self.delivered: Context = {}
        self._held: dict[int, dict[int, Place]] = {}
        """The hold-back queue, by group and number; no group without a place."""
        self._fetch_at_ns = NEVER
        self._fetches = 0
        """Fetches in a row without a delivery."""
        self._reports: Context = {}
        """What was delivered and not reported."""
        self._unreported = 0
        self._report_at_ns = NEVER
        self._outside: dict[int, OutsideSender] = {}
        self._former_numbers: dict[int, int] = {}
        """The number of the last message to groups that were left, or that refused what was sent from outside."""
        self._out: list[bytes] = []
        self.ended: list[SequencerMember] = []
        """Members that this step has ended."""

    # ---- what members and senders want -----------------------------------------------------------------------------

    def meet(self, contacts: tuple[str, ...], now_ns: int) -> None:
        """The service is at these addresses."""
        self._contacts += [contact for contact in contacts if contact not in self._contacts]
        if not self.link and self._dial_at_ns == NEVER:
            self._dial_at_ns = now_ns

    def join(self, member: SequencerMember, contacts: tuple[str, ...], effects: Effects, now_ns: int) -> None:
        group = member.group_id
        self._members[group] = member
        self.delivered[group] = BOTTOM
        outside = self._outside.pop(group, None)
        if outside is not None:
            member.own.last_number = max(member.own.last_number, outside.own.last_number)
        self.meet(contacts, now_ns)
        self._report()
        self._ask_join(member)

    def _ask_join(self, member: SequencerMember) -> None:
        self.send(
            pieces(frame(JOIN, text(member.group), u64(member.own.last_number), groups_bytes(list(self.delivered))))
        )

    def leave(self, member: SequencerMember) -> None:
        self.send(pieces(frame(LEAVE, u64(member.group_id), groups_bytes(list(self.delivered)))))

    def forget(self, member: SequencerMember) -> None:
        if self._members.get(member.group_id) is member:
            del self._members[member.group_id]
            self._note_number(member.group_id, member.own.last_number)
            self.delivered.pop(member.group_id, None)
            self._held.pop(member.group_id, None)
            self._creating.pop(member.group_id, None)

    def _note_number(self, group: int, number: int) -> None:
        """What is sent there next gets a higher number."""
        self._former_numbers[group] = number
        while len(self._former_numbers) > OUTSIDE_GROUPS_MAX:
            del self._former_numbers[next(iter(self._former_numbers))]

    def outstanding_outside(self, group: str) -> int:
        sender = self._outside.get(wire_id(group))
        return 0 if sender is None else sender.own.outstanding()

    def send(self, carried: list[bytes]) -> None:
        if self._is_open:
            self._out += carried

    def send_outside(self, input: Send, effects: Effects, now_ns: int) -> int:
        """Take messages for a group that this process is not in, from the front; how many. Raises UsageError."""
        if not self._contacts:
            raise UsageError(f"to send to group {input.group!r} from outside, open the role 'client' with a contact")
        for payload in input.payloads:
            if len(payload) > self._options.message_bytes_max:
                raise MessageTooLargeError(len(payload), self._options.message_bytes_max)
        group = wire_id(input.group)
        sender = self._outside.get(group)
        if sender is None:
            if len(self._outside) >= OUTSIDE_GROUPS_MAX:
                raise UsageError(f"this process sends to {OUTSIDE_GROUPS_MAX} groups from outside already; join some")
            sender = self._outside[group] = OutsideSender(input.group, group, self._former_numbers.pop(group, 0))
        taken, carried = sender.own.take(input.payloads, input.level, self.tickets)
        if taken and input.request:
            sender.requests.append(input.request)
        self.send(carried)
        return taken

    def held(self, group_id: int) -> int:
        return len(self._held.get(group_id, {}))

    # ---- the link --------------------------------------------------------------------------------------------------

    def link_up(self, effects: Effects, now_ns: int) -> None:
        """Say who and where we are, and ask again for all that has no answer."""
        self._is_open = True
        self._dials = 0
        effects.events.append(Changed(SERVICE_REACHED))
        self._heard_ns = now_ns
        self._assembler = FrameAssembler(self._options.message_bytes_max + _OVERHEAD_BYTES)
        self._out = []
        entered = [group for group, number in self.delivered.items() if number > BOTTOM]
        self.send(pieces(frame(RESUME, groups_bytes(entered), text(self._seat))))
        for group in entered:
            self._reports[group] = self.delivered[group]
        self._report()
        for group, member in self._members.items():
            if self.delivered[group] == BOTTOM:
                if group in self._creating:
                    self.send(pieces(frame(CREATE, text(member.group))))
                self._ask_join(member)
                continue
            self.send(pieces(frame(FETCH, u64(group), u64(self.delivered[group] + 1), u64(_TO_THE_END))))
        for batch in self._without_place():
            self.send(batch.pieces)
        for member in self._members.values():
            if member.is_leaving():
                self.leave(member)

    def _without_place(self) -> list[OwnBatch]:
        """What this process has sent and has no place yet, in the order of sending, whatever the groups."""
        batches = [batch for member in self._members.values() for batch in member.own.without_place()]
        batches += [batch for sender in self._outside.values() for batch in sender.own.without_place()]
        return sorted(batches, key=_ticket_of)

    def link_down(self, now_ns: int) -> None:
        """Dial again, after a while that grows."""
        self.link = 0
        self._is_open = False
        self._out = []
        wait_ns = min(self._options.retry_ns << min(self._dials, 10), self._options.heartbeat_interval_ns)
        self._dials += 1
        self._dial_at_ns = now_ns + wait_ns if self._contacts else NEVER

    def hang_up(self, effects: Effects) -> None:
        """End the link for good."""
        if self.link:
            effects.call(Hang(self.link))
        self.link = 0
        self._is_open = False
        self._contacts = []
        self._dial_at_ns = NEVER

    def receive(self, received: list[bytes], effects: Effects, now_ns: int) -> None:
        """Take what the service has sent. What makes no sense ends the link."""
        self._heard_ns = now_ns
        try:
            for piece in received:
                data = self._assembler.take(piece)
                if data is not None:
                    self._take(FrameReader(data), effects, now_ns)
        except MalformedError:
            effects.call(Hang(self.link))
            self.link_down(now_ns)

    def _take(self, reader: FrameReader, effects: Effects, now_ns: int) -> None:
        kind = reader.u8()
        if kind == ACCEPT:
            self._arrive(read_accept(reader), effects, now_ns)
        elif kind == CHANGE:
            self._arrive(read_change(reader), effects, now_ns)
        elif kind == STABLE:
            for group, number in reader.pairs().items():
                if group in self._members:
                    self._members[group].told_stable(number)
        elif kind == ACKNOWLEDGE:
            self._acknowledged(reader.group(), reader.number(), effects)
        elif kind == NO_GROUP:
            self._no_group(reader.group(), effects)
        elif kind == EXCLUDED:
            self._excluded(reader.group(), effects)
        elif kind == MOVED:
            self._next_address, _, self._seat = reader.text().partition("#")
            effects.call(Hang(self.link))
            self.link_down(now_ns)
            self._dial_at_ns = now_ns
        elif kind == PEERS:
            self._knows_peers = True
            self.meet(tuple([reader.text() for _ in range(min(reader.number(), _PEERS_MAX))]), now_ns)
        elif kind == CREATED:
            self._creating.pop(reader.group(), None)
        else:
            raise MalformedError("kind")

    def _acknowledged(self, group: int, last: int, effects: Effects) -> None:
        sender = self._outside.get(group)
        if sender is None:
            return
        sender.own.placed(last, 1)
        sender.own.stable(1)
        if not sender.own.outstanding():
            sender.requests.clear()
        if sender.own.is_blocked and sender.own.has_room():
            sender.own.is_blocked = False
            effects.events.append(Writable(sender.group))

    def _no_group(self, group: int, effects: Effects) -> None:
        """A group does not exist: create it to join it; who only sends is refused."""
        member = self._members.get(group)
        if member is not None:
            self._creating[group] = None
            self.send(pieces(frame(CREATE, text(member.group))))
            self._ask_join(member)
        else:
            self._refuse(group, "the sequencing service has no group of this name", effects)

    def _refuse(self, group: int, reason: str, effects: Effects) -> None:
        sender = self._outside.pop(group, None)
        if sender is not None:
            self._note_number(group, sender.own.last_number)
            effects.events += [RequestRefused(sender.group, request, reason) for request in sender.requests]

    def _excluded(self, group: int, effects: Effects) -> None:
        member = self._members.get(group)
        if member is None:
            self._refuse(group, "the sequencing service has excluded this process", effects)
            return
        self.forget(member)
        member.end(effects, excluded=True)
        self.ended.append(member)

    # ---- delivery --------------------------------------------------------------------------------------------------

    def _arrive(self, place: Place, effects: Effects, now_ns: int) -> None:
        member = self._members.get(place.group)
        if member is None:
            return
        number = self.delivered[place.group]
        if number == BOTTOM and self._process in place.joined and place.number > member.last_view:
            number = self.delivered[place.group] = place.number - 1
            self._drop_held(place.group, number)
        if number != BOTTOM and place.number <= number:
            return
        member.arrived(place, effects)
        if not self._held and not member.is_paused and is_deliverable(place.context, place.group, self.delivered):
            self._deliver(member, place, effects, now_ns)
            return
        self._held.setdefault(place.group, {})[place.number] = place
        self.deliver_held(effects, now_ns)

    def _drop_held(self, group: int, number: int) -> None:
        """Drop what was held of a former membership."""
        held = {at: place for at, place in self._held.pop(group, {}).items() if at > number}
        if held:
            self._held[group] = held

    def deliver_held(self, effects: Effects, now_ns: int) -> None:
        found = True
        while found:
            found = False
            for group in list(self._held):
                member = self._members.get(group)
                places = self._held.get(group)
                while member is not None and places and not member.is_paused:
                    place = places.get(self.delivered.get(group, BOTTOM) + 1)
                    if place is None or not is_deliverable(place.context, group, self.delivered):
                        break
                    del places[place.number]
                    if not places:
                        del self._held[group]
                    self._deliver(member, place, effects, now_ns)
                    found = True
        if not self._held:
            self._fetch_at_ns = NEVER
        elif self._fetch_at_ns == NEVER:
            self._fetch_at_ns = now_ns + self._options.resend_interval_ns

    def _deliver(self, member: SequencerMember, place: Place, effects: Effects, now_ns: int) -> None:
        self.delivered[place.group] = place.number
        self._reports[place.group] = place.number
        self._fetches = 0
        self._unreported += 1
        if self._unreported >= self._options.ack_every_packets:
            self._report()
        elif self._report_at_ns == NEVER:
            self._report_at_ns = now_ns + self._options.ack_delay_ns
        member.deliver(place, effects)
        if member.over:
            self.forget(member)
            self._report()
            self.ended.append(member)

    def _report(self) -> None:
        """Tell the service what was delivered."""
        self._unreported = 0
        self._report_at_ns = NEVER
        if self._is_open:
            self.send(pieces(frame(RECEIVED, pairs_bytes(self._reports))))
            self._reports = {}

    def _fetch_missing(self) -> None:
        """Ask again for what held places wait for."""
        wanted: dict[int, tuple[int, int]] = {}
        for group, places in self._held.items():
            first = places[min(places)]
            for other, start, end in missing(first.context, group, self.delivered):
                if start not in self._held.get(other, {}) and self.delivered[other] != BOTTOM:
                    wanted[other] = (start, max(end, wanted.get(other, (0, 0))[1]))
        for group, (start, end) in wanted.items():
            self.send(pieces(frame(FETCH, u64(group), u64(start), u64(end))))

    # ---- time ------------------------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Send what this step has for the service."""
        if self._out:
            effects.call(Frames(self.link, self._out))
            self._out = []
            self._said_ns = now_ns

    def deadline_ns(self) -> int:
        if not self._is_open:
            return self._dial_at_ns
        options = self._options
        silent_ns = self._heard_ns + options.silence_ns_max
        heartbeat_ns = self._said_ns + options.heartbeat_interval_ns
        return min(self._report_at_ns, self._fetch_at_ns, silent_ns, heartbeat_ns)

    def tick(self, new_link: int, effects: Effects, now_ns: int) -> None:
        """Do what is due. `new_link`: the id of a link to be dialled, if one is."""
        if not self._is_open:
            if now_ns >= self._dial_at_ns:
                self._dial_at_ns = NEVER
                self.link = new_link
                if not self._next_address:
                    self._contacts.append(self._contacts.pop(0))
                    self._next_address = self._contacts[-1]
                effects.call(Dial(new_link, self._next_address))
                if self._dials > (0 if self._knows_peers else _DIALS_MAX):
                    self._next_address = ""
            return
        options = self._options
        if now_ns >= self._heard_ns + options.silence_ns_max:
            effects.call(Hang(self.link))
            self.link_down(now_ns)
            return
        if now_ns >= self._report_at_ns or now_ns >= self._said_ns + options.heartbeat_interval_ns:
            self._report()
        if now_ns >= self._fetch_at_ns:
            self._fetches += 1
            wait_ns = min(options.resend_interval_ns << min(self._fetches, 10), options.resend_interval_ns_max)
            self._fetch_at_ns = now_ns + wait_ns
            self._fetch_missing()
