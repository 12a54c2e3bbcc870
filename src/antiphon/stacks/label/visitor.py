"""Sending to groups from outside (isis-1987, 3.6): the sender's side. guests.py has the rules and why they hold.

A visitor keeps, for each group, a view with its number, which may be old, and the messages that are not settled. It
hands them to one member, its door, for the view that the door has told. A door that rejects them, because the view has
changed, tells the new one, and which messages it lacks; those are sent again first, in their order. So no message can
overtake one that was rejected: the flush that the paper has before a cached view is changed.

If the door is gone, the visitor knocks at all that it knows: the members of the last view, and its contacts. A new door
in the view in which it has handed messages to another is asked to end that view.

A message bears the number that it was given when it was accepted, however often it is sent: the table of guests, and
not a list of ids, tells what came before (hole f of the paper).

Limits: GUEST_MESSAGES_MAX messages or GUEST_BYTES_MAX bytes that are not settled; then the sender waits.
"""

from collections import deque
from random import Random
from typing import Final, final

from antiphon.kernel.calls import OUTSIDE_BYTES_MAX, Frames, Hang
from antiphon.kernel.codec import seal
from antiphon.kernel.effects import NEVER, Effects, Reached, RequestRefused, Route, Sent, Transmit, Writable
from antiphon.kernel.errors import MalformedError, MessageTooLargeError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import Reach, Send
from antiphon.kernel.levels import ABCAST
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import KNOCK
from antiphon.stacks.label.comparison import check_label_at_call
from antiphon.stacks.label.guest_frames import (
    HELLO,
    NUDGE,
    PING,
    REFUSED,
    SETTLED,
    VIEW,
    GuestView,
    decode_address,
    decode_number,
    decode_refusal,
    decode_view,
    encode_message,
    encode_number,
)
from antiphon.stacks.label.guest_queue import GUEST_BYTES_MAX, GUEST_MESSAGES_MAX, GuestMessage
from antiphon.stacks.label.guests import GUEST_IDLE_NS
from antiphon.stacks.label.offers import NUMBER

PING_NS: Final = 1000 * MILLISECOND_NS
"""A door that has said nothing for so long, while something waits for it, is asked…"""
SILENCE_NS: Final = 3000 * MILLISECOND_NS
"""…and after so long it is left."""
KNOCKS_MAX: Final = 6
"""Knocks follow each other ever less often: the interval doubles so many times."""


@final
class OutgoingMessage:
    """A message that is not settled."""

    __slots__ = ("is_gone", "link", "message", "sent_in", "sent_ns", "sent_to")

    def __init__(self, message: GuestMessage) -> None:
        self.message = message
        self.sent_in = 0
        """The view for which it was handed to a door last; 0: to none."""
        self.sent_to: ProcessId | None = None
        """That door…"""
        self.link = 0
        """…by this link…"""
        self.sent_ns = 0
        """…and when it was handed in first."""
        self.is_gone = False
        """It has left, in that view, and was delivered."""

    def is_with(self, view_id: int, link: int) -> bool:
        """Whether it was handed in for this view by this link."""
        return self.sent_in == view_id and self.link == link


@final
class Visit:
    """One group that this process sends to from outside."""

    __slots__ = (
        "_address", "_bytes", "_contacts", "_door", "_heard_ns", "_is_up", "_knock_at_ns", "_knocks", "_options",
        "_ping_at_ns", "_process", "_queue", "_random", "_told", "_was_full", "group", "group_id", "last", "link",
        "to_dial", "view",
    )  # fmt: skip

    def __init__(
        self, input: Reach, process: ProcessId, last: int, random: Random, options: Options, now_ns: int
    ) -> None:
        self.group = input.group
        self.group_id = wire_id(input.group)
        self._contacts = input.contacts
        self._address = input.address
        self._process = process
        self._random = random
        self._options = options
        self.view: View | None = None
        """The members, as far as is known."""
        self.last = last
        """The number of the last message that was accepted."""
        self._queue: deque[OutgoingMessage] = deque()
        self._bytes = 0
        self._was_full = False
        self.link = 0
        """The link to the door, or to one that is dialled; 0: none."""
        self._is_up = False
        self._door: ProcessId | None = None
        self._told: GuestView | None = None
        """What the door has said last."""
        self._heard_ns = now_ns
        self._knock_at_ns = now_ns
        self._knocks = 0
        self._ping_at_ns = NEVER
        self.to_dial = ""
        """Where to dial next, as somebody has said."""

    # ---- the application's side ------------------------------------------------------------------------------------

    def accept(self, input: Send, now_ns: int) -> int:
        """Take messages from the front while there is room; how many. Raises UsageError."""
        if input.label:
            check_label_at_call(input.label, input.level, True)
        bytes_max = min(self._options.message_bytes_max, OUTSIDE_BYTES_MAX)
        for payload in input.payloads:
            if len(payload) > bytes_max:
                raise MessageTooLargeError(len(payload), bytes_max)
        label = input.label if input.level == ABCAST else ""
        if not self._waits():  # the door owed nothing, and was silent
            self._heard_ns = now_ns
            self._ping_at_ns = now_ns + PING_NS
        count = 0
        for payload in input.payloads:
            if len(self._queue) >= GUEST_MESSAGES_MAX or (self._queue and self._bytes >= GUEST_BYTES_MAX):
                self._was_full = True
                break
            self.last += 1
            message = GuestMessage(self._process, self.last, input.level, label, input.destinations, payload)
            self._queue.append(OutgoingMessage(message))
            self._bytes += len(payload)
            count += 1
        return count

    def outstanding(self) -> int:
        return len(self._queue)

    # ---- finding a door --------------------------------------------------------------------------------------------

    def come(self, data: bytes) -> None:
        """A member says where to dial. Raises MalformedError."""
        address = decode_address(data)
        if not self.link and not self.to_dial:
            self.to_dial = address

    def dialled(self, link: int, now_ns: int) -> None:
        self.link = link
        self.to_dial = ""
        self._is_up = False
        self._heard_ns = now_ns

    def link_up(self, door: ProcessId, effects: Effects, now_ns: int) -> None:
        self._is_up = True
        self._door = door
        self._told = None
        self._heard_ns = now_ns
        self._ping_at_ns = now_ns + PING_NS
        self._knocks = 0
        effects.call(Frames(self.link, [encode_number(HELLO, self.group_id)]))

    def link_down(self, now_ns: int) -> None:
        self.link = 0
        self._is_up = False
        self._told = None
        self._knock_at_ns = now_ns + self._options.retry_ns

    def leave_door(self, effects: Effects, now_ns: int) -> None:
        if self.link:
            effects.call(Hang(self.link))
        self.link_down(now_ns)

    def _waits(self) -> bool:
        """Whether the door owes this process something."""
        return bool(self._queue) or not self._is_up or self._told is None

    def deadline_ns(self) -> int:
        if not self.link:
            return self._knock_at_ns
        return min(self._ping_at_ns, self._heard_ns + SILENCE_NS) if self._waits() else NEVER

    def tick(self, effects: Effects, now_ns: int) -> None:
        if self.link and self._waits():
            if self._heard_ns + SILENCE_NS <= now_ns:
                self.leave_door(effects, now_ns)
            elif self._is_up and self._ping_at_ns <= now_ns:
                self._ping_at_ns = now_ns + PING_NS
                effects.call(Frames(self.link, [encode_number(PING, 0)]))
        if not self.link and self._knock_at_ns <= now_ns:
            self._knock(effects, now_ns)

    def _knock(self, effects: Effects, now_ns: int) -> None:
        self._knock_at_ns = now_ns + (self._options.heartbeat_interval_ns << min(self._knocks, KNOCKS_MAX))
        self._knocks += 1
        self.to_dial = ""
        addresses = [address for address in (self.view.addresses if self.view is not None else ()) if address]
        packet = seal(NUMBER, KNOCK, self.group_id, 0, 0, 0, 0, [self._address.encode()])
        for address in dict.fromkeys([*self._shuffled(addresses), *self._contacts]):
            effects.transmits.append(Transmit(Route((), (address,)), [packet]))

    def _shuffled(self, addresses: list[str]) -> list[str]:
        """So that not all visitors choose the same door."""
        self._random.shuffle(addresses)
        return addresses

    # ---- what the door says ----------------------------------------------------------------------------------------

    def receive(self, frames: list[bytes], effects: Effects, now_ns: int) -> None:
        """Take frames of the door. Raises MalformedError."""
        self._heard_ns = now_ns
        self._ping_at_ns = now_ns + PING_NS
        for frame in frames:
            kind = frame[0] if frame else 0
            if kind == VIEW:
                self._take_view(decode_view(frame), effects, now_ns)
            elif kind == SETTLED:
                self._settle(decode_number(frame), effects)
            elif kind == REFUSED:
                decode_refusal(frame)  # another may take it; the link ends
            else:
                raise MalformedError("frame")

    def _take_view(self, told: GuestView, effects: Effects, now_ns: int) -> None:
        self._told = told
        if not told.is_known and self._is_in_doubt(now_ns):
            self._give_up(effects)
            return
        for outgoing in self._queue:
            if outgoing.message.number <= told.before:
                self._note_gone(outgoing, effects)
        if self.view is None or self.view.id != told.view.id:
            self.view = told.view
            effects.events.append(Reached(self.group, told.view))

    def _is_in_doubt(self, now_ns: int) -> bool:
        """Whether the group may have forgotten that it has delivered what waits here: guests that are silent for long
        are dropped from the table."""
        return any(each.sent_ns and now_ns - each.sent_ns > GUEST_IDLE_NS // 2 for each in self._queue)

    def _give_up(self, effects: Effects) -> None:
        """Nobody knows what became of what was handed in."""
        self._queue.clear()
        self._bytes = 0
        reason = "the group has forgotten this sender, and nobody knows whether its last messages were delivered"
        effects.events.append(RequestRefused(self.group, 0, reason))

    def _note_gone(self, outgoing: OutgoingMessage, effects: Effects) -> None:
        """A message has left, in the view for which it was last handed in."""
        if not outgoing.is_gone and outgoing.sent_in:
            outgoing.is_gone = True
            message = outgoing.message
            size = len(message.payload)
            left = Sent(self.group, outgoing.sent_in, message.number, 1, message.level, size, message.destinations)
            effects.events.append(left)

    def _settle(self, number: int, effects: Effects) -> None:
        while self._queue and self._queue[0].message.number <= number:
            outgoing = self._queue.popleft()
            self._note_gone(outgoing, effects)
            self._bytes -= len(outgoing.message.payload)
        if self._was_full and len(self._queue) <= GUEST_MESSAGES_MAX // 2 and self._bytes <= GUEST_BYTES_MAX // 2:
            self._was_full = False
            effects.events.append(Writable(self.group))

    # ---- handing in ------------------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Hand in what the door is to have."""
        told = self._told
        if told is None or not self._is_up or not self._queue:
            return
        view_id = told.view.id
        if self._queue[-1].is_with(view_id, self.link):
            return  # then all before it are, too
        frames: list[bytes] = []
        for outgoing in self._queue:
            is_there = outgoing.is_with(view_id, self.link)
            if is_there or outgoing.is_gone or outgoing.message.number <= told.last:
                continue
            if outgoing.sent_in == view_id and outgoing.sent_to != self._door:
                self._told = None  # until it tells of the view that follows
                effects.call(Frames(self.link, [encode_number(NUDGE, view_id)]))
                return
            frames.append(self._hand_in(outgoing, view_id, now_ns))
        if frames:
            effects.call(Frames(self.link, frames))

    def _hand_in(self, outgoing: OutgoingMessage, view_id: int, now_ns: int) -> bytes:
        outgoing.sent_in = view_id
        outgoing.sent_to = self._door
        outgoing.link = self.link
        outgoing.sent_ns = outgoing.sent_ns or now_ns
        return encode_message(outgoing.message, view_id)
