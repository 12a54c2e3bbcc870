"""Members that send, leave in good order, and come back as a new incarnation, again and again."""

import asyncio

import antiphon
from antiphon.testing import Host, Result
from tests.programs.common import PATIENCE_S, Play, check_event, draw, enter, node_at, read, until_ending

STAYING = ("a", "b", "c")
LEAVING = ("x", "y")
LIVES = 100


async def stay(host: Host) -> set[bytes] | None:
    """What was read, if the program was there from the beginning."""
    seen: list[bytes] = []
    async with node_at(host) as node:
        group = await enter(node, host, "group", STAYING)
        await until_ending(host, asyncio.sleep(0), read(node, group, seen))
    return set(seen) if host.starts == 1 else None


async def come_and_go(host: Host) -> list[bytes]:
    """What was sent in lives that ended in good order, after the network had healed or before."""
    random = draw()
    contacts = [host.members()[name] for name in STAYING]
    settled: list[bytes] = []
    for life in range(4):
        if host.calm.is_set():
            break
        incarnation = host.starts * LIVES + life
        async with antiphon.Node(host.name, address=host.at(), incarnation=incarnation) as node:
            group = await node.join("group", contacts=contacts, timeout_s=PATIENCE_S)
            payloads = [f"{host.name} {incarnation} {number}".encode() for number in range(5)]

            async def follow(group: antiphon.Group = group, node: antiphon.Node = node) -> None:
                async for event in group:
                    check_event(node, event)

            following = asyncio.create_task(follow())
            for payload in payloads:
                await group.send(payload, order="agreed" if random.random() < 0.5 else "causal")
                await asyncio.sleep(random.random() * 0.05)
            if await group.leave():
                settled += payloads
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await asyncio.sleep(random.random() * 2)
    return settled


def nothing_is_lost(result: Result) -> None:
    """Who left in good order has been heard in full by those who stayed all along."""
    for name in LEAVING:
        sent = set(result.returned.get(name, ()))
        for other in STAYING:
            heard = result.returned.get(other)
            missing = set() if heard is None else sent - heard
            assert not missing, f"{other} lacks {sorted(missing)} of {name}, which left in good order"


UNDECIDED = {
    "total": "who runs out of time while it leaves stops in a view that it did not complete, and what it delivered "
    "there as agreed need not be what the others agree on",
}


def play(seed: int) -> Play:
    mains = {**dict.fromkeys(STAYING, stay), **dict.fromkeys(LEAVING, come_and_go)}
    return Play(mains, nothing_is_lost, may_be_unknown=UNDECIDED)
