"""A run for show and for proof: real processes on loopback, over a network that loses, doubles and reorders.

Every process multicasts its messages at level `causal` while it delivers everybody's, and records what it does. The run
is quiet when all have delivered everything and know that everything they sent is everywhere; only then are they told to
close.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from antiphon.kernel.errors import UsageError
from antiphon.runtime.workers import Object, Worker, Workers

WORKER: Final = ("-m", "antiphon.runtime.demo_worker")

Progress = Callable[[int, int], None]
"""Told from time to time how many deliveries there have been at all members together, of how many there will be."""


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """What came of a run."""

    run: str
    members: tuple[str, ...]
    messages: int
    """Sent by each member."""
    delivered: dict[str, int]
    """By each member; `expected` if all went well."""
    expected: int
    completed: bool
    """Whether the run went quiet before the patience was over."""
    elapsed_s: float
    """From the first send until all was quiet."""
    statistics: dict[str, dict[str, int]]
    """The counters of each member."""


def run_demo(
    directory: Path | str,
    *,
    members: int = 5,
    messages: int = 10_000,
    size: int = 64,
    loss: float = 0.05,
    duplication: float = 0.02,
    reordering: float = 0.05,
    seed: int = 1,
    patience_s: float = 120.0,
    progress: Progress | None = None,
) -> DemoResult:
    """Run it, with the history in `directory`. `size`: payload bytes. Raises WorkerError if a process goes wrong."""
    if members < 1 or messages < 1:
        raise UsageError("the demo needs at least one member and one message")
    demo = _Demo(members, messages, seed, patience_s, progress)
    settings: Object = {
        "history": str(directory),
        "run": demo.run,
        "messages": messages,
        "size": size,
        "loss": loss,
        "duplication": duplication,
        "reordering": reordering,
    }
    return asyncio.run(demo.execute(settings))


class _Demo:
    def __init__(self, members: int, messages: int, seed: int, patience_s: float, progress: Progress | None) -> None:
        self.run = f"demo-{seed}"
        self._names = tuple(f"p{rank}" for rank in range(1, members + 1))
        self._messages = messages
        self._expected = members * messages
        self._seed = seed
        self._patience_s = patience_s
        self._progress = progress
        self._delivered = dict.fromkeys(self._names, 0)

    async def execute(self, settings: Object) -> DemoResult:
        async with Workers(WORKER, self._names) as workers:
            await self._gather(workers, settings)
            begin_s = time.monotonic()
            for worker in workers:
                worker.tell("go")
            completed = await self._watch(workers)
            elapsed_s = time.monotonic() - begin_s
            for worker in workers:
                worker.tell("close", quiet=completed)
            reports = await asyncio.gather(*(worker.expect_soon("closed") for worker in workers))
        return DemoResult(
            run=self.run,
            members=self._names,
            messages=self._messages,
            delivered=self._delivered,
            expected=self._expected,
            completed=completed,
            elapsed_s=elapsed_s,
            statistics={name: report["statistics"] for name, report in zip(self._names, reports, strict=True)},
        )

    async def _gather(self, workers: list[Worker], settings: Object) -> None:
        """Each worker takes a free port and says which; then all learn of all, and join."""
        for rank, worker in enumerate(workers):
            worker.tell("settings", name=worker.name, seed=self._seed * 1000 + rank, **settings)
        bound = await asyncio.gather(*(worker.expect_soon("bound") for worker in workers))
        members = {worker.name: answer["address"] for worker, answer in zip(workers, bound, strict=True)}
        for worker in workers:
            worker.tell("members", members=members)
        await asyncio.gather(*(worker.expect_soon("joined") for worker in workers))

    async def _watch(self, workers: list[Worker]) -> bool:
        """Until every worker is quiet, or the patience is over; whether it went quiet."""
        try:
            async with asyncio.timeout(self._patience_s), asyncio.TaskGroup() as tasks:
                for worker in workers:
                    tasks.create_task(self._follow(worker))
        except TimeoutError:
            return False
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return True

    async def _follow(self, worker: Worker) -> None:
        quiet = False
        while not quiet:
            report = await worker.expect("progress")
            self._delivered[worker.name] = report["delivered"]
            quiet = report["delivered"] == self._expected and report["outstanding"] == 0
            if self._progress is not None:
                self._progress(sum(self._delivered.values()), self._expected * len(self._names))
