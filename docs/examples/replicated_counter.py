"""A counter that all members have alike. It outlives each of them: kill one with -9, and start it again.

    python replicated_counter.py alice 127.0.0.1:7400                    # founds the group
    python replicated_counter.py bob 127.0.0.1:7401 127.0.0.1:7400       # is let in by alice, and gets the count

Type a number to add it, or an empty line to see the count. The end of the input leaves the group.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator

import antiphon
from antiphon.toolkit import Service


class Counter:
    def __init__(self) -> None:
        self.value = 0

    def snapshot(self) -> list[bytes]:
        return [b"%d" % self.value]

    async def restore(self, chunks: AsyncIterator[bytes]) -> None:
        self.value = int(b"".join([chunk async for chunk in chunks]))


async def read_input(group: antiphon.Group, service: Service, counter: Counter) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        if not line.strip():
            print("count", counter.value, flush=True)
        elif line.strip().lstrip("-").isdecimal():
            await service.send(line.strip().encode())  # sums do not depend on the order: causal is enough
    await group.leave()  # which ends the loop below


async def main(name: str, address: str, *contacts: str) -> None:
    counter = Counter()
    life = time.time_ns() // 1_000_000  # each start is a new incarnation, higher than those before
    async with antiphon.Node(name, address=address, incarnation=life) as node:
        members = None if contacts else {f"{name}/{life}": address}
        group = await node.join("counter", contacts=contacts, members=members, policy="primary")
        async with Service(group, snapshot=counter.snapshot, restore=counter.restore) as service:
            typing = asyncio.create_task(read_input(group, service, counter))
            async for event in service:
                match event:
                    case antiphon.Message(payload=payload):
                        counter.value += int(payload)
                    case antiphon.ViewChange(view=view):
                        print("members", *(member.name for member in view.members), flush=True)
            await typing


asyncio.run(main(*sys.argv[1:]))
