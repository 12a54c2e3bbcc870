"""Two clusters, of three sites and of one, in a group and its parts (isis-1987, 4.6): processes are killed, and sites
of the larger cluster, and come back as the next incarnation.

A majority of each cluster lives at any time, so nothing stands still for good: one site is killed at a time, and the
single site of the other cluster never is. Partitions may cut off whole clusters, until the network heals.
"""

from functools import partial

import antiphon
from antiphon.testing import FaultPlan, Host
from antiphon.testing.fault_plan import SECOND_NS, KillProgram, draw_plan
from antiphon.testing.simulate import ACTIVE_S
from tests.programs.common import PATIENCE_S, Play, until_ending
from tests.programs.sites import one_at_a_time, options, read, talk

NEAR = ("s", "t", "u")
FAR = ("x",)
HOMES = {"a": "s", "b": "t", "c": "u", "d": "x", "e": "x"}


async def serve(host: Host) -> int:
    own, other = (NEAR, FAR) if host.name in NEAR else (FAR, NEAR)
    addresses = host.members()
    async with antiphon.Node(host.name, address=host.at(), incarnation=1000 * host.starts, options=options()) as node:
        node.serve(
            "label",
            peers=[addresses[name] for name in own if name != host.name],
            clusters=[[addresses[name] for name in other]],
        )
        await host.ending.wait()
    return host.starts


async def main(host: Host) -> int:
    """Be in one group with all, and in another with half of them."""
    site = host.members()[HOMES[host.name]]
    async with antiphon.Node(
        host.name, address=host.at(), incarnation=1000 * host.starts, rejoin=True, options=options()
    ) as node:
        join = partial(node.join, stack="label", policy="sites", contacts=[site], timeout_s=PATIENCE_S)
        groups = [await join("all"), await join("some" if host.name in "abd" else "others")]
        await until_ending(host, talk(host, groups), *[read(group) for group in groups])
    return host.starts


def spare_the_far(plan: FaultPlan) -> FaultPlan:
    """The plan without kills of the cluster that has one site."""
    kept = [fault for fault in plan.faults if not (isinstance(fault, KillProgram) and fault.program in FAR)]
    return FaultPlan(plan.delay, kept, plan.heal_ns)


def play(seed: int) -> Play:
    mains = dict.fromkeys((*NEAR, *FAR), serve) | dict.fromkeys(HOMES, main)
    plan = draw_plan("all", list(mains), int(ACTIVE_S * SECOND_NS), seed)
    return Play(mains, faults=one_at_a_time(spare_the_far(plan)), may_stall=True)
