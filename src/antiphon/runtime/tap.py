"""The history of a node, tapped off the way of the data.

A send is recorded before it leaves, a delivery as the application takes the messages, and so is a view, so that it
stands among the deliveries where the application sees it; only the first, which nothing comes before, is recorded when
it is installed. The recorder stands on pyarrow,
which takes longer to load than all the rest: only who records loads it.
"""

from pathlib import Path

from antiphon.kernel.effects import Received, Sent, Suspected
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.runtime.events import Batch
from antiphon.stacks.vector.stack import LEVELS_OFFERED, promises


class HistoryTap:
    """Writes what happens to one process into its recorder."""

    def __init__(self, directory: str | Path, run: str, process: ProcessId) -> None:
        from antiphon.history.recorder import Recorder
        from antiphon.history.schema import LEAVES

        self._leaves = LEAVES
        self._recorder = Recorder(directory, run=run, process=process.name, incarnation=process.incarnation)

    def start(self, group: str, stack: str, policy: str, time_ns: int) -> None:
        self._recorder.start(time_ns, group, stack, policy, LEVELS_OFFERED, promises(policy))

    def view(self, group: str, view: View, time_ns: int) -> None:
        self._recorder.view(time_ns, group, view.id, [repr(member) for member in view.members])

    def suspect(self, event: Suspected, time_ns: int) -> None:
        self._recorder.suspect(time_ns, event.group, event.view_id, repr(event.process))

    def leaves(self, time_ns: int) -> None:
        """The process announces that it leaves; the audit counts it among those that agree to the next view."""
        self._recorder.note(time_ns, self._leaves)

    def note(self, text: str, time_ns: int) -> None:
        self._recorder.note(time_ns, text)

    def send(self, event: Sent, time_ns: int) -> None:
        self._recorder.send(
            time_ns, event.group, event.view_id, event.number, event.count, LEVEL_NAMES[event.level], event.size
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

    def stop(self, why: str | None, time_ns: int) -> None:
        """The last row. None: the run had healed and went quiet."""
        if why is None:
            self._recorder.stop(time_ns)
        else:
            self._recorder.stop(time_ns, why)

    def leave(self, time_ns: int) -> None:
        """The last row: all groups were left in good order."""
        from antiphon.history.schema import LEFT

        self._recorder.stop(time_ns, LEFT)

    def crash(self, why: str, time_ns: int) -> None:
        """The last row: to the others this process is dead."""
        self._recorder.crash(time_ns, why)

    def close(self) -> None:
        """Wait until everything is on disk."""
        self._recorder.close()
