"""Import of transactional causal histories (Plume, AWDIT): transactions in, messages out.

    session            a process; all are members of one group, `store`, in one view for ever
    transaction        a message of its session, if it wrote anything
    read               a delivery of the transaction that wrote the value, where that is of another session

T → T' (a session did T before T', or T' read what T wrote, or a chain of such steps) is then the causal order of the
messages. A message is addressed to the sessions that read it, so nobody owes or is owed more than was read.

*When* a session delivers. A store shows a state, not a stream: who reads y, and x only later, has not seen x late. So
a session delivers a transaction that it reads when that is first in the session's past, causes before effects. But a
read is *stale* if the past of its transaction holds a write of the same key that follows the one that it returns. Then
the overwriting transaction is delivered when it came into the past, and the one that was read where it was read: behind
its effect, which breaks `causal` (and `fifo` if one session wrote both); or, if the session had read it before, for a
second time, which breaks `duplication`. All reads of a transaction count as one step, so half of another transaction's
writes is stale too.

A value that no committed transaction left behind (never written, of an aborted transaction, overwritten by the very
transaction that wrote it) is a message of the process `nobody`, which sent none: `creation` is broken. Initial values
are one message of the process `initial`, which every session delivers first.

With this the audit decides causal consistency by its bad patterns (thin-air read, cyclic causal order, stale read,
stale read of the initial value: Bouajjani and others, POPL 2017). What is not represented: that all sessions agree
which of two concurrent writes of a key came last (causal convergence).

Where transactions are in each other's past, theirs and all that follow have no order to deliver in: there a session
delivers what it reads where it reads it, and the audit finds the cycle.

Memory: all operations, and one number per transaction and session, at most CELLS_MAX of them.
"""

from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np

from antiphon.history.formats.errors import MalformedLogError
from antiphon.history.formats.importing import ENDED, Imported, ImportOptions, begin
from antiphon.history.formats.plume_text import INITIAL, PlumeHistory, read_plume
from antiphon.history.recorder import Recorder
from antiphon.kernel.errors import UsageError

LEVEL: Final = "causal"
LEVELS: Final = ("reliable", "fifo", "causal")
GROUP: Final = "store"
STACK: Final = "plume"
INITIAL_PROCESS: Final = "initial"
NOBODY: Final = "nobody"
CELLS_MAX: Final = 100_000_000
TICK_NS: Final = 1000

Message = tuple[str, int]
"""Process and number."""


def import_plume(source: Path, directory: Path, options: ImportOptions) -> Imported:
    """Write the history of the transactions in `source` into `directory`."""
    level = options.level or LEVEL
    if level not in LEVELS:
        raise UsageError(f"transactions are imported at level {', '.join(LEVELS)}, not {level}")
    history = read_plume(source)
    past = _Past(source, history)
    plan = _Deliveries(history, past)
    names = [INITIAL_PROCESS, *(f"s{session}" for session in past.sessions), *([NOBODY] if plan.untold else [])]
    members = [f"{name}/1" for name in names]
    with Recorder(directory, run=options.run, process=INITIAL_PROCESS) as log:
        begin(log, GROUP, STACK, level, members)
        log.send(0, GROUP, 1, 1, 1, level, 0)
        log.stop(0, ENDED)
    for place, session in enumerate(past.sessions):
        with Recorder(directory, run=options.run, process=f"s{session}", merge=False) as log:
            begin(log, GROUP, STACK, level, members)
            log.deliver(0, GROUP, 1, INITIAL_PROCESS, 1, 1, 1, level, 0)
            time_ns = 0
            for transaction in past.of_session[place]:
                time_ns = max(time_ns, TICK_NS * past.rank[transaction])
                for message in plan.delivered[transaction]:
                    destinations = plan.destinations(message)
                    log.deliver(time_ns, GROUP, 1, message[0], 1, message[1], 1, level, 0, None, destinations)
                if history.transactions[transaction].writes:
                    own = plan.message(transaction)
                    log.send(time_ns, GROUP, 1, own[1], 1, level, 0, plan.destinations(own))
                    if transaction in plan.shown_to_self:
                        log.deliver(time_ns, GROUP, 1, own[0], 1, own[1], 1, level, 0, None, plan.destinations(own))
            log.stop(time_ns, ENDED)
    if plan.untold:
        with Recorder(directory, run=options.run, process=NOBODY) as log:
            begin(log, GROUP, STACK, level, members)
            log.stop(0, ENDED)
    remarks = plan.remarks(history)
    return Imported(runs=1, logs=len(names), events=history.operations, remarks=tuple(remarks))


class _Past:
    """What is in the past of each transaction: by session, how many of its transactions."""

    def __init__(self, file: Path, history: PlumeHistory) -> None:
        transactions = history.transactions
        self.sessions = sorted({transaction.session for transaction in transactions})
        self._column = {session: place for place, session in enumerate(self.sessions)}
        cells = len(transactions) * len(self.sessions)
        if cells > CELLS_MAX:
            reason = f"{len(transactions)} transactions times {len(self.sessions)} sessions are more than {CELLS_MAX}"
            raise MalformedLogError(file, 0, reason)
        self.of_session: list[list[int]] = [[] for _ in self.sessions]
        self.place: list[tuple[int, int]] = []
        """By transaction: the column of its session, and its number there, from 1 on."""
        for place, transaction in enumerate(transactions):
            column = self._column[transaction.session]
            self.of_session[column].append(place)
            self.place.append((column, len(self.of_session[column])))
        self.vectors = np.zeros((len(transactions), len(self.sessions)), np.int32)
        self.rank = [0] * len(transactions)
        """The place of each in an order in which causes come first."""
        self.ordered = [False] * len(transactions)
        """Whether it is in such an order: neither in a cycle, nor behind one."""
        self._order(history)

    def _order(self, history: PlumeHistory) -> None:
        waits = [0] * len(history.transactions)
        followers: list[list[int]] = [[] for _ in history.transactions]
        for place, transaction in enumerate(history.transactions):
            causes = {history.writers[cell] for cell in transaction.reads if cell in history.writers}
            causes.discard(place)
            column, number = self.place[place]
            if number > 1:
                causes.add(self.of_session[column][number - 2])
            waits[place] = len(causes)
            for cause in causes:
                followers[cause].append(place)
        ready = [place for place in range(len(waits) - 1, -1, -1) if not waits[place]]
        count = 0
        while ready:
            place = ready.pop()
            count += 1
            self.rank[place] = count
            self.ordered[place] = True
            column, number = self.place[place]
            self.vectors[place, column] = number
            for follower in followers[place]:
                np.maximum(self.vectors[follower], self.vectors[place], out=self.vectors[follower])
                waits[follower] -= 1
                if not waits[follower]:
                    ready.append(follower)
        for place, ordered in enumerate(self.ordered):
            if not ordered:
                self.rank[place] = count + place + 1

    def precedes(self, cause: int, effect: int) -> bool:
        """Whether a transaction is in the past of another, or is it."""
        column, number = self.place[cause]
        return bool(self.vectors[effect, column] >= number)


class _Deliveries:
    """What each session delivers, and where."""

    def __init__(self, history: PlumeHistory, past: _Past) -> None:
        self._history = history
        self._past = past
        self._numbers = self._count()
        self.delivered: list[list[Message]] = [[] for _ in history.transactions]
        """By transaction: what its session delivers before it."""
        self.shown_to_self: set[int] = set()
        """Transactions that their own session delivers, since it went back behind them."""
        self.untold: list[tuple[int, int]] = []
        """Values that nobody left behind."""
        self._addressed: dict[Message, set[str]] = {}
        self._stale = 0
        self._cyclic = past.ordered.count(False)
        self._writes: dict[int, dict[int, list[int]]] = {}
        """By key and column, the numbers of the transactions that wrote it."""
        for place, transaction in enumerate(history.transactions):
            column, number = past.place[place]
            for key in transaction.writes:
                self._writes.setdefault(key, {}).setdefault(column, []).append(number)
        for column in range(len(past.sessions)):
            self._deliver(column)

    def message(self, transaction: int) -> Message:
        return f"s{self._history.transactions[transaction].session}", self._numbers[transaction]

    def destinations(self, message: Message) -> tuple[str, ...] | None:
        """Whom a message is for: the sessions that read it; where there are none, a process that reads nothing."""
        if message[0] in (INITIAL_PROCESS, NOBODY):
            return None
        return tuple(sorted(self._addressed.get(message, ()))) or (f"{INITIAL_PROCESS}/1",)

    def remarks(self, history: PlumeHistory) -> list[str]:
        remarks = []
        if self.untold:
            key, value = self.untold[0]
            told = f"{len(self.untold):,} values were read that no committed transaction left behind"
            remarks.append(f"{told}, first {value} of key {key}; they are messages of {NOBODY!r}")
        if self._stale:
            remarks.append(f"{self._stale:,} reads are stale: their past overwrites what they return")
        if self._cyclic:
            remarks.append(f"{self._cyclic:,} transactions are in a cycle of causes, or behind one")
        if history.not_own:
            told = f"{len(history.not_own):,} reads do not return what their own transaction had written"
            remarks.append(f"{told}, the first on line {history.not_own[0]}; the audit does not judge that")
        return remarks

    def _count(self) -> list[int]:
        numbers: Counter[int] = Counter()
        result = []
        for transaction in self._history.transactions:
            numbers[transaction.session] += bool(transaction.writes)
            result.append(numbers[transaction.session])
        return result

    def _deliver(self, column: int) -> None:
        """Lay out the deliveries of one session."""
        early: dict[int, int] = {}
        """Transactions to deliver as soon as they are in the past, with the first transaction that has them there."""
        late: list[tuple[int, Message]] = []
        known: set[int] = set()
        for place in self._past.of_session[column]:
            for cell in dict.fromkeys(self._history.transactions[place].reads):
                writer = self._history.writers.get(cell)
                stale = self._overwriter(place, cell[0], writer) if writer is not None or cell[1] == INITIAL else None
                if writer is None and cell[1] == INITIAL:
                    if stale is not None:
                        self._show(place, stale, early)
                        late.append((place, (INITIAL_PROCESS, 1)))
                elif writer is None or writer == place:
                    self.untold.append(cell)
                    late.append((place, (NOBODY, len(self.untold))))
                elif stale is not None:
                    self._show(place, stale, early)
                    late.append((place, self.message(writer)))
                    self._address(writer, column)
                    known.add(writer)
                elif self._past.place[writer] > self._past.place[place] and self._past.place[writer][0] == column:
                    self._address(writer, column)  # its own session writes it only later: a cycle
                    late.append((place, self.message(writer)))
                elif self._past.place[writer][0] != column and writer not in known:
                    known.add(writer)
                    self._show(place, writer, early)
        self._lay(column, early, late)

    def _overwriter(self, place: int, key: int, writer: int | None) -> int | None:
        """A transaction in the past of `place` that overwrote what `writer` (None: the start) wrote to a key."""
        if not self._past.ordered[place]:
            return None
        own_column = self._past.place[place][0]
        for column, numbers in self._writes.get(key, {}).items():
            reach = int(self._past.vectors[place, column]) - (column == own_column)
            found = bisect_right(numbers, reach)
            if not found:
                continue
            other = self._past.of_session[column][numbers[found - 1] - 1]
            if other != writer and (writer is None or self._past.precedes(writer, other)):
                return other
        return None

    def _show(self, place: int, transaction: int, early: dict[int, int]) -> None:
        """Have the session of `place` deliver a transaction as soon as it is in its past; its own, where it did it."""
        column = self._past.place[place][0]
        self._address(transaction, column)
        if self._past.place[transaction][0] == column:
            self.shown_to_self.add(transaction)
        elif transaction not in early:
            early[transaction] = self._first(place, transaction)

    def _first(self, place: int, transaction: int) -> int:
        """The first transaction of the session of `place` that has another in its past; by cycles, `place` itself."""
        if not self._past.ordered[place] or not self._past.ordered[transaction]:
            return place
        other, number = self._past.place[transaction]
        column, reading = self._past.place[place]
        own = self._past.of_session[column]
        low, high = 0, reading - 1
        while low < high:
            middle = (low + high) // 2
            if self._past.vectors[own[middle], other] >= number:
                high = middle
            else:
                low = middle + 1
        return own[low]

    def _address(self, transaction: int, column: int) -> None:
        self._addressed.setdefault(self.message(transaction), set()).add(f"s{self._past.sessions[column]}/1")

    def _lay(self, column: int, early: dict[int, int], late: list[tuple[int, Message]]) -> None:
        for transaction, first in sorted(early.items(), key=lambda pair: self._past.rank[pair[0]]):
            self.delivered[first].append(self.message(transaction))
        for place, message in late:
            self.delivered[place].append(message)
            self._stale += self._past.ordered[place] and message[0] != NOBODY
