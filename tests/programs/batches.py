"""One group read in batches, with bursts, private messages and barriers; readers are cancelled and begin anew."""

import asyncio
from contextlib import suppress

import antiphon
from antiphon.testing import Host
from tests.programs.common import HEALED_S, Play, check_event, draw, enter, names, node_at, until_ending
from tests.programs.seen import Seen, same_payloads


async def main(host: Host) -> Seen:
    seen = Seen()
    async with node_at(host, queue_messages_max=32) as node:
        group = await enter(node, host, "group")
        await until_ending(host, burst(host, group), read_and_stop(node, group, seen))
    seen.check_gaps()
    return seen


async def burst(host: Host, group: antiphon.Group) -> None:
    random = draw()
    number = 0
    for _ in range(8):
        chance = random.random()
        if chance < 0.7:
            payloads = [f"{host.name}{host.starts}:{number + each}:".encode() for each in range(10)]
            await group.send_many(payloads, order="causal" if chance < 0.5 else "agreed")
            number += len(payloads)
        elif chance < 0.85 and group.view.members:
            member = group.view.members[int(random.random() * len(group.view.members))]
            await group.send(b"for " + member.name.encode(), to=member)
        else:
            await group.barrier(b"here")
        await asyncio.sleep(random.random())
    await asyncio.sleep(max(0.0, HEALED_S - asyncio.get_running_loop().time()))
    await group.send(f"{host.name}{host.starts}:{number}:".encode(), order="safe")


async def read_and_stop(node: antiphon.Node, group: antiphon.Group, seen: Seen) -> None:
    """By a reader that is cancelled now and then, also in the middle of a batch: nothing may be lost by that."""
    random = draw()
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.02 + 0.2 * random.random()):
                if random.random() < 0.4:
                    async for event in group.batches():
                        check_event(node, event)
                        if isinstance(event, antiphon.Batch):
                            for message in singles(event):
                                seen.read(message)
                else:
                    async for single in group:
                        check_event(node, single)
                        if isinstance(single, antiphon.Message):
                            check_private(node, single)
                            seen.read(single)
                            await asyncio.sleep(random.random() * 0.02)


def check_private(node: antiphon.Node, message: antiphon.Message) -> None:
    """What is for one member comes to nobody else."""
    if message.payload.startswith(b"for "):
        assert message.private, f"{message.payload!r} went to all"
        assert message.payload == b"for " + node.process.name.encode()


def singles(batch: antiphon.Batch) -> list[antiphon.Message]:
    """The messages of a batch, one by one."""
    return [
        antiphon.Message(
            payload, batch.sender, batch.number + place, batch.order, batch.group, batch.view_id, batch.private
        )
        for place, payload in enumerate(batch.payloads)
    ]


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed, 2, 4), main), same_payloads)
