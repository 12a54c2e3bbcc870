"""A group whose members are fixed: everything reaches everybody in the end.

Nobody is killed: a static group waits for a dead member for ever, by its policy.
"""

from antiphon.testing import Host, Result
from tests.programs.common import LEVELS, Play, names, node_at, read, talk, until_ending


async def main(host: Host) -> int:
    seen: list[bytes] = []
    async with node_at(host) as node:
        group = await node.join("group", members=host.members(), policy="static")
        await until_ending(host, talk(host, [group], levels=LEVELS), read(node, group, seen))
    return len(seen)


def all_of_it(result: Result) -> None:
    assert set(result.returned.values()) == {16 * len(result.programs)}, f"{result.returned}"


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), main), all_of_it, "network")
