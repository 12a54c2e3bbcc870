"""Two leaves and their leaders: what goes to all is delivered in one order in all leaves, and what one sender sends, to
its leaf or to all, in the order of its calls.

One program is killed, and started again or not, and the network does all to packets, but nobody is cut off or paused
for long: a hierarchy survives the failure of all representatives of a leaf but one, and there are two; in the leaders'
group it survives that of a minority, and there are four. A partition makes more of them fail at once.
"""

import asyncio

import antiphon
from antiphon.testing import FaultPlan, Host, KillProgram, NetworkFault, Result
from antiphon.testing.fault_plan import SECOND_NS, draw_plan
from antiphon.testing.simulate import ACTIVE_S
from antiphon.toolkit import Everywhere, Hierarchy
from tests.programs.common import PATIENCE_S, Play, draw, node_at, until_ending

LEAVES = {"north": ("a", "b", "c"), "south": ("d", "e")}
FIRST = "north"


async def main(host: Host) -> list[str]:
    seen: list[str] = []
    leaf = next(name for name, members in LEAVES.items() if host.name in members)
    addresses = host.members()
    own = LEAVES[leaf]
    contacts = [addresses[name] for name in LEAVES[FIRST]] if leaf != FIRST else []
    async with node_at(host) as node:
        if host.starts == 1 and host.name == own[0]:
            group = await node.join(leaf, members={host.name: host.at()}, policy="primary")
        else:
            others = [addresses[name] for name in own if name != host.name]
            group = await node.join(leaf, contacts=others, timeout_s=PATIENCE_S)
        async with Hierarchy(node, group, leaders="leaders", contacts=contacts) as hierarchy:
            await until_ending(host, talk(host, hierarchy), follow(node, hierarchy, seen))
    return seen


async def talk(host: Host, hierarchy: Hierarchy) -> None:
    random = draw()
    for number in range(8):
        text = f"{host.name}/{host.starts} {number}".encode()
        if random.random() < 0.5:
            await hierarchy.send(text)
        else:
            await hierarchy.send_all(text)
        if random.random() < 0.5:
            await asyncio.sleep(2 * random.random())


async def follow(node: antiphon.Node, hierarchy: Hierarchy, seen: list[str]) -> None:
    last: dict[str, int] = {}
    async for event in hierarchy:
        if isinstance(event, antiphon.Excluded):
            raise antiphon.ExcludedError(event.group, node.process)
        if isinstance(event, Everywhere):
            seen.append(event.payload.decode())
        if isinstance(event, Everywhere | antiphon.Message):
            sender, number = event.payload.decode().split()
            assert int(number) > last.get(sender, -1), f"{event.payload!r} after {last[sender]}"
            last[sender] = int(number)


def one_order(result: Result) -> None:
    """Any two who have both have them in the same order."""
    for one in result.returned.values():
        for other in result.returned.values():
            common = [text for text in one if text in other]
            assert common == [text for text in other if text in one], f"{one} against {other}"
        assert len(one) == len(set(one)), f"twice: {one}"


def faults(seed: int, names: list[str]) -> FaultPlan:
    """What `all` does to packets, and one kill of those that it draws."""
    plan = draw_plan("all", names, int(ACTIVE_S * SECOND_NS), seed)
    numbered = list(zip(plan.numbers, plan.faults, strict=True))
    packets = [number for number, fault in numbered if isinstance(fault, NetworkFault) and not fault.is_partition]
    kills = [number for number, fault in numbered if isinstance(fault, KillProgram)]
    return plan.only(packets + kills[:1])


def play(seed: int) -> Play:
    names = [name for members in LEAVES.values() for name in members]
    return Play(dict.fromkeys(names, main), one_order, faults(seed, names))
