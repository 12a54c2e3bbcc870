"""The lives of a process: how its next incarnation follows one that was excluded from a group.

A process that was excluded from a group is dead, in all its groups. With `next_life` the next incarnation follows it on
the same socket, with an engine and a log of its own, and joins those groups again. It does so when the application
has read to the end of the last one: until then, what the application is handed belongs in the former log; and when
the engine has parted from those groups of a causality domain that did not exclude the process. Messages that the engine
has not taken by then are the next incarnation's. Where one after the other is let in nowhere, each waits twice as long
as the one before, up to REJOIN_S_MAX.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from antiphon.engine import Engine
from antiphon.kernel.effects import Ended
from antiphon.kernel.errors import ClosedError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.policies import STATIC
from antiphon.runtime.address_book import contacts_of
from antiphon.runtime.clock import Clock
from antiphon.runtime.driver import Driver
from antiphon.runtime.tap import HistoryTap
from antiphon.stacks.registry import offer

REJOIN_S: Final = 0.1
REJOIN_S_MAX: Final = 10.0
NextLife = Callable[[], tuple[ProcessId, Engine, HistoryTap | None]]
"""Makes what the next incarnation of a process consists of."""


def pause_s(refusals: int) -> float:
    """How long to wait before the next incarnation asks, when so many in a row were let in nowhere: somebody else may
    be using the name, with higher numbers."""
    return 0.0 if not refusals else min(REJOIN_S_MAX, REJOIN_S * 2.0 ** (refusals - 1))


class ReturningDriver(Driver):
    """A driver whose process comes back after an exclusion."""

    def __init__(
        self,
        process: ProcessId,
        engine: Engine,
        clock: Clock,
        tap: HistoryTap | None,
        family: int = socket.AF_INET,
        next_life: NextLife | None = None,
    ) -> None:
        super().__init__(process, engine, clock, tap, family)
        self._next_life = next_life
        self._retiring: set[asyncio.Future[None]] = set()
        self._refusals = 0
        """How many incarnations, up to this one, were let in nowhere."""

    def _can_return(self, event: Ended) -> bool:
        """Whether another incarnation may follow: the members of a static group would not know it."""
        static = any(join.policy == STATIC for join in self._joins.values())
        return event.excluded and not event.refused and self._next_life is not None and not static

    def _lapse(self) -> None:
        """This incarnation is over in all groups."""
        self._excluded = bool(self._first_views)
        for group, member in self._members.items():
            if group in self._silenced:
                continue
            if member.is_closed:
                member._part(Ended(group, excluded=True))
            else:
                self._returning[group] = False
        for group in list(self._returning):
            self._members[group]._lapse()

    def return_to(self, group: str) -> None:
        """The application has read all of the incarnation that is over in `group`, or reads there no more."""
        if group in self._returning:
            self._returning[group] = True
            if all(self._returning.values()):
                self._refusals = 0 if self._first_views else self._refusals + 1
                self._loop.call_later(pause_s(self._refusals), self._revive)

    def _revive(self) -> None:
        """The next incarnation begins, when this one has parted from all groups."""
        if self._stopped or self._next_life is None or not self._returning:
            return
        if self.engine.is_retiring():
            self._waiting.when_retired(self._revive)
            return
        groups, self._returning = [group for group in self._returning if group in self._members], {}
        roles, self.roles = self.roles, {}
        for role in roles.values():
            role.end(ClosedError(f"{self.process} was excluded from a group; its conversations need a restart, too"))
        for sender in list(self.outside.values()):
            sender.end(
                ClosedError(f"{self.process} was excluded from a group; what it publishes next is its next life's")
            )
        tap, self.tap = self.tap, None
        try:
            if tap is not None:
                self._record_end(tap, "not let in")
                self._retire(tap)
            self.process, self.engine, self.tap = self._next_life()
            if self.devices is not None:
                self.devices.renew(self.process)
            if self._reads_apart:
                self.record_reading_apart()
            for queue in dict.fromkeys(self._members[group]._send_queue() for group in groups):
                queue.record_waiting()  # what the former life had called for is the first that this one sends
        except Exception as error:
            self.fail(error)
            return
        self._excluded = False
        self._left.clear()
        self._first_views.clear()
        self.role_numbers.clear()
        for group in groups:
            if self._members[group].is_closed:
                self._members[group]._part(Ended(group, excluded=True))
                self._forget(group)
            else:
                self._join_again(group)

    def _join_again(self, group: str) -> None:
        """By asking those who were members when this process last heard of the group, and its former contacts."""
        join, member = self._joins[group], self._members[group]
        join.view, join.founders = None, ()
        if not offer(join.stack).is_served(join.policy):
            join.contacts = (contacts_of(group),)
        self._silenced.discard(group)
        self.join(join, member, self._addresses.others(group, self.process) + self._addresses.contacts(group))
        member._unblock()

    def _retire(self, tap: HistoryTap) -> None:
        """Close the log of an incarnation that is over, in the background."""
        closing = self._loop.run_in_executor(None, tap.close)
        self._retiring.add(closing)
        closing.add_done_callback(self._retired)

    def _retired(self, closing: asyncio.Future[None]) -> None:
        self._retiring.discard(closing)
        error = closing.exception()
        if isinstance(error, Exception):
            self.fail(error)

    async def close_logs(self) -> None:
        """Wait until everything that was recorded is on disk."""
        if self._retiring:
            await asyncio.wait(self._retiring)
        await super().close_logs()
