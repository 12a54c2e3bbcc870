"""A trial: members as real processes, each on a host of its own, and whoever kills, stops, parts and watches them.

The trial starts every process itself and ends only those, by their own handles, whichever way it is left. What a member
saw is read from the file it writes; every wait has a limit and says what it waited for.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from types import TracebackType
from typing import Any, Final, Self

from tests.networks.journal import last_incarnation, to_history
from tests.networks.network import Network

PORT: Final = 7400
POLL_S: Final = 0.02
END_S: Final = 60.0
RUN: Final = "trial"


class Process:
    """One member process, seen from outside."""

    def __init__(self, trial: "Trial", host: int, groups: Iterable[str], cycles: int = 0) -> None:
        self.host = host
        self.name = f"m{host}"
        self._events = trial.directory / f"{self.name}.events"
        self._position = self._events.stat().st_size if self._events.exists() else 0
        self.seen: list[dict[str, Any]] = []
        self.groups = tuple(groups)
        settings = {
            "name": self.name,
            "incarnation": None if trial.clock_incarnations else 1 + last_incarnation(trial.journals, self.name),
            "address": f"{trial.network.address(host)}:{PORT}",
            "groups": {group: trial.contacts(group) for group in self.groups},
            "found_after_s": trial.found_after_s,
            "options": trial.options,
            "journals": str(trial.journals),
            "events": str(self._events),
            "run": RUN,
            "cycles": cycles,
            **trial.extra,
        }
        program = [sys.executable, "-m", trial.program, json.dumps(settings)]
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

    def members(self, group: str) -> list[str]:
        """The members of the last view of `group`, unless this process was excluded from it since."""
        for event in reversed(self.look()):
            if event["kind"] == "ended":
                break
            if event.get("group") == group:
                if event["kind"] == "view":
                    return list(event["members"])
                if event["kind"] == "excluded":
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
        self,
        network: Network,
        directory: Path,
        groups: Mapping[str, Sequence[int]],
        options: dict[str, int],
        found_after_s: float,
        clock_incarnations: bool = False,
        program: str = "tests.networks.member",
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """`groups`: by name, the hosts of each group's members. `clock_incarnations`: processes choose their own
        incarnations; otherwise they are counted from 1. `program`: the module that each process runs, with `extra`
        among its settings."""
        self.program = program
        self.extra = dict(extra or {})
        self.network = network
        self.directory = directory
        self.journals = directory / "journals"
        self.journals.mkdir(parents=True)
        self.groups = groups
        self.clock_incarnations = clock_incarnations
        self.options = options
        self.found_after_s = found_after_s
        self.hosts = tuple(sorted({host for hosts in groups.values() for host in hosts}))
        self.running: dict[int, Process] = {}
        self._halting: dict[int, Process] = {}
        self._killed: dict[tuple[str, int], int] = {}

    # ---- processes ---------------------------------------------------------------------------------------------------

    def contacts(self, group: str) -> list[str]:
        """The addresses of all hosts of a group's members."""
        return [f"{self.network.address(host)}:{PORT}" for host in self.groups[group]]

    def start(self, hosts: Iterable[int]) -> None:
        for host in hosts:
            self.running[host] = Process(self, host, [name for name in self.groups if host in self.groups[name]])

    def kill(self, host: int) -> int:
        """`kill -9`; the monotonic time just before it."""
        process = self.running.pop(host)
        at_ns = time.monotonic_ns()
        process.handle.kill()
        killed_ns = time.time_ns()
        process.reap()
        self._killed.setdefault((process.name, last_incarnation(self.journals, process.name)), killed_ns)
        return at_ns

    def stop(self, host: int) -> None:
        self.running[host].handle.send_signal(SIGSTOP)

    def go_on(self, host: int) -> None:
        self.running[host].handle.send_signal(SIGCONT)

    def come_and_go(self, host: int, cycles: int, limit_s: float) -> list[bool]:
        """A further process joins and leaves so many times; whether it left in good order, each time."""
        process = Process(self, host, self.groups, cycles)
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
                now = {
                    process.name: {group: process.members(group) for group in process.groups}
                    for process in self.running.values()
                }
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
        """Until, in each group, all running processes of it are in one view, which has nobody else."""
        self.wait(lambda: self.agree(self.running), limit_s, what)

    def agree(self, hosts: Iterable[int]) -> bool:
        """Whether, in each group, those of these hosts that belong to it are in one view that holds just them."""
        chosen = set(hosts)
        for group, of_group in self.groups.items():
            processes = [self.running[host] for host in of_group if host in chosen]
            views = [process.members(group) for process in processes]
            names = {process.name for process in processes}
            if any(view != views[0] or {name.split("/")[0] for name in view} != names for view in views):
                return False
        return True

    def coordinator(self) -> Process:
        """The oldest member of the first group; all must be in one view."""
        group = next(iter(self.groups))
        oldest = self.running[self.groups[group][0]].members(group)[0].split("/")[0]
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
        if not all(said) or not self.agree(self.running):
            return False
        views = {(group, view) for process in self.running.values() for group, view in self._last_settled(process)}
        return len(views) == len(self.groups)

    def _last_settled(self, process: Process) -> Iterable[tuple[str, int]]:
        """In which view of each group the process has everything, if that is the last thing that it told."""
        views: dict[str, int] = process.look()[-1].get("views", {})
        return views.items() or [("none", 0)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in (*self.running.values(), *self._halting.values()):
            process.reap()
