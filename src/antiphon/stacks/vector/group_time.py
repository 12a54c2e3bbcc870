"""The time of one group that a process is in, in one view, as the order between groups looks at it."""

from typing import final

from antiphon.kernel.levels import CAUSAL
from antiphon.parts.exchange import Exchange
from antiphon.stacks.vector.agreed import AgreedOrder
from antiphon.stacks.vector.causal import CausalOrder


@final
class GroupTime:
    """One group that this process is in, in one view: its time, and how far the others are."""

    __slots__ = ("agreed", "blocked", "causal", "epoch", "exchange", "hold", "members", "settled_at", "view_id")

    def __init__(self, view_id: int, epoch: int, exchange: Exchange, causal: CausalOrder, agreed: AgreedOrder) -> None:
        self.view_id = view_id
        self.epoch = epoch
        self.exchange = exchange
        self.causal = causal
        self.agreed = agreed
        self.members = len(causal.known)
        self.hold = False
        """Deliver nothing for now: a send elsewhere waits."""
        self.blocked = False
        """Deliver nothing: other groups have yet to come into this epoch."""
        self.settled_at = -1
        """Version of `causal.known` that was found settled."""

    def is_plausible(self, entries: list[tuple[int, int]]) -> bool:
        return all(rank < self.members and self.exchange.exists(rank, count) for rank, count in entries)

    def is_delivered_everywhere(self) -> bool:
        """Whether all that happened here before whatever I send next is delivered at every member."""
        known = self.causal.known
        return all(self.exchange.consumed_by_all(rank) >= known[rank] for rank in range(self.members) if known[rank])

    def is_stable(self, copies: int) -> bool:
        """Whether it is k-stable, and delivered here."""
        me = self.exchange.me
        if not self.causal.may_send(CAUSAL) or self.causal.delivered[me] < self.causal.known[me]:
            return False
        known = self.causal.known
        return all(self.exchange.is_stable(rank, known[rank], copies) for rank in range(self.members) if known[rank])
