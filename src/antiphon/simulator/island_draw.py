"""What a run draws for a group whose views part and merge: partitions into up to four components, one after the other
or one into the other, and messages at all levels all the while."""

from random import Random
from typing import Final

from antiphon.faults import Fault, Partition
from antiphon.kernel.levels import LEVEL_NAMES, SAFE
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.simulator.actions import SEND, Action

ISLANDS_NS: Final = 12_000 * MILLISECOND_NS
"""How long there are partitions."""
_ISLANDS_MAX: Final = 4
_LEVELS: Final = LEVEL_NAMES[: SAFE + 1]
_SENDS: Final = 60


def island_layers(names: list[str], random: Random) -> list[Fault]:
    """Partitions in both directions, from one to four; long enough for each component to go on by itself, or not."""
    layers: list[Fault] = []
    for _ in range(1 + int(random.random() * 4)):
        count = 2 + int(random.random() * (_ISLANDS_MAX - 1))
        place = {name: int(random.random() * count) for name in names}
        from_ns = int(random.random() * 0.7 * ISLANDS_NS)
        until_ns = min(ISLANDS_NS, from_ns + int((0.1 + random.random()) * 0.4 * ISLANDS_NS))
        for island in range(count):
            here = frozenset([name for name in names if place[name] == island])
            layers.append(Partition(here, frozenset(names) - here, from_ns, until_ns))
    return layers


def island_sends(names: list[str], group: str, random: Random) -> list[Action]:
    """Messages at all levels, from all, all the while."""
    result: list[Action] = []
    for _ in range(_SENDS):
        level = _LEVELS[int(random.random() * len(_LEVELS))]
        sizes = [int(random.random() * 2000) for _ in range(1 + int(random.random() * 3))]
        name = names[int(random.random() * len(names))]
        result.append(Action(SEND, int(random.random() * ISLANDS_NS), name, group, level, sizes))
    return result
