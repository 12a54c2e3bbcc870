"""Point-to-point messages inside the causal order (isis-1991, section 7.2).

A private message goes to one member. It carries the vector time that a multicast would, and does not raise it: to
everybody else it is an internal event. Its receiver holds it back like any causal message. Its sender starts nothing
else, in any group of the domain, before the receiver has delivered it and said so, so that nothing that follows it can
overtake it by another way, another group for one. Further messages in the same group, to the same member or to the
sender itself, may follow at once, if the application has sent nothing to another group in between.

    PRIVATE      receiver u16 | serial u64 | message u64 | fragment u32 | fragments u32 | order bytes u16
                 | order section | slice
    PRIVATE_ACK  receiver u16 | serial u64: all up to this have been delivered, or are parts of a message that has not
                 arrived whole

The receiver's rank is named because two lives of one process may be in one view and share an address.

Serials count packets per pair of members and view. What arrives out of turn is dropped; the sender sends all that is
not acknowledged again, ever more slowly. What a view leaves unacknowledged is sent again in the next, if the receiver
is in it; receivers know messages by their numbers and take each once.
"""

from collections import deque
from struct import Struct
from typing import Final, final

from antiphon.kernel.codec import HEADER_SIZE, seal
from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import PRIVATE, PRIVATE_ACK
from antiphon.parts.fragments import Assembly
from antiphon.stacks.vector.inter_group_order import InterGroupOrder
from antiphon.stacks.vector.offers import NUMBER
from antiphon.stacks.vector.timestamp import ForeignTime, OrderSection

_HEAD: Final = Struct("<HQQIIH")
_HEAD_SIZE: Final = 28
_ACK: Final = Struct("<HQ")
_ACK_SIZE: Final = 10
WINDOW: Final = 64
"""Packets on their way, and packets that one receiver holds back of one sender."""


@final
class Letter:
    """A private message as its sender keeps it until it is acknowledged."""

    __slots__ = ("destination", "last_serial", "number", "payload")

    def __init__(self, destination: ProcessId, number: int, payload: bytes) -> None:
        self.destination = destination
        self.number = number
        self.payload = payload
        self.last_serial = 0


@final
class Arrived:
    """A private message as its receiver holds it back."""

    __slots__ = ("foreign", "number", "payload", "sender", "serial", "vector")

    def __init__(
        self, sender: int, number: int, serial: int, payload: bytes, vector: list[int], foreign: list[ForeignTime]
    ) -> None:
        self.sender = sender
        self.serial = serial
        self.number = number
        self.payload = payload
        self.vector = vector
        self.foreign = foreign


@final
class PrivateLane:
    """The private messages of one member in one view: those on their way out, and what has come in."""

    __slots__ = (
        "_acked",
        "_assemblies",
        "_done",
        "_group",
        "_interval_ns",
        "_members",
        "_options",
        "_packets",
        "_received",
        "_sent",
        "_stamp",
        "_tag",
        "letters",
        "me",
        "resend_at_ns",
        "to",
        "unicasts",
    )

    def __init__(self, group: int, tag: int, members: int, me: int, options: Options, stamp: int = NUMBER) -> None:
        self._stamp = stamp
        self._group = group
        self._tag = tag
        self._members = members
        self.me = me
        self._options = options
        self.to = -1
        """The member with whom letters are on their way; -1: none are."""
        self.letters: deque[Letter] = deque()
        self._packets: deque[tuple[int, bytes]] = deque()
        self._sent = [0] * members
        self._acked = [0] * members
        self._received = [0] * members
        self._done = [0] * members
        self._assemblies: dict[int, Assembly] = {}
        self._interval_ns = options.probe_interval_ns
        self.resend_at_ns = NEVER
        self.unicasts: list[tuple[int, bytes]] = []

    # ---- out -------------------------------------------------------------------------------------------------------

    def has_room(self, rank: int) -> bool:
        """Whether a letter to this member may leave now."""
        return self.to in (-1, rank) and len(self._packets) < WINDOW

    def send(self, rank: int, letter: Letter, order: bytes, now_ns: int) -> None:
        """Put a letter on its way."""
        room = max(256, self._options.packet_bytes_max - HEADER_SIZE - _HEAD_SIZE - len(order))
        total = max(1, (len(letter.payload) + room - 1) // room)
        self.to = rank
        self.letters.append(letter)
        for index in range(total):
            self._sent[rank] += 1
            head = _HEAD.pack(rank, self._sent[rank], letter.number, index, total, len(order))
            slice = letter.payload[index * room : (index + 1) * room]
            packet = seal(self._stamp, PRIVATE, self._group, self._tag, self.me, 0, 0, [head, order, slice])
            self._packets.append((self._sent[rank], packet))
            if len(self._packets) <= WINDOW:
                self.unicasts.append((rank, packet))
        letter.last_serial = self._sent[rank]
        self._interval_ns = self._options.probe_interval_ns
        self.resend_at_ns = now_ns + self._interval_ns

    def tick(self, now_ns: int) -> None:
        """Send again what is not acknowledged."""
        if now_ns >= self.resend_at_ns:
            for _, packet in list(self._packets)[:WINDOW]:
                self.unicasts.append((self.to, packet))
            self._interval_ns = min(2 * self._interval_ns, self._options.resend_interval_ns_max)
            self.resend_at_ns = now_ns + self._interval_ns

    def take_ack(self, data: bytes, sender: int, now_ns: int) -> None:
        """Let go of the private messages that are acknowledged."""
        if len(data) != HEADER_SIZE + _ACK_SIZE:
            raise MalformedError("length")
        receiver, serial = _ACK.unpack_from(data, HEADER_SIZE)
        if receiver != self.me:
            raise MalformedError("rank")
        if serial > self._sent[sender]:
            raise MalformedError("ack")
        if sender != self.to or serial <= self._acked[sender]:
            return
        self._acked[sender] = serial
        sent_before = self._packets[0][0] + WINDOW
        while self._packets and self._packets[0][0] <= serial:
            self._packets.popleft()
        while self.letters and self.letters[0].last_serial <= serial:
            self.letters.popleft()
        if self._packets:
            for number, packet in list(self._packets)[:WINDOW]:
                if number >= sent_before:
                    self.unicasts.append((sender, packet))
            self._interval_ns = self._options.probe_interval_ns
            self.resend_at_ns = now_ns + self._interval_ns
        else:
            self.to = -1
            self.resend_at_ns = NEVER

    # ---- in --------------------------------------------------------------------------------------------------------

    def take(self, data: bytes, sender: int, waiting: int, order: InterGroupOrder) -> Arrived | None:
        """A packet of a private message to me; the message, when it is whole. `waiting`: how many of its sender's are
        held back here; beyond the limit packets are dropped, and will come again."""
        if len(data) < HEADER_SIZE + _HEAD_SIZE:
            raise MalformedError("length")
        receiver, serial, number, index, total, order_size = _HEAD.unpack_from(data, HEADER_SIZE)
        if receiver != self.me:
            raise MalformedError("rank")
        position = HEADER_SIZE + _HEAD_SIZE + order_size
        if position > len(data) or not 0 < number <= NUMBER_MAX or not serial or index >= total or not order_size:
            raise MalformedError("length")
        if serial == self._received[sender] + 1 and waiting < WINDOW:
            section = OrderSection(data[HEADER_SIZE + _HEAD_SIZE : position], self._members)
            if not order.has_room(section.foreign):
                raise MalformedError("domain")
            self._received[sender] = serial
            assembly = self._assemblies.setdefault(sender, Assembly(self._options.message_bytes_max))
            if assembly.add(number, index, total, data[position:]) and assembly.complete():
                vector = [0] * self._members
                for rank, count in section.vector:
                    vector[rank] = count
                return Arrived(sender, number, serial, assembly.take(), vector, section.foreign)
            if not waiting:
                self.acknowledge(sender, serial)
        elif serial <= self._done[sender]:
            self.acknowledge(sender, self._done[sender])
        return None

    def delivered(self, letter: Arrived, waiting: int) -> None:
        """A message is delivered; so many of its sender still wait. What came after the last whole one is no message
        yet."""
        self.acknowledge(letter.sender, letter.serial if waiting else self._received[letter.sender])

    def acknowledge(self, sender: int, serial: int) -> None:
        """Acknowledge this packet of `sender`, and all before it."""
        self._done[sender] = serial
        ack = seal(self._stamp, PRIVATE_ACK, self._group, self._tag, self.me, 0, 0, [_ACK.pack(sender, serial)])
        self.unicasts.append((sender, ack))
