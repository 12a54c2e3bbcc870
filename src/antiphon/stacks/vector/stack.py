"""Stack `vector`: the ISIS protocols of 1991, composed.

    application ──▶ OutgoingStream ──▶ stamp (CausalOrder) ──▶ packet ──▶ network
    network ──▶ Exchange (loss recovery, acks, stability) ──▶ CausalOrder (hold-back) ──▶ Assembly ──▶ application

Levels: reliable, fifo, causal. Membership is the view given at the start; the view gate, flush (5.5) and agreed order
(5.2) have their place between CausalOrder and the application.

Limits: per sender `window_packets` packets, held back or kept for resending, and one half-received message; own
messages wait within `pending_bytes_max`. A paused application consumes nothing, so every sender's window closes in
turn.
"""

from collections import deque
from random import Random
from typing import Final, final

from antiphon.kernel.codec import DATA, REQUEST, STATUS, view_tag
from antiphon.kernel.effects import Delivered, Effects, Installed, Received, Sent, Transmit, Writable
from antiphon.kernel.errors import MalformedError, MessageTooLargeError, UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.levels import CAUSAL, RELIABLE
from antiphon.kernel.options import Options
from antiphon.parts.exchange import Exchange
from antiphon.parts.fragments import Assembly
from antiphon.parts.packet import FRAGMENT_OVERHEAD, DataPacket, acks_size
from antiphon.stacks.vector import timestamp
from antiphon.stacks.vector.causal import CausalOrder

NAME: Final = "vector"
LEVELS_OFFERED: Final = ("reliable", "fifo", "causal")
PROMISES: Final = ("creation", "duplication", "fifo", "causal", "settled")


@final
class _OwnPacket:
    """An own packet that is out, but may not be delivered here yet."""

    __slots__ = ("first_message", "level", "messages", "number", "vector")

    def __init__(self, number: int, level: int, first_message: int, messages: list[bytes], vector: list[int]) -> None:
        self.number = number
        self.level = level
        self.first_message = first_message
        self.messages = messages
        self.vector = vector


@final
class VectorStack:
    """One member of one group."""

    __slots__ = (
        "_assemblies",
        "_blocked",
        "_exchange",
        "_me",
        "_options",
        "_order",
        "_own",
        "_paused",
        "_spoiled",
        "_view",
        "group",
        "group_id",
        "tag",
    )

    def __init__(self, group: str, process: ProcessId, view: View, random: Random, options: Options) -> None:
        members = len(view.members)
        self.group = group
        self.group_id = wire_id(group)
        self.tag = view_tag(view, options)
        self._view = view
        self._me = view.rank(process)
        self._options = options
        if self._me < 0:
            raise UsageError(f"{process} is not a member of the view that it was given for group {group!r}: {view}")
        order_bytes_max = timestamp.size_max(members)
        if 2 * (FRAGMENT_OVERHEAD + order_bytes_max + acks_size(0)) > options.packet_bytes_max:
            raise UsageError(
                f"a group of {members} members needs a packet_bytes_max of at least "
                f"{2 * (FRAGMENT_OVERHEAD + order_bytes_max + acks_size(0))} bytes, not {options.packet_bytes_max}"
            )
        self._exchange = Exchange(self.group_id, self.tag, members, self._me, order_bytes_max, random, options)
        self._order = CausalOrder(members, self._me)
        self._assemblies: list[Assembly] = [Assembly(options.message_bytes_max) for _ in range(members)]
        self._blocked: list[int] = []
        self._own: deque[_OwnPacket] = deque()
        self._paused = False
        self._spoiled = 0

    def start(self, effects: Effects) -> None:
        effects.events.append(Installed(self.group, self._view))

    # ---- the application's side ------------------------------------------------------------------------------------

    def send(self, payloads: list[bytes], level: int, effects: Effects) -> None:
        """Accept messages; `finish` puts on the wire what may leave."""
        for payload in payloads:
            if len(payload) > self._options.message_bytes_max:
                raise MessageTooLargeError(len(payload), self._options.message_bytes_max)
        number = self._exchange.outgoing.accepted + 1
        count, size = self._exchange.outgoing.accept(payloads, level)
        if count:
            effects.events.append(Sent(self.group, self._view.id, number, count, level, size))

    def pause(self) -> None:
        self._paused = True

    def resume(self, effects: Effects, now_ns: int) -> None:
        """Hand on what has gathered meanwhile."""
        if not self._paused:
            return
        self._paused = False
        for rank, stream in enumerate(self._exchange.incoming):
            for number in sorted(stream.packets):
                packet = stream.packets[number]
                if number > stream.consumed and packet.level == RELIABLE and not packet.delivered:
                    self._deliver_early(packet, effects)
            if stream.consumed < stream.received or rank == self._me:
                self._advance(rank, effects, now_ns)

    # ---- the network's side ----------------------------------------------------------------------------------------

    def receive(
        self, kind: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        """One packet of this view. Raises MalformedError, before anything has changed."""
        if sender >= len(self._view.members):
            raise MalformedError("rank")
        if sender == self._me:
            raise MalformedError("echo")
        if kind == DATA:
            self._receive_data(sender, flags, level, data, effects, now_ns)
        elif kind == STATUS:
            self._exchange.take_status(data, sender, flags, now_ns)
        elif kind == REQUEST:
            self._exchange.take_request(data, sender)
        else:
            raise MalformedError("kind")

    def _receive_data(self, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int) -> None:
        if level > CAUSAL:
            raise MalformedError("level")
        packet = self._exchange.open_data(data, sender, flags, level)
        if packet is None:
            return
        if packet.order:
            packet.stamp = timestamp.decode(packet.order, len(self._view.members))
            self._check_stamp(packet)
        self._exchange.add_data(packet, now_ns)
        if self._options.record_receives:
            self._report_receive(packet, effects)
        if self._paused:
            return
        if level == RELIABLE and packet.number != self._order.delivered[sender] + 1:
            self._deliver_early(packet, effects)
        elif packet.number == self._order.delivered[sender] + 1:
            self._advance(sender, effects, now_ns)

    def _check_stamp(self, packet: DataPacket) -> None:
        """A stamp counts packets that exist: none that I have not sent, none beyond a sender's window."""
        for rank, count in packet.stamp:
            if rank == self._me:
                genuine = count <= self._exchange.outgoing.sent
            else:
                genuine = self._exchange.incoming[rank].plausible(count)
            if not genuine or (rank == packet.sender and count != 0):
                raise MalformedError("timestamp")

    def _report_receive(self, packet: DataPacket, effects: Effects) -> None:
        count = packet.count
        if packet.fragment_total and packet.fragment_index + 1 < packet.fragment_total:
            return
        sender = self._view.members[packet.sender]
        size = len(packet.data) - packet.body
        effects.events.append(
            Received(self.group, self._view.id, sender, packet.first_message, count, packet.level, size)
        )

    # ---- delivery --------------------------------------------------------------------------------------------------

    def _advance(self, sender: int, effects: Effects, now_ns: int) -> None:
        """Deliver from the head of a sender's queue, and from the queues that this frees."""
        if not self._drain(sender, effects, now_ns):
            return
        progress = bool(self._blocked)
        while progress:
            progress = False
            waiting = self._blocked
            self._blocked = []
            for rank in waiting:
                if self._drain(rank, effects, now_ns):
                    progress = True

    def _drain(self, sender: int, effects: Effects, now_ns: int) -> bool:
        """Deliver what is deliverable of one sender; whether anything was."""
        if sender == self._me:
            return self._drain_own(effects)
        packets = self._exchange.incoming[sender].packets
        order = self._order
        start = order.delivered[sender]
        while True:
            packet = packets.get(order.delivered[sender] + 1)
            if packet is None:
                break
            if packet.delivered:
                order.skip(packet)
            elif order.deliverable(packet):
                order.deliver(packet)
                self._hand_on(packet, effects)
            else:
                if sender not in self._blocked:
                    self._blocked.append(sender)
                break
            self._exchange.consumed(sender, now_ns)
        return order.delivered[sender] != start

    def _drain_own(self, effects: Effects) -> bool:
        """The same for own packets."""
        start = self._order.delivered[self._me]
        while self._own:
            packet = self._own[0]
            if not self._order.own_deliverable(packet.level, packet.vector):
                if self._me not in self._blocked:
                    self._blocked.append(self._me)
                break
            self._own.popleft()
            self._deliver_own(packet.number, packet.level, packet.first_message, packet.messages, effects)
        return self._order.delivered[self._me] != start

    def _deliver_own(
        self, number: int, level: int, first_message: int, messages: list[bytes], effects: Effects
    ) -> None:
        self._order.deliver_own(number)
        self._exchange.table.note_consumed(number)
        if messages:
            self._deliver(self._me, first_message, level, messages, effects)

    def _deliver_early(self, packet: DataPacket, effects: Effects) -> None:
        """A reliable packet waits for nothing; but fragments are put together in their sender's order."""
        if not packet.fragment_total:
            self._order.deliver_early(packet)
            packet.delivered = True
            self._hand_on(packet, effects)

    def _hand_on(self, packet: DataPacket, effects: Effects) -> None:
        sender = packet.sender
        assembly = self._assemblies[sender]
        if not packet.fragment_total:
            if assembly.is_open() and packet.level != RELIABLE:
                assembly.clear()
                self._spoiled += 1
            self._deliver(sender, packet.first_message, packet.level, packet.messages(), effects)
        elif not assembly.add(packet.first_message, packet.fragment_index, packet.fragment_total, packet.fragment()):
            self._spoiled += 1
        elif assembly.complete():
            self._deliver(sender, packet.first_message, packet.level, [assembly.take()], effects)

    def _deliver(self, sender: int, number: int, level: int, payloads: list[bytes], effects: Effects) -> None:
        """Events of one step that continue one another become one."""
        process = self._view.members[sender]
        if effects.events:
            last = effects.events[-1]
            if (
                isinstance(last, Delivered)
                and last.sender is process
                and last.level == level
                and last.number + len(last.payloads) == number
                and last.group is self.group
            ):
                last.payloads.extend(payloads)
                return
        effects.events.append(Delivered(self.group, self._view.id, process, number, level, payloads))

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        self._exchange.tick(now_ns)

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Send what may leave, then collect what is to be transmitted."""
        exchange = self._exchange
        exchange.settle(now_ns)
        while not self._paused and exchange.may_send():
            load = exchange.send_next(self._order.stamp(exchange.outgoing.next_level()), now_ns)
            number = exchange.outgoing.sent
            vector = self._order.stamped()
            self._order.sent(number)
            if not self._own and self._order.own_deliverable(load.level, vector):
                self._deliver_own(number, load.level, load.first_message, load.complete, effects)
            else:
                self._own.append(_OwnPacket(number, load.level, load.first_message, load.complete, vector))
                self._drain_own(effects)
        if len(self._view.members) == 1:
            exchange.settle(now_ns)
        if exchange.outgoing.take_writable():
            effects.events.append(Writable(self.group))
        if exchange.multicasts:
            if len(self._view.members) > 1:
                effects.transmits.append(Transmit(self.group, None, exchange.multicasts))
            exchange.multicasts = []
        if exchange.unicasts:
            for rank, packets in exchange.unicasts.items():
                effects.transmits.append(Transmit(self.group, self._view.members[rank], packets))
            exchange.unicasts = {}

    def deadline_ns(self) -> int:
        return self._exchange.deadline_ns()

    def outstanding(self) -> int:
        """Own messages not yet in packets, and own packets not yet stable or not yet delivered here."""
        out = self._exchange.outgoing
        return out.pending_messages() + max(out.sent - out.stable, len(self._own))

    def statistics(self) -> dict[str, int]:
        exchange = self._exchange
        held = 0
        for stream in exchange.incoming:
            held += len(stream.packets)
        return {
            "messages_sent": exchange.outgoing.accepted,
            "packets_sent": exchange.outgoing.sent,
            "packets_stable": exchange.outgoing.stable,
            "packets_held": held,
            "pending_bytes": exchange.outgoing.pending_bytes,
            "duplicates": exchange.duplicates,
            "requests": exchange.requests,
            "resends": exchange.resends,
            "messages_spoiled": self._spoiled,
        }
