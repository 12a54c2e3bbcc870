"""Hosts and the programs on them.

A host has an address, a wall clock of its own and a disk. A program is an asyncio `main` on a host, with a loop of its
own. Programs can be killed, started again, and paused.

Kill: from one call of an adapter to the next, all adapters of the program go mute (nothing is sent, recorded or written
any more) and its loop never runs again; what runs in the middle of a callback comes to its end unheard. What was
written to disk stays. The kernel of the host resets the program's connections. Where the power went, nobody does, and
of the disk only what was synced stays (disk.py).
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from antiphon.testing.disk import HostDisk
from antiphon.testing.loop import VirtualLoop
from antiphon.testing.timeline import Timeline

if TYPE_CHECKING:
    from antiphon.testing.network import Network
    from antiphon.testing.recording import ProgramLog

EPOCH_NS: Final = 1_700_000_000 * 1_000_000_000
"""What a wall clock without error shows at time 0."""
FUSE_NS: Final = 500_000_000
"""A program that is to be killed at some call of an adapter, and makes none, is killed after this."""

Main = Callable[["Host"], Awaitable[object]]


class Host:
    """One machine of the simulation; what a program is given to find its way."""

    def __init__(self, name: str, address: str, clock_offset_ns: int) -> None:
        self.name = name
        self.address = address
        self.clock_offset_ns = clock_offset_ns
        self.addresses: dict[str, str] = {}
        """The address of each host of the simulation, by its name."""
        self.starts = 0
        """How often a program was started here; in a program that counts from 1."""
        self.calm = asyncio.Event()
        """Set when faults have been over for a while. From here on programs send nothing more on their own account, so
        that the run can go quiet."""
        self.ending = asyncio.Event()
        """Set when everything has had the time to arrive: the history is closed, and programs end."""
        self.storage: HostDisk | None = None
        """What `disk` lies on, if a program asked for it."""

    def __repr__(self) -> str:
        return f"<Host {self.name!r} at {self.address}, started {self.starts} times>"

    def at(self, port: int = 7400) -> str:
        """ "address:port" here."""
        return f"{self.address}:{port}"

    def all_at(self, port: int = 7400) -> list[str]:
        """ "address:port" of each host, in the order in which they were named."""
        return [f"{address}:{port}" for address in self.addresses.values()]

    def members(self, port: int = 7400) -> dict[str, str]:
        """Name and "address:port" of each host."""
        return {name: f"{address}:{port}" for name, address in self.addresses.items()}

    @property
    def disk(self) -> Path:
        """A directory that outlives the programs; after a power loss, as far as it was synced."""
        if self.storage is None:
            self.storage = HostDisk(self.name)
        return self.storage.path

    def scrap(self) -> None:
        """Throw the disk away."""
        if self.storage is not None:
            self.storage.scrap()


class Program:
    """One start of one program."""

    def __init__(self, name: str, host: Host, main: Main, timeline: Timeline, network: "Network") -> None:
        from antiphon.testing.environment import SimulatedEnvironment

        self.name = name
        self.host = host
        self.main = main
        self.timeline = timeline
        self.network = network
        self.is_alive = True
        self.is_paused = False
        self.errors: list[str] = []
        self.logs: list[ProgramLog] = []
        self.readable: dict[int, None] = {}
        """Sockets with something to read."""
        self.at_death: dict[int, Callable[[bool], None]] = {}
        """What the kernel does when the program ends, by number; true if the power is still on."""
        self.loop = VirtualLoop(self, SimulatedEnvironment(self))  # type: ignore[abstract]  # the rest is not offered
        self.task: asyncio.Task[Any] | None = None
        self._fuse = -1

    def start(self) -> None:
        """Begin at the next turn."""
        self.host.starts += 1
        self.host.calm = asyncio.Event()
        self.host.ending = asyncio.Event()
        self.task = self.loop.create_task(self._run(), name=self.name)

    async def _run(self) -> object:
        return await self.main(self.host)

    @property
    def may_run(self) -> bool:
        return self.is_alive and not self.is_paused

    @property
    def is_over(self) -> bool:
        """Whether it came to its end by itself, or was killed."""
        return not self.is_alive or (self.task is not None and self.task.done())

    def touch(self) -> None:
        """An adapter is called: here a kill may strike."""
        if self._fuse > 0:
            self._fuse -= 1
            if self._fuse == 0:
                self.kill()

    def light_fuse(self, calls: int) -> None:
        """Kill at the `calls`-th call of an adapter from now; with 0 at once."""
        if calls == 0:
            self.kill()
        elif self.is_alive:
            self._fuse = calls
            self.timeline.at(self.timeline.now_ns + FUSE_NS, self.kill)

    def kill(self, power: bool = True) -> None:
        """End it now, whatever it is doing. Without `power`, its peers are told nothing."""
        if not self.is_alive:
            return
        self.is_alive = False
        for log in self.logs:
            log.cut("killed", self.timeline.now_ns)
        for call in list(self.at_death.values()):
            call(power)
        self.readable.clear()
        if not power and self.host.storage is not None:
            self.host.storage.lose_power()

    def pause(self, for_ns: int) -> None:
        """Let it do nothing for a while, as SIGSTOP does."""
        self.is_paused = True
        self.timeline.at(self.timeline.now_ns + for_ns, self._resume)

    def _resume(self) -> None:
        self.is_paused = False
        self.loop.wake()

    def report(self, message: str, error: BaseException | None) -> None:
        """Something was raised that nobody caught."""
        if self.is_alive:
            self.errors.append(f"{self.name}: {message}: {error!r}" if error is not None else f"{self.name}: {message}")

    def tell(self, event: asyncio.Event) -> None:
        """Set `Host.calm` or `Host.ending`."""
        self.loop.call_soon(event.set)

    def problems(self) -> list[str]:
        """What it raised, as far as it has ended by that."""
        found = list(self.errors)
        if self.is_alive and self.task is not None and self.task.done() and not self.task.cancelled():
            error = self.task.exception()
            found += [f"{self.name} raised {type(each).__name__}: {each}" for each in leaves_of(error)]
        return found


def leaves_of(error: BaseException | None) -> list[BaseException]:
    """The single errors in a group of errors."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves_of(each)]
    return [] if error is None else [error]
