"""A rolling update to a new wire version under load: members run by `antiphon node`, restarted one after the other.

    python -m tests.networks.rolling --history DIR [--members 5]

All members begin as the release before (`wire_version` is its version). Then each is stopped by SIGTERM, started as
this release, and waited for until it is ready. Meanwhile every member sends all the time, and `/ready` of all members
but the one that is restarted is read again and again: every answer must be 200. What is left is the history, for
`antiphon audit`.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

from antiphon.kernel.wire_versions import VERSION, VERSION_MIN
from antiphon.runtime.keyring import create_keyring
from bench.peers.driver import free_ports

READY_S: Final = 90.0
LOOK_S: Final = 0.05
END_S: Final = 60.0


def is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/ready", timeout=5.0) as answer:
            return bool(answer.status == 200)
    except HTTPError:
        return False


@dataclass
class RollingMember:
    """One member that can be started in either version."""

    number: int
    directory: Path
    ports: list[int]
    looks: list[int]
    handle: subprocess.Popen[bytes] | None = None
    exits: list[int] = field(default_factory=list)

    @property
    def look(self) -> int:
        return self.looks[self.number]

    def start(self, version: int) -> None:
        variables = {
            "ANTIPHON_NODE_NAME": f"m{self.number}",
            "ANTIPHON_NODE_LISTEN": f"127.0.0.1:{self.ports[self.number]}",
            "ANTIPHON_OBSERVE_LISTEN": f"127.0.0.1:{self.look}",
            "ANTIPHON_OPTIONS_WIRE_VERSION": str(version),
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [sys.executable, "-c", "from antiphon.cli.main import main; main()", "node", "member.toml"]
        with (self.directory / f"m{self.number}.out").open("ab") as out:
            self.handle = subprocess.Popen(
                command, cwd=self.directory, env={**os.environ, **variables}, stdout=out, stderr=out
            )

    def stop(self) -> None:
        if self.handle is not None and self.handle.poll() is None:
            self.handle.send_signal(SIGTERM)

    def wait(self) -> None:
        assert self.handle is not None
        self.exits.append(self.handle.wait(END_S))

    def kill(self) -> None:
        if self.handle is not None and self.handle.poll() is None:
            self.handle.kill()
            self.handle.wait()

    def wait_until_ready(self) -> None:
        until_s = time.monotonic() + READY_S
        while time.monotonic() < until_s:
            try:
                if is_ready(self.look):
                    return
            except OSError:  # it does not listen yet
                pass
            assert self.handle is not None
            assert self.handle.poll() is None, f"m{self.number} ended"
            time.sleep(LOOK_S)
        raise TimeoutError(f"m{self.number} is not ready after {READY_S} s")


class Prober:
    """Reads `/ready` of all members but the one that is restarted."""

    def __init__(self, members: list[RollingMember]) -> None:
        self._members = members
        self.away = -1
        self.asked = 0
        self.failed: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            for member in self._members:
                if member.number == self.away:
                    continue
                try:
                    answer = is_ready(member.look)
                except OSError as error:
                    answer, why = False, str(error)
                else:
                    why = "503"
                if member.number != self.away:  # else it was stopped meanwhile
                    self.asked += 1
                    if not answer:
                        self.failed.append(f"m{member.number}: {why}")

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10.0)


def configure(directory: Path, ports: list[int]) -> None:
    """Write the file that all members share, and their key."""
    create_keyring(directory / "cluster.key")
    contacts = json.dumps([f"127.0.0.1:{port}" for port in ports])
    (directory / "member.toml").write_text(
        f"""[node]
service = "tests.networks.rolling_service:main"
rejoin = true
history = "history"
[discovery]
contacts = {contacts}
[keys]
keyring = "cluster.key"
[[group]]
name = "orders"
found_after_s = 3
"""
    )


@dataclass
class RollingResult:
    """What became of an update."""

    asked: int
    failed: list[str]
    exits: list[int]
    versions: list[int]
    """Of the views, in their order, as the first member saw them."""


def versions_seen(file: Path) -> list[int]:
    lines = [line.split() for line in file.read_text().splitlines() if line.startswith("view ")]
    return [int(line[3]) for line in lines]


def roll(directory: Path, count: int, load_s: float = 1.0) -> RollingResult:
    """Update `count` members one after the other, with `load_s` of load in between."""
    directory.mkdir(parents=True, exist_ok=True)
    ports = free_ports(2 * count)
    configure(directory, ports[:count])
    members = [RollingMember(number, directory, ports[:count], ports[count:]) for number in range(count)]
    with ExitStack() as stack:
        for member in members:
            stack.callback(member.kill)
            member.start(VERSION_MIN)
        for member in members:
            member.wait_until_ready()
        prober = Prober(members)
        stack.callback(prober.stop)
        time.sleep(load_s)
        for member in reversed(members):
            prober.away = member.number
            member.stop()
            member.wait()
            member.start(VERSION)
            member.wait_until_ready()
            prober.away = -1
            time.sleep(load_s)
        prober.stop()
        for member in members:
            member.stop()
        for member in members:
            member.wait()
    exits = [code for member in members for code in member.exits]
    return RollingResult(prober.asked, prober.failed, exits, versions_seen(directory / "m0.out"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=Path, required=True, help="a new directory; DIR/history has the history")
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--load-s", type=float, default=2.0)
    arguments = parser.parse_args()
    result = roll(arguments.history, arguments.members, arguments.load_s)
    print(f"/ready asked {result.asked:,} times, {len(result.failed)} not ready: {result.failed[:5]}")
    print(f"exit codes {result.exits}; versions of views at m0: {result.versions}")
    print(f"antiphon audit {arguments.history / 'history'}")


if __name__ == "__main__":
    main()
