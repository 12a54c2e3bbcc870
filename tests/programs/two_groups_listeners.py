"""Two overlapping groups of one causality domain, by listeners that answer at once in the other group."""

import asyncio
from functools import partial

import antiphon
from antiphon.runtime.events import BatchEvent
from antiphon.testing import Host
from tests.programs.common import RULES, Play, draw, enter, names, node_at, overlapping, talk, until_ending


class Listening:
    """Answers some messages in another group."""

    def __init__(self, node: antiphon.Node) -> None:
        self.groups: list[antiphon.Group] = []
        self._node = node
        self._random = draw()
        self._excluded: antiphon.Excluded | None = None

    async def join(self, host: Host, name: str, founders: list[str], domain: antiphon.CausalityDomain) -> None:
        group = await enter(self._node, host, name, founders, domain=domain)
        self.groups.append(group)
        group.listen(self.hear)

    def hear(self, event: BatchEvent) -> None:
        if isinstance(event, antiphon.Excluded):
            self._excluded = event
        elif isinstance(event, antiphon.Batch) and self._random.random() < 0.2:
            for payload in event.payloads:
                group = self.groups[-1] if event.group == self.groups[0].name else self.groups[0]
                if not payload.startswith(b"answer") and not group.is_over:
                    group.send_now(b"answer to " + payload[:20], order="causal")

    async def talk(self, host: Host) -> None:
        while not self.groups:
            await asyncio.sleep(0.1)
        await talk(host, self.groups)

    async def wait_until_excluded(self) -> None:
        while self._excluded is None:
            await asyncio.sleep(0.1)
        raise antiphon.ExcludedError(self._excluded.group, self._node.process)


async def main(host: Host, rule: str) -> int:
    domain = antiphon.CausalityDomain(rule=rule)
    async with node_at(host) as node:
        listening = Listening(node)
        joins = [listening.join(host, name, founders, domain) for name, founders in overlapping(host).items()]
        await until_ending(host, listening.talk(host), listening.wait_until_excluded(), *joins)
    return host.starts


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed, 4, 5), partial(main, rule=RULES[seed // 7 % 2])))
