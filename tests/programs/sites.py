"""Three sites of two processes, in a group and its parts (isis-1987, 4.1 and 4.2): processes are killed, and sites, and
come back as the next incarnation.

Two sites are a majority, so one may be killed for good. Sites are killed one at a time, the next after the one before
has had the time to be given up; but with partitions a majority may be gone all the same, and then they found their
group anew.
"""

import asyncio

import antiphon
from antiphon.testing import FaultPlan, Host
from antiphon.testing.fault_plan import SECOND_NS, KillProgram, draw_plan
from antiphon.testing.simulate import ACTIVE_S
from tests.programs.common import PATIENCE_S, Play, draw, payload, until_ending

SITES = ("s", "t", "u")
ORDERS: tuple[antiphon.Order, ...] = ("reliable", "fifo", "causal", "agreed", "safe", "abcast")
APART_NS = 3 * SECOND_NS


def options() -> antiphon.Options:
    return antiphon.Options.fast()


async def serve(host: Host) -> int:
    peers = [address for name, address in host.members().items() if name in SITES and name != host.name]
    async with antiphon.Node(host.name, address=host.at(), incarnation=1000 * host.starts, options=options()) as node:
        node.serve("label", peers=peers)
        await host.ending.wait()
    return host.starts


async def main(host: Host) -> int:
    """Be in one group with all, and in another with half of them."""
    place = "abcdefgh".index(host.name)
    site = host.members()[SITES[place % len(SITES)]]
    async with antiphon.Node(
        host.name, address=host.at(), incarnation=1000 * host.starts, rejoin=True, options=options()
    ) as node:
        names = ("all", "even" if place % 2 == 0 else "odd")
        groups = [
            await node.join(name, stack="label", policy="sites", contacts=[site], timeout_s=PATIENCE_S)
            for name in names
        ]
        await until_ending(host, talk(host, groups), *[read(group) for group in groups])
    return host.starts


async def talk(host: Host, groups: list[antiphon.Group]) -> None:
    random = draw()
    for number in range(15):
        group = groups[int(random.random() * len(groups))]
        order = ORDERS[int(random.random() * len(ORDERS))]
        members = group.view.members
        chosen = [member for member in members if random.random() < 0.5]
        if random.random() < 0.06:
            await group.barrier(b"gbcast")
            continue
        to = chosen if chosen and random.random() < 0.3 else None
        label = "red" if order == "abcast" else "clock=1" if order == "reliable" and random.random() < 0.5 else None
        try:
            await group.send(payload(random, host, number), order=order, to=to, label=label)
        except antiphon.UsageError:  # one of them has failed since
            continue
        if random.random() < 0.7:
            await asyncio.sleep(random.random() ** 2)


async def read(group: antiphon.Group) -> None:
    async for _ in group:
        pass


def one_at_a_time(plan: FaultPlan) -> FaultPlan:
    """The plan with those kills of sites only that leave a majority."""
    kept: list[KillProgram] = []
    dropped: list[KillProgram] = []
    for fault in sorted((each for each in plan.faults if isinstance(each, KillProgram)), key=_when):
        if fault.program in SITES:
            is_apart = not kept or (fault.at_ns > kept[-1].at_ns + APART_NS and kept[-1].restart_ns is not None)
            (kept if is_apart else dropped).append(fault)
    return FaultPlan(plan.delay, [fault for fault in plan.faults if fault not in dropped], plan.heal_ns)


def _when(fault: KillProgram) -> int:
    return fault.at_ns


def play(seed: int) -> Play:
    mains = dict.fromkeys(SITES, serve) | dict.fromkeys("abcdef", main)
    plan = draw_plan("all", list(mains), int(ACTIVE_S * SECOND_NS), seed)
    return Play(mains, faults=one_at_a_time(plan), may_stall=True)
