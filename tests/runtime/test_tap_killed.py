"""What is left of the history of a real node that is killed, or told to end, while it works."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import Row
from antiphon.pipeline import reference
from antiphon.pipeline.result import BROKEN

pytestmark = pytest.mark.processes

SECOND_NS: Final = 1_000_000_000
NODE: Final = """
import asyncio, sys, threading, time
import antiphon

late = [0]  # how late the operating system woke a thread of this process, at worst, in the last seconds

def be_late():
    worst = []
    while True:
        before_ns = time.monotonic_ns()
        time.sleep(0.02)
        worst = [*worst[-100:], time.monotonic_ns() - before_ns - 20_000_000]
        late[0] = max(worst)

async def main():
    threading.Thread(target=be_late, daemon=True).start()
    async with antiphon.Node("a", address="127.0.0.1:0", history=sys.argv[1]) as node:
        group = await node.join("g", members={"a": node.address})
        sending = asyncio.create_task(send(group))
        async for event in group:
            if isinstance(event, antiphon.Message):
                print(event.number, time.monotonic_ns(), late[0], flush=True)

async def send(group):
    while True:
        await group.send(b"x", order="agreed")
        await asyncio.sleep(0.005)

asyncio.run(main())
"""


class Told(NamedTuple):
    """What the node printed of a delivery after it was handed it."""

    number: int
    at_ns: int
    """By its own clock."""
    late_ns: int
    """How late one of its threads was woken at worst before that."""

    @classmethod
    def parse(cls, line: str) -> "Told":
        number, at_ns, late_ns = line.split()
        return cls(int(number), int(at_ns), int(late_ns))


def end_node(directory: Path, number: signal.Signals, work_s: float) -> list[Told]:
    """Have a node work for so long by its own clock, then end it by a signal; all deliveries that it told of."""
    child = subprocess.Popen([sys.executable, "-c", NODE, str(directory)], stdout=subprocess.PIPE, text=True)
    told: list[Told] = []
    try:
        assert child.stdout is not None
        while not told or told[-1].at_ns < told[0].at_ns + work_s * SECOND_NS:
            line = child.stdout.readline()
            assert line, "the node ended by itself"
            told.append(Told.parse(line))
        child.send_signal(number)
        told += [Told.parse(line) for line in child.stdout if line.endswith("\n")]
        assert child.wait(20) == -number
    finally:
        child.kill()
        child.wait()
    return told


def delivered(rows: list[Row]) -> int:
    return sum(row.count or 0 for row in rows if row.kind == "deliver")


def test_after_sigterm_all_of_it_is_there(tmp_path: Path) -> None:
    told = end_node(tmp_path, signal.SIGTERM, 1.5)
    rows = HistoryFiles.open(tmp_path).read_rows()
    assert delivered(rows) >= told[-1].number
    assert [row.index for row in rows] == list(range(len(rows)))


def test_after_kill_9_all_but_the_last_second_is_there(tmp_path: Path) -> None:
    """Both ends of the second are moments of the node's own clock, so it does not matter how late this process ends
    it, nor how slowly it works; the second is longer by what the operating system takes to wake one of its threads."""
    told = end_node(tmp_path, signal.SIGKILL, 3.0)
    rows = HistoryFiles.open(tmp_path).read_rows()
    last = told[-1]
    owed = [each.number for each in told if each.at_ns < last.at_ns - SECOND_NS - last.late_ns]
    assert owed, f"the node worked too slowly to tell: {last}"
    assert owed[-1] <= delivered(rows) <= last.number + 1
    assert [row.index for row in rows] == list(range(len(rows)))
    audit = reference.audit(tmp_path)
    assert not [finding.guarantee for finding in audit.findings if finding.verdict == BROKEN]
