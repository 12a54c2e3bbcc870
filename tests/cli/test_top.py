"""`antiphon top`: once, as JSON, and in a pseudo-terminal while members die."""

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from antiphon.observe import Observer
from tests.cli.terminal import COMMAND, terminal
from tests.runtime.places import LOOPBACK, founded

pytestmark = pytest.mark.processes


class Served:
    """Two members with observers, in a thread; `kill` ends the second."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.ready = threading.Event()
        self.killed = asyncio.Event()
        self.over = asyncio.Event()
        self.loop = asyncio.new_event_loop()

    async def run(self) -> None:
        async with founded("ab") as places, Observer(places[0].node, LOOPBACK) as first:
            second = Observer(places[1].node, LOOPBACK)
            await second.start()
            self.addresses = [first.address, second.address]
            self.ready.set()
            sending = asyncio.create_task(self.send(places[0].group))
            await self.killed.wait()
            await second.close()
            places[1].kill()
            await self.over.wait()
            sending.cancel()

    async def send(self, group: object) -> None:
        while True:
            await group.send(b"x", order="agreed")  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)


@contextmanager
def served() -> Iterator[Served]:
    members = Served()
    thread = threading.Thread(target=members.loop.run_until_complete, args=(members.run(),))
    thread.start()
    try:
        assert members.ready.wait(30)
        yield members
    finally:
        members.loop.call_soon_threadsafe(members.killed.set)
        members.loop.call_soon_threadsafe(members.over.set)
        thread.join()
        members.loop.close()


def test_once_and_json() -> None:
    with served() as members:
        done = subprocess.run(
            [*COMMAND, "top", "--json", *members.addresses, "127.0.0.1:1"], capture_output=True, timeout=60, check=True
        )
        document = json.loads(done.stdout)
        states = {row["name"]: row["state"] for row in document["members"]}
        assert states == {"a": "ready", "b": "ready", "127.0.0.1:1": "unreachable"}
        (group,) = document["groups"]
        assert (group["name"], group["size"], group["states"]) == ("g", 2, ["ready"])
        assert group["sent_per_s"] > 1
        once = subprocess.run(
            [*COMMAND, "top", "--once", *members.addresses], capture_output=True, timeout=60, check=True
        ).stdout.decode()
        assert "2 of 2 members answer" in once
        assert "DELIVERED/S" in once


def test_watched_by_keyboard_while_a_member_dies() -> None:
    with served() as members, terminal("top", "--every", "0.2", "--sort", "lag", *members.addresses) as top:
        top.wait_for(r"2 of 2 members answer +group: all +sort: lag")
        top.type("ss")  # both come in one read
        top.wait_for(r"sort: delivered")
        top.type("g")
        top.wait_for(r"group: g +sort: delivered")
        top.type("?")
        top.wait_for(r"BEHIND +packets that others wait")
        top.type("?")
        members.loop.call_soon_threadsafe(members.killed.set)
        top.wait_for(r"1 of 2 members answer")
        top.wait_for(r"unreachable")
        top.wait_for(r"a g view 2: a; failed: b")
        top.type("q")
        assert top.process.wait(30) == 0


def test_without_a_terminal_it_says_what_to_do() -> None:
    done = subprocess.run([*COMMAND, "top"], input=b"", capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert b"--once" in done.stderr
