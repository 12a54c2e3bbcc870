"""The history of a node: the log of each life of its process, and how it is closed.

What is recorded, and when, is told in `antiphon.recording`. A view is recorded as the application is told of it, so
that it stands among the deliveries where the application sees it; only the first, which nothing comes before, is
recorded when it is installed.
"""

from collections.abc import Callable
from pathlib import Path

from antiphon.kernel.identity import ProcessId
from antiphon.recording import ProcessRecorder
from antiphon.runtime.environment import current_environment
from antiphon.runtime.events import Barrier, Batch


class HistoryTap:
    """The recorder of one life; `close` waits until everything is on disk."""

    def __init__(self, recorder: ProcessRecorder, close: Callable[[], None]) -> None:
        self.recorder = recorder
        self.close = close

    def deliver(self, batch: Batch, number: int, count: int, size: int, time_ns: int) -> None:
        """`count` messages of `batch` from `number` on are handed to the application."""
        first = number - batch.number
        self.recorder.deliver(
            batch.group, batch.view_id, batch.sender, number, count, batch.order, batch.payloads, first, size,
            batch.private, time_ns,
        )  # fmt: skip

    def barrier(self, barrier: Barrier, time_ns: int) -> None:
        """The application is told of a barrier."""
        self.recorder.barrier(barrier.group, barrier.view_id, barrier.sender, barrier.number, barrier.payload, time_ns)


def record(directory: str | Path, run: str, process: ProcessId, digests: bool) -> HistoryTap:
    """A tap into a log of its own for this incarnation of `process`, in `directory`."""
    log, close = current_environment().open_log(directory, run, process.name, process.incarnation)
    return HistoryTap(ProcessRecorder(log, digests), close)
