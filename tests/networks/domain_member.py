"""One member of a group that parts and merges, on a host of its own (tests/networks/parting.py).

    python -m tests.networks.domain_member SETTINGS

As tests/networks/member.py, but on the stack `domain` under the policy `partitionable`, at all levels, with a share of
the messages for chosen members; `members` names all, `multicast` the group address to send by, if any. When it halts it
tells what its node has counted.
"""

import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import IO, Any, Final

from antiphon import Batch, Group, Node, Options, Order, UsageError
from tests.networks.member import LINGER_S, PAYLOAD, JournalingNode, Member, commands, keys_of

GROUP: Final = "trial"
LEVELS: Final[tuple[Order, ...]] = ("causal", "agreed", "fifo", "safe", "reliable", "agreed")
BEAT_S: Final = 0.02
"""A sender wakes up so often and sends what is due by then."""
CHOSEN_SHARE: Final = 0.2
"""The share of wake-ups whose messages are for chosen members."""


class PartingMember(Member):
    """Sends to all, or to some, at all levels."""

    def __init__(self, node: Node, group: Group, events: IO[str]) -> None:
        super().__init__(node, {GROUP: group}, events)
        self._group = group
        self._random = Random(str(node.process))
        self._last_s = time.monotonic()
        self._quiet_s = 0.0

    def note(self, batch: Batch) -> None:
        super().note(batch)
        now_s = time.monotonic()
        self._quiet_s = max(self._quiet_s, now_s - self._last_s)
        self._last_s = now_s

    def tell_quiet(self) -> None:
        """The longest time without a delivery since this was last asked."""
        self.tell("quiet", seconds=max(self._quiet_s, time.monotonic() - self._last_s))
        self._quiet_s, self._last_s = 0.0, time.monotonic()

    async def send(self) -> None:
        loop = asyncio.get_running_loop()
        owed, turn, before_s = 0.0, 0, loop.time()
        while True:
            await asyncio.sleep(BEAT_S)
            now_s = loop.time()
            owed = min(owed + (now_s - before_s) * self.rate, self.rate)  # never more than a second's worth at once
            before_s = now_s
            if owed >= 1:
                await self._send_some([PAYLOAD] * int(owed), LEVELS[turn % len(LEVELS)])
                owed -= int(owed)
                turn += 1

    async def _send_some(self, payloads: list[bytes], order: Order) -> None:
        members = self._group.view.members
        if self._random.random() >= CHOSEN_SHARE:
            await self._group.send_many(payloads, order=order)
            return
        chosen = self._random.sample(members, self._random.randint(1, len(members)))
        for payload in payloads:
            with suppress(UsageError):  # one of them may have gone since
                await self._group.send(payload, order=order, to=chosen)


def make_node(settings: dict[str, Any]) -> Node:
    return JournalingNode(
        settings["name"],
        address=settings["address"],
        incarnation=settings["incarnation"],
        options=Options(**settings["options"]),
        history=settings["journals"],
        run=settings["run"],
        linger_s=LINGER_S,
        multicast=settings["multicast"] or None,
        keyring=keys_of(settings["run"]),
    )


async def take_part(settings: dict[str, Any], events: IO[str]) -> None:
    orders = await commands()
    async with make_node(settings) as node:
        group = await node.join(GROUP, members=settings["members"], policy="partitionable", stack="domain")
        member = PartingMember(node, group, events)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(member.read())
            sending = tasks.create_task(member.send())
            while line := await orders.readline():
                order = json.loads(line)
                if "rate" in order:
                    member.rate = order["rate"]
                elif "quiet" in order:
                    member.tell_quiet()
                elif "settle" in order:
                    await member.settle()
                else:
                    break
            sending.cancel()
            member.tell("counted", statistics=node.statistics())
            await member.halt()


async def main() -> None:
    settings: dict[str, Any] = json.loads(sys.argv[1])
    with Path(settings["events"]).open("a") as events:
        await take_part(settings, events)


if __name__ == "__main__":
    asyncio.run(main())
