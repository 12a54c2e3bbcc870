"""How far a client of a service has read each group, and what it is told again.

Each place in the order of a group is one event of its stream: a batch of messages, or a change of members, whose view
id is the number of the place. So places can be counted: the first event of a group is the change of members that let
this process in, and each event after that is the next place. A position is the number of the last place that was read
to its end, or, within a batch, `place.count`: so many messages of that place."""

from collections import deque
from collections.abc import AsyncIterator
from typing import Self, final

from antiphon.kernel.effects import Replayed
from antiphon.kernel.errors import UsageError
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.runtime.events import Batch, Message, StreamEvent, ViewChange
from antiphon.runtime.readers import BatchReader


def parse_position(position: str) -> tuple[int, int]:
    """The first place that was not read to its end, and how many of its messages were read; 0 for all that there is."""
    if not position:
        return 0, 0
    place, dot, count = position.partition(".")
    if not place.isdecimal() or (dot and not count.isdecimal()):
        raise UsageError(f"{position!r} is no position; a client tells positions by `client.position(group)`")
    return (int(place), int(count)) if dot else (int(place) + 1, 0)


@final
class ReadPositions:
    """Of one client: where it is in each group, and the messages that come before all others."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._within: dict[str, int] = {}
        self.waiting: deque[tuple[Message, int, int]] = deque()
        """Messages to be handed over: each with its place, and how many of that place were read with it; 0: all."""

    def of(self, group: str) -> str:
        place, within = self._places.get(group, 0), self._within.get(group, 0)
        if not place:
            return ""
        return f"{place}.{within}" if within else str(place)

    def enter(self, group: str, place: int) -> None:
        """A place was read to its end."""
        self._places[group] = place
        self._within.pop(group, None)

    def next_place(self, group: str) -> int:
        """The place of the next event of a group."""
        return self._places.get(group, 0) + 1

    def add(self, group: str, place: int, batch: Batch, skipped: int = 0) -> None:
        """Messages of a place are to be handed over one by one, but for the first ones."""
        count = len(batch.payloads)
        for at in range(skipped, count):
            message = Message(batch.payloads[at], batch.sender, batch.number + at, batch.order, group, batch.view_id)
            self.waiting.append((message, place, 0 if at + 1 == count else at + 1))

    def hand(self) -> Message:
        """The next message."""
        message, place, within = self.waiting.popleft()
        self._places[message.group] = place
        if within:
            self._within[message.group] = within
        else:
            self._within.pop(message.group, None)
        return message

    def replay(self, events: list[Replayed], starts: dict[str, tuple[int, int]]) -> None:
        """What was told again comes before all else."""
        for event in events:
            first, read = starts[event.name]
            batch = Batch(event.payloads, event.sender, event.number, LEVEL_NAMES[event.level], event.name, 0)
            self.add(event.name, event.place, batch, read if event.place == first else 0)


@final
class PositionReader(AsyncIterator[StreamEvent]):
    """Iterates over single messages, view changes and their like, and keeps count of places."""

    def __init__(self, batches: BatchReader, positions: ReadPositions) -> None:
        self._batches = batches
        self._positions = positions

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        positions = self._positions
        while not positions.waiting:
            event = await anext(self._batches)
            if isinstance(event, ViewChange):
                positions.enter(event.group, event.view.id)
                return event
            if not isinstance(event, Batch):
                return event
            positions.add(event.group, positions.next_place(event.group), event)
        return positions.hand()
