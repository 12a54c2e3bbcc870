"""Overlapping groups of one causality domain, by listeners that answer at once in another group.

Some attach their listeners at once, and are held to the order between groups. Others set up their state first, and
attach them late: messages wait in one group while the listener of another is told of later ones, so that only the order
within each group is promised, and the history says so.
"""

import asyncio
from functools import partial

import antiphon
from antiphon.history.schema import READS_APART
from antiphon.runtime.events import BatchEvent
from antiphon.testing import Host, Result
from tests.programs.common import RETIRED, RULES, Play, draw, enter, names, node_at, overlapping, talk, until_ending

LATE_S = 1.5


class Listening:
    """Answers some messages in another group."""

    def __init__(self, node: antiphon.Node, late: bool) -> None:
        self.groups: list[antiphon.Group] = []
        self._node = node
        self._late = late
        self._random = draw()
        self._excluded: antiphon.Excluded | None = None

    async def join(self, host: Host, name: str, founders: list[str], domain: antiphon.CausalityDomain) -> None:
        group = await enter(self._node, host, name, founders, domain=domain)
        self.groups.append(group)
        if self._late:
            await asyncio.sleep(self._random.random() * LATE_S)
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


async def main(host: Host, rule: str, late: bool) -> int:
    domain = antiphon.CausalityDomain(rule=rule)
    async with node_at(host) as node:
        listening = Listening(node, late)
        joins = [listening.join(host, name, founders, domain) for name, founders in overlapping(host).items()]
        await until_ending(host, listening.talk(host), listening.wait_until_excluded(), *joins)
    return host.starts


def held_to_order(result: Result) -> None:
    """Founders that attach their listeners at once are held to the order between groups."""
    for rows in result.rows:
        noted = any(row.kind == "note" and row.label == READS_APART for row in rows)
        assert not noted or rows[0].incarnation > 1, f"{rows[0].process} was not held to the order between groups"


def play(seed: int) -> Play:
    late = seed // 3 % 2 == 1
    main_of = partial(main, rule=RULES[seed // 7 % len(RULES)], late=late)
    mains = dict.fromkeys(names(seed, 4, 5), main_of)
    return Play(mains, None if late else held_to_order, may_be_unknown=RETIRED)
