"""Violations planted into a generated history, the way a faulty protocol would make them.

Each violation is planted in a round of a member that no other violation uses, and nothing that follows depends on it.
So the expected counts of the audit are known beforehand: `counted` returns them, by guarantee. A few violations imply
others: a safe message that a member never delivers is not settled either; a message that is delivered a view late
breaks both promises about messages and views; a message that is delivered after a barrier is in the barrier's past; and
a message of a dropped member is delivered a second time, in another view and possibly at another level.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from antiphon.kernel.errors import UsageError
from antiphon.pipeline.guarantees import (
    CAUSAL,
    CHECKED,
    CONTENT,
    CREATION,
    DUPLICATION,
    FIFO,
    GROUP_BROADCAST,
    LABEL_ORDER,
    OF_PARTING,
    PRIMARY,
    SAFE,
    SETTLED,
    SILENCE,
    TOTAL,
    TOTAL_GLOBAL,
    TOTAL_PAIRWISE,
    VIEW_AGREEMENT,
    VIEW_SENDING,
    VIEW_SYNCHRONY,
)
from bench.history_rows import AT_AGREED, AT_CAUSAL, AT_FIFO, AT_RELIABLE, AT_SAFE, DELIVER, PRIVATE, Rows, join

PLANTED: Final = tuple(one for one in CHECKED if one not in (*OF_PARTING, TOTAL_PAIRWISE, TOTAL_GLOBAL, LABEL_ORDER))
"""What generated histories promise. They neither part, nor have one order over groups."""
BEYOND: Final = 10**12
"""Numbers that no sender gets to."""
EVERYBODY: Final = -1
LATE_MAX: Final = 2
"""How many bursts a member delivers only in the next view at most."""
FORGOTTEN_MAX: Final = 3
"""How many messages of one burst a member forgets at most."""

ANYWHERE: Final = (CREATION, DUPLICATION, FIFO, CAUSAL, TOTAL, CONTENT, VIEW_SENDING)
OF_CHANGES: Final = (VIEW_AGREEMENT, PRIMARY)


class NoRoomError(UsageError):
    """The history is too short for all that shall be planted in it."""

    def __init__(self, left: Mapping[str, int]) -> None:
        wanted = ", ".join(f"{count} of {guarantee}" for guarantee, count in sorted(left.items()) if count > 0)
        super().__init__(f"there is no room to plant {wanted}; make the history longer or give it more views")
        self.left = left


class Epoch(NamedTuple):
    """What the planter must know of the epoch that begins. Members are told by their codes."""

    place: int
    last: int
    """The place of the last epoch."""
    group: int
    """To which all send in the last round."""
    last_round: int
    barrier: int | None
    """Who sends a barrier to this group at the end, if anybody."""
    lags: Mapping[int, int]
    audiences: Mapping[int, Set[int]]
    crashing: Set[int]


class Replay(NamedTuple):
    """A message of a dropped member that could be delivered again."""

    member: int
    group: int
    sender: int
    number: int
    level: int
    """At which it was sent; it is replayed as causal."""


class Planter:
    """What is still to be planted in a run, and what has been."""

    def __init__(self, plant: Mapping[str, int], random: np.random.Generator) -> None:
        unknown = sorted(set(plant) - set(PLANTED))
        if unknown:
            raise UsageError(f"{unknown[0]!r} cannot be planted; choose from: {', '.join(PLANTED)}")
        self._left: Counter[str] = Counter(plant)
        self._random = random
        self._counted: Counter[str] = Counter()
        self._quota: Counter[str] = Counter()
        self._used: set[tuple[int, int]] = set()
        self._beyond = BEYOND
        self._epoch: Epoch | None = None
        self._late: dict[tuple[int, int], Rows] = {}
        self._behind: dict[tuple[int, int], Rows] = {}
        self._disagreeing: set[tuple[int, int]] = set()
        """(member, group) where agreed messages changed places in a view: that counts once the view is completed."""

    def counted(self) -> Counter[str]:
        """What the audit must find; refuses if something could not be planted."""
        if any(count > 0 for count in self._left.values()):
            raise NoRoomError(self._left)
        return self._counted

    def begin_epoch(self, epoch: Epoch) -> None:
        """Decide how much is planted in it: what is left is spread over what is left of the run."""
        self._epoch = epoch
        for guarantees, epochs_left in (
            (ANYWHERE, epoch.last - epoch.place + 1),
            (OF_CHANGES, epoch.last - epoch.place),
        ):
            for guarantee in guarantees:
                share = 2 * self._left[guarantee] / max(epochs_left, 1)
                self._quota[guarantee] = int(share) + int(self._random.random() < share % 1) if epochs_left else 0
                if epochs_left == 1:
                    self._quota[guarantee] = self._left[guarantee]

    def _plant(self, guarantee: str, counts: Mapping[str, int]) -> None:
        self._left[guarantee] -= 1
        self._quota[guarantee] -= 1
        self._counted.update(counts)

    def spoil(self, member: int, rows: Rows, *, last: bool) -> Rows:
        """Rows of one member, in order, before they are written; `last`: the last ones of an epoch."""
        epoch = self._epoch
        assert epoch is not None
        if member in epoch.crashing:
            return rows
        ways: Mapping[str, Callable[[int, Rows], Rows | None]] = {
            FIFO: self._swap_halves,
            CAUSAL: self._overtake,
            TOTAL: self._disagree,
            CONTENT: self._lengthen,
            VIEW_SENDING: self._name_another_view,
            DUPLICATION: self._repeat,
            CREATION: self._invent,
        }
        for guarantee, way in ways.items():
            if min(self._quota[guarantee], self._left[guarantee]) > 0:
                rows = way(member, rows) or rows
        if last and epoch.place == epoch.last:
            rows = self._forget(member, rows)
        elif last and epoch.place == epoch.last - 1:
            rows = self._hold_late(member, rows)
        elif last and epoch.barrier not in (None, member):
            rows = self._hold_behind(member, rows)
        return rows

    def may_crash(self, member: int) -> bool:
        """Whether nothing hangs on a member's completing its views."""
        return all(own != member for own, _ in self._disagreeing)

    def view_row(self, member: int, row: Rows) -> Rows:
        """view_agreement: a member installs the same view twice."""
        self._disagreeing.discard((member, int(row.group[0])))
        if min(self._quota[VIEW_AGREEMENT], self._left[VIEW_AGREEMENT]) <= 0:
            return row
        self._plant(VIEW_AGREEMENT, {VIEW_AGREEMENT: 1})
        return join([row, row])

    def view_step(self) -> int:
        """primary: an id is left out, so that the next view follows none."""
        if min(self._quota[PRIMARY], self._left[PRIMARY]) <= 0:
            return 1
        self._plant(PRIMARY, {PRIMARY: 1})
        return 2

    def late(self, member: int, group: int) -> Rows | None:
        """What a member delivers only right behind its new view."""
        return self._late.pop((member, group), None)

    def behind(self, member: int, group: int) -> Rows | None:
        """What a member delivers only right behind a barrier."""
        return self._behind.pop((member, group), None)

    def replays(self, able: Sequence[Replay]) -> dict[int, list[Replay]]:
        """silence: at the very end, by member: messages of dropped members are delivered once more."""
        chosen: dict[int, list[Replay]] = defaultdict(list)
        while able and self._left[SILENCE] > 0:
            replay = able[int(self._random.integers(len(able)))]
            chosen[replay.member].append(replay)
            other_level = int(replay.level != AT_CAUSAL)
            self._plant(SILENCE, {SILENCE: 1, DUPLICATION: 1, VIEW_SENDING: 1, CONTENT: other_level})
        return chosen

    def _swap_halves(self, member: int, rows: Rows) -> Rows | None:
        """fifo: the second half of a burst comes first."""
        first = self._choose(member, rows, (rows.part == 1) & (rows.level == AT_FIFO))
        if first is None:
            return None
        second = np.flatnonzero(
            (rows.part == 2)
            & (rows.group == rows.group[first])
            & (rows.sender == rows.sender[first])
            & (rows.number == rows.number[first] + rows.count[first])
        )
        self._use(member, rows, first)
        self._plant(FIFO, {FIFO: int(rows.count[second[0]])})
        return _swapped(rows, first, int(second[0]))

    def _overtake(self, member: int, rows: Rows) -> Rows | None:
        """causal: what its sender sent after delivering the message before it comes before that message."""
        assert self._epoch is not None
        if len(rows) < 2:
            return None
        prompt = np.zeros(int(rows.sender.max()) + 1, bool)
        prompt[[code for code, lag in self._epoch.lags.items() if lag == 0 and code < len(prompt)]] = True
        one, two = slice(None, -1), slice(1, None)
        fit = (rows.kind[one] == DELIVER) & (rows.kind[two] == DELIVER)
        fit &= (rows.part[one] != PRIVATE) & (rows.part[two] != PRIVATE)
        fit &= (rows.round[two] == rows.round[one] + 1) & (rows.sender[two] != rows.sender[one])
        fit &= (rows.level[one] < AT_AGREED) & (rows.level[two] >= AT_CAUSAL) & prompt[rows.sender[two]]
        for group, audience in self._epoch.audiences.items():
            listening = np.zeros(len(prompt), bool)
            listening[[code for code in audience if code < len(prompt)]] = True
            fit &= (rows.group[one] != group) | listening[rows.sender[two]]
        fit &= ~self._used_rounds(member, rows)[two]
        place = self._choose(member, rows, np.append(fit, False))
        if place is None:
            return None
        self._use(member, rows, place)
        self._use(member, rows, place + 1)
        self._plant(CAUSAL, {CAUSAL: int(rows.count[place + 1])})
        return _swapped(rows, place, place + 1)

    def _disagree(self, member: int, rows: Rows) -> Rows | None:
        """total: two agreed messages of one round change places, at this member only."""
        pairs: list[npt.NDArray[np.int64]] = []
        fresh = ~self._used_rounds(member, rows) & ~self._used_rounds(EVERYBODY, rows)
        for group in np.unique(rows.group).tolist():
            own = np.flatnonzero((rows.group == group) & (rows.kind == DELIVER) & (rows.level >= AT_AGREED))
            one, two = own[:-1], own[1:]
            fit = (rows.round[one] == rows.round[two]) & (rows.sender[one] != rows.sender[two]) & fresh[one]
            pairs.append(np.stack([one[fit], two[fit]], axis=1))
        together = np.concatenate(pairs) if pairs else np.empty((0, 2), np.int64)
        if not len(together):
            return None
        one_place, other_place = together[int(self._random.integers(len(together)))].tolist()
        self._use(member, rows, one_place)
        self._use(EVERYBODY, rows, one_place)
        self._disagreeing.add((member, int(rows.group[one_place])))
        self._plant(TOTAL, {TOTAL: 1})
        return _swapped(rows, one_place, other_place)

    def _lengthen(self, member: int, rows: Rows) -> Rows | None:
        """content: a burst is delivered with more bytes than were sent."""
        place = self._choose(member, rows, rows.part == 0)
        if place is None:
            return None
        self._use(member, rows, place)
        rows.extra[place] = 1
        self._plant(CONTENT, {CONTENT: int(rows.count[place])})
        return rows

    def _name_another_view(self, member: int, rows: Rows) -> Rows | None:
        """view_sending: a delivery says that it was made in the next view."""
        place = self._choose(member, rows, rows.part != PRIVATE)
        if place is None:
            return None
        self._use(member, rows, place)
        rows.view[place] += 1
        self._plant(VIEW_SENDING, {VIEW_SENDING: int(rows.count[place])})
        return rows

    def _repeat(self, member: int, rows: Rows) -> Rows | None:
        """duplication: a message is delivered once more."""
        place = self._choose(member, rows, rows.part != PRIVATE)
        if place is None:
            return None
        self._use(member, rows, place)
        self._plant(DUPLICATION, {DUPLICATION: 1})
        return _with_copy(rows, place, int(rows.number[place]))

    def _invent(self, member: int, rows: Rows) -> Rows | None:
        """creation: something is delivered that nobody sent."""
        place = self._choose(member, rows, rows.part != PRIVATE)
        if place is None:
            return None
        self._use(member, rows, place)
        self._beyond += 2
        self._plant(CREATION, {CREATION: 1})
        return _with_copy(rows, place, self._beyond)

    def _forget(self, member: int, rows: Rows) -> Rows:
        """safe and settled: at the very end, a member never delivers the last messages of a burst."""
        assert self._epoch is not None
        of_others = self._last_of_others(member, rows)
        for guarantee, level, counts in (
            (SAFE, AT_SAFE, {SAFE: 1, SETTLED: 1}),
            (SETTLED, AT_RELIABLE, {SETTLED: 1}),
        ):
            for place in np.flatnonzero(of_others & (rows.level == level)).tolist():
                for _ in range(min(self._left[guarantee], FORGOTTEN_MAX, int(rows.count[place]))):
                    rows.count[place] -= 1
                    self._plant(guarantee, counts)
        return rows.take((rows.kind != DELIVER) | (rows.count > 0))

    def _hold_late(self, member: int, rows: Rows) -> Rows:
        """view_synchrony: what others delivered before the last change of views, a member delivers behind it."""
        assert self._epoch is not None
        places = np.flatnonzero(self._last_of_others(member, rows))[: max(0, min(LATE_MAX, self._left[VIEW_SYNCHRONY]))]
        if not len(places):
            return rows
        self._late[member, self._epoch.group] = rows.take(places)
        for count in rows.count[places].tolist():
            self._plant(VIEW_SYNCHRONY, {VIEW_SYNCHRONY: count, VIEW_SENDING: count})
        return rows.take(np.delete(np.arange(len(rows)), places))

    def _hold_behind(self, member: int, rows: Rows) -> Rows:
        """group_broadcast: what others delivered before the barrier, a member delivers behind it."""
        assert self._epoch is not None
        assert self._epoch.barrier is not None
        if self._left[GROUP_BROADCAST] <= 0 or self._behind:
            return rows
        fit = self._last_of_others(member, rows) & (rows.sender != self._epoch.barrier)
        place = self._choose(member, rows, fit)
        if place is None:
            return rows
        self._use(member, rows, place)
        self._behind[member, int(rows.group[place])] = rows.take(np.array([place]))
        self._plant(GROUP_BROADCAST, {GROUP_BROADCAST: int(rows.count[place]), CAUSAL: 1})
        return rows.take(np.arange(len(rows)) != place)

    def _last_of_others(self, member: int, rows: Rows) -> npt.NDArray[np.bool_]:
        """Deliveries of the last round of the epoch that no other plant has touched; nothing depends on these."""
        assert self._epoch is not None
        fit = (rows.kind == DELIVER) & (rows.round == self._epoch.last_round) & (rows.sender != member)
        untouched: npt.NDArray[np.bool_] = fit & ~self._used_rounds(member, rows)
        return untouched

    def _choose(self, member: int, rows: Rows, fit: npt.NDArray[np.bool_]) -> int | None:
        """One of the deliveries that fit, in a round that is still untouched."""
        places = np.flatnonzero(fit & (rows.kind == DELIVER) & ~self._used_rounds(member, rows))
        return int(places[self._random.integers(len(places))]) if len(places) else None

    def _used_rounds(self, member: int, rows: Rows) -> npt.NDArray[np.bool_]:
        result = np.zeros(len(rows), bool)
        for owner, number in self._used:
            if owner == member:
                result |= rows.round == number
        return result

    def _use(self, member: int, rows: Rows, place: int) -> None:
        self._used.add((member, int(rows.round[place])))


def _swapped(rows: Rows, one: int, other: int) -> Rows:
    """Two rows change places; the times stay where they are."""
    order = np.arange(len(rows))
    order[[one, other]] = other, one
    swapped = rows.take(order)
    swapped.time_ns = rows.time_ns
    return swapped


def _with_copy(rows: Rows, place: int, number: int) -> Rows:
    """A row is followed by another one like it, of one message."""
    result = rows.take(np.insert(np.arange(len(rows)), place + 1, place))
    result.number[place + 1] = number
    result.count[place + 1] = 1
    return result
