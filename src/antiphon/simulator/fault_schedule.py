"""Weather: what a seed makes of the network and the processes. All of it is over at `heal_ns`."""

from random import Random
from typing import Final, final

from antiphon.faults import (
    BurstLoss,
    Corruption,
    Delay,
    Duplication,
    Fault,
    Flight,
    Loss,
    Partition,
    Reordering,
)

NONE: Final = "none"
LOSS: Final = "loss"
ALL: Final = "all"
FAULTS: Final = (NONE, LOSS, ALL)

_MILLISECOND_NS: Final = 1_000_000


@final
class Until(Fault):
    """Another layer, until `until_ns`."""

    def __init__(self, layer: Fault, until_ns: int) -> None:
        self.layer = layer
        self.until_ns = until_ns

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        if now_ns >= self.until_ns:
            return flights
        return self.layer.apply(random, now_ns, source, destination, flights)


def network_layers(faults: str, names: list[str], heal_ns: int, random: Random) -> list[Fault]:
    """The layers for one run. A delay is always there: nothing arrives before it was sent."""
    least_ns = int(_MILLISECOND_NS * (0.05 + random.random()))
    spread_ns = int(_MILLISECOND_NS * 4 * random.random())
    layers: list[Fault] = [Delay(least_ns, spread_ns)]
    if faults == NONE:
        return layers
    bad: list[Fault] = [Loss(0.3 * random.random() ** 2)]
    if faults == ALL:
        bad.append(BurstLoss(0.01 * random.random(), int(50 * _MILLISECOND_NS * random.random())))
        bad.append(Duplication(0.2 * random.random() ** 2, 20 * _MILLISECOND_NS))
        bad.append(Reordering(0.3 * random.random() ** 2, int(30 * _MILLISECOND_NS * random.random())))
        bad.append(Corruption(0.02 * random.random()))
        for _ in range(int(random.random() * 4)):
            bad.extend(_partition(names, heal_ns, random))
    layers.extend(Until(layer, heal_ns) for layer in bad)
    return layers


def _partition(names: list[str], heal_ns: int, random: Random) -> list[Fault]:
    """Some on one side, the rest on the other; one way or both, for a while."""
    side = frozenset(name for name in names if random.random() < 0.5)
    other = frozenset(names) - side
    from_ns = int(random.random() * heal_ns)
    until_ns = from_ns + int(random.random() * (heal_ns - from_ns))
    cuts: list[Fault] = [Partition(side, other, from_ns, until_ns)]
    if random.random() < 0.5:
        cuts.append(Partition(other, side, from_ns, until_ns))
    return cuts


@final
class Standstill:
    """A member stands still for a while: its application only, or the whole process."""

    __slots__ = ("from_ns", "member", "until_ns", "whole")

    def __init__(self, member: int, from_ns: int, until_ns: int, whole: bool) -> None:
        self.member = member
        self.from_ns = from_ns
        self.until_ns = until_ns
        self.whole = whole


def standstills(faults: str, members: int, heal_ns: int, random: Random) -> list[Standstill]:
    """The standstills of one run."""
    if faults != ALL:
        return []
    result: list[Standstill] = []
    for _ in range(int(random.random() * 4)):
        from_ns = int(random.random() * heal_ns)
        until_ns = from_ns + int(random.random() * (heal_ns - from_ns))
        result.append(Standstill(int(random.random() * members), from_ns, until_ns, random.random() < 0.5))
    return result
