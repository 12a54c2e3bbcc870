"""The history of a node, tapped off the way of the data.

A send is recorded before it leaves, a delivery as the application takes the messages. The recorder stands on pyarrow,
which takes longer to load than all the rest: only who records loads it.
"""

from pathlib import Path
from typing import Final

from antiphon.kernel.effects import Installed, Received, Sent
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.runtime.events import Batch
from antiphon.stacks.vector.stack import LEVELS_OFFERED, PROMISES

POLICY: Final = "static"
"""The membership is given at the start."""


class HistoryTap:
    """Writes what happens to one process into its recorder."""

    def __init__(self, directory: str | Path, run: str, process: ProcessId) -> None:
        from antiphon.history.recorder import Recorder

        self._recorder = Recorder(directory, run=run, process=process.name, incarnation=process.incarnation)

    def start(self, group: str, stack: str, time_ns: int) -> None:
        self._recorder.start(time_ns, group, stack, POLICY, LEVELS_OFFERED, PROMISES)

    def view(self, event: Installed, time_ns: int) -> None:
        self._recorder.view(time_ns, event.group, event.view.id, [repr(member) for member in event.view.members])

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

    def close(self) -> None:
        """Wait until everything is on disk."""
        self._recorder.close()
