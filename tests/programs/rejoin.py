"""Nodes that come back by themselves, as the next incarnation, when the others went on without them."""

import antiphon
from antiphon.testing import Host
from tests.programs.common import Play, names, recover_stalled, talk, until_ending


async def main(host: Host) -> int:
    async with antiphon.Node(host.name, address=host.at(), incarnation=1000 * host.starts, rejoin=True) as node:
        founders = {f"{name}/1000": address for name, address in host.members().items()}
        if host.starts == 1:
            group = await node.join("group", members=founders, policy="primary")
        else:
            others = [address for address in host.all_at() if address != host.at()]
            group = await node.join("group", contacts=others, timeout_s=60)
        await until_ending(host, keep_talking(host, group), read(group), recover_stalled(node))
    return host.starts


async def keep_talking(host: Host, group: antiphon.Group) -> None:
    await talk(host, [group], levels=("causal", "agreed", "safe"))


async def read(group: antiphon.Group) -> None:
    async for _ in group:
        pass


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), main))
