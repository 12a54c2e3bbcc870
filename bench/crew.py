"""A crew: processes that execute one job after another, so that the compared systems can take turns in one run.

The parent sends a process `job` with a `what` and its fields; the process answers `done` with the result. If a job
takes longer than its limit, or a process ends, the run fails and nothing is reported.
"""

import asyncio
import statistics
from collections.abc import Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from antiphon.runtime.workers import Object, Worker, Workers
from bench.figures import IncompleteError

JOB_S: Final = 30.0
"""Added to the planned duration of a job."""
LOOPBACK: Final = "127.0.0.1"
MEMBER: Final = ("-m", "bench.member")
ECHO: Final = ("-m", "bench.echo")


def mean_rate(measured: list[Object]) -> float:
    """Return the mean over the members of delivered messages per second, as a flood measured them."""
    return statistics.mean(float(member["rate"]) for member in measured)


async def together(jobs: Iterable[Coroutine[None, None, Object]]) -> list[Object]:
    """Run all jobs concurrently. If one fails, the others are cancelled and its error is raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            doing = [tasks.create_task(job) for job in jobs]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in doing]


@dataclass(frozen=True)
class Place:
    """Where a process of a crew is: a network namespace, and its address there."""

    namespace: str
    host: str


class Crew:
    """Processes of one kind; a context manager that leaves none behind."""

    def __init__(self, program: Sequence[str], names: Sequence[str], places: Sequence[Place] = ()) -> None:
        """`places`: a namespace for each process; without them, all are on this machine's loopback."""
        self._starting = Workers(program, names)
        self._places = places
        self.workers: list[Worker] = []
        self.pids: list[int] = []

    async def __aenter__(self) -> Self:
        self.workers = await self._starting.__aenter__()
        try:
            self.pids = [report["pid"] for report in await self.all("hello")]
            for rank, place in enumerate(self._places):
                await self.one(rank, "enter", namespace=place.namespace)
        except BaseException:
            await self._starting.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._starting.__aexit__(kind, error, traceback)

    def __len__(self) -> int:
        return len(self.workers)

    async def one(self, rank: int, what: str, *, takes_s: float = 0.0, **fields: object) -> Object:
        """Have one process do a job."""
        worker = self.workers[rank]
        worker.tell("job", what=what, **fields)
        try:
            async with asyncio.timeout(takes_s + JOB_S):
                return await worker.expect("done")
        except TimeoutError:
            raise IncompleteError(
                f"process {worker.name} did not finish {what!r} within {takes_s + JOB_S:.0f} s"
            ) from None

    def host_of(self, rank: int) -> str:
        """The address of a process."""
        return self._places[rank].host if self._places else LOOPBACK

    async def all(self, what: str, *, takes_s: float = 0.0, **fields: object) -> list[Object]:
        """Have all processes do a job at the same time."""
        return await together(self.one(rank, what, takes_s=takes_s, **fields) for rank in range(len(self.workers)))


class Members(Crew):
    """Members of the same groups."""

    def __init__(
        self,
        members: int,
        *,
        groups: int = 1,
        own_domains: bool = False,
        histories: str | None = None,
        multicast: str | None = None,
        uvloop: bool = False,
        poll_us: int = 0,
        stack: str = "vector",
        of_stack: dict[str, int] | None = None,
        contacts: Collection[str] = (),
        places: Sequence[Place] = (),
    ) -> None:
        """`of_stack`: options that the stack alone reads, as `Options.of_stacks` has them."""
        names = [f"p{rank}" for rank in range(1, members + 1)]
        super().__init__([*MEMBER, "uvloop"] if uvloop else MEMBER, names, places)
        self._groups = groups
        self._own_domains = own_domains
        self._histories = histories
        self._multicast = multicast
        self._poll_us = poll_us
        self._stack = stack
        self._of_stack = of_stack or {}
        self._contacts = list(contacts)
        """Where the groups live, on a stack whose members do not found them."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        try:
            await self._meet()
        except BaseException:
            await super().__aexit__(None, None, None)
            raise
        return self

    async def _meet(self) -> None:
        addresses = {}
        for rank, worker in enumerate(self.workers):
            bound = await self.one(
                rank,
                "bind",
                name=worker.name,
                history=self._histories,
                multicast=self._multicast,
                poll_us=self._poll_us,
                of_stack=self._of_stack,
                host=self.host_of(rank),
            )
            addresses[worker.name] = bound["address"]
        await self.all(
            "join",
            members=addresses,
            groups=self._groups,
            own_domains=self._own_domains,
            stack=self._stack,
            contacts=self._contacts,
        )

    async def close(self) -> None:
        """Have all close their nodes in good order, and so their histories."""
        await self.all("close")

    async def flood(
        self, order: str, size: int, *, seconds: float, warmup: float = 0.5, senders: Collection[int] | None = None
    ) -> list[Object]:
        """Some or all send as fast as they may; what each has measured, once everybody has everything."""
        await self.all("count")
        ranks = range(len(self)) if senders is None else senders
        measured = await together(
            self.one(
                rank,
                "flood",
                takes_s=warmup + seconds,
                order=order,
                size=size,
                warmup=warmup,
                seconds=seconds,
                sends=rank in ranks,
            )
            for rank in range(len(self))
        )
        await self.complete(sum(member["sent"] for member in measured))
        return measured

    async def complete(self, messages: int) -> None:
        """Refuse the run unless every member is handed exactly so many messages, without a gap."""
        await self.all("complete", messages=messages)
