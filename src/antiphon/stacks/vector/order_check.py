"""Whether what a packet says about the order can be true. Nothing is changed here: what cannot be true is refused."""

from antiphon.kernel.errors import MalformedError
from antiphon.parts.exchange import Exchange
from antiphon.parts.packet import DataPacket
from antiphon.stacks.vector.causal import CausalOrder
from antiphon.stacks.vector.inter_group_order import InterGroupOrder
from antiphon.stacks.vector.timestamp import OrderSection


def read_order(packet: DataPacket, members: int, group_order: InterGroupOrder) -> OrderSection:
    """Take the order section of a packet apart, and give the packet its stamp. Raises MalformedError."""
    section = OrderSection(packet.order, members)
    if section.foreign and not group_order.has_room(section.foreign):
        raise MalformedError("domain")
    packet.stamp = section.vector
    return section


def check_order(packet: DataPacket, section: OrderSection, exchange: Exchange, causal: CausalOrder) -> None:
    """Refuse what no member that keeps to the rules can have said. Raises MalformedError."""
    # A stamp counts packets that exist: none that I have not sent, none beyond a sender's window.
    for rank, count in packet.stamp:
        if not exchange.exists(rank, count) or (rank == packet.sender and count != 0):
            raise MalformedError("timestamp")
    if section.token is not None:
        # Places are given to packets that exist and have none yet.
        for rank, first, count in section.token.runs:
            if not exchange.exists(rank, first + count - 1) or first <= causal.delivered[rank]:
                raise MalformedError("token")
