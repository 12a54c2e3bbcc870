"""One member of the demo: `python -m antiphon.runtime.demo_worker`, spoken to by `antiphon.runtime.demo`."""

import asyncio

from antiphon.faults import Duplication, Fault, Loss, Reordering
from antiphon.kernel.errors import AntiphonError
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.runtime.events import Batch
from antiphon.runtime.group import Group
from antiphon.runtime.node import Node
from antiphon.runtime.workers import Object, Parent

GROUP = "demo"
BURST = 8
"""Messages sent in one go."""
LEAD = 256
"""No member sends further ahead of the slowest of the others than this: so what one sends depends, again and again, on
what it has just delivered from all, and the messages form one deep causal web instead of a few long columns."""
REPORT_S = 0.1
LINGER_S = 0.5
"""Short: the parent tells to close when nothing is outstanding, or when waiting has no point."""
HOLD_NS_MAX = 5 * MILLISECOND_NS


class DemoMember:
    """What one member of the demo does: sends its share, delivers everybody's, reports."""

    def __init__(self, group: Group, name: str, settings: Object) -> None:
        self._group = group
        self._name = name
        self._messages: int = settings["messages"]
        self._size: int = settings["size"]
        self._delivered_from = {member.name: 0 for member in group.view.members}
        self._progress = asyncio.Event()

    async def send(self) -> None:
        for first in range(1, self._messages + 1, BURST):
            while first > min(self._delivered_from.values()) + LEAD:
                self._progress.clear()
                await self._progress.wait()
            last = min(first + BURST - 1, self._messages)
            payloads = [f"{self._name}#{number}".encode().ljust(self._size, b".") for number in range(first, last + 1)]
            await self._group.send_many(payloads, order="causal")
            await asyncio.sleep(0)  # let deliveries come in between

    async def read(self) -> None:
        async for event in self._group.batches():
            if isinstance(event, Batch):
                self._delivered_from[event.sender.name] += len(event.payloads)
                self._progress.set()

    async def report(self, parent: Parent) -> None:
        while True:
            parent.tell("progress", delivered=sum(self._delivered_from.values()), outstanding=self._group.outstanding())
            await asyncio.sleep(REPORT_S)


def network(settings: Object) -> list[Fault]:
    """The bad network that was asked for."""
    return [
        Loss(settings["loss"]),
        Duplication(settings["duplication"], HOLD_NS_MAX),
        Reordering(settings["reordering"], HOLD_NS_MAX),
    ]


async def work(parent: Parent) -> None:
    settings = await parent.expect("settings")
    node = Node(
        settings["name"],
        address="127.0.0.1:0",
        incarnation=1,
        history=settings["history"],
        run=settings["run"],
        faults=network(settings),
        seed=settings["seed"],
        linger_s=LINGER_S,
    )
    async with node:
        parent.tell("bound", address=node.address)
        group = await node.join(GROUP, members=(await parent.expect("members"))["members"], policy="static")
        parent.tell("joined")
        await parent.expect("go")
        member = DemoMember(group, settings["name"], settings)
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(member.send())
            tasks.create_task(member.read())
            reporting = tasks.create_task(member.report(parent))
            closing = await parent.expect("close")
            reporting.cancel()
            sending.cancel()  # done long ago, unless the parent lost its patience
            await node.close(quiet=closing["quiet"])
        parent.tell("closed", statistics=node.statistics())


async def main() -> None:
    parent = await Parent.connect()
    try:
        await work(parent)
    except* AntiphonError as group:
        parent.tell("error", problem=str(group.exceptions[0]))


if __name__ == "__main__":
    asyncio.run(main())
