"""What a node takes from the machine: datagram sockets, time, entropy, and the log that it records into.

There is one seam, found through the running event loop. A loop that carries an attribute `antiphon_environment`
supplies all of these itself: the loops of `antiphon.testing` do, so that whole programs run in virtual time. On any
other loop they are the operating system's. Streams, timers and worker threads need no seam here, because programs
already reach them through the loop (`create_connection`, `call_at`, `run_in_executor`).
"""

import asyncio
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from antiphon.history.log import Log
    from antiphon.runtime.keyring import Keyring

ATTRIBUTE: Final = "antiphon_environment"
FLUSH_S: Final = 0.4
"""How often the rows of a history go to disk: what is recorded is there within a second."""


class Environment:
    """The operating system. A simulation overrides every method."""

    history: str | None = None
    """Where a node records that names no directory itself; None: nowhere."""
    keyring: "Keyring | None" = None
    """The keys of a node that names none itself…"""
    needs_keys = True
    """…and whether it needs any, off loopback. Only a simulated network can do without."""

    def time_ns(self) -> int:
        """Wall time, in nanoseconds since 1970."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Time that never goes back, in nanoseconds since any beginning."""
        return time.monotonic_ns()

    def random(self) -> Random:
        """A new generator that nobody can foretell."""
        return Random(secrets.randbits(256))

    def token_bytes(self, size: int) -> bytes:
        """`size` bytes that nobody can foretell."""
        return secrets.token_bytes(size)

    def life_bytes(self, size: int) -> bytes:
        """`size` bytes that were never drawn before, for the life of a seal (seal.py)."""
        return secrets.token_bytes(size)

    def datagram_socket(self, family: int) -> socket.socket:
        """A UDP socket that is not bound yet."""
        return socket.socket(family, socket.SOCK_DGRAM)

    def open_log(
        self, directory: str | Path, run: str, process: str, incarnation: int
    ) -> tuple["Log", Callable[[], None]]:
        """A log of one process incarnation, and what closes it once everything is on disk."""
        from antiphon.history.recorder import Recorder

        recorder = Recorder(directory, run=run, process=process, incarnation=incarnation, flush_s=FLUSH_S)
        return recorder, recorder.close


_MACHINE: Final = Environment()


def current_environment() -> Environment:
    """The environment of the running event loop; the machine's own where no loop runs or the loop supplies none."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return _MACHINE
    found: Environment = getattr(loop, ATTRIBUTE, _MACHINE)
    return found
