"""ABCAST: one order per label, by two-phase priorities among the destinations (isis-1987, 3.2 and 4.3.1).

Promise: members that go on to the same next view deliver the broadcasts of one label in one order, those that they have
in common. Nothing is promised of broadcasts of different labels, nor of one sender's own, nor of other levels.

Rule.
1. There is a queue for each label that something waits for. A destination puts a broadcast that comes into the queue of
   its label and assigns it a priority above all that it has seen: the logical clock of the view counts for all queues.
   The sender, whether it is a destination or not, takes the highest priority of all destinations and tells it to them
   (COMMIT). A destination delivers the broadcast at the head of a queue when its priority is final.
2. When the view ends, members deliver what is final, by priority, and after that what is not, in the order of clocks.
3. What is neither an ABCAST nor labelled is handed over at a member after all ABCASTs that came there before it.

Why it is safe. When a member delivers m at priority f, whatever else is in that queue, or will come into it, has been
or will be assigned more than f there, so its final priority is above f: members deliver by final priority. At the end
of a view a final priority that any survivor knows is known to all (COMMITs are broadcasts, and in the cut); what one
survivor has delivered was final, and stands before all that is left there, by the same argument. Broadcasts travel in
causal order, so an ABCAST that happened before a causal message has come before it: by rule 3 it is delivered first.
Why it is live: destinations answer as a broadcast comes; if one of them, or the sender, fails, the view ends.

Limits: what waits is within the windows of its senders (pool.py); a queue is gone with the last broadcast in it.

Deviations: in the paper any participant takes over the broadcasts of a failed sender; two takeovers with a failure in
between can end with two final priorities (tests/papers/test_isis_1987_holes.py, hole c). Here the takeover is the end
of the view, led by the oldest survivor, and by the next oldest if that one fails: one successor at a time, by age, and
what one of them may have had accepted is proposed again.
"""

from bisect import bisect_left, insort
from typing import final

from antiphon.stacks.label.item import NOWHERE, Item, Mid, Priority


@final
class QueuedItem:
    """An ABCAST that was not delivered yet."""

    __slots__ = ("arrival", "is_final", "item", "priority")

    def __init__(self, item: Item, priority: Priority, arrival: int) -> None:
        self.item = item
        self.priority = priority
        """What this member has assigned or, when it is final, the highest that a destination has."""
        self.arrival = arrival
        self.is_final = False


@final
class QueueBallot:
    """The priorities that have come back for an own ABCAST."""

    __slots__ = ("highest", "item", "lacking")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.lacking = item.destinations
        """Bits of the ranks that have not answered."""
        self.highest = NOWHERE


@final
class LabelQueues:
    """The ABCASTs of one view, at one member."""

    __slots__ = ("_ballots", "_lines", "_me", "_waiting", "arrived", "commits", "placed_last", "ready")

    def __init__(self, me: int) -> None:
        self._me = me
        self._waiting: dict[Mid, QueuedItem] = {}
        """In the order in which they came."""
        self._lines: dict[bytes, list[tuple[Priority, Mid]]] = {}
        """By label, the same by priority."""
        self._ballots: dict[int, QueueBallot] = {}
        self.arrived = 0
        """How many have come for this member."""
        self.commits: list[tuple[Item, Priority]] = []
        """Own ones that have become final, to be told."""
        self.ready: list[Item] = []
        """What has its place now, in order."""
        self.placed_last = 0
        """Broadcasts that the end of the view has placed."""

    def waiting(self) -> int:
        """How many have no place yet."""
        return len(self._waiting)

    def lines(self) -> int:
        """How many labels have a queue now."""
        return len(self._lines)

    def has_passed(self, arrival: int) -> bool:
        """Whether all that had come, when so many had, have their places."""
        for queued in self._waiting.values():
            return queued.arrival > arrival
        return True

    def add(self, item: Item, priority: int) -> None:
        """An ABCAST for this member has come, or is sent; it is assigned this priority."""
        self.arrived += 1
        mid = (item.sender, item.number)
        queued = QueuedItem(item, (priority, self._me), self.arrived)
        self._waiting[mid] = queued
        insort(self._lines.setdefault(item.queue, []), (queued.priority, mid))

    def open_ballot(self, item: Item) -> None:
        """An own ABCAST leaves: wait for the priorities of its destinations."""
        self._ballots[item.number] = QueueBallot(item)

    def answer(self, number: int, rank: int, priority: int) -> None:
        """A destination has assigned this priority to an own ABCAST."""
        ballot = self._ballots.get(number)
        if ballot is None or not ballot.lacking >> rank & 1:
            return
        ballot.lacking &= ~(1 << rank)
        ballot.highest = max(ballot.highest, (priority, rank))
        if not ballot.lacking:
            del self._ballots[number]
            self.commits.append((ballot.item, ballot.highest))

    def commit(self, mid: Mid, priority: Priority) -> None:
        """An ABCAST has its final priority."""
        queued = self._waiting.get(mid)
        if queued is not None and not queued.is_final:
            line = self._lines[queued.item.queue]
            del line[bisect_left(line, (queued.priority, mid))]
            queued.is_final = True
            queued.priority = priority
            insort(line, (priority, mid))
            self._advance(queued.item.queue)

    def _advance(self, label: bytes) -> None:
        """Deliver from the head of a queue what is final."""
        line = self._lines[label]
        passed = 0
        while passed < len(line) and self._waiting[line[passed][1]].is_final:
            self.ready.append(self._waiting.pop(line[passed][1]).item)
            passed += 1
        if passed == len(line):
            del self._lines[label]
        elif passed:
            del line[:passed]

    def close(self) -> None:
        """The view ends: place everything."""
        rest = list(self._waiting.values())
        rest.sort(key=_place_at_the_end)
        self.placed_last += len(rest)
        self.ready += [queued.item for queued in rest]
        self._waiting = {}
        self._lines = {}
        self._ballots = {}


def _place_at_the_end(queued: QueuedItem) -> tuple[int, Priority, int, int, int]:
    item = queued.item
    if queued.is_final:
        return 0, queued.priority, 0, 0, 0
    return 1, NOWHERE, item.clock, item.sender, item.number
