"""The examples of the tools in docs/examples, as real processes that are stopped and killed."""

import ast
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final

import pytest

from bench.peers.driver import free_ports

pytestmark = pytest.mark.processes

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "docs" / "examples"
LIMIT_S: Final = 40.0


def wait_for(condition: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < until_s, f"after {LIMIT_S} s: {what}"
        time.sleep(0.02)


class Worker:
    """One process, and the lines that it printed."""

    def __init__(self, example: str, *arguments: str) -> None:
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-u", str(EXAMPLES / example), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        self.lines: list[str] = []
        assert self.process.stdout is not None
        self._reading = threading.Thread(target=self._read, args=(self.process.stdout,))
        self._reading.start()

    def _read(self, output: IO[str]) -> None:
        self.lines.extend(line.strip() for line in output)

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def says(self, start: str) -> bool:
        return any(line.startswith(start) for line in self.lines)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)
        self._reading.join(LIMIT_S)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()


@contextmanager
def workers() -> Iterator[dict[str, Worker]]:
    running: dict[str, Worker] = {}
    try:
        yield running
    finally:
        for worker in running.values():
            worker.end()


def test_a_leader_that_was_stopped_is_fenced_off_and_one_that_was_killed_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    ports = free_ports(3)
    addresses = [f"127.0.0.1:{port}" for port in ports]

    def writers() -> list[tuple[str, int]]:
        return [(line.split()[0], int(line.split()[1])) for line in log.read_text().splitlines()]

    def writes(name: str) -> Callable[[], bool]:
        """Whether it has written since this was asked for."""
        before = len(writers()) if log.exists() else 0
        return lambda: log.exists() and name in {writer for writer, _ in writers()[before:]}

    with workers() as running:
        for rank, name in enumerate("abc"):
            running[name] = Worker("leader.py", str(log), name, addresses[rank], *addresses[:rank])
            wait_for(partial(running[name].says, "joined"), f"{name} joins")
            wait_for(writes("a"), "a writes")
        running.pop("a").end()  # kill -9
        wait_for(lambda: running["b"].says("leads "), "b leads, since it has waited for longest")
        wait_for(writes("b"), "b writes")
        running["a"] = Worker("leader.py", str(log), "a", addresses[0], *addresses[1:])
        wait_for(lambda: running["a"].says("joined"), "a is back")
        running["b"].process.send_signal(signal.SIGSTOP)
        wait_for(lambda: running["c"].says("leads "), "c leads")
        wait_for(writes("c"), "c writes")
        running["b"].process.send_signal(signal.SIGCONT)
        wait_for(lambda: running["b"].says("leads no more"), "the former leader is told")
    holders = set(writers())
    tokens = [token for _, token in writers()]
    assert tokens == sorted(tokens), "a former leader wrote after its successor"
    assert len(set(tokens)) == len(holders), "two leaders had one token"
    assert len(set(tokens)) >= 3


def test_the_leader_with_fencing_takes_thirty_lines() -> None:
    source = (EXAMPLES / "leader.py").read_text()
    docstring = ast.get_docstring(ast.parse(source), clean=False)
    assert docstring is not None
    lines = [line for line in source.replace(docstring, "").splitlines() if line.strip('" ')]
    assert len(lines) <= 30
