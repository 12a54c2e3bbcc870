"""Handing messages to the application: whole ones, and those that came in fragments."""

from typing import final

from antiphon.kernel.effects import Effects
from antiphon.kernel.identity import View
from antiphon.parts.fragments import Assembly


@final
class MessageAssembler:
    """Puts the messages of one view together, from fragments where they came in such, and delivers them."""

    __slots__ = ("_assemblies", "_group", "_view", "open", "spoiled")

    def __init__(self, group: str, view: View, message_bytes_max: int) -> None:
        self._group = group
        self._view = view
        self._assemblies = [Assembly(message_bytes_max) for _ in view.members]
        self.open = 0
        """Senders of which half a message is here."""
        self.spoiled = 0
        """Messages that could not be put together, since a sender broke off."""

    def whole(
        self, rank: int, number: int, level: int, payloads: list[bytes], size: int, apart: bool, effects: Effects
    ) -> None:
        """Deliver whole messages. `apart`: they may stand between the fragments of another."""
        if self.open and not apart:
            self.break_off(rank)
        effects.deliver(self._group, self._view.id, self._view.members[rank], number, level, payloads, size)

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
            sender = self._view.members[rank]
            effects.deliver(self._group, self._view.id, sender, number, level, [message], len(message))
        self.open += (1 if assembly.is_open() else 0) - before
