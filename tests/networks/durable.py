"""A ledger on disk on hosts of their own: one member is killed, two, then all; all come back from their disks.

    python -m tests.networks.durable --rounds 5        as root: what was written and acknowledged, as JSON; audited

A round, with three members that write all the time (`kill -9` each time):
  - one is killed, then another, so that the oldest goes on alone; both are started again and come back;
  - one and two again, and then the last one as well; the two that know less are started first, and wait for the disk of
    the one that was alone; then that is started;
  - all are killed at once, and started again.

Held to: every line that was acknowledged is at its place in the ledger of every member, and none is there twice. The
group that each start founds has a history of its own, in which no guarantee is broken; what the killed did not get to
disk is unknown.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from antiphon.pipeline.reference import audit
from antiphon.pipeline.result import BROKEN
from tests.networks.network import Network, missing

HOSTS: Final = (1, 2, 3)
PORT: Final = 7400
LIMIT_S: Final = 90.0
POLL_S: Final = 0.05
MILLISECOND_NS: Final = 1_000_000
OPTIONS: Final = {"silence_ns_min": 500 * MILLISECOND_NS, "silence_ns_max": 4_000 * MILLISECOND_NS}


class Loopback:
    """Hosts that are addresses of this machine, where there are no namespaces."""

    def address(self, host: int) -> str:
        return f"127.77.0.{host}"

    def command(self, host: int, arguments: Sequence[str]) -> list[str]:
        return list(arguments)


class DurableTrial:
    """The members, and whoever kills them."""

    def __init__(self, network: Network | Loopback, directory: Path) -> None:
        self._network = network
        self._directory = directory
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._generation = 0
        self._contacts: Sequence[int] = HOSTS
        self.kills = 0

    # ---- processes ---------------------------------------------------------------------------------------------------

    def found(self, contacts: Sequence[int], hosts: Sequence[int]) -> None:
        """Start these hosts as a new group, which the first contact founds."""
        self._generation += 1
        self._contacts = contacts
        self.start(hosts)

    def start(self, hosts: Sequence[int]) -> None:
        for host in hosts:
            self._state(host).unlink(missing_ok=True)
            settings = {
                "name": f"m{host}",
                "address": f"{self._network.address(host)}:{PORT}",
                "group": "ledger",
                "contacts": [f"{self._network.address(contact)}:{PORT}" for contact in self._contacts],
                "found_after_s": 1.0,
                "founders": [f"m{each}" for each in HOSTS],
                "directory": str(self._directory),
                "history": str(self._directory / f"history{self._generation}"),
                "options": OPTIONS,
            }
            command = [sys.executable, "-m", "tests.networks.durable_member", json.dumps(settings)]
            with (self._directory / f"m{host}.errors").open("ab") as errors:
                self._running[host] = subprocess.Popen(
                    self._network.command(host, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
                )

    def kill(self, *hosts: int) -> None:
        for host in hosts:
            self._running[host].kill()
        for host in hosts:
            self._reap(host)
            self.kills += 1

    def _reap(self, host: int) -> None:
        process = self._running.pop(host)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def end(self) -> None:
        """See to it that all are gone."""
        for host, process in list(self._running.items()):
            process.kill()
            self._reap(host)

    # ---- waiting -----------------------------------------------------------------------------------------------------

    def _state(self, host: int) -> Path:
        return self._directory / f"m{host}.state"

    def state(self, host: int) -> dict[str, Any]:
        file = self._state(host)
        return dict(json.loads(file.read_text())) if file.exists() else {"members": [], "waits_for": None, "lines": 0}

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        until_s = time.monotonic() + LIMIT_S
        while not condition():
            for host, process in self._running.items():
                if process.poll() is not None:
                    words = (self._directory / f"m{host}.errors").read_text().splitlines()[-1:]
                    raise AssertionError(f"m{host} ended while waiting for {what}: {words}")
            if time.monotonic() > until_s:
                raise AssertionError(f"no {what} after {LIMIT_S} s: {[self.state(host) for host in HOSTS]}")
            time.sleep(POLL_S)

    def wait_for_view(self, *hosts: int) -> None:
        """Until these, and nobody else, are in one view, live, and write."""
        names = {f"m{host}" for host in hosts}
        self.wait(
            lambda: all(
                set(self.state(host)["members"]) == names and not self.state(host)["waits_for"] for host in hosts
            ),
            f"view of {sorted(names)}",
        )
        self.wait_for_lines(hosts[0])

    def wait_for_lines(self, host: int, count: int = 30) -> None:
        """Until so many more lines are acknowledged to this member."""
        before = self.acknowledged(host)
        self.wait(lambda: self.acknowledged(host) >= before + count, f"{count} lines of m{host}")

    def acknowledged(self, host: int) -> int:
        file = self._directory / "acknowledged"
        return file.read_text().count(f" m{host}/") if file.exists() else 0

    # ---- the trial ---------------------------------------------------------------------------------------------------

    def one_then_two(self) -> None:
        """The youngest is killed, then the next: the oldest goes on alone."""
        oldest = int(self.state(self._contacts[0])["members"][0].removeprefix("m"))
        others = [host for host in HOSTS if host != oldest]
        youngest_first = sorted(others, key=lambda host: self.state(oldest)["members"].index(f"m{host}"), reverse=True)
        self.kill(youngest_first[0])
        self.wait_for_view(oldest, youngest_first[1])
        self.kill(youngest_first[1])
        self.wait_for_view(oldest)

    def round(self) -> None:
        self.wait_for_view(*HOSTS)
        self.one_then_two()
        alone = next(iter(self._running))
        self.start([host for host in HOSTS if host != alone])
        self.wait_for_view(*HOSTS)
        self.one_then_two()
        alone = next(iter(self._running))
        self.kill(alone)
        others = [host for host in HOSTS if host != alone]
        self.found([*others, alone], others)
        self.wait(lambda: all(self.state(host)["waits_for"] == [f"m{alone}"] for host in others), "wait for the disk")
        self.start([alone])
        self.wait_for_view(*HOSTS)
        self.kill(*HOSTS)
        self.found(HOSTS, HOSTS)

    def finish(self) -> None:
        """Have all store what they hold, and end."""
        self.wait_for_view(*HOSTS)
        for process in self._running.values():
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        for process in self._running.values():
            assert process.stdout is not None
            assert process.stdout.readline() == b"stored\n"
        for host in HOSTS:
            self._running[host].communicate(b"\n", timeout=LIMIT_S)
            self._running.pop(host)


def check_ledgers(directory: Path) -> dict[str, int]:
    """Every acknowledged line is at its place at all members; how many there are."""
    ledgers = [file.read_text().splitlines() for file in sorted(directory.glob("*.lines"))]
    assert len(ledgers) == len(HOSTS)
    longest = max(ledgers, key=len)
    assert all(ledger == longest[: len(ledger)] for ledger in ledgers), "ledgers differ"
    twice = [line for line, count in Counter(longest).items() if count > 1]
    assert not twice, f"executed twice: {twice[:3]}"
    acknowledged = (directory / "acknowledged").read_text().splitlines()
    shortest = min(ledgers, key=len)
    for entry in acknowledged:
        place, line = entry.split(" ")
        assert shortest[int(place) - 1 : int(place)] == [line], f"acknowledged and lost: {entry}"
    return {"acknowledged": len(acknowledged), "lines": len(longest)}


def judge(directory: Path) -> dict[str, str]:
    """The guarantees that are broken in some history, by the reference auditor."""
    broken: dict[str, str] = {}
    for history in sorted(directory.glob("history*")):
        for finding in audit(history).findings:
            if finding.verdict == BROKEN:
                broken[finding.guarantee] = history.name
    return broken


def play(directory: Path, rounds: int = 1, *, namespaces: bool = True) -> dict[str, int]:
    """The whole trial, with what came of it."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        network = stack.enter_context(Network(len(HOSTS))) if namespaces else Loopback()
        trial = DurableTrial(network, directory)
        stack.callback(trial.end)
        trial.found(HOSTS, HOSTS)
        for _ in range(rounds):
            trial.round()
        trial.finish()
        return check_ledgers(directory) | {"kills": trial.kills}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loopback", action="store_true", help="without namespaces, so without root")
    given = parser.parse_args()
    reason = None if given.loopback else missing()
    if reason is not None:
        print(f"this cannot be played here: {reason}", file=sys.stderr)
        return 2
    directory = Path(tempfile.mkdtemp(prefix="antiphon-durable-"))
    found = play(directory, given.rounds, namespaces=not given.loopback)
    broken = judge(directory)
    print(json.dumps(found | {"broken": broken, "histories": str(directory)}))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
