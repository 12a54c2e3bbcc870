"""Handing messages to the application: whole ones, and those that came in fragments."""

from typing import final

from antiphon.kernel.effects import Delivered, Effects
from antiphon.kernel.identity import View
from antiphon.parts.fragments import Assembly
from antiphon.parts.node_batch import NodeBatch
from antiphon.parts.packet import DataPacket


@final
class MessageAssembler:
    """Puts the messages of one view together, from fragments where they came in such, and delivers them."""

    __slots__ = ("_assemblies", "_group", "_view", "open", "private", "spoiled")

    def __init__(self, group: str, view: View, message_bytes_max: int) -> None:
        self._group = group
        self._view = view
        self._assemblies = [Assembly(message_bytes_max) for _ in view.members]
        self.open = 0
        """Senders of which half a message is here."""
        self.private = False
        """Whether what comes next was sent to fewer than the view."""
        self.spoiled = 0
        """Messages that could not be put together, since a sender broke off."""

    def whole(
        self, rank: int, number: int, level: int, payloads: list[bytes], size: int, apart: bool, effects: Effects
    ) -> None:
        """Deliver whole messages. `apart`: they may stand between the fragments of another."""
        if self.open and not apart:
            self.break_off(rank)
        self._deliver(rank, number, level, payloads, size, effects)

    def _deliver(self, rank: int, number: int, level: int, payloads: list[bytes], size: int, effects: Effects) -> None:
        group, view_id, sender = self._group, self._view.id, self._view.members[rank]
        if self.private:
            effects.events.append(Delivered(group, view_id, sender, number, level, payloads, size, True))
        else:
            effects.deliver(group, view_id, sender, number, level, payloads, size)

    def packet(self, packet: DataPacket, effects: Effects) -> None:
        """Deliver what a packet of another member brings."""
        rank, number, level = packet.sender, packet.first_message, packet.level
        if packet.fragment_total:
            index, total = packet.fragment_index, packet.fragment_total
            self.fragment(rank, number, level, index, total, packet.fragment(), effects)
        else:
            self.whole(rank, number, level, packet.messages(), packet.payload_bytes(), False, effects)

    def batch(self, rank: int, batch: NodeBatch, effects: Effects) -> None:
        """Deliver what a node of the message graph brings."""
        number, level = batch.first_message, batch.level
        if batch.total:
            self.fragment(rank, number, level, batch.index, batch.total, batch.slice(), effects)
        else:
            self.whole(rank, number, level, batch.messages(), batch.size(), False, effects)

    def break_off(self, rank: int) -> None:
        """Whole messages of this sender follow: what is half here will not be completed."""
        if self._assemblies[rank].is_open():
            self._assemblies[rank].clear()
            self.open -= 1
            self.spoiled += 1

    def fragment(
        self, rank: int, number: int, level: int, index: int, total: int, part: bytes, effects: Effects
    ) -> None:
        """Take a fragment, and deliver its message if that is complete now."""
        assembly = self._assemblies[rank]
        before = 1 if assembly.is_open() else 0
        if not assembly.add(number, index, total, part):
            self.spoiled += 1
        elif assembly.complete():
            message = assembly.take()
            self._deliver(rank, number, level, [message], len(message), effects)
        self.open += (1 if assembly.is_open() else 0) - before
