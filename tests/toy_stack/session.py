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

from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.levels import FIFO
from antiphon.kernel.options import Options
from antiphon.parts.emission import MessageAssembler
from antiphon.parts.membership.messages import BarrierBody
from antiphon.parts.membership.packet_session import PacketSession
from antiphon.parts.packet import ORDERED, DataPacket
from antiphon.parts.pending import PacketLoad, PendingQueue

NUMBER: Final = 200
SEQUENCER: Final = 0
_COUNT: Final = Struct("<Q")
_RUN: Final = Struct("<HQI")


class ToySession(PacketSession):
    """One member in one view."""

    def __init__(
        self,
        group: str,
        process: ProcessId,
        view: View,
        pending: PendingQueue,
        random: Random,
        options: Options,
        declared: int,
    ) -> None:
        order_max = _COUNT.size + _RUN.size * len(view.members)
        super().__init__(NUMBER, group, process, view, pending, random, options, declared, order_max)
        self._assembler = MessageAssembler(group, view, options.message_bytes_max)
        self._sequence: deque[tuple[int, int]] = deque()
        """Places that were told and not delivered: rank and number."""
        self._placed = [0] * len(view.members)
        self._loads: dict[int, tuple[int, PacketLoad]] = {}
        """Own packets that are not delivered, each with its count."""
        self._delivered = self._read = 0
        self._closing = False

    def _check_order(self, packet: DataPacket) -> None:
        for rank, first, count in _runs(packet):
            if rank >= len(self.view.members) or not self.exchange.exists(rank, first + count - 1):
                raise MalformedError("order")

    def _order(self, now_ns: int) -> None:
        """As the sequencer: give places to what has come in, and tell them; as another member: read them."""
        incoming = self.exchange.incoming
        if self._me != SEQUENCER:
            while self._read < incoming[SEQUENCER].received:
                self._read += 1
                packet = incoming[SEQUENCER].packets[self._read]
                self._place(_runs(packet))
                if packet.count:
                    self._sequence.append((SEQUENCER, packet.number))
            return
        runs = [
            (rank, self._placed[rank] + 1, stream.received - self._placed[rank])
            for rank, stream in enumerate(incoming)
            if rank != self._me and stream.received > self._placed[rank]
        ]
        if runs and not self.cut.frozen and self.exchange.order_may_leave():
            order = _COUNT.pack(self._delivered) + b"".join([_RUN.pack(*run) for run in runs])
            self.exchange.send_bare(order, ORDERED, FIFO, now_ns)
            self._place(runs)

    def _place(self, runs: list[tuple[int, int, int]]) -> None:
        for rank, first, count in runs:
            self._placed[rank] = first + count - 1
            self._sequence.extend((rank, number) for number in range(first, first + count))

    def _deliver(self, effects: Effects, now_ns: int) -> None:
        while self._sequence and (self._closing or not self.paused):
            if not self._deliver_one(*self._sequence[0], effects, now_ns) and not self._closing:
                break
            self._sequence.popleft()
        if self._me == SEQUENCER and not self._loads:
            self.exchange.table.consumed_by_me = self.exchange.sent
        stream = self.exchange.incoming[SEQUENCER]
        while stream.consumed < self._read and not stream.packets[stream.consumed + 1].count:
            self.exchange.consumed(SEQUENCER, now_ns)

    def _deliver_one(self, rank: int, number: int, effects: Effects, now_ns: int) -> bool:
        """Deliver a packet; false if it is not here, or was delivered."""
        if rank == self._me:
            if number not in self._loads:
                return False
            load = self._loads.pop(number)[1]
            if load.complete:
                self._assembler.whole(rank, load.first_message, load.level, load.complete, load.size, True, effects)
            self.exchange.table.consumed_by_me = number
        else:
            stream = self.exchange.incoming[rank]
            if number not in stream.packets or not stream.consumed < number <= stream.received:
                return False
            self._assembler.packet(stream.packets[number], effects)
            while stream.consumed < number:
                self.exchange.consumed(rank, now_ns)
        self._delivered += 1
        return True

    def finish(self, effects: Effects, now_ns: int) -> None:
        self.exchange.settle(now_ns)
        self._forget_consumed()
        self._order(now_ns)
        self._deliver(effects, now_ns)
        while self._pending.runs and not (self.paused or self.cut.frozen or self.cut.barrier):
            if self._pending.runs[0].barrier:
                self._take_barrier(effects)
            elif not self.exchange.window_open():
                break
            else:
                load = self.exchange.send_next(_COUNT.pack(self._delivered), 0, now_ns)
                self._note_sent(load, effects)
                self._loads[self.exchange.sent] = self._delivered, load
                if self._me == SEQUENCER:
                    self._sequence.append((self._me, self.exchange.sent))
        self._deliver(effects, now_ns)
        self.exchange.settle(now_ns)

    def finish_cut(self, barriers: list[BarrierBody], effects: Effects, now_ns: int) -> bool:
        self._closing = True
        for packet in self.cut.take_fetched():
            self.exchange.add_data(packet, now_ns)
        self._order(now_ns)
        self._deliver(effects, now_ns)
        rest = [(count, self._me, number) for number, (count, _) in self._loads.items()]
        for rank, stream in enumerate(self.exchange.incoming):
            for number in range(stream.consumed + 1, stream.received + 1):
                if rank != self._me and stream.packets[number].count:
                    rest.append((_COUNT.unpack_from(stream.packets[number].order)[0], rank, number))
        for count, rank, number in sorted(rest):
            if count <= self._delivered:
                self._deliver_one(rank, number, effects, now_ns)
        self._deliver_barriers(barriers, effects)
        return True


def _runs(packet: DataPacket) -> list[tuple[int, int, int]]:
    """The places that a packet tells. Raises MalformedError."""
    if len(packet.order) < _COUNT.size or (len(packet.order) - _COUNT.size) % _RUN.size:
        raise MalformedError("order")
    return list(_RUN.iter_unpack(packet.order[_COUNT.size :]))
