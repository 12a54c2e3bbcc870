"""Who holds which lock and who waits for it: the state that all members keep alike (`locks.py` has the rules).

It changes by requests and releases in the order of delivery, and by views. Read locks are registered here as well;
since registrations are causal messages, members may see them at different places among the requests, and nothing that
must be the same everywhere depends on them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from antiphon import ProcessId
from antiphon.toolkit.messages import WireProcess, from_wire, to_wire

Key = tuple[ProcessId, int]
"""The member that asked, and its number for the request."""
Party = tuple[ProcessId, int]
"""A task of a member, for the search for deadlocks."""


@dataclass(slots=True)
class WriteRequest:
    """A request for a write lock, from its delivery until it is released, given up, or its member is gone."""

    owner: ProcessId
    number: int
    task: int
    token: int
    owed: set[ProcessId]
    """The members that have to agree: those of the view in which it was delivered that are still there."""

    @property
    def key(self) -> Key:
        return (self.owner, self.number)

    @property
    def party(self) -> Party:
        return (self.owner, self.task)


class _WireRequest(msgspec.Struct, array_like=True):
    owner: WireProcess
    number: int
    task: int
    token: int
    owed: list[WireProcess]


class _WireTable(msgspec.Struct, array_like=True):
    last: int
    view_id: int
    members: list[WireProcess]
    queues: dict[str, list[_WireRequest]]
    readers: dict[str, list[tuple[WireProcess, int, int]]]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_WireTable)


class LockTable:
    """The requests for write locks, in the order in which they are served, and the registered read locks."""

    def __init__(self) -> None:
        self.last = 0
        """The highest token so far; even."""
        self.queues: dict[str, list[WriteRequest]] = {}
        self.readers: dict[str, dict[Key, int]] = {}
        """By item, the read locks that are registered, each with its task."""
        self._view_id = 0
        self._members: tuple[ProcessId, ...] = ()

    def install(self, view_id: int, members: tuple[ProcessId, ...]) -> None:
        """Enter a view: tokens rise, and what members that are gone held or wanted is free."""
        self.last += 2 * (view_id - self._view_id)
        self._view_id, self._members = view_id, members
        present = set(members)
        for item in list(self.queues):
            queue = [request for request in self.queues[item] if request.owner in present]
            for request in queue:
                request.owed &= present
            self._put(item, queue)
        for item in list(self.readers):
            kept = {key: task for key, task in self.readers[item].items() if key[0] in present}
            if kept:
                self.readers[item] = kept
            else:
                del self.readers[item]

    def request(self, item: str, owner: ProcessId, number: int, task: int, at: int) -> WriteRequest:
        """Put a request that was delivered at the end of its item's queue, with a token above all earlier ones and not
        below `at`."""
        self.last = max(self.last + 2, at + (at & 1))
        request = WriteRequest(owner, number, task, self.last, set(self._members))
        self.queues.setdefault(item, []).append(request)
        return request

    def drop(self, item: str, key: Key) -> None:
        """Remove a request: it was released or given up."""
        self._put(item, [request for request in self.queues.get(item, ()) if request.key != key])

    def _put(self, item: str, queue: list[WriteRequest]) -> None:
        if queue:
            self.queues[item] = queue
        else:
            self.queues.pop(item, None)

    def register(self, item: str, key: Key, task: int) -> None:
        """Note a read lock."""
        if key[0] in self._members:
            self.readers.setdefault(item, {})[key] = task

    def unregister(self, item: str, key: Key) -> None:
        """Note that a read lock was released."""
        readers = self.readers.get(item)
        if readers is not None:
            readers.pop(key, None)
            if not readers:
                del self.readers[item]

    def head(self, item: str) -> WriteRequest | None:
        """Return the request that is served now."""
        queue = self.queues.get(item)
        return queue[0] if queue else None

    def find(self, item: str, key: Key) -> WriteRequest | None:
        """Return the request of this member and number."""
        return next((request for request in self.queues.get(item, ()) if request.key == key), None)

    # ---- deadlocks ---------------------------------------------------------------------------------------------------

    def _waits_for(self, party: Party) -> Iterator[tuple[Party, int]]:
        """The tasks that `party` waits for, with the token of the request that waits."""
        for item, queue in self.queues.items():
            ahead: list[Party] = [(key[0], task) for key, task in self.readers.get(item, {}).items()]
            for request in queue:
                if request.party == party:
                    for other in ahead:
                        if other != party:
                            yield other, request.token
                ahead.append(request.party)

    def is_deadlocked(self, start: Party, first: Iterable[Party], token: int) -> bool:
        """Return whether `start`, were it to wait for `first`, would wait for itself, by requests that are all older
        than `token`: then it is the one to give way."""
        seen: set[Party] = set()
        open_parties = list(first)
        while open_parties:
            party = open_parties.pop()
            if party == start:
                return True
            if party not in seen:
                seen.add(party)
                open_parties += [other for other, waiting in self._waits_for(party) if waiting < token]
        return False

    def blockers(self, item: str, key: Key) -> list[Party]:
        """Return the tasks that stand before a request: holders and those ahead in the queue, and readers."""
        result: list[Party] = [(reader[0], task) for reader, task in self.readers.get(item, {}).items()]
        for request in self.queues.get(item, ()):
            if request.key == key:
                break
            result.append(request.party)
        return result

    # ---- state transfer ----------------------------------------------------------------------------------------------

    def export(self) -> bytes:
        """Return the table as bytes."""
        return _ENCODER.encode(
            _WireTable(
                self.last,
                self._view_id,
                [to_wire(member) for member in self._members],
                {item: [_wire_request(request) for request in queue] for item, queue in self.queues.items()},
                {
                    item: [(to_wire(key[0]), key[1], task) for key, task in readers.items()]
                    for item, readers in self.readers.items()
                },
            )
        )

    def restore(self, state: bytes) -> None:
        """Replace the table by an exported one."""
        wire = _DECODER.decode(state)
        self.last, self._view_id = wire.last, wire.view_id
        self._members = tuple(from_wire(member) for member in wire.members)
        self.queues = {item: [_request(request) for request in queue] for item, queue in wire.queues.items()}
        self.readers = {
            item: {(from_wire(process), number): task for process, number, task in readers}
            for item, readers in wire.readers.items()
        }


def _wire_request(request: WriteRequest) -> _WireRequest:
    owed = [to_wire(process) for process in sorted(request.owed)]
    return _WireRequest(to_wire(request.owner), request.number, request.task, request.token, owed)


def _request(wire: _WireRequest) -> WriteRequest:
    owed = {from_wire(process) for process in wire.owed}
    return WriteRequest(from_wire(wire.owner), wire.number, wire.task, wire.token, owed)
