"""A counter that is the same at all members and outlives each of them: kill one with -9, and start it again.

    python replicated_counter.py alice 127.0.0.1:7400                    # founds the group
    python replicated_counter.py bob 127.0.0.1:7401 127.0.0.1:7400       # joins through alice, and gets the count

Type a number to add it, or an empty line to see the count. The end of the input, or Ctrl-C, leaves the group.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

import antiphon
from antiphon.toolkit import Service, input_lines


class Counter:
    def __init__(self) -> None:
        self.value = 0

    def snapshot(self) -> list[bytes]:
        return [b"%d" % self.value]

    async def restore(self, chunks: AsyncIterator[bytes]) -> None:
        self.value = int(b"".join([chunk async for chunk in chunks]))


async def read_input(group: antiphon.Group, service: Service, counter: Counter) -> None:
    async for line in input_lines():
        if not line:
            print("count", counter.value, flush=True)
        elif line.lstrip("-").isdecimal():
            await service.send(line.encode())  # a sum does not depend on the order: causal is enough
    await group.leave()  # which ends the loop over the service


async def main(name: str, address: str, *contacts: str) -> None:
    counter = Counter()
    async with antiphon.Node(name, address=address) as node:
        members = None if contacts else {name: address}
        group = await node.join("counter", contacts=contacts, members=members)
        async with Service(group, snapshot=counter.snapshot, restore=counter.restore) as service:
            typing = asyncio.create_task(read_input(group, service, counter))
            async for event in service:
                match event:
                    case antiphon.Message(payload=payload):
                        counter.value += int(payload)
                    case antiphon.ViewChange(view=view):
                        print("members", *(member.name for member in view.members), flush=True)
            await typing


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(*sys.argv[1:]))
