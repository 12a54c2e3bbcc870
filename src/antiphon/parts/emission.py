"""Handing messages to the application: packets and fragments are put together, and events that continue one another
become one."""

from typing import final

from antiphon.kernel.effects import Delivered, Effects
from antiphon.kernel.identity import ProcessId, View
from antiphon.parts.fragments import Assembly


def emit(
    effects: Effects,
    group: str,
    view_id: int,
    sender: ProcessId,
    number: int,
    level: int,
    payloads: list[bytes],
    size: int,
) -> None:
    """Deliver messages of one sender, numbered from `number` on; `size` is their bytes together. `group` and `sender`
    must be the very objects that the events of this group name."""
    if effects.events:
        last = effects.events[-1]
        if (
            isinstance(last, Delivered)
            and last.sender is sender
            and last.level == level
            and not last.private
            and last.number + len(last.payloads) == number
            and last.group is group
        ):
            last.payloads.extend(payloads)
            last.size += size
            return
    effects.events.append(Delivered(group, view_id, sender, number, level, payloads, size))


@final
class MessageAssembler:
    """Puts the messages of one view together, from fragments where they came in such, and delivers them."""

    __slots__ = ("_assemblies", "_group", "_view", "spoiled")

    def __init__(self, group: str, view: View, message_bytes_max: int) -> None:
        self._group = group
        self._view = view
        self._assemblies = [Assembly(message_bytes_max) for _ in view.members]
        self.spoiled = 0
        """Messages that could not be put together, since a sender broke off."""

    def whole(
        self, rank: int, number: int, level: int, payloads: list[bytes], size: int, apart: bool, effects: Effects
    ) -> None:
        """Deliver whole messages. `apart`: they may stand between the fragments of another."""
        assembly = self._assemblies[rank]
        if assembly.is_open() and not apart:
            assembly.clear()
            self.spoiled += 1
        emit(effects, self._group, self._view.id, self._view.members[rank], number, level, payloads, size)

    def fragment(
        self, rank: int, number: int, level: int, index: int, total: int, part: bytes, effects: Effects
    ) -> None:
        """Take a fragment, and deliver its message if that is complete now."""
        assembly = self._assemblies[rank]
        if not assembly.add(number, index, total, part):
            self.spoiled += 1
        elif assembly.complete():
            message = assembly.take()
            emit(effects, self._group, self._view.id, self._view.members[rank], number, level, [message], len(message))
