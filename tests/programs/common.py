"""What the programs have in common: how they come into their groups, what they say, and when they end.

A program founds its groups when it is started for the first time, together with all others, and asks to be let in when
it is started again. It ends when it is told that all faults are long over.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import antiphon
from antiphon.testing import FaultPlan, Host, Result
from antiphon.testing.host import Main
from antiphon.testing.verdict import Expectations
from antiphon.toolkit import StateError

PATIENCE_S: Final = 60.0
"""How long a program that was started again asks to be let in."""
HEALED_S: Final = 7.0
"""All faults are over by then."""
RECOVER_S: Final = 9.0
"""Who is not back by then is gone for good: a group that stands still is recovered."""
LEVELS: Final[tuple[antiphon.Order, ...]] = ("reliable", "fifo", "causal", "agreed", "safe")
RULES: Final = ("carry", "conservative", "epochs")
LONG_BYTES: Final = 4000
"""Longer than a packet."""


@dataclass(frozen=True)
class Play:
    """The programs of one seed, and what must hold at their end beside what the audit asks."""

    mains: Mapping[str, Main]
    check: Callable[[Result], object] | None = None
    faults: str | FaultPlan = "all"
    """`network` for all of them but kills, or a plan; the program's docstring says why."""
    apart: bool = False
    """Whether the groups are in several causality domains."""
    may_stall: bool = False
    """Whether nobody recovers a group that has lost its majority for good; the program's docstring says why."""

    may_be_unknown: Mapping[str, str] = field(default_factory=dict)
    """Guarantees that the audit may leave undecided, and why."""

    @property
    def expected(self) -> Expectations:
        """What the run is held to."""
        return Expectations(self.check, self.apart, self.may_stall, tuple(self.may_be_unknown))


RETIRED = {
    "primary": "who is excluded from one group retires from the others, and may be let into one more view of them; if "
    "nobody else was in it, the history can tell that there was one, but not who would have been a majority of it",
}
"""What the audit may leave undecided where groups share a causality domain."""


def names(seed: int, least: int = 3, most: int = 5) -> list[str]:
    """As many names as the seed wants."""
    return list("abcdefgh"[: least + seed % (most - least + 1)])


@asynccontextmanager
async def node_at(host: Host, **options: Any) -> AsyncIterator[antiphon.Node]:
    """The node of this program. Few members detect failures quickly; many would spend the run on heartbeats."""
    options.setdefault("options", antiphon.Options.fast() if len(host.addresses) < 4 else antiphon.Options())
    async with antiphon.Node(host.name, address=host.at(), incarnation=host.starts, **options) as node:
        operator = asyncio.create_task(recover_stalled(node))
        try:
            yield node
        finally:
            operator.cancel()


async def recover_stalled(node: antiphon.Node) -> None:
    """What an operator does when all faults are over: have groups that lost their majority go on without the dead."""
    await asyncio.sleep(max(0.0, RECOVER_S - asyncio.get_running_loop().time()))
    while True:
        for group in list(node._groups.values()):
            if group.is_stalled and not group.is_over:
                with suppress(TimeoutError, antiphon.ClosedError):
                    await group.recover(confirm=group.name, timeout_s=1.0)
        await asyncio.sleep(0.5)


async def enter(
    node: antiphon.Node, host: Host, group: str, founders: Sequence[str] = (), **options: Any
) -> antiphon.Group:
    """Found `group` with all `founders`, or, started again, be let in by them."""
    among = {name: address for name, address in host.members().items() if name in (founders or host.addresses)}
    if host.starts == 1:
        return await node.join(group, members=among, policy="primary", **options)
    others = [address for name, address in among.items() if name != host.name]
    return await node.join(group, contacts=others, timeout_s=PATIENCE_S, **options)


def overlapping(host: Host) -> dict[str, list[str]]:
    """The groups that this host is in, and their founders: all but the last, all but the first, and all."""
    everybody = list(host.addresses)
    groups = {"left": everybody[:-1], "right": everybody[1:], "all": everybody}
    return {name: founders for name, founders in groups.items() if host.name in founders}


def check_event(node: antiphon.Node, event: object) -> None:
    """End the program where the others went on without it: it is started again."""
    if isinstance(event, antiphon.Excluded):
        raise antiphon.ExcludedError(event.group, node.process)


def draw() -> Random:
    """Chances of this program."""
    return antiphon.current_environment().random()


def payload(random: Random, host: Host, number: int) -> bytes:
    """Mostly short, sometimes longer than a packet."""
    head = f"{host.name}{host.starts}:{number}:".encode()
    return head + bytes(LONG_BYTES) if random.random() < 0.05 else head


async def talk(
    host: Host, groups: Sequence[antiphon.Group], *, count: int = 15, levels: Sequence[antiphon.Order] = LEVELS
) -> None:
    """Send to these groups in turn, by chance, and once more to each when the network has healed."""
    random = draw()
    for number in range(count):
        group = groups[int(random.random() * len(groups))]
        await group.send(payload(random, host, number), order=levels[int(random.random() * len(levels))])
        if random.random() < 0.7:
            await asyncio.sleep(random.random() ** 2)
    loop = asyncio.get_running_loop()
    await asyncio.sleep(max(0.0, HEALED_S - loop.time()))
    for place, group in enumerate(groups):
        await group.send(payload(random, host, count + place), order=levels[-1])


async def read(node: antiphon.Node, group: antiphon.Group, seen: list[bytes] | None = None) -> None:
    """Read one group by itself."""
    async for event in group:
        check_event(node, event)
        if seen is not None and isinstance(event, antiphon.Message):
            seen.append(event.payload)


class LostState:
    """Lets StateError pass, and notes that it was raised: no member is left that has the state of the group."""

    def __init__(self) -> None:
        self.happened = False

    def __enter__(self) -> "LostState":
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        rest = error.split(StateError)[1] if isinstance(error, BaseExceptionGroup) else error
        self.happened = error is not None and (rest is None or isinstance(rest, StateError))
        return self.happened


def check_loss(result: Result, lost: bool) -> None:
    """Nobody loses the state of a group while a founder of it lives: a founder has the state from the first view on."""
    living = [
        f"{rows[0].process}/{rows[0].incarnation}"
        for rows in result.rows
        if any(row.kind == "view" and row.view == 1 for row in rows) and rows[-1].kind != "crash"
    ]
    assert not lost or not living, f"the state is lost, although {living} had it"


async def until_ending(host: Host, sending: Any, *working: Any) -> None:
    """Run these coroutines until the simulation asks for an end, and the one that sends until it asks for calm; what
    they raise ends the program."""
    async with asyncio.TaskGroup() as tasks:
        sender = tasks.create_task(sending)
        running = [tasks.create_task(coroutine) for coroutine in working]
        await host.calm.wait()
        sender.cancel()
        await host.ending.wait()
        for task in running:
            task.cancel()
