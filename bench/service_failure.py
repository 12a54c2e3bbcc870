"""A sequencer is killed under load: real processes on loopback, recorded and audited.

    python -m bench.service_failure [--clients 50] [--groups 200] [--seconds 10] [--json] [--history DIR] [--quick]

Three peers of the service run with one replica (`antiphon sequencer --replicas 1`); clients know two of them, so two
are at work, and the third votes and holds copies. The clients, several per process, are in neighbourhoods: five
clients share twenty groups, each client in eight of them. All publish to their groups at a steady rate and read one
ordered stream. Halfway one of the two peers that work is killed (SIGKILL). In the end every client has been handed,
group by group, what its neighbours were, and the audit judges the history.

Told are the messages, what the audit says, and how long clients were handed nothing: the longest wait of each client
in the second in which the peer died, and in a second before, for comparison. The audit runs on Spark; with `--quick`
the reference auditor judges instead, in this process."""

import argparse
import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any, Final

import antiphon
from antiphon.cli.auditing import audit_history
from antiphon.pipeline import reference
from antiphon.pipeline.result import Audit
from antiphon.runtime.workers import Parent, Worker, Workers
from bench.peers.driver import free_ports
from bench.peers.system import environment

NEIGHBOURS: Final = 5
GROUPS_PER_NEIGHBOURHOOD: Final = 20
GROUPS_PER_CLIENT: Final = 8
PAYLOAD: Final = b"x" * 64
RUN: Final = "from antiphon.cli.main import main; main()"
SETTLE_S: Final = 30.0
START_S: Final = 20.0


class LoadedClient:
    """One client under load, and what it was handed."""

    def __init__(self, number: int, clients: int, groups: int) -> None:
        hood = number // NEIGHBOURS
        count = max(1, groups * NEIGHBOURS // max(NEIGHBOURS, clients))
        names = [f"g{hood}-{group}" for group in range(min(GROUPS_PER_NEIGHBOURHOOD, count))]
        first = number % NEIGHBOURS * 4
        self.name = f"c{number}"
        self.groups = [names[(first + step) % len(names)] for step in range(min(GROUPS_PER_CLIENT, len(names)))]
        self.random = Random(number)
        self.handed: dict[str, list[tuple[str, int]]] = {group: [] for group in self.groups}
        self.times: list[float] = []
        self.excluded = 0
        self.published = 0
        self.client: antiphon.Connection | None = None

    async def connect(self, addresses: list[str], history: str) -> None:
        self.client = await antiphon.connect(addresses, name=self.name, history=history, timeout_s=START_S)
        await self.client.subscribe(*self.groups, timeout_s=START_S)

    async def read(self) -> None:
        assert self.client is not None
        async for event in self.client:
            if isinstance(event, antiphon.Message):
                self.handed[event.group].append((event.sender.name, event.number))
                self.times.append(time.monotonic())
            elif isinstance(event, antiphon.Excluded):
                self.excluded += 1

    async def publish(self, until: float, rate: float) -> None:
        assert self.client is not None
        while time.monotonic() < until:
            await self.client.publish(self.random.choice(self.groups), PAYLOAD)
            self.published += 1
            await asyncio.sleep(self.random.expovariate(rate))

    def longest_wait_s(self, start: float, end: float) -> float:
        """The longest time without a message, of those that touch this span."""
        inside = [at for at in self.times if start <= at <= end]
        before = [at for at in self.times if at < start][-1:]
        after = [at for at in self.times if at > end][:1]
        times = before + inside + after
        return max([later - earlier for earlier, later in itertools.pairwise(times)], default=0.0)


async def work() -> None:
    """The program of a worker process: some of the clients."""
    parent = await Parent.connect()
    order = await parent.expect("start")
    clients = [LoadedClient(number, order["clients"], order["groups"]) for number in order["numbers"]]
    for client in clients:
        await client.connect(order["addresses"], order["history"])
    readers = [asyncio.create_task(client.read()) for client in clients]
    parent.tell("ready")
    begin = await parent.expect("go")
    await asyncio.gather(*(client.publish(begin["until"], order["rate"]) for client in clients))
    for client in clients:
        assert client.client is not None
        await client.client.flush(timeout_s=SETTLE_S)
    parent.tell("published", count=sum(client.published for client in clients))
    finish = await parent.expect("finish")
    killed, second = finish["killed"], 1.0
    parent.tell(
        "report",
        handed={client.name: dict(client.handed.items()) for client in clients},
        excluded=sum(client.excluded for client in clients),
        waits=[client.longest_wait_s(killed, killed + second) for client in clients],
        waits_before=[client.longest_wait_s(killed - 2 * second, killed - second) for client in clients],
    )
    for client in clients:
        assert client.client is not None
        await client.client.close(quiet=True)
    for reader in readers:
        reader.cancel()
    parent.tell("closed")


class KilledPeers:
    """The peers of the service, as processes of this one."""

    def __init__(self, count: int) -> None:
        self.addresses = [f"127.0.0.1:{port}" for port in sorted(free_ports(count))]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for number, address in enumerate(self.addresses):
            others = ",".join(other for other in self.addresses if other != address)
            command = [sys.executable, "-c", RUN, "sequencer", "--address", address, "--peers", others]
            command += ["--replicas", "1", "--name", f"peer{number}"]
            self._processes[address] = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
            )

    def kill(self, address: str) -> None:
        process = self._processes.pop(address)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


async def drive(peers: KilledPeers, workers: list[Worker], options: argparse.Namespace, history: str) -> dict[str, Any]:
    """Bring the clients through the run; what they report."""
    for place, worker in enumerate(workers):
        worker.tell(
            "start",
            numbers=[number for number in range(options.clients) if number // NEIGHBOURS % len(workers) == place],
            clients=options.clients,
            groups=options.groups,
            rate=options.rate,
            addresses=peers.addresses[:2] if place % 2 else peers.addresses[1::-1],
            history=history,
        )
    await asyncio.gather(*(worker.expect_soon("ready") for worker in workers))
    begun = time.monotonic()
    for worker in workers:
        worker.tell("go", until=begun + options.seconds)
    await asyncio.sleep(options.seconds / 2)
    killed = time.monotonic()
    peers.kill(peers.addresses[0])
    published = await asyncio.gather(*(worker.expect_soon("published") for worker in workers))
    await asyncio.sleep(1.0)
    for worker in workers:
        worker.tell("finish", killed=killed)
    reports = await asyncio.gather(*(worker.expect_soon("report") for worker in workers))
    await asyncio.gather(*(worker.expect_soon("closed") for worker in workers))
    return judge(reports, sum(report["count"] for report in published), options)


def judge(reports: list[dict[str, Any]], published: int, options: argparse.Namespace) -> dict[str, Any]:
    """What all clients together say."""
    by_group: dict[str, list[list[list[object]]]] = {}
    for report in reports:
        for groups in report["handed"].values():
            for group, handed in groups.items():
                by_group.setdefault(group, []).append(handed)
    different = [group for group, lists in by_group.items() if any(one != lists[0] for one in lists[1:])]
    handed_once = sum(len(lists[0]) for lists in by_group.values())
    waits = sorted(wait for report in reports for wait in report["waits"])
    before = sorted(wait for report in reports for wait in report["waits_before"])
    return {
        "clients": options.clients,
        "groups": len(by_group),
        "published": published,
        "placed": handed_once,
        "lost": published - handed_once,
        "groups_that_differ": len(different),
        "excluded": sum(report["excluded"] for report in reports),
        "pause_ms": spread(waits),
        "pause_ms_before": spread(before),
    }


def spread(values_s: list[float]) -> dict[str, float]:
    """Of sorted seconds, in milliseconds."""
    at = [values_s[min(len(values_s) - 1, int(len(values_s) * share))] * 1000 for share in (0.5, 0.9)]
    return {"median": round(at[0]), "p90": round(at[1]), "max": round(values_s[-1] * 1000)}


def run(options: argparse.Namespace, history: str) -> dict[str, Any]:
    """One run with its audit."""
    environ = environment()
    os.environ["PYTHONPATH"] = environ["PYTHONPATH"]
    peers = KilledPeers(3)

    async def bounded() -> dict[str, Any]:
        workers = Workers(["-m", "bench.service_failure", "--work"], [f"w{n}" for n in range(options.processes)])
        async with asyncio.timeout(options.seconds + 120), workers as running:
            return await drive(peers, running, options, history)

    try:
        result = asyncio.run(bounded())
    finally:
        peers.end()
    if not options.no_audit:
        audit = judge_history(Path(history), options.quick)
        result["auditor"] = "reference" if options.quick else "Spark"
        result["events"] = audit.events
        result["audit"] = audit.verdict
        result["findings"] = [
            f"{finding.guarantee} {finding.verdict}" for finding in audit.findings if finding.verdict == "broken"
        ]
    return result


def judge_history(history: Path, quick: bool) -> Audit:
    """The verdict on what was recorded."""
    if quick:
        return reference.audit(history)
    return audit_history(history, master=None, promise=None, report=None).audit


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=20.0, help="messages a second that each client publishes")
    parser.add_argument("--processes", type=int, default=2, help="worker processes for the clients")
    parser.add_argument("--history", help="a directory to leave the history in; a temporary one if none is named")
    parser.add_argument("--no-audit", action="store_true")
    parser.add_argument("--quick", action="store_true", help="judge by the reference auditor, without Spark")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    return parser


def main() -> int:
    options = arguments().parse_args()
    if options.work:
        asyncio.run(work())
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        result = run(options, options.history or scratch)
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name.replace('_', ' '):20}  {value}")
    kept = result.get("audit", "kept") == "kept"
    return 0 if kept and not result["lost"] and not result["groups_that_differ"] else 1


if __name__ == "__main__":
    sys.exit(main())
