"""`antiphon recover` on real processes: three of five members are killed at once, and an operator revives the group."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import RECOVERS
from antiphon.pipeline import reference
from bench.peers.driver import free_ports
from tests.cli.conftest import Run

NAMES = "abcde"
LIMIT_S = 60.0
MEMBER = """
import asyncio, json, signal, sys
import antiphon

async def main(name, members, history):
    members = json.loads(members)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with antiphon.Node(name, address=members[name], history=history, rejoin=True) as node:
        group = await node.join("quotes", members=members, timeout_s=30)

        async def read():
            async for event in group:
                match event:
                    case antiphon.ViewChange(view=view):
                        print("view", *sorted(member.name for member in view.members), flush=True)
                    case antiphon.Stalled():
                        print("stalled", flush=True)
                    case antiphon.Message(payload=payload):
                        print(payload.decode(), flush=True)

        reading = asyncio.create_task(read())
        if name == "a":
            await group.send(b"hello")
        await stopping.wait()
        await group.send(f"bye from {name}".encode())
        await asyncio.sleep(0.3)

asyncio.run(main(*sys.argv[1:]))
"""


class Member:
    """One process, and what it prints."""

    def __init__(self, name: str, members: dict[str, str], history: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", MEMBER, name, json.dumps(members), str(history)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.strip())

    def expect(self, line: str) -> None:
        until = time.monotonic() + LIMIT_S
        while self._lines.get(timeout=max(0.1, until - time.monotonic())) != line:
            pass

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(LIMIT_S)


@pytest.mark.processes
def test_three_of_five_are_killed_and_an_operator_revives_the_group(run: Run, tmp_path: Path) -> None:
    members = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, free_ports(5), strict=True)}
    running = {name: Member(name, members, tmp_path) for name in NAMES}
    contacts = f"{members['d']},{members['e']}"
    try:
        for member in running.values():
            member.expect("view a b c d e")
            member.expect("hello")
        healthy = run("recover", "quotes", "--contacts", contacts, "--confirm", "quotes")
        assert healthy.code == 2
        assert "does not stand still" in healthy.err
        for name in "abc":
            running.pop(name).process.kill()
        for name in "de":
            running[name].expect("stalled")
        refused = run("recover", "quotes", "--contacts", contacts)
        assert refused.code == 2
        assert "--confirm quotes" in refused.err
        wrong = run("recover", "quotes", "--contacts", contacts, "--confirm", "qutoes")
        assert wrong.code == 2
        done = run("recover", "quotes", "--contacts", contacts, "--confirm", "quotes")
        assert done.code == 0, done.err
        assert "group quotes goes on in View(" in done.out
        for name in "de":
            running[name].expect("view d e")
        for name in "abc":  # those that were killed come back
            running[name] = Member(name, members, tmp_path)
        for member in running.values():
            member.expect("view a b c d e")
    finally:
        for member in running.values():
            member.end()
    rows = list(HistoryFiles.open(tmp_path).read_rows())
    assert [row.group for row in rows if row.label == RECOVERS]
    (primary,) = [finding for finding in reference.audit(rows).findings if finding.guarantee == "primary"]
    assert "an operator's word overrides this promise" in (primary.reason or "")


def test_nobody_answers(run: Run) -> None:
    (port,) = free_ports(1)
    outcome = run("recover", "quotes", "--contacts", f"127.0.0.1:{port}", "--timeout-s", "0.5")
    assert outcome.code == 2
    assert "nobody answered for group 'quotes'" in outcome.err
    assert run("recover", "quotes", "--contacts", ",").code == 2
