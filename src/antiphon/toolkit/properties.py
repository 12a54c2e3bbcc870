"""Properties of a group and a ranking of its members, which change by GBCAST (isis-1987, 2 and 3.1).

    properties = Properties(tools)
    async with tools:
        await properties.set("shards", b"16")
        await properties.rank([bob, alice])         # the order in which members are to be used
        properties.get("shards"), properties.ranking

The rule. A change is a barrier (`antiphon.Group.barrier`): all members have delivered the same messages before it, and
none after it. So what a member concludes from properties, ranking and view when it delivers a message, all others
conclude alike from the same message, without asking each other: which of them answers a request, say.

The ranking begins with the members that `rank` has named, in that order, and goes on with the others, the oldest first.
A member that leaves or fails is gone from it with the view; if it comes back, it is ranked by age again.

`set`, `remove` and `rank` return when the change has been delivered here. If this member is excluded first, they raise
ExcludedError, and the change may have been made or not.

Limits: `keys_max` keys, and a change is as short as a barrier; both raise before anything is sent.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from antiphon import Barrier, ProcessId, UsageError, View
from antiphon.toolkit.messages import WireProcess, from_wire, to_wire
from antiphon.toolkit.tools import Tool, Tools

KEYS_MAX: Final = 1000


class _PropertyChange(msgspec.Struct, array_like=True):
    number: int
    key: str
    value: bytes | None
    """None: removed."""
    ranking: list[WireProcess] | None
    """Instead of a property: who comes first."""


class _PropertyState(msgspec.Struct, array_like=True):
    values: dict[str, bytes]
    ranked: list[WireProcess]
    members: list[WireProcess]


_ENCODER: Final = msgspec.msgpack.Encoder()
_CHANGE: Final = msgspec.msgpack.Decoder(_PropertyChange)
_STATE: Final = msgspec.msgpack.Decoder(_PropertyState)


class Properties(Tool):
    """One member's copy."""

    def __init__(self, tools: Tools, name: str = "properties", *, keys_max: int = KEYS_MAX) -> None:
        super().__init__(tools, name)
        self._keys_max = keys_max
        self._values: dict[str, bytes] = {}
        self._ranked: list[ProcessId] = []
        self._members: tuple[ProcessId, ...] = ()
        self._number = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def set(self, key: str, value: bytes) -> None:
        """Give a property a value, at one place among all deliveries."""
        if key not in self._values and len(self._values) >= self._keys_max:
            raise UsageError(f"the group has {self._keys_max} properties; remove one, or give a higher keys_max")
        await self._change(key, value, None)

    async def remove(self, key: str) -> None:
        """Remove a property."""
        await self._change(key, None, None)

    async def rank(self, order: Sequence[ProcessId]) -> None:
        """Have these members come first in the ranking, in this order."""
        for process in order:
            if process not in self._members:
                raise UsageError(f"{process} is not a member of group {self.tools.group.name!r} now")
        await self._change("", None, [to_wire(process) for process in order])

    def get(self, key: str, default: bytes | None = None) -> bytes | None:
        """Return the value of a property."""
        return self._values.get(key, default)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._values))

    def __len__(self) -> int:
        return len(self._values)

    @property
    def ranking(self) -> tuple[ProcessId, ...]:
        """All members, in the order in which they are to be used."""
        return (*self._ranked, *(member for member in self._members if member not in self._ranked))

    async def _change(self, key: str, value: bytes | None, ranking: list[WireProcess] | None) -> None:
        await self.tools.room()
        self._number += 1
        number = self._number
        self.tools.post_barrier(self, _ENCODER.encode(_PropertyChange(number, key, value, ranking)))
        made = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await made
        finally:
            self._waiting.pop(number, None)

    # ---- what the tools tell -----------------------------------------------------------------------------------------

    def reach(self, event: Barrier, payload: bytes) -> None:
        change = _CHANGE.decode(payload)
        if change.ranking is not None:
            named = [from_wire(process) for process in change.ranking]
            self._ranked = [process for process in dict.fromkeys(named) if process in self._members]
        elif change.value is None:
            self._values.pop(change.key, None)
        elif change.key in self._values or len(self._values) < self._keys_max:
            self._values[change.key] = change.value
        made = self._waiting.get(change.number)
        if made is not None and event.sender == self.tools.process and not made.done():
            made.set_result(None)

    def install(self, view: View, gone: tuple[ProcessId, ...]) -> None:
        self._members = view.members
        self._ranked = [process for process in self._ranked if process in view.members]

    def suspend(self, why: str, excluded: bool) -> None:
        if excluded:
            self._fail(self.tools.lost_error())

    def end(self, error: Exception) -> None:
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        for made in self._waiting.values():
            if not made.done():
                made.set_exception(error)

    def export(self) -> bytes:
        ranked, members = [[to_wire(process) for process in some] for some in (self._ranked, self._members)]
        return _ENCODER.encode(_PropertyState(self._values, ranked, members))

    def restore(self, state: bytes) -> None:
        restored = _STATE.decode(state)
        self._values = restored.values
        self._ranked = [from_wire(process) for process in restored.ranked]
        self._members = tuple(from_wire(process) for process in restored.members)
