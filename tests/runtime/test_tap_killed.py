"""What is left of the history of a real node that is killed, or told to end, while it works."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import Row
from antiphon.pipeline import reference
from antiphon.pipeline.result import BROKEN

pytestmark = pytest.mark.processes

NODE = """
import asyncio, sys
import antiphon

async def main():
    async with antiphon.Node("a", address="127.0.0.1:0", history=sys.argv[1]) as node:
        group = await node.join("g", members={"a": node.address})
        sending = asyncio.create_task(send(group))
        async for event in group:
            if isinstance(event, antiphon.Message):
                print(event.number, flush=True)

async def send(group):
    while True:
        await group.send(b"x", order="agreed")
        await asyncio.sleep(0.005)

asyncio.run(main())
"""


def end_node(directory: Path, number: signal.Signals, deliveries: int) -> tuple[int, int]:
    """Have a node work until it has told of so many deliveries, then end it by a signal; the last delivery that it told
    of, and when it was ended."""
    command = [sys.executable, "-c", NODE, str(directory)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        for _ in range(deliveries):
            assert child.stdout.readline(), "the node ended by itself"
        child.send_signal(number)
        ended_ns = time.time_ns()
        rest = child.stdout.read().split()
        assert child.wait(20) == -number
    finally:
        child.kill()
        child.wait()
    return int([str(deliveries), *rest][-1]), ended_ns


def delivered(rows: list[Row]) -> int:
    return sum(row.count or 0 for row in rows if row.kind == "deliver")


def test_after_sigterm_all_of_it_is_there(tmp_path: Path) -> None:
    told, _ = end_node(tmp_path, signal.SIGTERM, 300)
    rows = HistoryFiles.open(tmp_path).read_rows()
    assert delivered(rows) >= told
    assert [row.index for row in rows] == list(range(len(rows)))


def test_after_kill_9_all_but_the_last_second_is_there(tmp_path: Path) -> None:
    """On a machine that has more to do than it can, all but the last few."""
    told, killed_ns = end_node(tmp_path, signal.SIGKILL, 400)
    rows = HistoryFiles.open(tmp_path).read_rows()
    assert 0 < delivered(rows) <= told + 1
    assert [row.index for row in rows] == list(range(len(rows)))
    bound_s = 1 if (os.cpu_count() or 1) > os.getloadavg()[0] else 5
    assert killed_ns - rows[-1].time_ns < bound_s * 10**9
    audit = reference.audit(tmp_path)
    assert not [finding.guarantee for finding in audit.findings if finding.verdict == BROKEN]
