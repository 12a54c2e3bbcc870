"""A dictionary that is the same at all members and outlives each of them: kill one with -9, and start it again.

    python replicated_dictionary.py alice 127.0.0.1:7400                 # founds the group
    python replicated_dictionary.py bob 127.0.0.1:7401 127.0.0.1:7400    # joins through alice, and gets the entries

Type `key value` to set an entry, `key` to delete it, or an empty line to see all. End of input or Ctrl-C leaves.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator

import antiphon
from antiphon.toolkit import Service, input_lines

entries: dict[str, str] = {}


def snapshot() -> Iterator[bytes]:
    frozen = entries.copy()  # the chunks are taken later, while the entries go on changing
    return (json.dumps(item).encode() + b"\n" for item in frozen.items())


async def restore(chunks: AsyncIterator[bytes]) -> None:
    received = b"".join([chunk async for chunk in chunks])  # raises if the snapshot breaks off
    entries.clear()
    entries.update(json.loads(line) for line in received.splitlines())


async def read_input(group: antiphon.Group, service: Service) -> None:
    async for line in input_lines():
        if line:  # all members must set a key in the same order: agreed
            await service.send(line.encode(), order="agreed")
        else:
            print("entries", json.dumps(entries, sort_keys=True), flush=True)
    await group.leave()  # which ends the loop over the service


async def main(name: str, address: str, *contacts: str) -> None:
    async with antiphon.Node(name, address=address) as node:
        members = None if contacts else {name: address}
        group = await node.join("dictionary", contacts=contacts, members=members)
        async with Service(group, snapshot=snapshot, restore=restore) as service:
            typing = asyncio.create_task(read_input(group, service))
            async for event in service:
                match event:
                    case antiphon.Message(payload=payload):
                        key, _, value = payload.decode().partition(" ")
                        entries.pop(key, None)
                        entries.update({key: value} if value else {})
                    case antiphon.ViewChange(view=view):
                        print("members", *(member.name for member in view.members), flush=True)
            await typing


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(*sys.argv[1:]))
