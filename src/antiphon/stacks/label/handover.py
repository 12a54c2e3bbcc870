"""Handing broadcasts of one view to the application: what may go at once, what waits for its turn, and fragments.

There are two queues. What has its place and waits for nothing (ABCASTs by their labels' queues, labelled broadcasts)
goes first. The rest goes in the order in which it was given, and each after all ABCASTs that had come before it (rule 3
of queues.py).

Fragments. Labelled broadcasts and ABCASTs may stand between the fragments of another message of their sender, so
several messages of one sender can be half here. Links keep the order of the fragments of each one. Of an ABCAST only
the last fragment has a place; the others are kept as they come, and nobody sees them.

Limit: messages of a sender that are half here are within its window; if one sends more, the oldest is given up.
"""

from collections import deque
from typing import final

from antiphon.kernel.effects import Delivered, Effects
from antiphon.kernel.identity import ProcessId, View
from antiphon.parts.emission import MessageAssembler
from antiphon.parts.fragments import Assembly
from antiphon.stacks.label.item import Item
from antiphon.stacks.label.queues import LabelQueues


@final
class LabelHandover:
    """What one member is still to hand to its application in one view."""

    __slots__ = (
        "_assembler", "_everybody", "_group", "_halves", "_halves_max", "_message_bytes_max", "_placed", "_queues",
        "_turns", "_view_id", "held_back", "spoiled",
    )  # fmt: skip

    def __init__(
        self, group: str, view: View, queues: LabelQueues, message_bytes_max: int, everybody: int, halves_max: int
    ) -> None:
        self._group = group
        self._view_id = view.id
        self._assembler = MessageAssembler(group, view, message_bytes_max)
        self._queues = queues
        self._everybody = everybody
        self._message_bytes_max = message_bytes_max
        self._halves: list[dict[tuple[ProcessId | None, int], Assembly]] = [{} for _ in view.members]
        """By sender, author if that is a guest, and number: messages of which not all fragments have come."""
        self._halves_max = halves_max
        self._placed: deque[Item] = deque()
        self._turns: deque[Item] = deque()
        self.spoiled = 0
        """Messages that could not be put together."""
        self.held_back = 0
        """Broadcasts that waited for an ABCAST."""

    def waiting(self) -> int:
        return len(self._placed) + len(self._turns)

    def place(self, item: Item) -> None:
        """This one waits for nothing any more."""
        self._placed.append(item)

    def queue(self, item: Item) -> None:
        """This one goes after those before it, and after the ABCASTs that have come."""
        item.after = self._queues.arrived
        self._turns.append(item)
        if not self._queues.has_passed(item.after):
            self.held_back += 1

    def next(self) -> Item | None:
        """The next one that may go to the application."""
        if self._placed:
            return self._placed.popleft()
        if self._turns and self._queues.has_passed(self._turns[0].after):
            return self._turns.popleft()
        return None

    def deliver(self, item: Item, effects: Effects) -> None:
        """Hand a broadcast to the application, if its message is complete now."""
        batch = item.batch
        assert batch is not None
        if not batch.total:
            self._emit(item, batch.messages(), batch.size(), effects)
        elif self.take_part(item):
            message = self._halves[item.sender].pop((item.guest, batch.first_message)).take()
            self._emit(item, [message], len(message), effects)

    def _emit(self, item: Item, messages: list[bytes], size: int, effects: Effects) -> None:
        batch, guest = item.batch, item.guest
        assert batch is not None
        is_private = item.destinations != self._everybody
        number, level = batch.first_message, batch.level
        if guest is not None:
            effects.events.append(
                Delivered(self._group, self._view_id, guest, number, level, messages, size, is_private)
            )
            return
        assembler = self._assembler
        assembler.private = is_private
        assembler.whole(item.sender, number, level, messages, size, True, effects)

    def take_part(self, item: Item) -> bool:
        """Keep a fragment; whether its message is complete."""
        batch = item.batch
        assert batch is not None
        halves = self._halves[item.sender]
        key = (item.guest, batch.first_message)
        assembly = halves.get(key)
        if assembly is None:
            assembly = halves[key] = Assembly(self._message_bytes_max)
            if len(halves) > self._halves_max:
                del halves[next(iter(halves))]
                self.spoiled += 1
        if not assembly.add(batch.first_message, batch.index, batch.total, batch.slice()):
            halves.pop(key, None)
            self.spoiled += 1
            return False
        return assembly.complete()
