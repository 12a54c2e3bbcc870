"""One view on the toy stack: a fixed sequencer, the oldest member, gives every packet its place.

Promise: one order of delivery at all members, which keeps each sender's order and causality.

Rule. Packets travel, are resent and acknowledged by an Exchange. The sequencer tells the places of others' packets in
its own packets, and delivers no packet before it has told its place. A packet of its own has the place after all that
it tells. Every packet says how many its sender had delivered (`count`).

Why it is safe: places are read off the sequencer's packets in their order, so all read the same. When a view ends,
what has a place comes first; the rest, by (count, rank, number). What happened before a packet was sent has a lower
count or a place. A packet whose sender had delivered more than this view holds is an orphan and is dropped.

Why it is live: what has come in is given a place in the same step; a sequencer that fails is not in the next view.
"""

from collections import deque
from random import Random
from struct import Struct
from typing import Final

from antiphon.kernel.codec import view_tag
from antiphon.kernel.effects import BarrierReached, Effects, Sent, Transmit
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.levels import FIFO, SAFE
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import DATA, REQUEST, STATUS
from antiphon.parts.emission import MessageAssembler
from antiphon.parts.exchange import Exchange
from antiphon.parts.membership.messages import BarrierBody
from antiphon.parts.membership.packet_view_end import PacketViewEnd
from antiphon.parts.membership.session import Session
from antiphon.parts.packet import ORDERED, DataPacket
from antiphon.parts.pending import PendingQueue

NUMBER: Final = 200
SEQUENCER: Final = 0
_COUNT: Final = Struct("<Q")
_RUN: Final = Struct("<HQI")

OwnPacket = tuple[int, int, list[bytes], int]
"""First message, level, messages that are complete with it, count."""


class ToySession(Session):
    """One member in one view."""

    def __init__(
        self, group: str, process: ProcessId, view: View, pending: PendingQueue, random: Random, options: Options
    ) -> None:
        me, members = view.rank(process), len(view.members)
        if me < 0:
            raise UsageError(f"{process} is not a member of the view that it was given for group {group!r}: {view}")
        tag = view_tag(view, options)
        order_max = _COUNT.size + _RUN.size * members
        self.exchange = Exchange(NUMBER, wire_id(group), tag, members, me, order_max, pending, random, options)
        self.cut = PacketViewEnd(self.exchange, members)
        super().__init__(view, me, tag, self.cut)
        self._group, self._me, self._pending = group, me, pending
        self._assembler = MessageAssembler(group, view, options.message_bytes_max)
        self._sequence: deque[tuple[int, int]] = deque()
        """Places that were told and not delivered: rank and number."""
        self._placed = [0] * members
        self._own: dict[int, OwnPacket] = {}
        self._sent: deque[tuple[int, int]] = deque()
        """Own packets that are not stable, each with the last message that is out with it."""
        self._delivered = self._read = 0
        self._paused = self._closing = False

    def pause(self) -> None:
        self._paused = True

    def resume(self, effects: Effects, now_ns: int) -> None:
        self._paused = False

    # ---- packets in ------------------------------------------------------------------------------------------------

    def receive(
        self, kind: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        if sender >= len(self.view.members) or sender == self._me:
            raise MalformedError("rank")
        if kind == STATUS:
            self.exchange.take_status(data, sender, flags, now_ns)
        elif kind == REQUEST:
            self.exchange.take_request(data, sender, now_ns)
        elif kind != DATA or level > SAFE:
            raise MalformedError("kind")
        else:
            packet = self.exchange.open_data(data, sender, flags, level)
            if packet is None:
                return
            for rank, first, count in _runs(packet):
                if rank >= len(self.view.members) or not self.exchange.exists(rank, first + count - 1):
                    raise MalformedError("order")
            if self.cut.frozen:
                self.cut.set_aside(packet, now_ns)
            else:
                self.exchange.add_data(packet, now_ns)

    def answer_late(self, kind: int, sender: int, data: bytes, effects: Effects, now_ns: int) -> None:
        if kind == REQUEST:
            self.exchange.take_request(data, sender, now_ns)
            self.collect(effects)

    # ---- order and delivery ----------------------------------------------------------------------------------------

    def _order(self, now_ns: int) -> None:
        """As the sequencer: give places to what has come in, and tell them; as another member: read them."""
        incoming = self.exchange.incoming
        if self._me != SEQUENCER:
            while self._read < incoming[SEQUENCER].received:
                self._read += 1
                self._place(incoming[SEQUENCER].packets[self._read])
            return
        runs = [
            (rank, self._placed[rank] + 1, stream.received - self._placed[rank])
            for rank, stream in enumerate(incoming)
            if rank != self._me and stream.received > self._placed[rank]
        ]
        if runs and not self.cut.frozen and self.exchange.order_may_leave():
            order = _COUNT.pack(self._delivered) + b"".join([_RUN.pack(*run) for run in runs])
            self.exchange.send_bare(order, ORDERED, FIFO, now_ns)
            for rank, first, count in runs:
                self._placed[rank] = first + count - 1
                self._sequence.extend((rank, number) for number in range(first, first + count))

    def _place(self, packet: DataPacket) -> None:
        for rank, first, count in _runs(packet):
            self._sequence.extend((rank, number) for number in range(first, first + count))
        if packet.count:
            self._sequence.append((SEQUENCER, packet.number))

    def _deliver(self, effects: Effects, now_ns: int) -> None:
        while self._sequence and (self._closing or not self._paused):
            rank, number = self._sequence[0]
            if not self._deliver_one(rank, number, effects, now_ns) and not self._closing:
                break
            self._sequence.popleft()
        if self._me == SEQUENCER:
            if not self._own:
                self.exchange.table.consumed_by_me = self.exchange.sent
            return
        stream = self.exchange.incoming[SEQUENCER]
        while stream.consumed < self._read and not stream.packets[stream.consumed + 1].count:
            self.exchange.consumed(SEQUENCER, now_ns)

    def _deliver_one(self, rank: int, number: int, effects: Effects, now_ns: int) -> bool:
        """Deliver a packet; false if it is not here, or was delivered."""
        if rank == self._me:
            own = self._own.pop(number, None)
            if own is None:
                return False
            if own[2]:
                self._assembler.whole(rank, own[0], own[1], own[2], sum(map(len, own[2])), True, effects)
            self.exchange.table.consumed_by_me = number
        else:
            stream = self.exchange.incoming[rank]
            packet = stream.packets.get(number)
            if packet is None or not stream.consumed < number <= stream.received:
                return False
            if packet.fragment_total:
                index, total, part = packet.fragment_index, packet.fragment_total, packet.fragment()
                self._assembler.fragment(rank, packet.first_message, packet.level, index, total, part, effects)
            else:
                size = packet.payload_bytes()
                self._assembler.whole(rank, packet.first_message, packet.level, packet.messages(), size, False, effects)
            while stream.consumed < number:
                self.exchange.consumed(rank, now_ns)
        self._delivered += 1
        return True

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        self.exchange.settle(now_ns)
        while self._sent and self._sent[0][0] <= self.exchange.stable:
            self._sent.popleft()
        self._order(now_ns)
        self._deliver(effects, now_ns)
        while self._pending.runs and not (self._paused or self.cut.frozen or self.cut.barrier):
            if self._pending.runs[0].barrier:
                self.cut.barrier = number, payload = self._pending.take_message()
                effects.events.append(Sent(self._group, self.view.id, number, 1, SAFE, len(payload), (), True))
            elif not self.exchange.window_open():
                break
            else:
                self._send(effects, now_ns)
        self._deliver(effects, now_ns)
        self.exchange.settle(now_ns)

    def _send(self, effects: Effects, now_ns: int) -> None:
        load = self.exchange.send_next(_COUNT.pack(self._delivered), 0, now_ns)
        number, complete = self.exchange.sent, load.complete
        self._own[number] = load.first_message, load.level, complete, self._delivered
        if self._me == SEQUENCER:
            self._sequence.append((self._me, number))
        if complete:
            size = sum(map(len, complete))
            effects.events.append(Sent(self._group, self.view.id, load.first_message, len(complete), load.level, size))
            self._sent.append((number, load.first_message + len(complete) - 1))

    def finish_cut(self, barriers: list[BarrierBody], effects: Effects, now_ns: int) -> bool:
        self._closing = True
        for packet in self.cut.take_fetched():
            self.exchange.add_data(packet, now_ns)
        self._order(now_ns)
        self._deliver(effects, now_ns)
        rest = [(own[3], self._me, number) for number, own in self._own.items()]
        for rank, stream in enumerate(self.exchange.incoming):
            for number in range(stream.consumed + 1, stream.received + 1):
                packet = stream.packets[number]
                if rank != self._me and packet.count:
                    rest.append((_COUNT.unpack_from(packet.order)[0], rank, number))
        for count, rank, number in sorted(rest):
            if count <= self._delivered:
                self._deliver_one(rank, number, effects, now_ns)
        for rank, number, payload in barriers:
            sender = self.view.members[rank]
            effects.events.append(BarrierReached(self._group, self.view.id, sender, number, payload))
        return True

    def collect(self, effects: Effects) -> None:
        if self.exchange.multicasts and len(self.view.members) > 1:
            effects.transmits.append(Transmit(self.everyone, self.exchange.multicasts))
        for rank, packets in self.exchange.unicasts.items():
            effects.transmits.append(Transmit(self.route(rank), packets))
        self.exchange.multicasts, self.exchange.unicasts = [], {}

    def deadline_ns(self) -> int:
        return self.exchange.deadline_ns()

    def tick(self, effects: Effects, now_ns: int) -> None:
        self.exchange.tick(now_ns)

    # ---- questions -------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        out = self.exchange
        return max(out.sent - out.stable, len(self._own)) + (self.cut.barrier is not None)

    def held(self) -> int:
        return len(self._sequence)

    def known(self) -> list[int]:
        streams = self.exchange.incoming
        return [self.exchange.sent if rank == self._me else stream.consumed for rank, stream in enumerate(streams)]

    def is_stable(self, known: list[int], copies: int) -> bool:
        return all(self.exchange.is_stable(rank, count, copies) for rank, count in enumerate(known) if count)

    def are_own_stable(self, message: int, copies: int) -> bool:
        packets = [number for number, last in self._sent if last <= message]
        return not packets or self.exchange.is_stable(self._me, packets[-1], copies)

    def statistics(self) -> dict[str, int]:
        held = sum(len(stream.packets) for stream in self.exchange.incoming)
        return {"packets_held": held, "duplicates": self.exchange.duplicates, "resends": self.exchange.resends}

    def situations(self) -> list[int]:
        return []


def _runs(packet: DataPacket) -> list[tuple[int, int, int]]:
    """The places that a packet tells. Raises MalformedError."""
    if len(packet.order) < _COUNT.size or (len(packet.order) - _COUNT.size) % _RUN.size:
        raise MalformedError("order")
    return list(_RUN.iter_unpack(packet.order[_COUNT.size :]))
