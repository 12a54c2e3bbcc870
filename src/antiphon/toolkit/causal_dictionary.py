"""Replicated data that is updated asynchronously (isis-1987, 5.1): a dictionary with a copy at every member.

    prices = CausalDictionary(tools)
    async with tools:
        await prices.set("IBM", b"91")          # in this copy at once; the others are told by one causal message
        prices.get("IBM")

The rule. An update is complete when the caller's own copy has it; it travels by one causal message. Every copy sees an
update after all those that its author had seen, so what is written in a known order is written in that order
everywhere: by one author, or by several that take turns under a lock (`locks.py`, in the same Tools).

Updates of one key that do not know of each other have no order. So that copies become equal all the same, each update
bears a number above that of every update its author had seen, and of two the one with the higher number stays; of
equal ones, the one of the author that sorts last. This respects causal order.

An update that was not sent when its author is excluded, or fails, is lost with it (3.5); nobody but the author has seen
it, and `settle` waits until that cannot happen any more. A joiner gets only what was delivered at its provider.

Limits: `keys_max` keys, removed ones included; `set` of a further one raises UsageError.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from antiphon import Message, UsageError
from antiphon.toolkit.tools import Tool, Tools

KEYS_MAX: Final = 100_000


class _CausalUpdate(msgspec.Struct, array_like=True):
    key: str
    clock: int
    author: str
    value: bytes | None
    """None: removed."""

    @property
    def stamp(self) -> tuple[int, str]:
        return (self.clock, self.author)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_CausalUpdate)
_STATE: Final = msgspec.msgpack.Decoder(list[_CausalUpdate])


class CausalDictionary(Tool):
    """One member's copy."""

    def __init__(self, tools: Tools, name: str = "dictionary", *, keys_max: int = KEYS_MAX) -> None:
        super().__init__(tools, name)
        self._keys_max = keys_max
        self._delivered: dict[str, _CausalUpdate] = {}
        self._own: dict[str, _CausalUpdate] = {}
        """Updates made here that have not come back yet."""
        self._clock = 0

    async def set(self, key: str, value: bytes) -> None:
        """Set a value: here at once, at the others as soon as they hear of it."""
        await self._update(key, value)

    async def remove(self, key: str) -> None:
        """Remove a key."""
        await self._update(key, None)

    def get(self, key: str, default: bytes | None = None) -> bytes | None:
        """Return the value in this copy."""
        update = self._newest(key)
        return default if update is None or update.value is None else update.value

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        keys = self._delivered.keys() | self._own.keys()
        return iter(sorted(key for key in keys if key in self))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    async def settle(self) -> None:
        """Wait until all copies have what this one has."""
        await self.tools.flush()

    def _newest(self, key: str) -> _CausalUpdate | None:
        delivered, own = self._delivered.get(key), self._own.get(key)
        if delivered is None or (own is not None and own.stamp > delivered.stamp):
            return own
        return delivered

    async def _update(self, key: str, value: bytes | None) -> None:
        if self._newest(key) is None and len(self._delivered.keys() | self._own.keys()) >= self._keys_max:
            raise UsageError(f"the dictionary has {self._keys_max} keys, removed ones included; give a higher keys_max")
        await self.tools.room()
        self._clock += 1
        update = _CausalUpdate(key, self._clock, self.tools.process.full, value)
        self._own[key] = update
        self.tools.post(self, _ENCODER.encode(update))

    def take(self, event: Message, payload: bytes) -> None:
        update = _DECODER.decode(payload)
        self._clock = max(self._clock, update.clock)
        known = self._delivered.get(update.key)
        if known is None or update.stamp > known.stamp:
            self._delivered[update.key] = update
        own = self._own.get(update.key)
        if own is not None and own.stamp <= update.stamp and event.sender == self.tools.process:
            del self._own[update.key]

    def suspend(self, why: str, excluded: bool) -> None:
        if excluded:
            self._own.clear()

    def export(self) -> bytes:
        return _ENCODER.encode(list(self._delivered.values()))

    def restore(self, state: bytes) -> None:
        updates = _STATE.decode(state)
        self._delivered = {update.key: update for update in updates}
        self._clock = max([self._clock, *(update.clock for update in updates)])
