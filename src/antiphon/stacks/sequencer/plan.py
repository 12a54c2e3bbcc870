"""What an operator, or `antiphon structure`, can ask of a peer of the sequencing service."""

from typing import final

from antiphon.kernel.inputs import StackRequest
from antiphon.stacks.sequencer.offers import OFFERS


@final
class PlaceGroups(StackRequest):
    """Move groups that this peer holds, by name, to the peer at an address, each with those that must stay with it.
    Where peers are replicated, they move to the seat of that address, whoever leads it. Groups that are elsewhere are
    left alone. `moved` says, after the step, how many sets have begun to move."""

    __slots__ = ("address", "groups", "moved")

    def __init__(self, groups: tuple[str, ...], address: str) -> None:
        super().__init__(OFFERS.name)
        self.groups = groups
        self.address = address
        self.moved = 0
