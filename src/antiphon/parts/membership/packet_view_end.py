"""How a view of numbered packets ends for one member (isis-1991, section 5.5): which packets still count.

`freeze` ends intake and sending: what `holdings` says from then on stays true, whatever comes in. `close_at` takes a
cut that is proposed: the packets that somebody in the next view holds. Those of them that are missing here are fetched
from whoever has them and set aside; they count when the cut is decided, in `take_fetched`, and not before. Another
round may end with another cut, from holdings that were told before these came, and a packet that is not in that one
must not have been delivered by a member that goes on.

For stacks whose packets go through an Exchange (parts/exchange.py).
"""

from antiphon.kernel.errors import MalformedError
from antiphon.parts.exchange import Exchange
from antiphon.parts.membership.session import ViewEnd
from antiphon.parts.packet import DataPacket
from antiphon.parts.ranges import Ranges


class PacketViewEnd(ViewEnd):
    """The end of one view, at one member."""

    __slots__ = ("_cut", "_exchange", "_members")

    def __init__(self, exchange: Exchange, members: int) -> None:
        super().__init__()
        self._exchange = exchange
        self._members = members
        self._cut: list[Ranges] | None = None

    def sent(self) -> int:
        return self._exchange.sent

    def received_by(self, rank: int) -> int:
        exchange = self._exchange
        return exchange.sent if rank == exchange.me else exchange.table.received[rank][exchange.me]

    def has_former_life(self, now_ns: int) -> bool:
        return self._exchange.former_life.is_certain(now_ns)

    def holdings(self) -> list[Ranges]:
        """The packets of each member that have come in here, or that I have sent."""
        exchange = self._exchange
        result: list[Ranges] = []
        for rank, stream in enumerate(exchange.incoming):
            prefix = exchange.sent if rank == exchange.me else stream.received
            held = Ranges([(1, prefix)] if prefix else [])
            for number in sorted(stream.packets):
                if number > prefix:
                    held.add(number)
            result.append(held)
        return result

    def is_genuine(self, holdings: list[Ranges]) -> bool:
        """Whether members of this view can hold these packets: in order, and none beyond a sender's window."""
        if len(holdings) != self._members:
            return False
        for rank, held in enumerate(holdings):
            last = 0
            for first, end in held.pairs:
                if not last < first <= end:
                    return False
                last = end
            if not self._exchange.exists(rank, last):
                return False
        return True

    def close_at(self, cut: list[Ranges], sources: list[int], now_ns: int) -> None:
        """The view may end with these packets; the members with ranks `sources` hold them between them."""
        exchange = self._exchange
        self.frozen = True
        self._cut = cut
        for rank, stream in enumerate(exchange.incoming):
            if rank != exchange.me:
                stream.close_at(cut[rank], now_ns)
        exchange.sources = [rank for rank in sources if rank != exchange.me]

    def set_aside(self, packet: DataPacket, now_ns: int) -> None:
        """A packet came after the freeze."""
        if self._cut is None or not self._cut[packet.sender].has(packet.number):
            raise MalformedError("late")
        self._exchange.incoming[packet.sender].set_aside(packet, now_ns)

    def is_complete(self) -> bool:
        """Whether a cut is known and the whole of it is here."""
        if self._cut is None:
            return False
        me = self._exchange.me
        return not any(rank != me and stream.gaps() for rank, stream in enumerate(self._exchange.incoming))

    def take_fetched(self) -> list[DataPacket]:
        """The cut is decided: what was set aside for it, each sender's packets in order."""
        packets: list[DataPacket] = []
        for rank, stream in enumerate(self._exchange.incoming):
            if rank != self._exchange.me:
                packets.extend(stream.take_fetched())
        return packets
