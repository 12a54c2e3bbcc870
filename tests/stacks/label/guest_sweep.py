"""A sender from outside and its door, with a crash at each call of the network in turn.

    python -m tests.stacks.label.guest_sweep --calls 0:120
    python -m tests.stacks.label.guest_sweep --calls 0:120 --step 7

Five members, one sender. Its door is killed at its n-th call of an adapter; with it, or a little later, another member
or the sender; or the sender is cut off from its door. Each run is audited, and all members that live must have
delivered the same, in order; all of it, if the sender lives.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import antiphon
from antiphon.faults import Delay, Partition
from antiphon.testing import FaultPlan, Host, KillProgram, NetworkFault, simulate

MEMBERS: Final = ("a", "b", "c", "d", "e")
MESSAGES: Final = 60
MILLISECOND_NS: Final = 1_000_000
KILL_NS: Final = 400 * MILLISECOND_NS
HEAL_NS: Final = 3000 * MILLISECOND_NS
SPEED: Final = Delay(2 * MILLISECOND_NS, 4 * MILLISECOND_NS)
ORDERS: Final[tuple[antiphon.Order, ...]] = ("causal", "agreed", "fifo", "safe")

Case = tuple[str, list[KillProgram | NetworkFault]]


async def member(host: Host) -> list[str]:
    log: list[str] = []
    async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
        members = {name: address for name, address in host.members().items() if name in MEMBERS}
        group = await node.join("group", members=members, policy="primary", stack="label")

        def hear(event: object) -> None:
            if isinstance(event, antiphon.Batch):
                log.extend(payload.decode() for payload in event.payloads)

        group.listen(hear)
        await host.ending.wait()
    return log


async def visitor(host: Host) -> None:
    async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
        group = await node.reach("group", contacts=[host.members()["a"]], stack="label")
        await asyncio.sleep(max(0.0, 0.38 - asyncio.get_running_loop().time()))
        for number in range(MESSAGES):
            await group.send(f"{number}".encode(), order=ORDERS[number % 4])
            await asyncio.sleep(0.002)
        await group.flush(timeout_s=60)
        await host.ending.wait()


def cases(calls: int) -> Iterator[Case]:
    """What is struck at this call."""
    door = KillProgram("a", at_ns=KILL_NS, calls=calls)
    yield "door", [door]
    yield "door, then another member", [door, KillProgram("b", at_ns=KILL_NS, calls=calls + 5)]
    yield "door, then its successor later", [door, KillProgram("b", at_ns=KILL_NS + 250 * MILLISECOND_NS, calls=calls)]
    yield "another member", [KillProgram("c", at_ns=KILL_NS, calls=calls)]
    yield "sender", [KillProgram("x", at_ns=KILL_NS, calls=calls)]
    yield "door, then sender", [door, KillProgram("x", at_ns=KILL_NS + 100 * MILLISECOND_NS, calls=calls)]
    from_ns = KILL_NS + calls * MILLISECOND_NS
    apart = partial(Partition, from_ns=from_ns, until_ns=HEAL_NS)
    yield (
        "cut off from the door",
        [
            NetworkFault(apart(frozenset(("x",)), frozenset(("a",)))),
            NetworkFault(apart(frozenset(("a",)), frozenset(("x",)))),
        ],
    )


def problems(case: Case) -> list[str]:
    """What is wrong with one run."""
    what, faults = case
    mains: dict[str, Any] = dict.fromkeys(MEMBERS, member) | {"x": visitor}
    plan = FaultPlan(SPEED, faults, heal_ns=HEAL_NS)
    result = simulate(mains, seed=1, faults=plan, may_stall=True)
    dead = {fault.program for fault in faults if isinstance(fault, KillProgram)}
    logs = {name: log for name, log in dict(result.returned).items() if name in MEMBERS and name not in dead}
    found = list(result.problems)
    expected = [f"{number}" for number in range(MESSAGES)]
    for name, log in logs.items():
        if log != expected[: len(log)]:
            found.append(f"{name} delivered {log}")
        if "x" not in dead and len(log) != MESSAGES:
            found.append(f"{name} delivered {len(log)} of {MESSAGES}")
    if len({len(log) for log in logs.values()}) > 1:
        found.append(f"members delivered {[len(log) for log in logs.values()]} messages")
    return [f"{what}: {problem}" for problem in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", default="0:120", help="from:to, the last one excluded")
    parser.add_argument("--step", type=int, default=1)
    arguments = parser.parse_args()
    first, last = map(int, arguments.calls.split(":"))
    runs = failed = 0
    for calls in range(first, last, arguments.step):
        for case in cases(calls):
            runs += 1
            if found := problems(case):
                failed += 1
                print(f"call {calls}: {found}", flush=True)
    print(f"{runs} runs, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
