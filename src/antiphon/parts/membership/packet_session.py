"""One view whose packets go through an Exchange (parts/exchange.py), as far as stacks are alike: loss recovery, own
packets that are not stable, transmission, questions of stability. A stack adds the order.
"""

from random import Random

from antiphon.kernel.effects import Effects, Sent, Transmit
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import DATA, REQUEST, STATUS
from antiphon.parts.exchange import Exchange
from antiphon.parts.membership.packet_view_end import PacketViewEnd
from antiphon.parts.membership.session import Session
from antiphon.parts.packet import FRAGMENT_OVERHEAD, DataPacket, acks_size
from antiphon.parts.pending import PacketLoad, PendingQueue


class PacketSession(Session):
    """One member in one view."""

    __slots__ = ("cut", "exchange")

    def __init__(
        self,
        stack: int,
        group: str,
        process: ProcessId,
        view: View,
        pending: PendingQueue,
        random: Random,
        options: Options,
        declared: int,
        order_bytes_max: int,
    ) -> None:
        """`order_bytes_max`: how much of a packet its order section takes at most."""
        super().__init__(
            stack, group, process, view, pending, options, declared, FRAGMENT_OVERHEAD + acks_size(0) + order_bytes_max
        )
        self.exchange = Exchange(
            self.stamp, self.group_id, self.tag, len(view.members), self._me, order_bytes_max, pending, random, options
        )  # fmt: skip
        self._end_by(PacketViewEnd(self.exchange, len(view.members)))

    def _end_by(self, cut: PacketViewEnd) -> None:
        """The view ends so; for the `__init__` of a stack that adds something to the end of views."""
        self.cut = cut
        self.end = cut

    # ---- packets in ------------------------------------------------------------------------------------------------

    def receive(
        self, kind: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        if sender >= len(self.view.members):
            raise MalformedError("rank")
        if sender == self._me:
            raise MalformedError("echo")
        if kind == DATA:
            self._receive_data(sender, flags, level, data, effects, now_ns)
        elif kind == STATUS:
            self.exchange.take_status(data, sender, flags, now_ns)
        elif kind == REQUEST:
            self.exchange.take_request(data, sender, now_ns)
        else:
            self._receive_other(kind, sender, data, effects, now_ns)

    def _receive_data(self, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int) -> None:
        """A packet with messages, or with news of the order. Raises MalformedError, before anything has changed."""
        packet = self.exchange.open_data(data, sender, flags, level)
        if packet is not None:
            self._check_order(packet)
            self._add(packet, now_ns)

    def _check_order(self, packet: DataPacket) -> None:
        """Raise MalformedError if what a packet says about the order cannot be."""

    def _add(self, packet: DataPacket, now_ns: int) -> None:
        """A packet that was checked counts as received from here on, unless the view is closing."""
        if self.cut.frozen:
            self.cut.set_aside(packet, now_ns)
        else:
            self.exchange.add_data(packet, now_ns)

    def _receive_other(self, kind: int, sender: int, data: bytes, effects: Effects, now_ns: int) -> None:
        """A packet of a kind that only this stack has. Raises MalformedError."""
        raise MalformedError("kind")

    def answer_late(self, kind: int, sender: int, data: bytes, effects: Effects, now_ns: int) -> None:
        if kind == REQUEST:
            self.exchange.take_request(data, sender, now_ns)
            self.collect(effects)

    # ---- packets out -----------------------------------------------------------------------------------------------

    def _note_sent(self, load: PacketLoad, effects: Effects) -> None:
        """The last packet went out with this load."""
        if load.complete:
            effects.events.append(
                Sent(self.group, self.view.id, load.first_message, len(load.complete), load.level, load.size)
            )
            self._own.append((self.exchange.sent, load.first_message + len(load.complete) - 1))

    def _forget_consumed(self) -> None:
        """Let go of own packets that all members have consumed."""
        if self._own and self._own[0][0] <= self.exchange.stable:
            consumed = self.exchange.consumed_by_all(self._me)
            while self._own and self._own[0][0] <= consumed:
                self._own.popleft()

    def collect(self, effects: Effects) -> None:
        exchange = self.exchange
        if exchange.multicasts:
            if len(self.view.members) > 1:
                effects.transmits.append(Transmit(self.everyone, exchange.multicasts))
            exchange.multicasts = []
        if exchange.unicasts:
            for rank, packets in exchange.unicasts.items():
                effects.transmits.append(Transmit(self.route(rank), packets))
            exchange.unicasts = {}

    def deadline_ns(self) -> int:
        return self.exchange.deadline_ns()

    def tick(self, effects: Effects, now_ns: int) -> None:
        if self.exchange.deadline_ns() <= now_ns:
            self.exchange.tick(now_ns)

    # ---- questions -------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        exchange = self.exchange
        own = exchange.sent - exchange.table.consumed_by_me
        return max(exchange.sent - exchange.stable, own) + (0 if self.end.barrier is None else 1)

    def known(self) -> list[int]:
        exchange = self.exchange
        return [exchange.sent if rank == self._me else stream.consumed for rank, stream in enumerate(exchange.incoming)]

    def is_stable(self, known: list[int], copies: int) -> bool:
        """Whether these packets, by rank, are k-stable; without a k, whether all members have consumed them."""
        if not copies:
            return all(self.exchange.consumed_by_all(rank) >= count for rank, count in enumerate(known) if count)
        return all(self.exchange.is_stable(rank, count, copies) for rank, count in enumerate(known) if count)

    def are_own_stable(self, message: int, copies: int) -> bool:
        """Whether own messages of this view up to this number are k-stable; without a k, consumed by all members."""
        if self._has_barrier(message):
            return False
        packet = self._last_own(message)
        if not copies:
            return self.exchange.consumed_by_all(self._me) >= packet
        return self.exchange.is_stable(self._me, packet, copies)

    def statistics(self) -> dict[str, int]:
        exchange = self.exchange
        held = 0
        for stream in exchange.incoming:
            held += len(stream.packets)
        return {
            "packets_sent": exchange.sent,
            "packets_stable": exchange.stable,
            "packets_held": held,
            "duplicates": exchange.duplicates,
            "requests": exchange.requests,
            "resends": exchange.resends,
        }
