"""What the driver of an engine records of what its application is told and asks for.

A view is recorded when the application is told of it, a message when it is handed over. What cannot be recorded fails
the node: a history with a hole that nobody knows of would be worse than none.
"""

from collections.abc import Callable, Sequence
from functools import partial

from antiphon.kernel.effects import Event, Installed
from antiphon.kernel.identity import ProcessId
from antiphon.runtime.clock import Clock
from antiphon.runtime.errors import NodeFailedError
from antiphon.runtime.events import Barrier, Batch, TransitionalView, ViewChange
from antiphon.runtime.tap import HistoryTap


class RecordingDriver:
    """The part of a driver that has to do with the history."""

    def __init__(self, clock: Clock, tap: HistoryTap | None) -> None:
        self.clock = clock
        self.tap = tap
        self.error: NodeFailedError | None = None
        self._stopped = False
        self._log_ended = False
        """The last row is written; what was left behind of groups that are over may still be read."""
        self._reads_apart = False
        self._first_views: dict[str, int] = {}
        self._untold_views: dict[str, int] = {}
        """Where a history is recorded, how many views of each group the application has yet to be told of."""
        self._left: set[str] = set()
        self._excluded = False
        self.role_numbers: dict[str, int] = {}
        """By name of what a library of a stack does beside groups: the number of the last message that this incarnation
        has called for there."""
        self.open_roles: set[str] = set()
        """Names under which libraries record at present."""

    @property
    def is_stopped(self) -> bool:
        """Whether the node has ended."""
        return self._stopped

    def fail(self, cause: Exception) -> NodeFailedError:
        """Stop for good because of `cause`; the error that everyone gets from now on."""
        raise NotImplementedError

    def guard(self, call: Callable[[], None]) -> None:
        """Call something; what it raises fails the node."""
        try:
            call()
        except Exception as error:
            raise self.fail(error) from error

    def record_role(self, name: str, stack: str, promises: tuple[str, ...], domain: str, view_id: int) -> None:
        """The application takes part in something beside groups, by a library of a stack."""
        if self.tap is not None and not self._log_ended:
            now_ns = self.clock.now_ns()
            self.guard(partial(self.tap.recorder.open_role, name, stack, promises, domain, view_id, now_ns))

    def record_role_call(self, name: str, level: int, payload: bytes) -> int:
        """The application calls for a message there; its number among those of this incarnation."""
        number = self.role_numbers.get(name, 0) + 1
        self.role_numbers[name] = number
        self.record_call(name, (payload,), level, (), len(payload), False, None)
        return number

    def record_role_departure(self, name: str, view_id: int, number: int, size: int) -> None:
        """The message is on its way."""
        if self.tap is not None and not self._log_ended:
            now_ns = self.clock.now_ns()
            self.guard(partial(self.tap.recorder.depart_in_role, name, view_id, number, size, now_ns))

    def record_role_taken(
        self, name: str, view_id: int, sender: ProcessId, number: int, order: str, payload: bytes
    ) -> None:
        """The application is being handed a message there."""
        if self.tap is not None and not self._log_ended:
            try:
                self.tap.recorder.deliver(
                    name, view_id, sender, number, 1, order, [payload], 0, len(payload), False, self.clock.now_ns()
                )
            except Exception as error:
                raise self.fail(error) from error

    def record_role_left(self, names: Sequence[str]) -> None:
        """The application takes no more part there."""
        if self.tap is not None and not self._log_ended:
            for name in names:
                self.guard(partial(self.tap.recorder.left, name, self.clock.now_ns()))

    def record_call(
        self,
        group: str,
        payloads: Sequence[bytes],
        level: int,
        destinations: tuple[ProcessId, ...],
        size: int,
        barrier: bool,
        label: str | None,
    ) -> None:
        """The application calls for these messages."""
        if self.tap is not None and not self._stopped:
            try:
                now_ns = self.clock.now_ns()
                self.tap.recorder.call(group, payloads, level, destinations, size, now_ns, barrier, label)
            except Exception as error:
                raise self.fail(error) from error

    def record_taken(self, batch: Batch, number: int, count: int, size: int) -> None:
        """The application is being handed these messages."""
        if self.tap is not None and not self._log_ended:
            try:
                self.tap.deliver(batch, number, count, size, self.clock.now_ns())
            except Exception as error:
                raise self.fail(error) from error

    def record_view(self, change: ViewChange) -> None:
        """The application is being told of a view, or has nothing left to read before it when all ends."""
        if self.tap is not None and not self._log_ended and change.view.id != self._first_views[change.group]:
            stopping = self._stopped
            self._untold_views[change.group] = self._untold_views.get(change.group, 0) - 1
            try:
                self.tap.recorder.view(change.group, change.view, self.clock.now_ns())
            except Exception as error:
                failure = self.fail(error)
                if not stopping:
                    raise failure from error

    def _note_untold(self, event: Event) -> None:
        """The process is in a further view of a group, and the application has yet to be told. It never will be if its
        life in the group is over and it retires."""
        if self.tap is not None and isinstance(event, Installed) and event.group in self._first_views:
            self._untold_views[event.group] = self._untold_views.get(event.group, 0) + 1

    def record_transitional(self, view: TransitionalView) -> None:
        """The application is being told that a view ends."""
        if self.tap is not None and not self._log_ended:
            now_ns = self.clock.now_ns()
            self.guard(partial(self.tap.recorder.transitional, view.group, view.view_id, view.members, now_ns))

    def record_barrier(self, barrier: Barrier) -> None:
        """The application is being told of a barrier."""
        if self.tap is not None and not self._log_ended:
            self.guard(partial(self.tap.barrier, barrier, self.clock.now_ns()))

    def record_reading_apart(self) -> None:
        """The application reads each group by itself."""
        self._reads_apart = True
        if self.tap is not None and not self._stopped:
            self.guard(partial(self.tap.recorder.reads_apart, self.clock.now_ns()))

    def _record_end(self, tap: HistoryTap, why: str | None) -> None:
        """The last row. Who was excluded from a group is dead to it; who has left all its groups owes nothing. If it
        left some, the application may have read of their last views since: so this is said again."""
        now_ns = self.clock.now_ns()
        for group in [group for group, count in self._untold_views.items() if count > 0]:
            tap.recorder.untold(group, now_ns)
        self._untold_views.clear()
        if self.error is None and self._excluded:
            tap.recorder.crash("excluded", now_ns)
        elif self.error is None and self._left and self._left == self._first_views.keys():
            tap.recorder.leave(now_ns)
        else:
            for group in sorted(self._left):
                tap.recorder.left(group, now_ns)
            tap.recorder.stop(why, now_ns)
