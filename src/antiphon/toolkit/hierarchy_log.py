"""What the leaders of a hierarchy agree on: all messages to all leaves, in one sequence.

The state of the leaders' group. Messages come in at level `safe`, so every leader puts the same ones in the same order,
and gives each the same *place* 1, 2, 3…; a copy of a message that has a place gets none. Who joins the leaders is
handed this state (`Service`, state transfer), so it goes on counting where the others are.

A message is kept until every leaf has told that it is delivered there, at all its members; so whoever takes over as
leader of a leaf, and has been in the leaders' group for however short a time, has all that its leaf still lacks. A leaf
of which no representative is left among the leaders is not waited for.

Limits: `len` is what is kept, and leaders stop sending at ACROSS_MAX (hierarchy.py); ORIGINS_MAX origins whose last
number is remembered, beyond which the one that sent least recently is forgotten, at all leaders alike.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from antiphon import ProcessId
from antiphon.toolkit.hierarchy_root import LeafDirectory, LeafState
from antiphon.toolkit.messages import WireProcess, from_wire, to_wire

ORIGINS_MAX: Final = 65_536


class Crossing(msgspec.Struct, array_like=True, frozen=True):
    """One message to all leaves."""

    origin: WireProcess
    number: int
    payload: bytes


class LogState(msgspec.Struct, array_like=True, frozen=True):
    """All of it, for a leader that joins."""

    places: int
    numbers: list[tuple[WireProcess, int]]
    kept: list[tuple[int, Crossing]]
    down: list[tuple[str, int]]
    leaves: list[LeafState]


class CrossingLog:
    """The messages to all, as one leader knows them; `leaf` is its own, whose messages it keeps in any case."""

    def __init__(self, leaf: str) -> None:
        self.places = 0
        """The place of the last message."""
        self.directory = LeafDirectory()
        self._leaf = leaf
        self._numbers: dict[ProcessId, int] = {}
        """For each origin, the number of its last message that has a place."""
        self._kept: dict[int, Crossing] = {}
        self._down: dict[str, int] = {leaf: 0}
        """For each leaf, the place up to which all is delivered at all its members."""

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, message: Crossing) -> int:
        """Give a message its place and return that; 0: it is a copy."""
        origin = from_wire(message.origin)
        if message.number <= self._numbers.get(origin, 0):
            return 0
        self._numbers.pop(origin, None)
        self._numbers[origin] = message.number
        if len(self._numbers) > ORIGINS_MAX:
            del self._numbers[next(iter(self._numbers))]
        self.places += 1
        self._kept[self.places] = message
        return self.places

    def place_of(self, message: Crossing) -> int:
        """The place of a message that is kept; 0: it is not."""
        key = (message.origin, message.number)
        return next((place for place, kept in self._kept.items() if (kept.origin, kept.number) == key), 0)

    def after(self, place: int) -> Iterator[tuple[int, Crossing]]:
        """The messages behind this place, as long as there are any."""
        while place < self.places:
            place += 1
            kept = self._kept.get(place)
            if kept is not None:
                yield place, kept

    @property
    def start(self) -> int:
        """The place up to which the own leaf is known to have everything."""
        return self._down[self._leaf]

    def learn(self, state: LeafState) -> None:
        """Take over what a leader tells of its leaf, and let go of what all leaves have."""
        gone = self.directory.learn(state)
        self._down[state.leaf] = max(state.down, self._down.get(state.leaf, 0))
        self._forget(gone)

    def keep(self, representatives: tuple[ProcessId, ...]) -> None:
        """Forget the leaves none of whose representatives is among the leaders any more."""
        self._forget(self.directory.keep(representatives))

    def _forget(self, leaves: list[str]) -> None:
        for leaf in leaves:
            if leaf != self._leaf:
                self._down.pop(leaf, None)
        lowest = min(self._down.values())
        while self._kept and (first := next(iter(self._kept))) <= lowest:
            del self._kept[first]

    def save(self) -> bytes:
        """All of it, as it is now."""
        numbers = [(to_wire(origin), number) for origin, number in self._numbers.items()]
        state = LogState(
            self.places, numbers, list(self._kept.items()), list(self._down.items()), self.directory.states()
        )
        return msgspec.msgpack.encode(state)

    @classmethod
    def load(cls, leaf: str, saved: bytes) -> "CrossingLog":
        """What another leader saved. A leaf that it does not know begins with what comes from here on."""
        state = msgspec.msgpack.decode(saved, type=LogState)
        log = cls(leaf)
        log.places = state.places
        log._numbers = {from_wire(origin): number for origin, number in state.numbers}
        log._kept = dict(state.kept)
        log._down = {leaf: state.places} | dict(state.down)
        for known in state.leaves:
            log.directory.learn(known)
        return log
