"""The history of a node, tapped off the way of the data.

A send is recorded before it leaves, a delivery as the application takes the messages, and so is a view, so that it
stands among the deliveries where the application sees it; only the first, which nothing comes before, is recorded when
it is installed. The recorder stands on pyarrow, which takes longer to load than all the rest: only who records loads
it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from antiphon.kernel.effects import Received, Sent, Suspected
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.levels import LEVEL_NAMES, SAFE
from antiphon.runtime.environment import current_environment
from antiphon.runtime.events import Barrier, Batch
from antiphon.stacks.registry import offer

if TYPE_CHECKING:
    from antiphon.history.log import Log


def record(directory: str | Path, run: str, process: ProcessId) -> "HistoryTap":
    """A tap into a log of its own for this incarnation of `process`, in `directory`."""
    log, close = current_environment().open_log(directory, run, process.name, process.incarnation)
    return HistoryTap(log, close)


class HistoryTap:
    """Writes what happens to one process into its log; `close` waits until everything is on disk."""

    def __init__(self, log: "Log", close: Callable[[], None]) -> None:
        from antiphon.history.schema import BARRIER, LEAVES, LEFT, READS_APART

        self._barrier = BARRIER
        self._leaves = LEAVES
        self._left = LEFT
        self._reads_apart = READS_APART
        self._recorder = log
        self.close = close

    def start(self, group: str, stack: str, policy: str, time_ns: int) -> None:
        self._recorder.start(time_ns, group, stack, policy, offer(stack).levels, offer(stack).promises(policy))

    def view(self, group: str, view: View, time_ns: int) -> None:
        self._recorder.view(time_ns, group, view.id, [repr(member) for member in view.members])

    def suspect(self, event: Suspected, time_ns: int) -> None:
        self._recorder.suspect(time_ns, event.group, event.view_id, repr(event.process))

    def leaves(self, group: str, time_ns: int) -> None:
        """The process announces that it leaves; the audit counts it among those that agree to the next view."""
        self._recorder.note(time_ns, self._leaves, group)

    def left(self, group: str, time_ns: int) -> None:
        """The process is out of this group: nothing more is owed to it there."""
        self._recorder.note(time_ns, self._left, group)

    def reads_apart(self, time_ns: int) -> None:
        """The application reads each group by itself: no order between groups is promised to it from here on."""
        self._recorder.note(time_ns, self._reads_apart)

    def note(self, text: str, time_ns: int) -> None:
        self._recorder.note(time_ns, text)

    def send(self, event: Sent, time_ns: int) -> None:
        self._recorder.send(
            time_ns,
            event.group,
            event.view_id,
            event.number,
            event.count,
            LEVEL_NAMES[event.level],
            event.size,
            tuple(repr(process) for process in event.destinations) or None,
            self._barrier if event.barrier else None,
        )

    def receive(self, event: Received, time_ns: int) -> None:
        self._recorder.receive(
            time_ns,
            event.group,
            event.view_id,
            event.sender.name,
            event.sender.incarnation,
            event.number,
            event.count,
            LEVEL_NAMES[event.level],
            event.size,
        )

    def deliver(self, batch: Batch, number: int, count: int, size: int, time_ns: int) -> None:
        """`count` messages of `batch` from `number` on are handed to the application."""
        sender = batch.sender
        self._recorder.deliver(
            time_ns, batch.group, batch.view_id, sender.name, sender.incarnation, number, count, batch.order, size
        )

    def barrier(self, barrier: Barrier, time_ns: int) -> None:
        """The application is told of a barrier."""
        sender = barrier.sender
        self._recorder.deliver(
            time_ns,
            barrier.group,
            barrier.view_id,
            sender.name,
            sender.incarnation,
            barrier.number,
            1,
            LEVEL_NAMES[SAFE],
            len(barrier.payload),
            self._barrier,
        )

    def stop(self, why: str | None, time_ns: int) -> None:
        """The last row. None: the run had healed and went quiet."""
        if why is None:
            self._recorder.stop(time_ns)
        else:
            self._recorder.stop(time_ns, why)

    def leave(self, time_ns: int) -> None:
        """The last row: all groups were left in good order."""
        self._recorder.stop(time_ns, self._left)

    def crash(self, why: str, time_ns: int) -> None:
        """The last row: to the others this process is dead."""
        self._recorder.crash(time_ns, why)
