"""Agreed operations of a replicated dictionary: Antiphon beside PySyncObj and etcd, in one run.

    python -m bench.replicated --repeats 3 --pysyncobj VENV/bin/python      prints a table, or JSON with --json

Three processes on loopback, each with a copy (of etcd: a server each, and a client beside each). Each process keeps
`--clients` calls under way: one sets a key, of KEYS, to a text of VALUE_BYTES, waits until that is agreed upon, and
sets the next. The value is calls of all processes per second. Idle: one call at a time, at one process; the median.

  antiphon          ReplicatedDict in memory: a call returns when every member has it (`safe`)
  antiphon on disk  with files: a call returns when a majority has it on disk, synced
  pysyncobj         ReplDict of PySyncObj (Raft, in memory), with callbacks; its interpreter is named by --pysyncobj,
                    and must have the package from PyPI
  etcd              Debian's etcd-server (Raft, on disk, synced), three servers; asked through its HTTP gateway by keep-
                    alive connections, one for each call under way

The systems take turns within each repeat; ratios are of medians. A run in which a call fails gives no result. What a
client costs is counted with each system: the same two cores serve both.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from bench.peers.driver import free_ports

MEMBERS: Final = 3
IDLE: Final = "one call at a time"
RATE: Final = "calls/s"
PER_CPU: Final = "calls/s of processor"
TICK_S: Final = 1.0 / os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


class Copies(list["DictionaryCopy"]):
    """The processes of one system, with those that serve it."""

    servers: tuple[int, ...] = ()

    def cpu_s(self) -> float:
        """Processor seconds of all of them so far."""
        return sum(map(cpu_s, [*(copy.process.pid for copy in self), *self.servers]))


class DictionaryCopy:
    """One process; it reads a line for each run and prints a line for each result."""

    def __init__(self, python: str, system: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [python, "-m", "bench.replicated_member", system, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, **order: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a process of the benchmark has ended; its errors are above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def copies_of(python: str, system: str, extra: Callable[[int], list[str]], addresses: list[str]) -> Iterator[Copies]:
    """Processes that are ready, each with its own address first."""
    with ExitStack() as stack:
        copies = Copies()
        for rank, address in enumerate(addresses):
            others = [other for other in addresses if other != address]
            copies.append(DictionaryCopy(python, system, f"m{rank}", address, ",".join(others), *extra(rank)))
            stack.callback(copies[-1].end)
        for copy in copies:
            copy.answer()
        yield copies


@contextmanager
def of_antiphon(on_disk: bool) -> Iterator[Copies]:
    with tempfile.TemporaryDirectory(prefix="antiphon-objects-", dir=Path.cwd() if on_disk else None) as directory:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(MEMBERS)]
        extra = [directory] if on_disk else []
        with copies_of(sys.executable, "antiphon", lambda rank: extra, addresses) as copies:
            yield copies


@contextmanager
def of_pysyncobj(python: str) -> Iterator[Copies]:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(MEMBERS)]
    with copies_of(python, "pysyncobj", lambda rank: [], addresses) as copies:
        yield copies


@contextmanager
def of_etcd(etcd: str) -> Iterator[Copies]:
    ports = free_ports(2 * MEMBERS)
    clients = [f"127.0.0.1:{port}" for port in ports[:MEMBERS]]
    peers = [f"http://127.0.0.1:{port}" for port in ports[MEMBERS:]]
    servers: list[int] = []
    cluster = ",".join(f"e{rank}={peer}" for rank, peer in enumerate(peers))
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-etcd-", dir=Path.cwd()))
        for rank, (client, peer) in enumerate(zip(clients, peers, strict=True)):
            command = [
                etcd, "--name", f"e{rank}", "--data-dir", str(Path(directory) / f"e{rank}"),
                "--listen-client-urls", f"http://{client}", "--advertise-client-urls", f"http://{client}",
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
            ]  # fmt: skip
            server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(server.wait)
            stack.callback(server.kill)
            servers.append(server.pid)
        copies = stack.enter_context(copies_of(sys.executable, "etcd", lambda rank: [], clients))
        copies.servers = tuple(servers)
        yield copies


def measure(copies: Copies, clients: int, seconds: float) -> tuple[float, float]:
    """Calls of all processes per second, and per second of processor."""
    before_s = copies.cpu_s()
    for copy in copies:
        copy.begin(clients=clients, seconds=seconds)
    answers = [copy.answer() for copy in copies]
    rate = sum(answer["calls"] / answer["seconds"] for answer in answers)
    return float(rate), float(sum(answer["calls"] for answer in answers) / (copies.cpu_s() - before_s))


def idle_ms(copies: Copies, seconds: float) -> float:
    """The median time of one call at a time."""
    copies[-1].begin(clients=1, seconds=seconds)
    return float(copies[-1].answer()["median_ms"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--clients", type=int, nargs="*", default=[16, 64], help="calls under way at each process")
    parser.add_argument("--pysyncobj", help="an interpreter that has PySyncObj")
    parser.add_argument("--etcd", default=shutil.which("etcd"), help="the program etcd")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    given = parse()
    systems: dict[str, Callable[[], Any]] = {
        "antiphon": lambda: of_antiphon(False),
        "antiphon on disk": lambda: of_antiphon(True),
    }
    if given.pysyncobj:
        systems["pysyncobj"] = lambda: of_pysyncobj(given.pysyncobj)
    if given.etcd:
        systems["etcd"] = lambda: of_etcd(given.etcd)
    taken: dict[tuple[str, str, str], list[float]] = {}
    for _ in range(given.repeats):
        for system, start in systems.items():
            with start() as copies:
                measure(copies, 16, 0.5)
                taken.setdefault((system, IDLE, "ms"), []).append(idle_ms(copies, given.seconds / 2))
                for clients in given.clients:
                    rate, per_cpu = measure(copies, clients, given.seconds)
                    workload = f"{clients} calls under way at each member"
                    taken.setdefault((system, workload, RATE), []).append(rate)
                    taken.setdefault((system, workload, PER_CPU), []).append(per_cpu)
            print(system, [round(values[-1], 3) for key, values in taken.items() if key[0] == system], file=sys.stderr)
    results = [
        {"system": system, "workload": workload, "order": "agreed", "size": 64, "members": MEMBERS,
         "value": round(statistics.median(values), 3), "unit": unit,
         "spread": round((max(values) - min(values)) / statistics.median(values), 3)}
        for (system, workload, unit), values in taken.items()
    ]  # fmt: skip
    if given.json:
        print(json.dumps({"results": results}))
        return 0
    for result in results:
        print("{system:17} {workload:33} {value:>11} {unit} (spread {spread})".format(**result))
    for system, workload, unit in taken:
        for beside in ("antiphon", "antiphon on disk"):
            if not system.startswith("antiphon") and unit != "ms":
                ratio = statistics.median(taken[beside, workload, unit]) / statistics.median(
                    taken[system, workload, unit]
                )
                print(f"{workload}: {beside} / {system} = {ratio:.1f} by {unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
