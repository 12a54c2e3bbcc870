"""SIGTERM ends a process that does not handle it; before that, what its recorders hold is written.

The handler is set only where nobody has set one, and only from the main thread, as Python demands. It writes the rows
and then lets the signal do what it would have done.
"""

import os
import signal
from threading import current_thread, main_thread
from types import FrameType
from typing import Final, Protocol

TERMINATION_S: Final = 2.0
"""How long the end of the process waits for each recorder at most."""


class TerminationWriter(Protocol):
    """Something that holds rows in memory."""

    def write_now(self, timeout_s: float) -> bool:
        """Have all of them written."""


_writers: list[TerminationWriter] = []


def write_at_termination(writer: TerminationWriter) -> None:
    """Have the rows of `writer` written when SIGTERM comes, until `forget`."""
    _writers.append(writer)
    if current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def forget(writer: TerminationWriter) -> None:
    """It has nothing left to write."""
    if writer in _writers:
        _writers.remove(writer)
    if not _writers and current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: FrameType | None) -> None:
    for writer in _writers:
        writer.write_now(TERMINATION_S)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
