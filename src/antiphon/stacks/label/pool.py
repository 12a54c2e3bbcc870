"""The broadcasts that one member has a copy of, and what it still owes to whom: CBCAST (isis-1987, 4.3.2).

Promise: whoever has a broadcast had all broadcasts that happened before it, and that it was to have, before.

Rule. A member keeps every broadcast that comes to it, also on its way to others, in the order in which they came: that
order keeps causality. Whenever it sends a broadcast to another member, all that it has from before and that somebody
may still lack goes on the same link before it, unless it went there already (SENT-TO) or the other is known to have it.
Broadcasts that come twice are known by their ids. A copy is let go when the sender says that all its destinations have
delivered it (collected), and the ids with it: numbers run without gaps, so one number for each sender stands for all
ids that were collected (4.4).

Labels. A broadcast with a label (comparison.py) is to come after those alone that precede it by 3.3. What others have
sent goes before it all the same: whoever gets it may come to depend on that (3.5, whatever the labels). Of its sender's
own messages only those go before it whose labels are less; the others keep waiting, if they wait. Whoever has taken in
a labelled broadcast sends nothing without a label before it has all earlier ones of the same sender: so causal order
holds for the rest.

Safe: links keep order (link.py), so a transfer packet may be cut anywhere into datagrams: what has come of it is closed
under causality, and nobody has to wait for the rest. What was left out because all destinations had it, is no longer
missed by anybody. An id is collected when it is on nobody's wait queue: it was delivered everywhere.
Live: the sender of a broadcast sends it to every destination; if it fails the view ends, and its members fetch from
each other what one of them has (view_end.py).

Limits: a sender has at most `window` numbers that are not collected, and two more for each that tell their order. So a
pool holds at most 3 * `window` broadcasts of each member.

Deviations: a member passes others' broadcasts on with its own only, and not of its own accord: the end of the view sees
to those of a failed sender. There is no DONT-SEND: collected ids stay known, as one number.
"""

from collections import deque
from typing import final

from antiphon.kernel.labels import precedes
from antiphon.stacks.label.item import Item, Mid


@final
class MessagePool:
    """All copies of one member in one view."""

    __slots__ = (
        "_above", "_everybody", "_me", "collected", "copies", "numbers_max", "overtaken", "queues", "seen",
        "undelivered",
    )  # fmt: skip

    def __init__(self, me: int, members: int, window: int) -> None:
        self._me = me
        self._everybody = (1 << members) - 1
        self.numbers_max = 3 * window + 64
        self.overtaken = 0
        """How often a labelled broadcast left ahead of others."""
        self.copies: dict[Mid, Item] = {}
        """In the order in which they came."""
        self.collected = [0] * members
        """By sender, the number up to which nobody needs a copy any more…"""
        self._above: list[set[int]] = [set() for _ in range(members)]
        """…and the numbers above it that have come."""
        self.seen = [0] * members
        """By sender, the greatest number that has come."""
        self.queues: list[deque[Item]] = [deque() for _ in range(members)]
        """By member, what was not sent to it from here, in the order in which it came."""
        self.undelivered: list[set[int]] = [set() for _ in range(members)]
        """By sender, what has come for this member and was not handed to the application."""

    def has(self, mid: Mid) -> bool:
        """Whether a broadcast has come."""
        return mid[1] <= self.collected[mid[0]] or mid[1] in self._above[mid[0]]

    def exists(self, rank: int, number: int) -> bool:
        """Whether a member can have sent so many broadcasts."""
        return 0 < number <= (self.seen[rank] if rank == self._me else self.collected[rank] + self.numbers_max)

    def numbers(self, rank: int) -> list[int]:
        """The numbers above those that are collected that have come, in order."""
        return sorted(self._above[rank])

    def add(self, item: Item, source: int) -> None:
        """Take in a broadcast that came over the link of `source`."""
        self.copies[item.sender, item.number] = item
        self._above[item.sender].add(item.number)
        self.seen[item.sender] = max(self.seen[item.sender], item.number)
        item.remaining &= ~(1 << self._me)
        for rank, queue in enumerate(self.queues):
            if rank not in (self._me, source, item.sender):
                queue.append(item)

    def consumed(self, rank: int) -> int:
        """Up to which number of this sender nothing waits here."""
        waiting = self.undelivered[rank]
        return min(waiting) - 1 if waiting else self.seen[rank]

    def collect(self, rank: int, number: int) -> None:
        """Nobody needs copies of this sender's broadcasts up to this number any more."""
        for each in range(self.collected[rank] + 1, number + 1):
            item = self.copies.pop((rank, each), None)
            if item is not None:
                item.is_done = True
                self._above[rank].discard(each)
        if number > self.collected[rank]:
            self.collected[rank] = number
            self._trim()

    def _trim(self) -> None:
        for rank, queue in enumerate(self.queues):
            while queue and queue[0].is_done:
                queue.popleft()
            if len(queue) > 2 * len(self.copies) + 64:
                self.queues[rank] = deque([item for item in queue if not item.is_done])

    def take_for(self, rank: int, last: Item) -> list[Item]:
        """What has to go to a member, up to the own broadcast `last`. If that has a label, own messages that do not
        precede it stay."""
        queue, bit = self.queues[rank], 1 << rank
        taken: list[Item] = []
        kept: list[Item] = []
        while queue:
            item = queue.popleft()
            if self._is_owed(item, bit):
                (kept if last.label and self._may_stay(item, last) else taken).append(item)
            if item is last:
                break
        if kept:
            self.overtaken += 1
            queue.extendleft(reversed(kept))
        return taken

    def _may_stay(self, item: Item, last: Item) -> bool:
        if item.sender != self._me or item.batch is None or item is last or last.batch is None:
            return False
        is_same = item.batch.first_message == last.batch.first_message
        return not is_same and not precedes(item.label, last.label)

    def has_all(self, rank: int, number: int) -> bool:
        """Whether all broadcasts of this sender up to this number have come, or were delivered by all."""
        above = self._above[rank]
        return all(each in above for each in range(self.collected[rank] + 1, number + 1))

    def _is_owed(self, item: Item, bit: int) -> bool:
        if item.is_done or item.sent_to & bit or not item.remaining:
            return False
        return bool(item.remaining & bit) or not self.reach(item) & bit

    def reach(self, item: Item) -> int:
        """Who is to have a broadcast: those that deliver it or, if it has a place in the total order, everybody."""
        return self._everybody if item.is_ordered() else item.destinations

    def is_held(self, rank: int, number: int, copies: int) -> bool:
        """Whether so many members beside their sender are known to hold the broadcasts up to this one."""
        needed = min(copies, len(self.queues) - 1)
        for each in range(self.collected[rank] + 1, number + 1):
            item = self.copies.get((rank, each))
            if item is not None:
                lacking = item.remaining.bit_count()
                held = self.reach(item).bit_count() - lacking - (1 if item.destinations >> rank & 1 else 0)
                if held < min(needed, held + lacking):
                    return False
        return True
