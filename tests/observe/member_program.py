"""A member with an observer and a page, in a process: `python -m tests.observe.member_program NAME RATE PLACE…`.

Each place is name=address of node=address of observer; NAME is one of them. It joins groups "quotes" and "orders",
sends RATE messages a second to each, and reads all. The groups are in causality domains of their own: in one domain,
each message would wait until the one before it, to the other group, is stable.
"""

import asyncio
import sys

from antiphon import CausalityDomain, Node, Options
from antiphon.observe import Observer


async def main(name: str, rate: int, places: list[str]) -> None:
    parts = [place.split("=") for place in places]
    members = {who: address for who, address, _ in parts}
    observers = {who: address for who, _, address in parts}
    options = Options.local()
    async with (
        Node(name, address=members[name], options=options, rejoin=True) as node,
        Observer(node, observers[name], page=True, groups=["quotes", "orders"]),
    ):
        quotes = await node.join("quotes", members=members)
        orders = await node.join("orders", members=members, domain=CausalityDomain(name="orders"))

        async def read() -> None:
            async for _ in node:
                pass

        async def send() -> None:
            while True:
                for _ in range(max(1, rate // 50)):
                    await quotes.send(b"x" * 100, order="agreed")
                    await orders.send(b"y" * 40)
                await asyncio.sleep(0.02)

        reading = asyncio.create_task(read())
        print("running", flush=True)
        await asyncio.gather(reading, send())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
