"""A leader among the members of a group, with fencing tokens.

    leader = Leader(tools)
    async with tools:
        async with leader.term() as term:       # waits until this member leads
            while True:
                with guard.admit(term.token): ...

Leading is holding a write lock that all candidates ask for (`locks.py`: rules and proofs). So there is at most one
leader in each view. Its successor is the member that has been a candidate for longest, and knows it as soon as the view
comes in which the former leader is gone, without a further message: its request has been agreed to long before. The
token of a term is higher than those of all earlier terms. A leader that was cut off, stopped or excluded is told: its
body is cancelled, and the `async with` raises LockLostError; until it knows, a guarded resource refuses it.
"""

import asyncio
from typing import Final

from antiphon import Message, ProcessId, View
from antiphon.toolkit.locks import LockClaim, Locks
from antiphon.toolkit.tools import Tools

ITEM: Final = "leader"


class Leader(Locks):
    """The election at one member. All members may be candidates, or only some."""

    def __init__(self, tools: Tools, name: str = "leader") -> None:
        super().__init__(tools, name)
        self._known: ProcessId | None = None
        self._changed = asyncio.Event()

    def term(self, *, timeout_s: float | None = None, above: int = 0) -> LockClaim:
        """Be a candidate, then lead for as long as the claim lasts; see `Locks.write`."""
        return self.write(ITEM, timeout_s=timeout_s, above=above)

    @property
    def current(self) -> ProcessId | None:
        """The member that leads, as far as known here; None: there is no candidate."""
        return self.holder(ITEM)

    @property
    def candidates(self) -> list[ProcessId]:
        """The members that lead next, in their order."""
        return self.waiting(ITEM)

    async def changed(self) -> ProcessId | None:
        """Wait until another member leads, or none, and return it; raises what ended the group here."""
        known = self._known
        while self._known == known:
            if self.tools.error is not None:
                raise self.tools.error
            self._changed.clear()
            await self._changed.wait()
        return self._known

    def take(self, event: Message, payload: bytes) -> None:
        super().take(event, payload)
        self._tell()

    def install(self, view: View, gone: tuple[ProcessId, ...]) -> None:
        super().install(view, gone)
        self._tell()

    def end(self, error: Exception) -> None:
        super().end(error)
        self._changed.set()

    def _tell(self) -> None:
        if self.current != self._known:
            self._known = self.current
            self._changed.set()
