"""Who waits for messages to reach the others: to settle what a group sent, or to flush groups.

The driver asks after each step whether something that is waited for has come about. Nothing here changes the engine.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from antiphon.engine import Engine
from antiphon.kernel.errors import ClosedError
from antiphon.kernel.identity import ProcessId
from antiphon.parts.member import StabilityMark


class Settling(Protocol):
    """A group that is being settled."""

    def outstanding(self) -> int:
        """What was sent here and is not yet known to be everywhere."""


class FlushWait:
    """Somebody waits until all that `marks` stand for is delivered at all members, or received by `k` others."""

    def __init__(self, groups: Sequence[str], marks: list[StabilityMark], k: int, done: asyncio.Future[None]) -> None:
        self.groups = groups
        self.marks = marks
        self.k = k
        self.done = done


class Waiting:
    """All who wait at one node."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._settling: list[tuple[Settling, asyncio.Future[None]]] = []
        self._flushing: list[FlushWait] = []
        self._retiring: list[Callable[[], object]] = []
        """Whom to call when the engine has parted from all groups."""
        self.somebody = False
        """Whether anybody waits."""

    def check(self, engine: Engine) -> None:
        """Wake whoever has waited long enough."""
        for member, settled in self._settling:
            if not settled.done() and member.outstanding() == 0:
                settled.set_result(None)
        for flush in self._flushing:
            if not flush.done.done() and engine.is_stable(flush.marks, flush.k):
                flush.done.set_result(None)
        if self._retiring and not engine.is_retiring():
            for call in self._retiring:
                self._loop.call_soon(call)
            self._retiring.clear()
            self._note()

    def when_retired(self, call: Callable[[], object]) -> None:
        """Call this once the engine has parted from all groups that this process, which is over, was in."""
        self._retiring.append(call)
        self.somebody = True

    def _note(self) -> None:
        self.somebody = bool(self._settling or self._flushing or self._retiring)

    def silence(self, group: str, member: Settling, process: ProcessId) -> None:
        """A group is over: nothing more will come about there."""
        for settling, settled in self._settling:
            if settling is member and not settled.done():
                settled.set_result(None)
        for flush in self._flushing:
            if group in flush.groups and not flush.done.done():
                flush.done.set_exception(
                    ClosedError(f"{process} left group {group!r}, or was excluded, before all had what it flushes")
                )

    def stop(self, error: Exception) -> None:
        """The node has ended; those who flush get `error`."""
        for _, settled in self._settling:
            if not settled.done():
                settled.set_result(None)
        for flush in self._flushing:
            if not flush.done.done():
                flush.done.set_exception(error)

    async def settle(self, member: Settling, linger_s: float) -> bool:
        """Wait until nothing that `member` sent is outstanding, at most `linger_s`; whether there was an end to it."""
        entry = (member, self._loop.create_future())
        self._settling.append(entry)
        self.somebody = True
        try:
            async with asyncio.timeout(linger_s):
                await entry[1]
        except TimeoutError:
            return False
        finally:
            self._settling.remove(entry)
            self._note()
        return True

    async def flush(self, engine: Engine, groups: Sequence[str], k: int, own: bool = False) -> None:
        """Wait until all that was sent or delivered in `groups` until now is delivered at all members, or received by
        `k` others; with `own`, only what was sent here."""
        flush = FlushWait(groups, engine.mark(list(groups)), k, self._loop.create_future())
        if own:
            for mark in flush.marks:
                mark.known = [0] * len(mark.known)
        if engine.is_stable(flush.marks, k):
            return
        self._flushing.append(flush)
        self.somebody = True
        try:
            await flush.done
        finally:
            self._flushing.remove(flush)
            self._note()
