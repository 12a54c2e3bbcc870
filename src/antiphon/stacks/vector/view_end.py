"""The end of a view, with epochs (inter_group_order.py). The annex of a member's word on the end of a view is the epoch
that it wants the next one to have; the highest counts."""

from typing import Final, final

from antiphon.parts.exchange import Exchange
from antiphon.parts.membership.packet_view_end import PacketViewEnd

_EPOCH_SIZE: Final = 7
"""So that an epoch stays below 2^62."""


def epoch_of(annex: bytes) -> int:
    """The epoch that an annex names; none: 0."""
    return int.from_bytes(annex[:_EPOCH_SIZE], "little")


def _encode_epoch(epoch: int) -> bytes:
    return epoch.to_bytes(_EPOCH_SIZE, "little") if epoch else b""


@final
class EpochViewEnd(PacketViewEnd):
    """The end of one view, at one member."""

    __slots__ = ("epoch", "epoch_wish")

    def __init__(self, exchange: Exchange, members: int, epoch: int) -> None:
        super().__init__(exchange, members)
        self.epoch = epoch
        """Of the view."""
        self.epoch_wish = 0
        """The epoch that a message which waits here wants the group to be in."""

    def annex(self) -> bytes:
        """The epoch that this member wants the next view to have."""
        return _encode_epoch(max(self.epoch, self.epoch_wish))

    def merge_annexes(self, annexes: list[bytes]) -> bytes:
        """The highest epoch that a member wants."""
        return _encode_epoch(max([epoch_of(annex) for annex in annexes], default=0))

    def is_annex(self, annex: bytes) -> bool:
        return len(annex) <= _EPOCH_SIZE
