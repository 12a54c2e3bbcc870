"""One view of one group, as one member lives through it: packets in, order, delivery.

    PendingQueue ──▶ stamp (CausalOrder) ──▶ packet ──▶ network
    network ──▶ Exchange (loss recovery, acks, stability) ──▶ CausalOrder (hold-back) ──▶ Assembly ──▶ application

Vector times and packet numbers restart with each view (isis-1991, section 5.5), so everything here does.

The end of a view. `freeze` ends intake and sending: from then on the session holds what it says it holds. `close_at`
takes the cut, the packets that somebody in the next view holds; the session takes in those and no others, from
whoever has them, and when they are all there hands on what the delay rule allows. What is left then is an orphan: it
happened after something that was lost with the members that had it.
"""

from collections import deque
from random import Random
from typing import final

from antiphon.kernel.codec import DATA, REQUEST, STATUS, view_tag
from antiphon.kernel.effects import Delivered, Effects, Received, Sent, Transmit
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.levels import CAUSAL, RELIABLE
from antiphon.kernel.options import Options
from antiphon.parts.exchange import Exchange
from antiphon.parts.fragments import Assembly
from antiphon.parts.packet import FRAGMENT_OVERHEAD, DataPacket, acks_size
from antiphon.parts.pending import PendingQueue
from antiphon.parts.ranges import Ranges
from antiphon.stacks.vector import timestamp
from antiphon.stacks.vector.causal import CausalOrder


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


def members_max(options: Options) -> int:
    """How many members a view may have, so that the longest timestamp leaves half of a packet for its messages."""
    return (options.packet_bytes_max // 2 - FRAGMENT_OVERHEAD - acks_size(0) - timestamp.size_max(0)) // (
        timestamp.size_max(1) - timestamp.size_max(0)
    )


@final
class ViewSession:
    """One member in one view."""

    __slots__ = (
        "_assemblies",
        "_blocked",
        "_cut",
        "_finished",
        "_frozen",
        "_me",
        "_options",
        "_order",
        "_own",
        "_paused",
        "exchange",
        "group",
        "spoiled",
        "tag",
        "view",
    )

    def __init__(
        self, group: str, process: ProcessId, view: View, pending: PendingQueue, random: Random, options: Options
    ) -> None:
        members = len(view.members)
        self.group = group
        self.tag = view_tag(view, options)
        self.view = view
        self._me = view.rank(process)
        self._options = options
        if self._me < 0:
            raise UsageError(f"{process} is not a member of the view that it was given for group {group!r}: {view}")
        order_bytes_max = timestamp.size_max(members)
        if members > members_max(options):
            packet_bytes_min = 2 * (FRAGMENT_OVERHEAD + order_bytes_max + acks_size(0))
            raise UsageError(
                f"a group of {members} members needs a packet_bytes_max of at least {packet_bytes_min} bytes, "
                f"not {options.packet_bytes_max}"
            )
        self.exchange = Exchange(wire_id(group), self.tag, members, self._me, order_bytes_max, pending, random, options)
        self._order = CausalOrder(members, self._me)
        self._assemblies: list[Assembly] = [Assembly(options.message_bytes_max) for _ in range(members)]
        self._blocked: list[int] = []
        self._own: deque[_OwnPacket] = deque()
        self._paused = False
        self._frozen = False
        self._finished = False
        self._cut: list[Ranges] | None = None
        self.spoiled = 0

    # ---- the application's pace ------------------------------------------------------------------------------------

    def pause(self) -> None:
        self._paused = True

    def resume(self, effects: Effects, now_ns: int) -> None:
        """Hand on what has gathered meanwhile."""
        if self._paused:
            self._paused = False
            self._hand_on_all(effects, now_ns)

    def _hand_on_all(self, effects: Effects, now_ns: int) -> None:
        for rank, stream in enumerate(self.exchange.incoming):
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
        if sender >= len(self.view.members):
            raise MalformedError("rank")
        if sender == self._me:
            raise MalformedError("echo")
        if kind == DATA:
            self._receive_data(sender, flags, level, data, effects, now_ns)
        elif kind == STATUS:
            self.exchange.take_status(data, sender, flags, now_ns)
        elif kind == REQUEST:
            self.exchange.take_request(data, sender)
        else:
            raise MalformedError("kind")

    def _receive_data(self, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int) -> None:
        if level > CAUSAL:
            raise MalformedError("level")
        packet = self.exchange.open_data(data, sender, flags, level)
        if packet is None:
            return
        if self._frozen and (self._cut is None or not self._cut[sender].has(packet.number)):
            raise MalformedError("late")
        if packet.order:
            packet.stamp = timestamp.decode(packet.order, len(self.view.members))
            self._check_stamp(packet)
        self.exchange.add_data(packet, now_ns)
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
                genuine = count <= self.exchange.outgoing.sent
            else:
                genuine = self.exchange.incoming[rank].plausible(count)
            if not genuine or (rank == packet.sender and count != 0):
                raise MalformedError("timestamp")

    def _report_receive(self, packet: DataPacket, effects: Effects) -> None:
        count = packet.count
        if packet.fragment_total and packet.fragment_index + 1 < packet.fragment_total:
            return
        sender = self.view.members[packet.sender]
        size = len(packet.data) - packet.body
        effects.events.append(
            Received(self.group, self.view.id, sender, packet.first_message, count, packet.level, size)
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
        packets = self.exchange.incoming[sender].packets
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
            self.exchange.consumed(sender, now_ns)
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
        self.exchange.table.note_consumed(number)
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
                self.spoiled += 1
            self._deliver(sender, packet.first_message, packet.level, packet.messages(), effects)
        elif not assembly.add(packet.first_message, packet.fragment_index, packet.fragment_total, packet.fragment()):
            self.spoiled += 1
        elif assembly.complete():
            self._deliver(sender, packet.first_message, packet.level, [assembly.take()], effects)

    def _deliver(self, sender: int, number: int, level: int, payloads: list[bytes], effects: Effects) -> None:
        """Events of one step that continue one another become one."""
        process = self.view.members[sender]
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
        effects.events.append(Delivered(self.group, self.view.id, process, number, level, payloads))

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Send what may leave."""
        exchange = self.exchange
        exchange.settle(now_ns)
        while not self._paused and not self._frozen and exchange.may_send():
            self._send_next(effects, now_ns)
        if len(self.view.members) == 1:
            exchange.settle(now_ns)

    def _send_next(self, effects: Effects, now_ns: int) -> None:
        exchange = self.exchange
        load = exchange.send_next(self._order.stamp(exchange.pending.next_level()), now_ns)
        number = exchange.outgoing.sent
        vector = self._order.stamped()
        self._order.sent(number)
        if load.complete:
            size = 0
            for message in load.complete:
                size += len(message)
            effects.events.append(
                Sent(self.group, self.view.id, load.first_message, len(load.complete), load.level, size)
            )
        if not self._own and self._order.own_deliverable(load.level, vector):
            self._deliver_own(number, load.level, load.first_message, load.complete, effects)
        else:
            self._own.append(_OwnPacket(number, load.level, load.first_message, load.complete, vector))
            self._drain_own(effects)

    def collect(self, effects: Effects) -> None:
        """What is to be transmitted."""
        exchange = self.exchange
        if exchange.multicasts:
            if len(self.view.members) > 1:
                effects.transmits.append(Transmit(self.group, None, exchange.multicasts))
            exchange.multicasts = []
        if exchange.unicasts:
            for rank, packets in exchange.unicasts.items():
                effects.transmits.append(Transmit(self.group, self.view.members[rank], packets))
            exchange.unicasts = {}

    def outstanding(self) -> int:
        """Own packets not yet stable or not yet delivered here."""
        out = self.exchange.outgoing
        return max(out.sent - out.stable, len(self._own))

    # ---- the end of the view ---------------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Send no more, take in no more: what `holdings` says now stays true."""
        self._frozen = True

    def holdings(self) -> list[Ranges]:
        """The packets of each member that have come in here, or that I have sent."""
        result: list[Ranges] = []
        for rank, stream in enumerate(self.exchange.incoming):
            prefix = self.exchange.outgoing.sent if rank == self._me else stream.received
            held = Ranges([(1, prefix)] if prefix else [])
            for number in sorted(stream.packets):
                if number > prefix:
                    held.add(number)
            result.append(held)
        return result

    def is_genuine(self, holdings: list[Ranges]) -> bool:
        """Whether members of this view can hold these packets: in order, and none beyond a sender's window."""
        if len(holdings) != len(self.view.members):
            return False
        for rank, held in enumerate(holdings):
            last = 0
            for first, end in held.pairs:
                if not last < first <= end:
                    return False
                last = end
            sent = self.exchange.outgoing.sent
            if last > sent if rank == self._me else not self.exchange.incoming[rank].plausible(last):
                return False
        return True

    def close_at(self, cut: list[Ranges], sources: list[int], now_ns: int) -> None:
        """The view ends with these packets; the members with ranks `sources` hold them between them."""
        self._frozen = True
        self._finished = False
        self._cut = cut
        for rank, stream in enumerate(self.exchange.incoming):
            if rank != self._me:
                stream.close_at(cut[rank], now_ns)
        self.exchange.sources = [rank for rank in sources if rank != self._me]

    def complete(self) -> bool:
        """Whether the whole cut is here."""
        return not any(rank != self._me and stream.gaps() for rank, stream in enumerate(self.exchange.incoming))

    def is_closed(self) -> bool:
        """Whether the cut is known."""
        return self._cut is not None

    def finish_cut(self, effects: Effects, now_ns: int) -> bool:
        """The whole cut is here: hand on what the delay rule allows, whether the application is ready or not, since the
        others wait for it. True once per cut."""
        if self._finished:
            return False
        self._finished = True
        paused = self._paused
        self._paused = False
        self._hand_on_all(effects, now_ns)
        self._paused = paused
        return True

    def statistics(self) -> dict[str, int]:
        exchange = self.exchange
        held = 0
        for stream in exchange.incoming:
            held += len(stream.packets)
        return {
            "packets_sent": exchange.outgoing.sent,
            "packets_stable": exchange.outgoing.stable,
            "packets_held": held,
            "duplicates": exchange.duplicates,
            "requests": exchange.requests,
            "resends": exchange.resends,
            "messages_spoiled": self.spoiled,
        }
