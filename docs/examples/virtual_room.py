"""A shared room: users walk through overlapping areas, and see what happens in those that they can see.

    antiphon sequencer --address 127.0.0.1:7400
    python virtual_room.py 127.0.0.1:7400 alice          # one for each user

Each area is a group; a user is in those within sight. Type a number to walk there, or words to say something.
"""

import asyncio
import contextlib
import sys

import antiphon
from antiphon.toolkit import input_lines

WIDTH, SIGHT = 10, 4  # of an area; how far users see beyond where they stand


def area_at(x: int) -> str:
    return f"area-{x // WIDTH}"


def in_sight(x: int) -> set[str]:
    return {area_at(x - SIGHT), area_at(x), area_at(x + SIGHT)}


class User:
    def __init__(self, client: antiphon.Connection) -> None:
        self.client, self.x, self.seen = client, 0, []  # seen: all that happened in sight, in order

    async def walk(self, x: int) -> None:
        here, there, before, self.x = set(self.client.groups), in_sight(x), self.x, x
        await self.client.subscribe(*sorted(there - here))
        for area in sorted({area_at(before), area_at(x)} & set(self.client.groups)):
            await self.client.publish(area, f"{self.client.process.name} is at {x}".encode())
        await self.client.unsubscribe(*sorted(here - there))

    async def say(self, words: str) -> None:
        await self.client.publish(area_at(self.x), f"{self.client.process.name}: {words}".encode())

    async def look(self) -> None:
        async for event in self.client:
            if isinstance(event, antiphon.Message):
                self.seen.append((event.group, event.payload.decode()))
                print(*self.seen[-1], sep=": ", flush=True)


async def main(address: str, name: str) -> None:
    async with await antiphon.connect(address, name=name) as client:
        user = User(client)
        looking = asyncio.create_task(user.look())
        await user.walk(user.x)
        async for line in input_lines():
            await (user.walk(int(line)) if line.lstrip("-").isdecimal() else user.say(line))
        looking.cancel()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
