"""A process as its site sees nothing of it: its link to the site, and itself in each of its groups (site.py).

What the application sends goes to the site in the order of the calls, whatever the group, each with a ticket; the site
tells when it leaves, and in which view, and when it is stable. What the site tells of a group is handed on in its
order; while the application does not read, it is kept, and the site is not told that it was taken, so it tells no more.

If the link breaks, or the site is silent for `silence_ns_max`, the site has failed or has given up this process: the
process is out of all its groups, since to the others it is dead. Before it is in any, it dials again.

Limits: UNSENT_MAX batches, or UNSENT_BYTES_MAX bytes and a message, that have not left the site; then the sender waits.
It is few, since what waits at the site outlives its sender, whose failure is told after it. What is kept for an
application that does not read is what the site may tell, OWED_BYTES_MAX bytes and a message (attached.py).
"""

from collections import deque
from typing import Final, final

from antiphon.kernel.calls import Dial, Frames, Hang
from antiphon.kernel.effects import (
    NEVER,
    BarrierReached,
    Delivered,
    Effects,
    Ended,
    Event,
    Installed,
    MajorityLost,
    Sent,
    Writable,
)
from antiphon.kernel.errors import MalformedError, MessageTooLargeError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join, Send
from antiphon.kernel.levels import SAFE
from antiphon.kernel.options import Options
from antiphon.parts.member import Member, StabilityMark
from antiphon.parts.membership.group import BARRIER_BYTES_MAX
from antiphon.parts.membership.phases import JOINING, NORMAL, OUT, PARTING, step
from antiphon.stacks.label.attached import OWED_BYTES_MAX
from antiphon.stacks.label.comparison import check_order_label
from antiphon.stacks.label.site_frames import (
    ATTACH,
    BEAT,
    DEAD,
    DELIVER,
    DEPARTED,
    ENDED,
    ENTER,
    FLUSH,
    LEAVE,
    MESSAGES_MAX,
    REACHED,
    STABLE,
    STALLED,
    TAKEN,
    VIEW,
    GroupChange,
    SiteMessage,
    SiteReader,
    encode_barrier,
    encode_frame,
    encode_send,
    read_change,
    read_message,
)

_HEAD_BYTES: Final = 300
"""What a batch of short messages leaves of a packet for its head."""
UNSENT_MAX: Final = 32
UNSENT_BYTES_MAX: Final = 64 * 1024


@final
class Handing:
    """Messages of one ticket, or a barrier, that the site has not said to be stable."""

    __slots__ = ("group", "sent", "size", "ticket")

    def __init__(self, ticket: int, group: int, size: int, sent: Sent) -> None:
        self.ticket = ticket
        self.group = group
        self.size = size
        """Its bytes on the way to the site."""
        self.sent = sent
        """What to tell when it leaves; its view is known then."""


@final
class Attachment:
    """The link of one process to its site, for all its groups."""

    __slots__ = (
        "_dial_at_ns", "_dials", "_heard_ns", "_is_up", "_options", "_parting", "_said_ns", "_stable", "_taken",
        "_tickets", "_told_taken", "_unsent", "_unsent_bytes", "_unstable", "address", "ended", "link", "members",
        "out",
    )  # fmt: skip

    def __init__(self, address: str, options: Options, now_ns: int) -> None:
        self.address = address
        """Of the site."""
        self._options = options
        self.members: dict[int, AttachedMember] = {}
        self._parting: set[int] = set()
        """Groups that were given up here, and of which the site has not said so."""
        self.link = 0
        """0 while none is dialled."""
        self._is_up = False
        self._dial_at_ns = now_ns
        self._dials = 0
        self._heard_ns = now_ns
        self._said_ns = now_ns
        self._tickets = 0
        self._unsent: deque[Handing] = deque()
        """What has not left the site, in the order of tickets…"""
        self._unsent_bytes = 0
        self._unstable: deque[Handing] = deque()
        """…and what has, and is not stable."""
        self._stable = 0
        self._taken = 0
        self._told_taken = 0
        self.out: list[bytes] = []
        self.ended: list[AttachedMember] = []
        """Members that this step has ended."""

    # ---- what members ask for --------------------------------------------------------------------------------------

    def enter(self, member: "AttachedMember") -> None:
        """Have a member let in."""
        self.members[member.group_id] = member
        if self._is_up and member.group_id not in self._parting:
            self.out.append(encode_frame(ENTER, member.group_id))

    def leave(self, group: int) -> None:
        if self._is_up:
            self.out.append(encode_frame(LEAVE, group))

    def forget(self, member: "AttachedMember") -> None:
        """A member is gone; if the site does not know it, it is told."""
        if self.members.get(member.group_id) is member:
            del self.members[member.group_id]
            if self._is_up and member.phase() != OUT and member.group_id not in self._parting:
                self._parting.add(member.group_id)
                self.leave(member.group_id)
        self._unsent = deque([each for each in self._unsent if each.group != member.group_id])
        self._unstable = deque([each for each in self._unstable if each.group != member.group_id])
        self._unsent_bytes = sum([each.size for each in self._unsent])

    def has_room(self) -> bool:
        return len(self._unsent) < UNSENT_MAX and self._unsent_bytes < UNSENT_BYTES_MAX

    def next_ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def hand_in(self, frame: bytes, ticket: int, group: int, sent: Sent) -> None:
        """Messages, or a barrier, go to the site."""
        self._unsent.append(Handing(ticket, group, len(frame), sent))
        self._unsent_bytes += len(frame)
        self.out.append(frame)

    def ask_for_stability(self) -> int:
        """The ticket that is stable when all that was sent or delivered until now is."""
        ticket = self.next_ticket()
        self.out.append(encode_frame(FLUSH, ticket))
        return ticket

    def is_stable(self, ticket: int) -> bool:
        return ticket <= self._stable

    def outstanding(self, group: int) -> int:
        """Batches to a group that are not known to be stable."""
        return len([1 for each in self._unsent if each.group == group]) + len(
            [1 for each in self._unstable if each.group == group]
        )

    def took(self, size: int) -> None:
        """A frame of so many bytes has been handed to the application, or is for nobody."""
        self._taken += size

    # ---- the link --------------------------------------------------------------------------------------------------

    def link_up(self, now_ns: int) -> None:
        self._is_up = True
        self._dials = 0
        self._heard_ns = now_ns
        self.out = [encode_frame(ATTACH), *[encode_frame(ENTER, group) for group in self.members]]

    def link_down(self, reason: str, effects: Effects, now_ns: int) -> None:
        """The site is gone, or has given up this process."""
        self.link = 0
        self._is_up = False
        self.out = []
        self._parting.clear()
        self._end(reason, False, effects)
        wait_ns = min(self._options.retry_ns << min(self._dials, 10), self._options.heartbeat_interval_ns)
        self._dials += 1
        self._dial_at_ns = now_ns + wait_ns

    def _end(self, reason: str, is_dead: bool, effects: Effects) -> None:
        """This process is out of all groups that it is in; if it is dead, also of those that it is not in yet."""
        for member in list(self.members.values()):
            if is_dead or member.phase() != JOINING:
                member.end(effects, member.phase() != PARTING, None, reason)
                self.ended.append(member)
        if not self.members or is_dead:
            self._unsent.clear()
            self._unstable.clear()
            self._unsent_bytes = 0

    def receive(self, frames: list[bytes], effects: Effects, now_ns: int) -> None:
        """Take what the site tells; what cannot be read ends the link."""
        self._heard_ns = now_ns
        for frame in frames:
            try:
                self._take(frame, effects)
            except MalformedError as error:
                self.hang_up(f"a frame of the site cannot be read: {error.reason}", effects, now_ns)
                return

    def hang_up(self, reason: str, effects: Effects, now_ns: int) -> None:
        if self.link:
            effects.call(Hang(self.link))
            self.link_down(reason, effects, now_ns)

    def _take(self, frame: bytes, effects: Effects) -> None:
        kind, reader = frame[0] if frame else 0, SiteReader(frame, 1)
        if kind == DEPARTED:
            self._take_departed(reader.number(), reader.number(), effects)
        elif kind == STABLE:
            self._stable = max(self._stable, reader.number())
            while self._unstable and self._unstable[0].ticket <= self._stable:
                self._unstable.popleft()
        elif kind == DEAD:
            self._end(reader.rest()[:1000].decode(errors="replace"), True, effects)
        elif kind == STALLED:
            for member in self.members.values():
                if member.phase() != JOINING:
                    member.tell(MajorityLost(member.group), 0, effects)
        elif kind in (VIEW, DELIVER, REACHED, ENDED):
            self._take_of_group(kind, reader, len(frame), effects)
        elif kind != BEAT:
            raise MalformedError("kind")

    def _take_departed(self, ticket: int, view_id: int, effects: Effects) -> None:
        while self._unsent and self._unsent[0].ticket <= ticket:
            handing = self._unsent.popleft()
            self._unstable.append(handing)
            self._unsent_bytes -= handing.size
            member = self.members.get(handing.group)
            if member is not None and handing.ticket == ticket:
                handing.sent.view_id = view_id
                member.tell(handing.sent, 0, effects)
        if self.has_room():
            for member in self.members.values():
                member.retry_blocked(effects)

    def _take_of_group(self, kind: int, reader: SiteReader, size: int, effects: Effects) -> None:
        change: GroupChange | None = None
        if kind == VIEW:
            change = read_change(reader)
            group = change.group
        else:
            group = reader.u64()
        member = None if group in self._parting else self.members.get(group)
        if member is None:
            if kind in (DELIVER, REACHED):
                self.took(size)
            elif kind == ENDED and group in self._parting:
                self._parting.discard(group)
                if group in self.members:
                    self.out.append(encode_frame(ENTER, group))
        elif change is not None:
            member.take_view(change, effects)
        elif kind == ENDED:
            view = View(reader.number(), reader.processes())
            member.tell(Ended(member.group, False, view), 0, effects)
        elif kind == REACHED:
            view_id, number, sender = reader.number(), reader.number(), reader.process()
            member.tell(BarrierReached(member.group, view_id, sender, number, reader.rest()), size, effects)
        else:
            view_id, level = reader.number(), reader.u8()
            message = read_message(reader)
            bytes_ = sum([len(payload) for payload in message.payloads])
            event = Delivered(
                member.group, view_id, message.sender, message.first, level, message.payloads, bytes_,
                bool(message.destinations),
            )  # fmt: skip
            member.tell(event, size, effects)

    # ---- time and the end of a step --------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        if not self.link:
            return self._dial_at_ns if self.members else NEVER
        give_up_ns = self._heard_ns + self._options.silence_ns_max
        return min(give_up_ns, self._said_ns + self._options.heartbeat_interval_ns) if self._is_up else give_up_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        if self.link and self._heard_ns + self._options.silence_ns_max <= now_ns:
            self.hang_up("the site is silent", effects, now_ns)
        elif self._is_up and self._said_ns + self._options.heartbeat_interval_ns <= now_ns:
            self.out += [encode_frame(TAKEN, self._taken), encode_frame(BEAT)]
            self._told_taken = self._taken

    def has_to_dial(self, now_ns: int) -> bool:
        return not self.link and bool(self.members) and self._dial_at_ns <= now_ns

    def dial(self, link: int, effects: Effects, now_ns: int) -> None:
        self.link = link
        self._heard_ns = now_ns
        effects.call(Dial(link, self.address))

    def finish(self, effects: Effects, now_ns: int) -> None:
        if self._taken - self._told_taken >= OWED_BYTES_MAX // 8:
            self.out.append(encode_frame(TAKEN, self._taken))
            self._told_taken = self._taken
        if self._is_up and self.out:
            effects.call(Frames(self.link, self.out))
            self.out = []
            self._said_ns = now_ns


@final
class AttachedMember(Member):
    """A process that is attached to a site, in one group."""

    __slots__ = (
        "_attachment", "_batch_bytes", "_is_blocked", "_is_paused", "_kept", "_last_number", "_options", "_phase",
        "_process", "view",
    )  # fmt: skip

    def __init__(
        self, join: Join, process: ProcessId, last_number: int, options: Options, attachment: Attachment
    ) -> None:
        super().__init__(join.group)
        self._process = process
        self._options = options
        self._attachment = attachment
        self._batch_bytes = max(256, options.packet_bytes_max - _HEAD_BYTES)
        self._phase = JOINING
        self._last_number = last_number
        self._is_blocked = False
        """Less was taken than was offered."""
        self._is_paused = False
        self._kept: deque[tuple[Event, int]] = deque()
        """What is to be told when the application reads again, with the size of each frame."""
        self.view = View(0, ())

    # ---- the application's side ------------------------------------------------------------------------------------

    def start(self, contacts: tuple[str, ...], effects: Effects, now_ns: int) -> None:
        self._attachment.enter(self)

    def send(self, input: Send, effects: Effects, now_ns: int) -> int:
        if input.label:
            check_order_label(input.label, input.level)
        for payload in input.payloads:
            if len(payload) > self._options.message_bytes_max:
                raise MessageTooLargeError(len(payload), self._options.message_bytes_max)
        taken = 0
        while taken < len(input.payloads) and self._may_send():
            batch = self._next_batch(input.payloads, taken)
            taken += len(batch)
            self._hand_in(batch, input)
        self._is_blocked = self._is_blocked or taken < len(input.payloads)
        return taken

    def _may_send(self) -> bool:
        return self._phase == NORMAL and not self._is_paused and self._attachment.has_room()

    def _next_batch(self, payloads: list[bytes], start: int) -> list[bytes]:
        """One message, or as many as a packet has room for."""
        end, size = start + 1, len(payloads[start])
        while end < min(len(payloads), start + MESSAGES_MAX) and size + len(payloads[end]) + 4 <= self._batch_bytes:
            size += len(payloads[end]) + 4
            end += 1
        return payloads[start:end]

    def _hand_in(self, batch: list[bytes], input: Send) -> None:
        first = self._last_number + 1
        self._last_number += len(batch)
        message = SiteMessage(self.group_id, self._process, first, input.destinations, batch)
        size = sum([len(payload) for payload in batch])
        sent = Sent(self.group, 0, first, len(batch), input.level, size, input.destinations)
        ticket = self._attachment.next_ticket()
        frame = encode_send(ticket, input.level, input.label, message.encode())
        self._attachment.hand_in(frame, ticket, self.group_id, sent)

    def barrier(self, payload: bytes, effects: Effects, now_ns: int) -> int:
        if len(payload) > BARRIER_BYTES_MAX:
            raise MessageTooLargeError(len(payload), BARRIER_BYTES_MAX)
        if not self._may_send():
            self._is_blocked = True
            return 0
        self._last_number += 1
        sent = Sent(self.group, 0, self._last_number, 1, SAFE, len(payload), (), True)
        ticket = self._attachment.next_ticket()
        frame = encode_barrier(ticket, self.group_id, self._last_number, payload)
        self._attachment.hand_in(frame, ticket, self.group_id, sent)
        return 1

    def leave(self, now_ns: int) -> None:
        if self._phase == NORMAL:
            self._phase = PARTING
            self._attachment.leave(self.group_id)
        elif self._phase == JOINING:
            self.abandon()

    def abandon(self) -> None:
        super().abandon()
        self._attachment.forget(self)
        self._phase = OUT

    def pause(self) -> None:
        self._is_paused = True

    def resume(self, effects: Effects, now_ns: int) -> None:
        self._is_paused = False
        while self._kept and not self.over:
            event, size = self._kept.popleft()
            self._emit(event, size, effects)
        self.retry_blocked(effects)

    # ---- the site's side -------------------------------------------------------------------------------------------

    def tell(self, event: Event, size: int, effects: Effects) -> None:
        """Hand on what the site tells, or keep it while the application does not read."""
        if self._is_paused:
            self._kept.append((event, size))
        else:
            self._emit(event, size, effects)

    def take_view(self, change: GroupChange, effects: Effects) -> None:
        is_new = not change.parent or self._process in change.joined
        event = Installed(
            self.group, change.view, change.joined, () if is_new else change.left, () if is_new else change.failed,
            () if is_new else (change.parent,), change.founded,
        )  # fmt: skip
        self.tell(event, 0, effects)

    def _emit(self, event: Event, size: int, effects: Effects) -> None:
        self._attachment.took(size)
        if isinstance(event, Ended):
            self.end(effects, False, event.left_to, "")
            self._attachment.ended.append(self)
            return
        effects.events.append(event)
        if isinstance(event, Installed):
            self.view = event.view
            if self._phase == JOINING:
                self._phase = step(self._phase, NORMAL)
            self.retry_blocked(effects)

    def end(self, effects: Effects, excluded: bool, left_to: View | None, reason: str) -> None:
        """This process is a member no more."""
        if not self.over:
            self.over = True
            self.excluded = excluded
            self._phase = OUT
            self._kept.clear()
            self._attachment.forget(self)
            effects.events.append(Ended(self.group, excluded, left_to, reason))

    def retry_blocked(self, effects: Effects) -> None:
        """Tell the application if there is room again."""
        if self._is_blocked and self._may_send():
            self._is_blocked = False
            effects.events.append(Writable(self.group))

    # ---- packets and time: none ------------------------------------------------------------------------------------

    def receive(
        self, kind: int, tag: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        raise MalformedError("kind")

    def tick(self, effects: Effects, now_ns: int) -> None:
        """The attachment keeps time for all groups."""

    def finish(self, effects: Effects, now_ns: int) -> None:
        self.unfinished = False

    def deadline_ns(self) -> int:
        return NEVER

    # ---- questions -------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        return self._attachment.outstanding(self.group_id)

    def held(self) -> int:
        return len(self._kept)

    def phase(self) -> int:
        return self._phase

    def waits_for(self) -> str:
        return f"site {self._attachment.address} to let it in" if self._phase == JOINING else ""

    def mark(self) -> StabilityMark:
        return StabilityMark(self.group, self.view.id, [self._attachment.ask_for_stability()], self._last_number)

    def is_stable(self, mark: StabilityMark, copies: int) -> bool:
        return self.over or self._attachment.is_stable(mark.known[0])

    def last_number(self) -> int:
        return self._last_number

    def statistics(self) -> dict[str, int]:
        return {"messages_accepted": self._last_number, "packets_held": len(self._kept)}
