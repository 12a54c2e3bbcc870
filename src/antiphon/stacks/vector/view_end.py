"""How one view ends for one member (isis-1991, section 5.5): which packets still count.

`freeze` ends intake and sending: what `holdings` says from then on stays true, whatever comes in. `close_at` takes a
cut that is proposed: the packets that somebody in the next view holds. Those of them that are missing here are fetched
from whoever has them and set aside; they count when the cut is decided, in `take_fetched`, and not before. Another
round may end with another cut, from holdings that were told before these came, and a packet that is not in that one
must not have been delivered by a member that goes on.

The annex of a member's word on the end of a view is the epoch that it wants the next one to have; the highest counts.
"""

from typing import Final, final

from antiphon.kernel.errors import MalformedError
from antiphon.parts.exchange import Exchange
from antiphon.parts.membership.session import ViewEnd
from antiphon.parts.packet import DataPacket
from antiphon.parts.ranges import Ranges

_EPOCH_SIZE: Final = 7
"""So that an epoch stays below 2^62."""


def epoch_of(annex: bytes) -> int:
    """The epoch that an annex names; none: 0."""
    return int.from_bytes(annex[:_EPOCH_SIZE], "little")


def _encode_epoch(epoch: int) -> bytes:
    return epoch.to_bytes(_EPOCH_SIZE, "little") if epoch else b""


@final
class PacketViewEnd(ViewEnd):
    """The end of one view, at one member."""

    __slots__ = ("_cut", "_exchange", "_members", "epoch", "epoch_wish")

    def __init__(self, exchange: Exchange, members: int, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch
        """Of the view (inter_group_order.py)."""
        self.epoch_wish = 0
        """The epoch that a message which waits here wants the group to be in."""
        self._exchange = exchange
        self._members = members
        self._cut: list[Ranges] | None = None

    def annex(self) -> bytes:
        """The epoch that this member wants the next view to have."""
        return _encode_epoch(max(self.epoch, self.epoch_wish))

    def merge_annexes(self, annexes: list[bytes]) -> bytes:
        """The highest epoch that a member wants."""
        return _encode_epoch(max([epoch_of(annex) for annex in annexes], default=0))

    def is_annex(self, annex: bytes) -> bool:
        return len(annex) <= _EPOCH_SIZE

    def sent(self) -> int:
        return self._exchange.outgoing.sent

    def received_by(self, rank: int) -> int:
        return self._exchange.table.received[rank][self._exchange.me]

    def contradictions(self) -> int:
        return self._exchange.contradictions

    def holdings(self) -> list[Ranges]:
        """The packets of each member that have come in here, or that I have sent."""
        exchange = self._exchange
        result: list[Ranges] = []
        for rank, stream in enumerate(exchange.incoming):
            prefix = exchange.outgoing.sent if rank == exchange.me else stream.received
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
