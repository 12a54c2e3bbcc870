"""The holding queue (psync-1989, 3.1.1 and 3.2.3): messages that came before some that they follow.

Who waits for what is kept by what is missing, so what arrives finds those that it sets free. A message that is given up
takes with it those that wait for it, and so on.

Limits: limits.py says how many are held, and how many bytes. One for which there is no room is dropped, as if it had
been lost.
"""

from collections.abc import Callable
from typing import final

from antiphon.parts.message_graph import Mid
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.wire import Added


@final
class HeldMessage:
    """A message that waits for predecessors."""

    __slots__ = ("added", "at_ns", "lacking", "mark", "tries", "via", "via_life")

    def __init__(self, added: Added, via: int, via_life: int, lacking: int, at_ns: int) -> None:
        self.added = added
        self.via_life = via_life
        self.via = via
        """Who sent it to us, and so has all that precedes it."""
        self.lacking = lacking
        """How many of its predecessors are not here."""
        self.at_ns = at_ns
        """When to ask for them."""
        self.tries = 0
        self.mark = 0
        """How much had been recovered when they were last asked for."""

    def mid(self) -> Mid:
        return (self.added.sender, self.added.number)


@final
class HoldingQueue:
    """The messages that one replica holds until their predecessors have come."""

    __slots__ = ("_bytes", "_held", "_limits", "_waiting")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held: dict[Mid, HeldMessage] = {}
        self._bytes = 0
        self._waiting: dict[Mid, list[HeldMessage]] = {}
        """By what is missing: the messages that wait for it."""

    def __len__(self) -> int:
        return len(self._held)

    def has(self, mid: Mid) -> bool:
        return mid in self._held

    def is_held(self, held: HeldMessage) -> bool:
        """Return whether this message is still held."""
        return self._held.get(held.mid()) is held

    def all(self) -> list[HeldMessage]:
        return list(self._held.values())

    def hold(self, held: HeldMessage, missing: set[Mid]) -> bool:
        """Hold a message; return False if there is no room."""
        size = len(held.added.section)
        if len(self._held) >= self._limits.held_max or self._bytes + size > self._limits.held_bytes_max:
            return False
        self._held[held.mid()] = held
        self._bytes += size
        for mid in missing:
            self._waiting.setdefault(mid, []).append(held)
        return True

    def freed_by(self, mid: Mid) -> list[Added]:
        """Release and return the messages whose last missing predecessor was this one."""
        if not self._waiting:
            return []
        freed: list[Added] = []
        for held in self._waiting.pop(mid, ()):
            held.lacking -= 1
            if not held.lacking and self.is_held(held):
                self._drop(held)
                freed.append(held.added)
        return freed

    def _drop(self, held: HeldMessage) -> None:
        del self._held[held.mid()]
        self._bytes -= len(held.added.section)

    def give_up(self, mid: Mid) -> int:
        """Forget a held message and all held messages that depend on it; return how many."""
        given_up = 0
        doomed = [mid]
        while doomed:
            held = self._held.get(doomed.pop())
            if held is None:
                continue
            given_up += 1
            self._drop(held)
            for predecessor in held.added.predecessors:
                waiting = self._waiting.get(predecessor)
                if waiting is not None and held in waiting:
                    waiting.remove(held)
                    if not waiting:
                        del self._waiting[predecessor]
            doomed += self.behind(held.mid())
        return given_up

    def behind(self, mid: Mid) -> list[Mid]:
        """Return the messages that wait for this one."""
        return [waiting.mid() for waiting in self._waiting.get(mid, ())]

    def needed(self, participants: int, is_unwanted: Callable[[HeldMessage], bool]) -> list[int]:
        """Return, for each participant, the highest number of its messages that held messages of participants that are
        not ignored depend on, directly or through other held messages. A message depends on all earlier ones of its
        sender."""
        needed = [0] * participants
        growing = True
        while growing:
            growing = False
            for held in self._held.values():
                added = held.added
                if is_unwanted(held) and added.number > needed[added.sender]:
                    continue
                for rank, number in added.predecessors:
                    if number > needed[rank]:
                        needed[rank] = number
                        growing = True
        return needed


@final
class WantedMessages:
    """Messages that somebody named as its leaves and that are to be asked for; empty if it is not known which."""

    __slots__ = ("at_ns", "goal", "mark", "tries")

    def __init__(self, goal: list[Mid], at_ns: int) -> None:
        self.goal = goal
        self.at_ns = at_ns
        self.tries = 0
        self.mark = 0
