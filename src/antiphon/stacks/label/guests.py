"""Senders from outside a group (isis-1987, 3.6): what members of one view remember of them.

Promise: each broadcast of a guest, a process that is no member, is delivered in one view, by all its destinations or by
none, once; and in the order in which the guest sent them, as far as their levels ask for that.

Rule.
1. A guest hands its broadcasts to one member, its *door* (door.py), which broadcasts them in its place, in their order,
   in the view whose number the guest names. What the door has not sent when that view ends is rejected: the door
   forgets it, and no other member has ever seen it.
2. The members of a view begin it with one table: for each guest the number of its last broadcast that was delivered.
   When the view ends each member says up to which number of each guest it holds broadcasts, and the greatest goes into
   the table of the next view, joiners' included.
3. A guest sends again what the table does not have, by whichever door, in the new view (visitor.py). In one view it
   uses one door; if it has to use another, it asks that one to end the view first.

Why it is safe. A door takes a broadcast in one view only, and drops it with that view, so it leaves in the view that
the guest named, or never. By rule 3 nobody else takes it in that view. Broadcasts of one door travel in their order, so
what members hold of a guest has no gaps, and the end of the view delivers all that any survivor holds: the table says
exactly what was delivered. Whoever takes the next one has delivered all of the table, or has it by its state.
Why it is live: a door that fails, or is cut off from the guest, leaves others, and each view tells what is missing.

Limits: a table has GUESTS_BYTES_MAX bytes; of what is left of that when a view begins, each door may use an equal share
for guests that are new. A guest that nobody has heard for GUEST_IDLE_NS is left out of the next view's table; if it
still waits for something it is told so, since nobody knows then what became of that.
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId, is_name

GUESTS_BYTES_MAX: Final = 8192
GUEST_IDLE_NS: Final = 120_000_000_000
_ENTRY: Final = Struct("<QQBB")
_IDENTITY: Final = Struct("<QB")


class KnockListener:
    """Whoever is told that a process outside wants to send to a group."""

    __slots__ = ()

    def knocked(self, group_id: int, flags: int, data: bytes, effects: Effects) -> None:
        """A KNOCK has come for a group; here nobody is let in. Raises MalformedError."""
        raise MalformedError("knock")


def encode_identity(process: ProcessId) -> bytes:
    """Incarnation and name."""
    name = process.name.encode()
    return _IDENTITY.pack(process.incarnation, len(name)) + name


def decode_identity(data: bytes, start: int) -> tuple[ProcessId, int]:
    """A process, and where it ends. Raises MalformedError."""
    if len(data) < start + _IDENTITY.size:
        raise MalformedError("length")
    incarnation, length = _IDENTITY.unpack_from(data, start)
    end = start + _IDENTITY.size + int(length)
    if len(data) < end or not 0 < incarnation <= NUMBER_MAX:
        raise MalformedError("process")
    return ProcessId(_name(data[start + _IDENTITY.size : end]), int(incarnation)), end


def _name(data: bytes) -> str:
    try:
        name = data.decode()
    except UnicodeDecodeError:
        raise MalformedError("process") from None
    if not is_name(name):
        raise MalformedError("process")
    return name


def _entry_size(guest: ProcessId) -> int:
    return _ENTRY.size + len(guest.name.encode())


@final
class GuestEntry:
    """One guest, as a table has it."""

    __slots__ = ("is_idle", "number")

    def __init__(self, number: int, is_idle: bool) -> None:
        self.number = number
        self.is_idle = is_idle


def encode_table(table: dict[ProcessId, GuestEntry]) -> bytes:
    parts: list[bytes] = []
    for guest, entry in table.items():
        name = guest.name.encode()
        parts.append(_ENTRY.pack(entry.number, guest.incarnation, 1 if entry.is_idle else 0, len(name)) + name)
    return b"".join(parts)


def decode_table(data: bytes, start: int) -> dict[ProcessId, GuestEntry]:
    """Raises MalformedError."""
    if len(data) - start > GUESTS_BYTES_MAX:
        raise MalformedError("length")
    table: dict[ProcessId, GuestEntry] = {}
    while start < len(data):
        if len(data) < start + _ENTRY.size:
            raise MalformedError("length")
        number, incarnation, flags, length = _ENTRY.unpack_from(data, start)
        end = start + _ENTRY.size + int(length)
        if len(data) < end or number > NUMBER_MAX or not 0 < incarnation <= NUMBER_MAX or flags > 1:
            raise MalformedError("guest")
        guest = ProcessId(_name(data[start + _ENTRY.size : end]), int(incarnation))
        table[guest] = GuestEntry(int(number), bool(flags))
        start = end
    return table


def merge_tables(tables: list[dict[ProcessId, GuestEntry]]) -> dict[ProcessId, GuestEntry]:
    """The greatest number of each guest; without those that all take to be idle."""
    merged: dict[ProcessId, GuestEntry] = {}
    for table in tables:
        for guest in sorted(table):
            entry = merged.setdefault(guest, GuestEntry(0, True))
            entry.number = max(entry.number, table[guest].number)
            entry.is_idle = entry.is_idle and table[guest].is_idle
    return {guest: GuestEntry(entry.number, False) for guest, entry in merged.items() if not entry.is_idle}


@final
class GuestTable:
    """The guests of one view, at one member."""

    __slots__ = ("_admitted_bytes", "_before", "_bytes_max", "_held", "_held_bytes", "_seen_ns", "_taken", "now_ns")

    def __init__(self, table: dict[ProcessId, GuestEntry], members: int, seen_ns: dict[ProcessId, int]) -> None:
        self._before = {guest: entry.number for guest, entry in table.items()}
        """By guest, the last broadcast that was delivered before this view…"""
        self._held = dict(self._before)
        """…and the last that is held here…"""
        self._taken: dict[ProcessId, int] = {}
        """…and the last that was taken from it here, as its door."""
        self._held_bytes = len(encode_table(table))
        self._bytes_max = (GUESTS_BYTES_MAX - self._held_bytes) // members
        self._admitted_bytes = 0
        self._seen_ns = seen_ns
        """By guest, when it was last heard of, in whatever view."""
        self.now_ns = 0

    def knows(self, guest: ProcessId) -> bool:
        """Whether the table had this guest when the view began."""
        return guest in self._before

    def before(self, guest: ProcessId) -> int:
        """The last broadcast of a guest that was delivered before this view."""
        return self._before.get(guest, 0)

    def held(self, guest: ProcessId) -> int:
        """The last broadcast of a guest that is held here, or was delivered before."""
        return self._held.get(guest, 0)

    def last(self, guest: ProcessId) -> int:
        """The last one that this member, as its door, does not need again in this view."""
        return max(self._taken.get(guest, 0), self.held(guest))

    def hold(self, guest: ProcessId, number: int) -> None:
        """A broadcast of a guest is held here."""
        if guest not in self._held:
            size = _entry_size(guest)
            if self._held_bytes + size > GUESTS_BYTES_MAX:
                return  # only if another member admits more than its share
            self._held_bytes += size
        self._held[guest] = max(number, self._held.get(guest, 0))
        self._seen_ns[guest] = self.now_ns

    def see(self, guest: ProcessId, now_ns: int) -> None:
        """A guest has a link to this member."""
        self.now_ns = now_ns
        self._seen_ns[guest] = now_ns

    def admit(self, guest: ProcessId) -> bool:
        """Whether there is room for this guest."""
        if guest not in self._held and guest not in self._taken:
            size = _entry_size(guest)
            if self._admitted_bytes + size > self._bytes_max:
                return False
            self._admitted_bytes += size
            self._taken[guest] = 0
        return True

    def take(self, guest: ProcessId, number: int) -> bool:
        """Whether this is a broadcast that was not taken before."""
        if number <= self.last(guest):
            return False
        self._taken[guest] = number
        return True

    def table(self) -> dict[ProcessId, GuestEntry]:
        """What this member says of guests when the view ends."""
        found: dict[ProcessId, GuestEntry] = {}
        for guest, number in self._held.items():
            seen_ns = self._seen_ns.setdefault(guest, self.now_ns)
            found[guest] = GuestEntry(number, self.now_ns - seen_ns > GUEST_IDLE_NS)
        return found

    def forget(self) -> None:
        """Drop what is remembered of guests that no table has any more."""
        for guest in [guest for guest in self._seen_ns if guest not in self._held and guest not in self._taken]:
            del self._seen_ns[guest]
