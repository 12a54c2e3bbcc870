"""A trial: members as real processes, each on a host of its own, and whoever kills, stops, parts and watches them.

The trial starts every process itself and ends only those, by their own handles, whichever way it is left. What a member
saw is read from the file it writes; every wait has a limit and says what it waited for.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from types import TracebackType
from typing import Any, Final, Self

from tests.networks.journal import incarnations, to_history
from tests.networks.network import Network

PORT: Final = 7400
POLL_S: Final = 0.02
END_S: Final = 60.0
RUN: Final = "trial"


class Process:
    """One member process, seen from outside."""

    def __init__(self, trial: "Trial", host: int, cycles: int = 0) -> None:
        self.host = host
        self.name = f"m{host}"
        self._events = trial.directory / f"{self.name}.events"
        self._position = self._events.stat().st_size if self._events.exists() else 0
        self.seen: list[dict[str, Any]] = []
        settings = {
            "name": self.name,
            "incarnation": 1 + incarnations(trial.journals, self.name),
            "address": f"{trial.network.address(host)}:{PORT}",
            "contacts": trial.contacts,
            "found_after_s": trial.found_after_s,
            "options": trial.options,
            "journals": str(trial.journals),
            "events": str(self._events),
            "run": RUN,
            "cycles": cycles,
        }
        program = [sys.executable, "-m", "tests.networks.member", json.dumps(settings)]
        self._errors = (trial.directory / f"{self.name}.errors").open("ab")
        self.handle = subprocess.Popen(
            trial.network.command(host, program), stdin=subprocess.PIPE, stdout=self._errors, stderr=self._errors
        )

    def look(self) -> list[dict[str, Any]]:
        """All that the process has told so far."""
        if self._events.exists():
            with self._events.open("rb") as file:
                file.seek(self._position)
                lines = file.read()
            whole = lines[: lines.rfind(b"\n") + 1]
            self._position += len(whole)
            self.seen += [json.loads(line) for line in whole.splitlines()]
        return self.seen

    def last(self, kind: str) -> dict[str, Any] | None:
        return next((event for event in reversed(self.look()) if event["kind"] == kind), None)

    def members(self) -> list[str]:
        """The members of the last view, unless this process was excluded since."""
        for event in reversed(self.look()):
            if event["kind"] == "view":
                return list(event["members"])
            if event["kind"] in ("excluded", "ended"):
                break
        return []

    def tell(self, **order: object) -> None:
        assert self.handle.stdin is not None
        self.handle.stdin.write(json.dumps(order).encode() + b"\n")
        self.handle.stdin.flush()

    def reap(self) -> None:
        """See to it that the process is gone."""
        if self.handle.poll() is None:
            self.handle.kill()  # also if it was stopped
        self.handle.wait()
        if self.handle.stdin is not None:
            self.handle.stdin.close()
        self._errors.close()


class Trial:
    """All members of one run, and the faults."""

    def __init__(
        self, network: Network, directory: Path, hosts: Sequence[int], options: dict[str, int], found_after_s: float
    ) -> None:
        self.network = network
        self.directory = directory
        self.journals = directory / "journals"
        self.journals.mkdir(parents=True)
        self.contacts = [f"{network.address(host)}:{PORT}" for host in hosts]
        self.options = options
        self.found_after_s = found_after_s
        self.hosts = tuple(hosts)
        self.running: dict[int, Process] = {}
        self._halting: dict[int, Process] = {}
        self._killed: dict[tuple[str, int], int] = {}

    # ---- processes ---------------------------------------------------------------------------------------------------

    def start(self, hosts: Iterable[int]) -> None:
        for host in hosts:
            self.running[host] = Process(self, host)

    def kill(self, host: int) -> int:
        """`kill -9`; the monotonic time just before it."""
        process = self.running.pop(host)
        at_ns = time.monotonic_ns()
        process.handle.kill()
        self._killed[process.name, incarnations(self.journals, process.name)] = time.time_ns()
        process.reap()
        return at_ns

    def stop(self, host: int) -> None:
        self.running[host].handle.send_signal(SIGSTOP)

    def go_on(self, host: int) -> None:
        self.running[host].handle.send_signal(SIGCONT)

    def come_and_go(self, host: int, cycles: int, limit_s: float) -> list[bool]:
        """A further process joins and leaves so many times; whether it left in good order, each time."""
        process = Process(self, host, cycles)
        try:
            self.wait(lambda: process.handle.poll() is not None, limit_s, f"{cycles} cycles of join and leave")
            if process.handle.returncode != 0:
                raise AssertionError(f"{process.name} ended with status {process.handle.returncode}")
            return [bool(event["left"]) for event in process.look() if event["kind"] == "left"]
        finally:
            process.reap()

    def send_at(self, rate: float) -> None:
        """All together send so many messages per second."""
        for process in self.running.values():
            process.tell(rate=rate / len(self.running))

    # ---- waiting -----------------------------------------------------------------------------------------------------

    def wait(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        """Until `condition` holds. Fails after `limit_s`, or when a process that should run does not."""
        until_s = time.monotonic() + limit_s
        while not condition():
            for process in self.running.values():
                if process.handle.poll() is not None:
                    raise AssertionError(f"{process.name} ended while waiting for {what}: {self.last_words(process)}")
            if time.monotonic() > until_s:
                now = {process.name: process.members() for process in self.running.values()}
                raise AssertionError(f"after {limit_s} s there is no {what}; last views: {now}")
            time.sleep(POLL_S)

    def last_words(self, process: Process) -> str:
        lines = (self.directory / f"{process.name}.errors").read_text().splitlines()
        return lines[-1] if lines else "without a word"

    def rest(self, seconds: float) -> None:
        """Time in which nothing happens but messages."""
        until_s = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() > until_s, 2 * seconds + 1.0, "end of the rest")

    def wait_for_all(self, limit_s: float, what: str) -> None:
        """Until all running processes are in one view, which has nobody else."""
        self.wait(lambda: self.agree(self.running), limit_s, what)

    def agree(self, hosts: Iterable[int]) -> bool:
        """Whether these hosts are in one view that holds just them."""
        views = [self.running[host].members() for host in hosts]
        names = {self.running[host].name for host in hosts}
        return all(view == views[0] for view in views) and {name.split("/")[0] for name in views[0]} == names

    def coordinator(self) -> Process:
        """The oldest member; all must be in one view."""
        oldest = next(iter(self.running.values())).members()[0].split("/")[0]
        return next(process for process in self.running.values() if process.name == oldest)

    def excluded(self) -> int:
        """How many times one of the running processes was told that the others went on without it."""
        events = [event for process in self.running.values() for event in process.look()]
        return sum(event["kind"] == "excluded" for event in events)

    def first_view_without(self, name: str, host: int, since_ns: int) -> int | None:
        """When `host` read of the first view without `name` after `since_ns`."""
        for event in self.running[host].look():
            gone = event["kind"] == "view" and all(member.split("/")[0] != name for member in event["members"])
            if gone and event["time_ns"] >= since_ns:
                return int(event["time_ns"])
        return None

    # ---- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> Path:
        """Send no more, wait until everybody has everything, and halt; the history of the run."""
        for process in self.running.values():
            process.tell(settle=True)
        self.wait(self._settled, END_S, "end of what was sent")
        halting, self._halting = list(self.running.values()), self.running
        self.running = {}  # from here on they may end
        for process in halting:
            process.tell(halt=True)
        for process in halting:
            process.handle.wait(END_S)
            if process.handle.returncode != 0:
                raise AssertionError(f"{process.name} did not end well: {self.last_words(process)}")
        history = self.directory / "history"
        to_history(self.journals, history, RUN, self._killed)
        return history

    def _settled(self) -> bool:
        """Whether all have said so in the view that all are in."""
        said = [process.last("settled") for process in self.running.values()]
        views = {process.look()[-1].get("view") for process in self.running.values()}
        return all(said) and len(views) == 1 and self.agree(self.running)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in (*self.running.values(), *self._halting.values()):
            process.reap()
