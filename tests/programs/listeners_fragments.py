"""Two groups of one causality domain with the same members, by listeners: long messages in fragments at all levels, and
messages to one member, oneself among them, in between."""

import asyncio
from functools import partial
from random import Random

import antiphon
from antiphon.runtime.events import BatchEvent
from antiphon.testing import Host
from tests.programs.common import (
    HEALED_S,
    LEVELS,
    LONG_BYTES,
    RETIRED,
    RULES,
    Play,
    draw,
    enter,
    names,
    node_at,
    until_ending,
)

GROUPS = ("one", "two")


class Listening:
    """Sends at random, and answers some messages, to all or to one member, in the same group or in the other."""

    def __init__(self, node: antiphon.Node) -> None:
        self.groups: dict[str, antiphon.Group] = {}
        self.excluded: antiphon.Excluded | None = None
        self._node = node
        self._random = draw()
        self._number = 0

    async def join(self, host: Host, name: str, domain: antiphon.CausalityDomain) -> None:
        group = await enter(self._node, host, name, domain=domain)
        self.groups[name] = group
        group.listen(self.hear)

    def hear(self, event: BatchEvent) -> None:
        if isinstance(event, antiphon.Excluded):
            self.excluded = event
            return
        chance = self._random.random()
        if isinstance(event, antiphon.Batch) and chance < 0.25 and not event.payloads[0].startswith(b"answer"):
            self.send_now(b"answer ")

    def send_now(self, head: bytes) -> None:
        random = self._random
        group = self.groups[GROUPS[int(random.random() * 2)]] if len(self.groups) == 2 else None
        if group is None or group.is_over:
            return
        payload = self.make_payload(head)
        chance = random.random()
        members = group.view.members
        if chance < 0.25:
            group.send_now(payload, to=self._node.process)
        elif chance < 0.4:
            group.send_now(payload, to=members[int(random.random() * len(members))])
        else:
            group.send_now(payload, order=LEVELS[int(random.random() * len(LEVELS))])

    def make_payload(self, head: bytes) -> bytes:
        self._number += 1
        return head + b"%d" % self._number + bytes(_length(self._random))

    async def talk(self) -> None:
        while len(self.groups) < 2:
            await asyncio.sleep(0.05)
        for _ in range(25):
            for _ in range(1 + int(self._random.random() * 3)):
                self.send_now(b"said ")
            await asyncio.sleep(self._random.random() * 0.4)
        await asyncio.sleep(max(0.0, HEALED_S - asyncio.get_running_loop().time()))
        for group in self.groups.values():
            await group.send(self.make_payload(b"healed "))

    async def wait_until_excluded(self) -> None:
        while self.excluded is None:
            await asyncio.sleep(0.1)
        raise antiphon.ExcludedError(self.excluded.group, self._node.process)


def _length(random: Random) -> int:
    return int(LONG_BYTES * (0.3 + 2 * random.random())) if random.random() < 0.35 else 0


async def main(host: Host, rule: str) -> int:
    domain = antiphon.CausalityDomain(rule=rule)
    async with node_at(host) as node:
        listening = Listening(node)
        joins = [listening.join(host, name, domain) for name in GROUPS]
        await until_ending(host, listening.talk(), listening.wait_until_excluded(), *joins)
    return host.starts


def play(seed: int) -> Play:
    mains = dict.fromkeys(names(seed, 2, 4), partial(main, rule=RULES[seed // 3 % len(RULES)]))
    return Play(mains, may_be_unknown=RETIRED)
