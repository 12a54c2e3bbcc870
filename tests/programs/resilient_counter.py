"""A resilient counter with a journal, and leaders, under all faults.

Everybody adds to a resilient counter, whose operation writes a line into a resilient journal (a nested call). In the
end the counter shows as many additions as the journal has lines, no call has two lines, and every addition that was
acknowledged is among them. One member at a time leads, and adds to a guarded number under its token."""

import asyncio

from antiphon import ClosedError
from antiphon.testing import Host, Result
from antiphon.toolkit import (
    Leader,
    LockLostError,
    StaleTokenError,
    Tools,
    WorkError,
    make_resilient,
    operation,
    resilient,
)
from tests.programs.common import HEALED_S, Play, draw, enter, names, node_at, until_ending
from tests.programs.guarded import GuardedNumbers

STACKS = ("vector", "label", "domain", "conversation")
Returned = tuple[int, int, list[str], list[str]]


class Counting:
    """The objects of one program."""

    def __init__(self, tools: Tools) -> None:
        @resilient
        class Journal:
            def __init__(self) -> None:
                self.lines: list[str] = []

            @operation
            async def write(self, line: str) -> int:
                self.lines.append(line)
                return len(self.lines)

        @resilient
        class Counter:
            def __init__(self) -> None:
                self.value = 0

            @operation
            async def add(self, line: str) -> int:
                self.value += 1
                written = await journal.write(line)
                if written != self.value:
                    raise RuntimeError(f"{written} lines for {self.value} additions")
                return self.value

        self.journal = journal = make_resilient(tools, Journal)
        self.counter = make_resilient(tools, Counter)


async def add(host: Host, counting: Counting, acknowledged: list[str]) -> None:
    """Add, and mark what was added when all faults are over by a star."""
    random = draw()
    loop = asyncio.get_running_loop()
    number = 0
    while True:
        number += 1
        line = f"{host.name}{host.starts}:{number}{'*' if loop.time() > HEALED_S else ''}"
        try:
            await counting.counter.add(line)
            acknowledged.append(line)
        except (ClosedError, TimeoutError):
            pass  # it may have been executed or not
        except WorkError as error:
            raise AssertionError(str(error)) from error
        await asyncio.sleep(random.random() * 1.5)


async def lead(leader: Leader, numbers: GuardedNumbers, acknowledged: list[str]) -> None:
    random = draw()
    while True:
        try:
            async with leader.term() as term:
                numbers.enter(term, leader.tools)
                for _ in range(int(random.random() * 8)):
                    value = numbers.read("leader", term.token, leader.tools.process)
                    await asyncio.sleep(random.random() * 0.4)
                    numbers.write("leader", term.token, leader.tools.process, value + 1)
        except (LockLostError, StaleTokenError):
            pass
        await asyncio.sleep(random.random() * 0.5)


async def watch(tools: Tools) -> None:
    raise await tools.ended()


async def main(host: Host, numbers: GuardedNumbers, stack: str) -> Returned:
    acknowledged: list[str] = []
    async with node_at(host) as node:
        group = await enter(node, host, "resilient", stack=stack)
        tools = Tools(group)
        counting, leader = Counting(tools), Leader(tools)

        async def work() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(add(host, counting, acknowledged))
                tasks.create_task(lead(leader, numbers, acknowledged))

        async with tools:
            await until_ending(host, work(), watch(tools))
            return counting.counter.value, group.view.id, list(counting.journal.lines), acknowledged


def check_lines(result: Result, numbers: GuardedNumbers) -> None:
    numbers.check()
    assert numbers.values.get("leader", 0) > 0 or not result.returned, "nobody has led"
    by_view: dict[int, list[str]] = {}
    for name, (value, view_id, lines, acknowledged) in result.returned.items():
        assert value == len(lines), f"{name}: {value} additions and {len(lines)} lines"
        assert len(set(lines)) == len(lines), f"{name}: a call was executed twice: {lines}"
        lost = [line for line in acknowledged if line not in lines]
        assert not lost, f"{name}: {lost} was acknowledged and is lost"
        assert any(line.endswith("*") for line in acknowledged), f"{name} has added nothing since all was well again"
        assert by_view.setdefault(view_id, lines) == lines, f"{name} has other lines than the others: {result.returned}"


def play(seed: int) -> Play:
    numbers = GuardedNumbers()
    stack = STACKS[seed // 3 % len(STACKS)]

    async def start(host: Host) -> Returned:
        return await main(host, numbers, stack)

    return Play(dict.fromkeys(names(seed), start), lambda result: check_lines(result, numbers))
