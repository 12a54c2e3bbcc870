"""Locks with a guarded resource, under all faults: everybody adds to the same numbers, under write locks, and reads
them, under read locks. Holders are paused, cut off and killed while they hold. No update is lost, no reader sees a
number change while it is admitted, and when all faults are over everybody gets its lock once more."""

import asyncio

from antiphon.testing import Host, Result
from antiphon.toolkit import DeadlockError, LockLostError, Locks, StaleTokenError, Tools
from tests.programs.common import HEALED_S, Play, draw, enter, names, node_at, until_ending
from tests.programs.guarded import GuardedNumbers

ITEMS = ("x", "y")
STACKS = ("vector", "label", "domain", "conversation")
GIVEN_UP = (LockLostError, StaleTokenError, DeadlockError, TimeoutError)


async def add(locks: Locks, numbers: GuardedNumbers, item: str, pause_s: float, timeout_s: float | None = None) -> None:
    """Read, wait, write one more."""
    async with locks.write(item, timeout_s=timeout_s) as claim:
        me = locks.tools.process
        numbers.enter(claim, locks.tools)
        value = numbers.read(item, claim.token, me)
        await asyncio.sleep(pause_s)
        numbers.write(item, claim.token, me, value + 1)


async def look(locks: Locks, numbers: GuardedNumbers, item: str, pause_s: float, timeout_s: float | None) -> None:
    """Read twice."""
    async with locks.read(item, timeout_s=timeout_s) as claim:
        me = locks.tools.process
        numbers.enter(claim, locks.tools)
        value = numbers.read(item, claim.token, me)
        await asyncio.sleep(pause_s)
        again = numbers.read(item, claim.token, me)
        if value != again:
            numbers.problems.append(f"{me} with token {claim.token} read {value}, then {again} of {item!r}")


async def work(locks: Locks, numbers: GuardedNumbers, rounds: list[int]) -> None:
    random = draw()
    loop = asyncio.get_running_loop()
    while loop.time() < HEALED_S:
        item, pause_s = ITEMS[int(random.random() * len(ITEMS))], random.random() ** 2 * 0.4
        do = add if random.random() < 0.6 else look
        timeout_s = 2.0 if random.random() < 0.5 else None  # a lock that is never granted shows in the end
        try:
            if random.random() < 0.2:
                async with locks.write(ITEMS[int(random.random() * len(ITEMS))] + "2", timeout_s=timeout_s):
                    await do(locks, numbers, item, pause_s, timeout_s)
            else:
                await do(locks, numbers, item, pause_s, timeout_s)
        except GIVEN_UP:
            pass
        await asyncio.sleep(random.random() * 0.3)
    while True:
        try:
            await add(locks, numbers, ITEMS[0], 0.01)
            rounds.append(1)
            await asyncio.sleep(0.5)
        except GIVEN_UP:
            await asyncio.sleep(0.1)


async def watch(tools: Tools) -> None:
    raise await tools.ended()


async def main(host: Host, numbers: GuardedNumbers, stack: str) -> int:
    rounds: list[int] = []
    async with node_at(host) as node:
        group = await enter(node, host, "locks", stack=stack)
        tools = Tools(group)
        locks = Locks(tools)
        async with tools:
            await until_ending(host, work(locks, numbers, rounds), watch(tools))
    return len(rounds)


def play(seed: int) -> Play:
    numbers = GuardedNumbers()
    stack = STACKS[seed // 3 % len(STACKS)]

    async def start(host: Host) -> int:
        return await main(host, numbers, stack)

    def check(result: Result) -> None:
        numbers.check()
        idle = [name for name, worked in result.returned.items() if not worked]
        assert not idle, f"these got no lock when all was well again: {idle}"

    return Play(dict.fromkeys(names(seed), start), check)
