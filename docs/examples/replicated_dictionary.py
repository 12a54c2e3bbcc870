"""A dictionary that all members have alike. It outlives each of them: kill one with -9, and start it again.

    python replicated_dictionary.py alice 127.0.0.1:7400                 # founds the group
    python replicated_dictionary.py bob 127.0.0.1:7401 127.0.0.1:7400    # is let in by alice, and gets the entries

Type `key value` to set an entry, `key` alone to delete it, or an empty line to see all. The end of the input leaves.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator

import antiphon
from antiphon.toolkit import Service

entries: dict[str, str] = {}


def snapshot() -> Iterator[bytes]:
    frozen = entries.copy()  # the chunks are taken later, while the entries go on changing
    return (json.dumps(item).encode() + b"\n" for item in frozen.items())


async def restore(chunks: AsyncIterator[bytes]) -> None:
    received = b"".join([chunk async for chunk in chunks])  # raises if it does not come to its end
    entries.clear()
    entries.update(json.loads(line) for line in received.splitlines())


async def read_input(group: antiphon.Group, service: Service) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.strip():  # all members have to set a key in the same order: agreed
            await service.send(line.strip().encode(), order="agreed")
        else:
            print("entries", json.dumps(entries, sort_keys=True), flush=True)
    await group.leave()  # which ends the loop below


async def main(name: str, address: str, *contacts: str) -> None:
    life = time.time_ns() // 1_000_000  # each start is a new incarnation, higher than those before
    async with antiphon.Node(name, address=address, incarnation=life) as node:
        members = None if contacts else {f"{name}/{life}": address}
        group = await node.join("dictionary", contacts=contacts, members=members, policy="primary")
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


asyncio.run(main(*sys.argv[1:]))
