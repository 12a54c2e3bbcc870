"""One process of a group that parts and merges, on a host of its own: sends all the time, tells each view it gets into,
and when a line comes in, what it has counted.

    python -m tests.networks.domain_member NAME ADDRESS MEMBERS MULTICAST RATE
"""

import asyncio
import json
import sys
import time

import antiphon


async def main(name: str, address: str, members: dict[str, str], multicast: str | None, rate: float) -> None:
    handed = 0
    async with antiphon.Node(name, address=address, multicast=multicast) as node:
        group = await node.join("g", members=members, policy="partitionable", stack="domain")

        async def read() -> None:
            nonlocal handed
            async for event in group:
                if isinstance(event, antiphon.ViewChange):
                    names = sorted(process.name for process in event.view.members)
                    tell(view=event.view.id, members=names, time_s=time.monotonic())
                elif isinstance(event, antiphon.Message):
                    handed += 1

        async def send() -> None:
            number = 0
            while True:
                number += 1
                await group.send(b"%d" % number, order="agreed" if number % 2 else "causal")
                await asyncio.sleep(1 / rate)

        working = [asyncio.create_task(read()), asyncio.create_task(send())]
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        tell(handed=handed, statistics=node.statistics())
        for task in working:
            task.cancel()


def tell(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4] or None, float(sys.argv[5])))
