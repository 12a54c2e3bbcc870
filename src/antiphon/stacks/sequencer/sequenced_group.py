"""One group as its sequencer keeps it: the order, the members, the history buffer, and what is stable.

Promise. Each place in the order of a group (a number, from 1 on, without gaps) holds either consecutive messages of
one sender or one change of members. Everybody who was a member at a place, before or after it, is sent it, and can
fetch it until it has reported that it delivered it. No message has two places.

Rule. (kindberg-1995, sections 3.2 and 4)
  Places. What is accepted gets the next number. Messages and changes of members alike.
  Owed. A member is owed all places from that of its join to that of its leave, inclusive. When it has reported
      that it
  delivered the last of them, it is parted from the group.
  Stable. A number is group-stable when everybody that is owed it has reported it. The history holds what is not
      stable.
  Repeats. For each client the number of its last message is kept, apart from the history: it outlives what is
      pruned.

Safe. A client numbers its messages to the group 1, 2, 3…; what is not above the last number has a place already,
and is acknowledged, not placed again. A place is dropped from the history only after everybody who is owed it has
reported it.

Live. Every member reports, or is excluded by the service, which places its leave and ends what it is owed. While the
history is full, new messages wait, those of each client in their order; members that report make room.
"""

from typing import Final, final

from antiphon.kernel.identity import ProcessId
from antiphon.stacks.sequencer.context import Context
from antiphon.stacks.sequencer.wire import (
    ACCEPT,
    CHANGE,
    ORDER,
    carried,
    carried_with,
    pairs_bytes,
    process_bytes,
    processes_bytes,
    u64,
)

HISTORY_BYTES_MAX: Final = 4 * 1024 * 1024
"""A history that holds so many bytes, or `Options.window_packets` places, is full: further messages wait until members
have reported. Changes of members never wait."""
EXCLUDED_MAX: Final = 1000
"""Names of which a group keeps the excluded incarnation; the oldest go first."""


@final
class SequencedGroup:
    """The data that a sequencer holds for one group (section 4)."""

    __slots__ = (
        "_places_max",
        "_retained_bytes",
        "_retained_max",
        "blocked",
        "carried",
        "excluded",
        "history",
        "history_bytes",
        "id",
        "intersecting",
        "is_moving",
        "last_numbers",
        "last_places",
        "leave_places",
        "load",
        "members",
        "moves",
        "name",
        "number",
        "reported",
        "rests",
        "retained",
        "sent",
        "spent",
        "stable",
        "told_stable",
    )

    def __init__(self, name: str, id: int, number: int, places_max: int, retained_max: int = 0) -> None:
        self.name = name
        self._retained_max = retained_max
        self.retained: dict[int, list[bytes]] = {}
        """The last stable places, in order, up to `retained_max` bytes: for those that come later (replay.py)."""
        self._retained_bytes = 0
        self._places_max = places_max
        self.id = id
        self.number = number
        """The last sequence number used."""
        self.members: list[ProcessId] = []
        """By age."""
        self.reported: dict[ProcessId, int] = {}
        """Up to which number each has delivered everything, of those who are owed something."""
        self.leave_places: dict[ProcessId, int] = {}
        """Of those who have left and have not reported it yet."""
        self.history: dict[int, list[bytes]] = {}
        """The places that are not group-stable, as links carry them."""
        self.history_bytes = 0
        self.stable = number
        self.told_stable = number
        """What members were last told of it."""
        self.last_numbers: dict[ProcessId, int] = {}
        """The number of the last message of each client, also of those that are no members."""
        self.last_places: dict[ProcessId, int] = {}
        """Where each of those messages stands."""
        self.excluded: dict[str, int] = {}
        """The highest incarnation of each name that was excluded while it was in this group: it stays out wherever the
        group goes, also if it never learned that it was in."""
        self.carried: Context = {}
        """The highest number of each other group in the contexts of this group's places. Whoever is owed the next place
        has delivered the last one, or delivers its own join first, which carries all of this anew: so contexts carry
        only what has risen."""
        self.spent = 0
        """What it has cost since the load was last looked at (load.py)…"""
        self.load = 0.0
        """…and what it costs a second…"""
        self.sent: dict[str, int] = {}
        """…and who has sent how many messages since; only the names of processes."""
        self.rests = 0
        """For so many intervals it does not move to a sender."""
        self.is_moving = False
        """It is on its way to another sequencer (mesh.py)…"""
        self.moves = 0
        """…as it has been so often before."""
        self.blocked: dict[ProcessId, None] = {}
        """The clients whose next request waits until the history has room."""
        self.intersecting: list[int] = []
        """The groups whose numbers accepts of this group carry, itself included: those that owe something to a process
        that this group owes something to."""

    def is_full(self) -> bool:
        """Whether new messages have to wait."""
        return self.history_bytes >= HISTORY_BYTES_MAX or len(self.history) >= self._places_max

    def accept(
        self, client: ProcessId, last: int, data: bytes, body_at: int, context: Context, stamp: int
    ) -> list[bytes]:
        """Give messages of a client, which stand in `data` from `body_at` on, the next place; what links carry to
        everybody."""
        self.last_numbers[client] = last
        self.last_places[client] = self.number + 1
        head = self._head(self.number + 1, context, stamp) + process_bytes(client)
        return self._place(carried_with(ACCEPT, head, data, body_at))

    def bare_place(
        self, client: ProcessId, first: int, level: int, count: int, size: int, context: Context, stamp: int
    ) -> list[bytes]:
        """The place that was just accepted, without its messages, which have this size in bytes (bodies.py)."""
        head = self._head(self.number, context, stamp) + process_bytes(client)
        return carried(ORDER, head, u64(first), bytes([level]), u64(count), u64(size))

    def admit(self, client: ProcessId) -> None:
        """A client is owed all places from the next one on."""
        self.reported[client] = self.number

    def join(self, client: ProcessId, context: Context, stamp: int) -> list[bytes]:
        """Give a join the next place."""
        self.members.append(client)
        return self._change(context, stamp, [client], [], [])

    def leave(self, client: ProcessId, failed: bool, context: Context, stamp: int) -> list[bytes]:
        """Give the end of a membership the next place."""
        self.members.remove(client)
        self.leave_places[client] = self.number + 1
        if failed:
            self.note_excluded(client)
        return self._change(context, stamp, [], [] if failed else [client], [client] if failed else [])

    def note_excluded(self, client: ProcessId) -> None:
        """An incarnation has been excluded, and is not taken in again."""
        self.excluded[client.name] = max(client.incarnation, self.excluded.pop(client.name, 0))
        while len(self.excluded) > EXCLUDED_MAX:
            del self.excluded[next(iter(self.excluded))]

    def forget_client(self, client: ProcessId) -> None:
        """A client is gone for good: what it sent is not asked for again."""
        self.last_numbers.pop(client, None)
        self.last_places.pop(client, None)

    def _change(
        self, context: Context, stamp: int, joined: list[ProcessId], left: list[ProcessId], failed: list[ProcessId]
    ) -> list[bytes]:
        lists = [processes_bytes(processes) for processes in (self.members, joined, left, failed)]
        return self._place(carried(CHANGE, self._head(self.number + 1, context, stamp), *lists))

    def _head(self, number: int, context: Context, stamp: int) -> bytes:
        return u64(self.id) + u64(number) + u64(stamp) + pairs_bytes(context)

    def _place(self, placed: list[bytes]) -> list[bytes]:
        self.keep(placed)
        return placed

    def keep(self, placed: list[bytes]) -> None:
        """Give the next number to a place, as links carry it, and keep it in the history if somebody is owed it."""
        self.number += 1
        if self.reported:
            self.history[self.number] = placed
            self.history_bytes += sum([len(piece) - 1 for piece in placed])
        else:
            self.stable = self.number
            self.retain(self.number, placed)

    def report(self, client: ProcessId, number: int) -> bool:
        """A client has delivered everything up to a number; whether that is all that it is owed for good."""
        if number <= self.reported.get(client, number) or number > self.number:
            return False
        self.reported[client] = number
        self.prune()
        return number >= self.leave_places.get(client, self.number + 1)

    def end_owing(self, client: ProcessId) -> None:
        """A client that has left is owed nothing more."""
        self.reported.pop(client, None)
        self.leave_places.pop(client, None)
        self.prune()

    def prune(self) -> None:
        """Drop what everybody has reported."""
        stable = min(self.reported.values(), default=self.number)
        while self.stable < stable:
            self.stable += 1
            placed = self.history.pop(self.stable, [])
            for piece in placed:
                self.history_bytes -= len(piece) - 1
            self.retain(self.stable, placed)

    def retain(self, number: int, placed: list[bytes]) -> None:
        """Keep a stable place, and drop the oldest ones beyond the limit."""
        if not self._retained_max or not placed:
            return
        self.retained[number] = placed
        self._retained_bytes += sum([len(piece) for piece in placed])
        while self._retained_bytes > self._retained_max:
            oldest = next(iter(self.retained))
            self._retained_bytes -= sum([len(piece) for piece in self.retained.pop(oldest)])

    def first_kept(self) -> int:
        """The first place from which on all are still here."""
        return next(iter(self.retained), self.stable + 1)

    def kept(self, number: int) -> list[bytes]:
        """A place that is still here."""
        return self.retained[number] if number in self.retained else self.history[number]
