"""The programs in docs/examples, as real processes: one is killed, the others go on, it comes back, and all agree."""

import asyncio
import importlib.util
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

import antiphon
from antiphon import Node, Options
from bench.peers.driver import free_ports
from tests.runtime.cluster import run, until
from tests.runtime.places import free_address

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs" / "examples"
LIMIT_S = 60.0
LINES_MAX = 60


class Program:
    """One process, what is typed into it, and what it prints."""

    def __init__(self, example: str, name: str, port: int, contacts: list[int], others: Sequence[str] = ()) -> None:
        self.name = name
        self.port = port
        addresses = [f"127.0.0.1:{each}" for each in (port, *contacts)]
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / example), name, *addresses, *others],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        assert self._process.stdout is not None
        self._reading = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reading.start()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self._lines.put(line.strip())
        self._lines.put(None)

    def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def expect(self, line: str, ask: str | None = None) -> None:
        """Read until it prints `line`; with `ask`, type that again whenever it prints something else of that kind."""
        until = time.monotonic() + LIMIT_S
        if ask is not None:
            self.type(ask)
        while (printed := self._lines.get(timeout=until - time.monotonic())) != line:
            assert printed is not None, f"{self.name} ended before it printed {line!r}"
            assert time.monotonic() < until, f"{self.name} printed {printed!r}, not {line!r}"
            if ask is not None and printed.split()[0] == line.split()[0]:
                self.type(ask)

    def kill(self) -> None:
        """As `kill -9` does."""
        self._process.kill()
        self._process.wait(LIMIT_S)

    def interrupt(self) -> None:
        """As Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def wait(self, limit_s: float) -> int:
        """Its exit code, once it has ended."""
        return self._process.wait(limit_s)

    def close(self) -> int:
        """End its input, which makes it leave; if that takes too long it is killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(LIMIT_S)
        finally:
            self.kill()
            self._reading.join(LIMIT_S)


@contextmanager
def programs(example: str) -> Iterator[dict[str, Program]]:
    """Three of them, each let in by those before it."""
    running: dict[str, Program] = {}
    ports = free_ports(3)
    try:
        for rank, name in enumerate("abc"):
            running[name] = Program(example, name, ports[rank], ports[:rank])
            running[name].expect("members " + " ".join("abc"[: rank + 1]))
        yield running
    finally:
        for program in running.values():
            program.kill()
            program.close()


@pytest.mark.parametrize("victim", ["a", "c"])
@pytest.mark.parametrize(
    ("example", "typed", "shown"),
    [
        (
            "replicated_counter.py",
            (["5", "7"], ["-2", "30"], ["100"]),
            ("count 12", "count 40", "count 140"),
        ),
        (
            "replicated_dictionary.py",
            (["x 1", "y 2"], ["x", "z a b"], ["y 4"]),
            (
                'entries {"x": "1", "y": "2"}',
                'entries {"y": "2", "z": "a b"}',
                'entries {"y": "4", "z": "a b"}',
            ),
        ),
    ],
)
def test_it_survives_kill_9_and_comes_back(
    example: str, victim: str, typed: tuple[list[str], ...], shown: tuple[str, ...]
) -> None:
    with programs(example) as running:
        survivors = [running[name] for name in "abc" if name != victim]
        for line in typed[0]:
            survivors[0].type(line)
        for program in running.values():
            program.expect(shown[0], ask="")
        running[victim].kill()
        running.pop(victim).close()
        for line in typed[1]:
            survivors[1].type(line)
        for program in survivors:
            program.expect(shown[1], ask="")
        again = Program(example, victim, free_ports(1)[0], [program.port for program in survivors])
        running[victim] = again
        again.expect(shown[1], ask="")
        again.type(typed[2][0])
        for program in running.values():
            program.expect(shown[2], ask="")
        assert {running[name].close() for name in list(running)} == {0}


@contextmanager
def talkers(example: str) -> Iterator[list[Program]]:
    """Three who talk to each other; the first has begun."""
    ports = free_ports(3)
    running: list[Program] = []
    try:
        for rank in (1, 2):
            running.append(Program(example, "abc"[rank], ports[rank], []))
        others = [f"{'abc'[rank]}=127.0.0.1:{ports[rank]}" for rank in (1, 2)]
        running.insert(0, Program(example, "a", ports[0], [], others))
        for program in running:
            program.expect("members a b c")
        yield running
    finally:
        for program in running:
            program.kill()
            program.close()


def test_all_whiteboards_show_the_same() -> None:
    with talkers("shared_whiteboard.py") as boards:
        for board, word in zip(boards, ("one", "two", "three"), strict=True):
            board.type(word)
        for board in boards:
            board.expect('board ["one", "three", "two"]', ask="")
        boards[1].type("clear")  # it has seen all three
        boards[1].type("four")
        for board in boards:
            board.expect('board ["four"]', ask="")
        assert [board.close() for board in boards] == [0, 0, 0]


def test_all_copies_of_the_bank_have_the_same_balances() -> None:
    with talkers("replicated_bank.py") as banks:
        for bank in banks:
            bank.type("deposit x 10")
        for bank in banks:
            bank.expect('balances {"x": 30}', ask="")
        banks[2].type("withdraw x 25")
        banks[2].expect("withdrawn")
        banks[0].type("withdraw x 25")
        banks[0].expect("refused")
        for bank in banks:
            bank.expect('balances {"x": 5}', ask="")
        assert [bank.close() for bank in banks] == [0, 0, 0]


def test_the_bank_goes_on_when_one_of_three_is_killed() -> None:
    with talkers("replicated_bank.py") as banks:
        for bank in banks:
            bank.type("deposit x 10")
        for bank in banks:
            bank.expect('balances {"x": 30}', ask="")
        banks[1].kill()
        banks[2].type("withdraw x 25")
        banks[2].expect("withdrawn")
        banks[0].expect('balances {"x": 5}', ask="")
        assert [banks[rank].close() for rank in (0, 2)] == [0, 0]


def test_the_examples_are_short() -> None:
    for example in EXAMPLES.glob("*.py"):
        assert len(example.read_text().splitlines()) <= LINES_MAX


# ---- clients of the sequencing service, in one event loop ------------------------------------------------------------


def example(name: str) -> Any:
    """A program of docs/examples as a module."""
    found = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@asynccontextmanager
async def service(**of_stack: int) -> AsyncIterator[str]:
    """The address of a peer of the service."""
    options = replace(Options.local(), of_stacks={f"sequencer.{name}": value for name, value in of_stack.items()})
    async with Node("peer", address=free_address(), options=options) as node:
        node.serve("sequencer")
        yield node.address


def test_users_of_a_shared_room_see_one_order_while_they_walk() -> None:
    room = example("virtual_room")

    async def test() -> None:
        async with service() as address:
            users = [room.User(await antiphon.connect(address, name=name)) for name in ("ann", "bob", "cat")]
            looking = [asyncio.create_task(user.look()) for user in users]
            for user in users:
                await user.walk(0)
            for step in range(6):
                for at, user in enumerate(users):
                    await user.say(f"step {step}")
                    await user.walk((step * 7 + at * 5) % 30)
            for user in users:
                await user.walk(1)
            for user in users:
                await user.say("the end")
            await until(lambda: all(sum("the end" in text for _, text in user.seen) == 3 for user in users))
            said = [[event for event in user.seen if " is at " not in event[1]] for user in users]  # each but once
            for one, other in itertools.combinations(said, 2):
                shared = [event for event in one if event in other]
                assert shared == [event for event in other if event in one]
                assert len(shared) > 6
            for task in looking:
                task.cancel()
            for user in users:
                await user.client.close()

    run(test)


def test_watchers_see_the_events_that_others_tell_in_one_order() -> None:
    notification = example("event_notification")

    async def test() -> None:
        async with service() as address, await antiphon.connect(address) as client:
            await client.subscribe("fire", "doors")  # so that the groups are there
            watching = [asyncio.create_task(notification.watch(address, "fire", "doors", count=8)) for _ in range(2)]
            while len(client._node._groups["doors"].view.members) < 3:
                await asyncio.sleep(0.01)
            kinds = [("fire", ("smoke", "flames")), ("doors", ("open", "shut"))] * 2
            await asyncio.gather(*(notification.tell(address, kind, *events) for kind, events in kinds))
            seen = await asyncio.gather(*watching)
            assert seen[0] == seen[1]
            assert sorted(seen[0])[:2] == [("doors", "open"), ("doors", "open")]

    run(test)


def test_a_reader_of_three_groups_comes_back_at_its_position(tmp_path: Path) -> None:
    reader = example("resuming_reader")
    ledger = tmp_path / "ledger.jsonl"

    async def test() -> None:
        async with service(retained_kib=1024) as address, await antiphon.connect(address) as client:
            await client.subscribe(*reader.GROUPS)
            sent = []
            for number in range(30):
                group = reader.GROUPS[number % 3]
                await client.publish(group, b"%d" % number)
                sent.append((group, str(number)))
            await client.flush()
            for count in (11, 8):
                await reader.main(address, str(ledger), count)
                with ledger.open("a") as lines:
                    lines.write('{"group": "orders", "te')  # it crashed while it wrote
            await reader.main(address, str(ledger), 11)
            entries = [json.loads(line) for line in ledger.read_text().splitlines()]
            assert [(entry["group"], entry["text"]) for entry in entries] == sent

    run(test)
