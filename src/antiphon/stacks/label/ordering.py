"""One order for agreed and safe broadcasts, which keeps causality: ABCAST by two-phase priorities (isis-1987, 4.3.1),
made causal (3.4), with a third phase for `safe` (the exercise of 3.2).

Promise: members that go on to the same next view deliver ordered broadcasts in one order, and after all that happened
before them. No member, whether it survives or not, delivers a safe one at another place than the rest.

Rule.
1. Every member of the view gets every ordered broadcast, whoever is to deliver it, and assigns it a priority above all
   that it has seen: priorities and the logical clock of the view are one counter. Its sender takes the highest and
   tells it in a broadcast of its own (COMMIT). Members follow the order of final priorities: the lowest of all, if it
   is final, is delivered, or passed over by whom it is not for.
2. Each broadcast, ordered or not, says how far its sender had followed the order (`passed`). Broadcasts travel in
   causal order, so all final priorities up to there have come before it. Whoever takes it in follows the order up to
   there first, whatever priorities are still open: none of those can become so low.
3. What is not ordered leaves when its sender has delivered its own ordered broadcasts.
4. A member vouches for a safe broadcast, to its sender, when all priorities up to that of the broadcast are final here.
   When all members have done so the sender says so (RELEASE), and the broadcast is delivered when its turn comes.
5. When the view ends, each member says how far it has passed or vouched, and passes nothing more by rule 1. Up to the
   greatest of these the final priorities decide; what is beyond, final or not, comes after it in the order of clocks.

Why it is safe. A member that passes f has seen all priorities up to f: what it has not seen it will give more than f,
so no final priority up to f is unknown to it, and rule 2 holds by causality of transport. If m happened before m',
every member sees m first, so each of the priorities of m is below that of m' at the same member, and so are the maxima;
by rules 2 and 3 the same holds with broadcasts that are not ordered in between. At the end of a view nobody who
survives has passed more than the greatest that is told, and up to there all final priorities are in the cut: those who
passed them held them. Nothing beyond happened before something up to there: it would have been seen first, with a lower
priority, and would be final. Clocks keep causality. A safe broadcast was vouched for by everybody at its place, so each
survivor tells at least that.
Why it is live: every member answers at once; if one fails the view ends, and rule 5 places everything.

Deviations: with destinations that differ, two-phase priorities over causal transport turn causality round: of two
broadcasts of one sender, to {p, q} and to {q, r}, the second has the lower maximum if p's counter is ahead
(tests/papers/test_isis_1987_holes.py). So all members of the view assign priorities, not the destinations alone. The
takeover by a participant is the end of the view (parts/membership), led by the oldest survivor, and asks for how far
each has come, not for priorities: two takeovers with a failure in between cannot then end with two final priorities.
"""

from bisect import bisect_left, insort
from typing import final

from antiphon.kernel.levels import SAFE
from antiphon.stacks.label.item import NOWHERE, Item, Mid, Priority


@final
class OrderedItem:
    """An ordered broadcast that is not delivered yet."""

    __slots__ = ("is_final", "is_released", "is_vouched", "item", "priority")

    def __init__(self, item: Item, priority: Priority) -> None:
        self.item = item
        self.priority = priority
        """What this member has assigned or, when it is final, the highest that anybody has."""
        self.is_final = False
        self.is_released = False
        self.is_vouched = False


@final
class Ballot:
    """What has come back about an own broadcast."""

    __slots__ = ("answered", "highest", "vouched")

    def __init__(self) -> None:
        self.answered = 0
        """Bits of the ranks that have assigned a priority…"""
        self.highest = NOWHERE
        """…and the highest…"""
        self.vouched = 0
        """…and of those that have vouched for it."""


@final
class TotalOrder:
    """The ordered broadcasts of one view, at one member."""

    __slots__ = (
        "_everybody", "_line", "_me", "_waiting", "ballots", "clock", "commits", "followed", "passed", "placed_last",
        "ready", "releases", "vouched", "vouches",
    )  # fmt: skip

    def __init__(self, me: int, members: int) -> None:
        self._me = me
        self._everybody = (1 << members) - 1
        self.clock = 0
        """The logical clock of this member."""
        self._waiting: dict[Mid, OrderedItem] = {}
        self._line: list[tuple[Priority, Mid]] = []
        """The same by priority."""
        self.passed = NOWHERE
        self.vouched = NOWHERE
        self.ready: list[Item] = []
        """What has its place now, in order; for the session to take."""
        self.ballots: dict[int, Ballot] = {}
        """By number, own broadcasts that are not delivered here."""
        self.commits: list[tuple[int, Priority]] = []
        """Own broadcasts that have become final, to be told…"""
        self.releases: list[int] = []
        """…and those that everybody has vouched for…"""
        self.vouches: list[Mid] = []
        """…and others' that this member is to vouch for."""
        self.followed = 0
        """Broadcasts that were delivered because a later one told how far its sender had come."""
        self.placed_last = 0
        """Broadcasts that the end of the view has placed."""

    def waiting(self) -> int:
        """How many broadcasts have no place yet."""
        return len(self._waiting)

    def tick(self) -> int:
        """The clock of the next own broadcast."""
        self.clock += 1
        return self.clock

    def see(self, clock: int) -> None:
        """A clock or a priority has been seen."""
        if clock > self.clock:
            self.clock = clock

    # ---- phase one: priorities -------------------------------------------------------------------------------------

    def add(self, item: Item) -> int:
        """An ordered broadcast has come, or is sent: assign a priority."""
        self.clock += 1
        mid = (item.sender, item.number)
        ordered = OrderedItem(item, (self.clock, self._me))
        self._waiting[mid] = ordered
        insort(self._line, (ordered.priority, mid))
        if item.sender == self._me:
            self.ballots[item.number] = Ballot()
            self.answer(item.number, self._me, self.clock)
        return self.clock

    def answer(self, number: int, rank: int, priority: int) -> None:
        """A member has assigned this priority to an own broadcast."""
        ballot = self.ballots.get(number)
        if ballot is None or ballot.answered >> rank & 1:
            return
        ballot.answered |= 1 << rank
        ballot.highest = max(ballot.highest, (priority, rank))
        if ballot.answered == self._everybody:
            self.commits.append((number, ballot.highest))

    # ---- phase two: final priorities -------------------------------------------------------------------------------

    def commit(self, mid: Mid, priority: Priority) -> None:
        """A broadcast has its final priority."""
        self.see(priority[0])
        ordered = self._waiting.get(mid)
        if ordered is not None and not ordered.is_final:
            self._take_out(ordered, mid)
            ordered.is_final = True
            ordered.priority = priority
            insort(self._line, (priority, mid))

    def _take_out(self, ordered: OrderedItem, mid: Mid) -> None:
        del self._line[bisect_left(self._line, (ordered.priority, mid))]

    def advance(self) -> None:
        """Pass what is final and lowest; vouch for safe ones that come before all that is not final."""
        while self._line:
            mid = self._line[0][1]
            ordered = self._waiting[mid]
            if not ordered.is_final:
                return
            if ordered.item.level() == SAFE and not ordered.is_released:
                self._vouch_for_line()
                return
            self._pass(ordered, mid)

    def _vouch_for_line(self) -> None:
        for _, mid in self._line:
            ordered = self._waiting[mid]
            if not ordered.is_final:
                return
            if ordered.item.level() == SAFE:
                self._vouch(ordered, mid)

    def _pass(self, ordered: OrderedItem, mid: Mid) -> None:
        self._take_out(ordered, mid)
        del self._waiting[mid]
        self.passed = max(self.passed, ordered.priority)
        if mid[0] == self._me:
            self.ballots.pop(mid[1], None)
        self.ready.append(ordered.item)

    def follow(self, passed: Priority) -> None:
        """Somebody had come so far when it sent what comes next: come as far."""
        if passed <= self.passed:
            return
        for ordered in self._final_up_to(passed):
            self.followed += 1
            self._pass(ordered, (ordered.item.sender, ordered.item.number))
        self.passed = passed
        self.see(passed[0])

    def _final_up_to(self, passed: Priority) -> list[OrderedItem]:
        chosen = [each for each in self._waiting.values() if each.is_final and each.priority <= passed]
        chosen.sort(key=_priority_of)
        return chosen

    # ---- phase three, for safe ones --------------------------------------------------------------------------------

    def _vouch(self, ordered: OrderedItem, mid: Mid) -> None:
        if ordered.is_vouched:
            return
        ordered.is_vouched = True
        self.vouched = max(self.vouched, ordered.priority)
        if mid[0] == self._me:
            self.vouch(mid[1], self._me)
        else:
            self.vouches.append(mid)

    def vouch(self, number: int, rank: int) -> None:
        """A member has an own safe broadcast at the head of its queue."""
        ballot = self.ballots.get(number)
        if ballot is None or ballot.vouched >> rank & 1:
            return
        ballot.vouched |= 1 << rank
        if ballot.vouched == self._everybody:
            self.releases.append(number)

    def release(self, mid: Mid) -> None:
        """Everybody has vouched for this one."""
        ordered = self._waiting.get(mid)
        if ordered is not None:
            ordered.is_released = True

    # ---- the end of the view ---------------------------------------------------------------------------------------

    def reached(self) -> Priority:
        """How far this member has passed or vouched."""
        return max(self.passed, self.vouched)

    def close(self, reached: Priority) -> None:
        """Place everything; `reached` is the farthest that any survivor has come."""
        rest: list[OrderedItem] = self._final_up_to(reached)
        early = {(each.item.sender, each.item.number) for each in rest}
        late = [each for mid, each in self._waiting.items() if mid not in early]
        late.sort(key=_clock_of)
        self.placed_last += len(late)
        for ordered in rest + late:
            self._pass(ordered, (ordered.item.sender, ordered.item.number))


def _priority_of(ordered: OrderedItem) -> Priority:
    return ordered.priority


def _clock_of(ordered: OrderedItem) -> tuple[int, int, int]:
    return ordered.item.clock, ordered.item.sender, ordered.item.number
