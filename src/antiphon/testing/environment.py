"""The environment of one simulated program: its host's clock, seeded entropy, simulated sockets, logs in memory."""

import socket
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, cast

from antiphon.runtime.environment import FLUSH_S, Environment
from antiphon.runtime.keyring import SECRET_BYTES, Keyring, SharedKey
from antiphon.testing.recording import DiskLog, ProgramLog, VirtualThread
from antiphon.testing.sockets import SimulatedSocket

if TYPE_CHECKING:
    from antiphon.history.log import Log
    from antiphon.testing.host import Program


@lru_cache(maxsize=4)
def simulated_keyring(seed: int) -> Keyring:
    """The keys that all programs of a simulation share, unless they bring their own."""
    return Keyring([SharedKey(1, Random(f"key {seed}").randbytes(SECRET_BYTES))])


class SimulatedEnvironment(Environment):
    """What `antiphon.current_environment()` is in a simulated program."""

    history = "memory"

    def __init__(self, program: "Program") -> None:
        self._program = program
        self._random = Random(program.timeline.random.getrandbits(64))
        self._lives = Random(f"{program.timeline.seed} {program.host.name} {program.host.starts}")
        """Apart from the others, so that sealed and plain programs are given the same chances."""
        self.keyring = simulated_keyring(program.timeline.seed) if program.network.is_sealed else None
        self.needs_keys = program.network.is_sealed

    def time_ns(self) -> int:
        from antiphon.testing.host import EPOCH_NS

        return EPOCH_NS + self._program.host.clock_offset_ns + self._program.timeline.now_ns

    def monotonic_ns(self) -> int:
        return self._program.timeline.now_ns

    def random(self) -> Random:
        return Random(self._random.getrandbits(64))

    def token_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def life_bytes(self, size: int) -> bytes:
        return self._lives.randbytes(size)

    def datagram_socket(self, family: int) -> socket.socket:
        return cast(socket.socket, SimulatedSocket(self._program, family))

    def open_log(
        self, directory: str | Path, run: str, process: str, incarnation: int
    ) -> "tuple[Log, Callable[[], None]]":
        program = self._program
        log = ProgramLog(program, run=run, process=process, incarnation=incarnation)
        if program.is_alive:
            program.logs.append(log)
        if directory == self.history:
            return log, log.close
        from antiphon.history.recorder import Recorder

        recorder = Recorder(
            directory,
            run=run,
            process=process,
            incarnation=incarnation,
            flush_s=FLUSH_S,
            spawn=lambda recorder: VirtualThread(program, recorder, int(FLUSH_S * 1e9)),
        )
        both = DiskLog(program, log, recorder)
        return both, both.close
