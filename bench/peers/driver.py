"""One run: start the members of one system, apply one load, collect what they measured, and clean up.

A run counts only if every member got every message of every other, each one the next of its sender.
"""

import asyncio
import json
import os
import socket
import statistics
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import IO, Any, Final

from antiphon.runtime.workers import last_words, reap
from bench.peers.system import Load, PeerError, System, environment

READY_S: Final = 120.0
STRAY_LINES_MAX: Final = 1000
PORTS: Final = (15000, 32000)
PORT_TRIES: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one run gave."""

    rate: float
    """Messages of the others that a member received per second, on average over the members."""
    seconds: float
    """The longest of the members."""
    cpu_us: float
    """Microseconds of processor time per message received, members and service together."""
    reports: list[dict[str, Any]]


class Member:
    """One member process, seen by the driver."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self._name = name
        self._process = process
        self._errors = errors

    @classmethod
    async def start(cls, name: str, arguments: list[str]) -> "Member":
        errors = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the member)
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=environment(),
                limit=1 << 20,
            )
        except OSError as error:
            errors.close()
            raise PeerError(f"{name} could not be started: {error}") from None
        return cls(name, process, errors)

    def go(self) -> None:
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # a member that is gone shows when it is next listened to
            self._process.stdin.write(b"go\n")

    async def ready(self, limit_s: float) -> None:
        await self._line(limit_s, b"ready")

    async def report(self, limit_s: float) -> dict[str, Any]:
        line = await self._line(limit_s, b"{")
        try:
            report: dict[str, Any] = json.loads(line)
        except ValueError:
            raise PeerError(f"{self._name} reported what is not JSON: {line!r}") from None
        return report

    async def _line(self, limit_s: float, start: bytes) -> bytes:
        """The next line that begins so. Others are passed over: some systems are talkative."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(limit_s):
                for _ in range(STRAY_LINES_MAX):
                    line = await self._process.stdout.readline()
                    if line.startswith(start):
                        return line
                    if not line:
                        raise PeerError(f"{self._name} {await last_words(self._process, self._errors)}")
        except TimeoutError:
            raise PeerError(f"{self._name} did not answer within {limit_s:.0f} s; the run does not count") from None
        raise PeerError(f"{self._name} printed {STRAY_LINES_MAX} lines and no answer")

    async def end(self) -> None:
        """See the process to its end."""
        await reap(self._process)
        self._errors.close()


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now, neither by UDP nor by TCP.

    They lie below those that the system gives to sockets that ask for any port: one of these could be given away
    before it is used. They are drawn at random, so that others who draw at the same time get others.
    """
    ports: list[int] = []
    chance = SystemRandom()
    for _ in range(PORT_TRIES):
        if len(ports) == count:
            return ports
        port = chance.randrange(*PORTS)
        if port not in ports and is_free(port):
            ports.append(port)
    raise PeerError(f"of {PORT_TRIES} ports from {PORTS[0]} to {PORTS[1]} fewer than {count} were free")


def is_free(port: int) -> bool:
    """Whether a socket of either kind can be bound to the port."""
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


def check(system: System, load: Load, reports: list[dict[str, Any]]) -> None:
    """Raise PeerError unless everything arrived, in order."""
    expected = load.count * (load.members - 1)
    for rank, report in enumerate(reports):
        if report["received"] != expected:
            raise PeerError(
                f"{system.name}: member {rank} received {report['received']:,} of {expected:,} messages; "
                "the run does not count"
            )
        if report["wrong"]:
            raise PeerError(
                f"{system.name}: at member {rank}, {report['wrong']:,} times a message was not the next of its "
                "sender; the run does not count"
            )
        if not report["seconds"] > 0:
            raise PeerError(f"{system.name}: member {rank} says it took {report['seconds']} s; the run does not count")


def process_cpu_s(pid: int | None) -> float:
    """Processor time of a process so far."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def lead(system: System, load: Load, service: int | None, limit_s: float) -> Run:
    """Start the members and bring them through warm-up and run."""
    ports = free_ports(load.members)
    members: list[Member] = []
    try:
        for rank in range(load.members):
            members.append(await Member.start(f"{system.name}, member {rank},", system.arguments(load, ports, rank)))
        for _ in ("warm-up", "run"):
            await asyncio.gather(*(member.ready(READY_S) for member in members))
            service_cpu_s = process_cpu_s(service)
            for member in members:
                member.go()
        reports = list(await asyncio.gather(*(member.report(limit_s) for member in members)))
        service_cpu_s = process_cpu_s(service) - service_cpu_s
    finally:
        await asyncio.gather(*(member.end() for member in members))
    check(system, load, reports)
    received = sum(report["received"] for report in reports)
    return Run(
        rate=statistics.mean(report["received"] / report["seconds"] for report in reports),
        seconds=max(report["seconds"] for report in reports),
        cpu_us=(sum(report["cpu_s"] for report in reports) + service_cpu_s) * 1e6 / received,
        reports=reports,
    )


def run_once(system: System, load: Load, limit_s: float = 120.0) -> Run:
    """One run. Raises PeerError if it fails or is not complete."""
    with system.service() as service:
        return asyncio.run(lead(system, load, service, limit_s))
