"""A replicated ledger, and a judge of whether its operations were linearizable.

Every line has its place in the ledger, so one order explains all: an operation takes effect at its place, a reading
behind the last line that it saw. `LedgerJudge` stands outside, knows when each call began and returned, by the time of
the whole simulation, and outlives every program: what was acknowledged to a process that was killed since counts too.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import antiphon
from antiphon.testing import Host
from antiphon.toolkit import ObjectPlace, ObjectRestartError, ReplicatedObject, ordered
from tests.programs.common import HEALED_S, draw


class Ledger(ReplicatedObject):
    """Lines, each of which is written once."""

    lines: list[str]

    def __init__(self, place: ObjectPlace, **options: Any) -> None:
        super().__init__(place, **options)
        self.lines = []

    @ordered
    def write(self, line: str) -> int:
        """Write a line; return its place, from 1 on."""
        self.lines.append(line)
        return len(self.lines)

    @ordered
    def refuse(self, line: str) -> None:
        """Raises ValueError, with the place up to which lines were written."""
        raise ValueError(f"{len(self.lines)} {line}")


@dataclass(frozen=True)
class LedgerCall:
    """One call that returned."""

    begun_s: float
    returned_s: float
    place: int
    line: str = ""
    """The line that was written; empty: the call read."""


class LedgerJudge:
    """All calls of a run."""

    def __init__(self) -> None:
        self.calls: list[LedgerCall] = []
        self.problems: list[str] = []

    def check(self, ledgers: Iterable[Sequence[str]]) -> None:
        """Raise AssertionError unless these ledgers agree, and one of them explains all calls."""
        assert not self.problems, self.problems[0]
        lines: Sequence[str] = max(ledgers, key=len, default=())
        assert len(set(lines)) == len(lines), "an operation was executed twice"
        for call in self.calls:
            if call.line:
                there = lines[call.place - 1] if call.place <= len(lines) else None
                assert there == call.line, f"{call.line} was acknowledged at {call.place} and is lost: {there}"
        highest = 0
        returned = sorted(self.calls, key=lambda call: call.returned_s)
        position = 0
        for call in sorted(self.calls, key=lambda call: call.begun_s):
            while position < len(returned) and returned[position].returned_s < call.begun_s:
                highest = max(highest, returned[position].place)
                position += 1
            is_late = call.place <= highest if call.line else call.place < highest
            assert not is_late, f"{call} took effect before what had returned at {highest} when it began"


async def keep_books(host: Host, ledger: Ledger, judge: LedgerJudge, spacing_s: float = 1.0) -> None:
    """Write and read for ever, several calls at a time; lines that are written when all is well again end by a star."""
    random = draw()
    loop = asyncio.get_running_loop()
    number = 0
    while True:
        count = 1 + int(random.random() * 4)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                number += 1
                star = "*" if loop.time() > HEALED_S else ""
                tasks.create_task(call_once(ledger, judge, f"{host.name}{host.starts}:{number}{star}", random.random()))
        await asyncio.sleep(random.random() * spacing_s)


async def call_once(ledger: Ledger, judge: LedgerJudge, line: str, chance: float) -> None:
    """Write a line, read, or have a line refused."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    try:
        if chance < 0.6:
            place = await ledger.write(line)
        elif chance < 0.9:
            await ledger.catch_up("agreed")
            place, line = len(ledger.lines), ""
        else:
            try:
                await ledger.refuse(line)
                judge.problems.append(f"{line} was not refused")
            except ValueError as error:
                place, line = int(str(error).split()[0]), ""
            else:
                return
    except (antiphon.ClosedError, ObjectRestartError, TimeoutError):
        return  # it may have been executed or not
    judge.calls.append(LedgerCall(begun_s, loop.time(), place, line))
