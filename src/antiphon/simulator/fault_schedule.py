"""Draws what goes wrong in the network, and when processes pause. All of it is over at `heal_ns`."""

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
from antiphon.simulator.actions import PAUSE, PAUSE_APPLICATION, Action

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

    def fresh(self) -> Fault:
        return Until(self.layer.fresh(), self.until_ns)


def network_layers(faults: str, names: list[str], heal_ns: int, random: Random) -> list[Fault]:
    """The layers for one run. There is always a delay, also after healing."""
    least_ns = int(_MILLISECOND_NS * (0.05 + random.random()))
    spread_ns = int(_MILLISECOND_NS * 4 * random.random())
    layers: list[Fault] = [Delay(least_ns, spread_ns)]
    if faults == NONE:
        return layers
    faulty: list[Fault] = [Loss(0.3 * random.random() ** 2)]
    if faults == ALL:
        faulty.append(BurstLoss(0.01 * random.random(), int(50 * _MILLISECOND_NS * random.random())))
        faulty.append(Duplication(0.2 * random.random() ** 2, 20 * _MILLISECOND_NS))
        faulty.append(Reordering(0.3 * random.random() ** 2, int(30 * _MILLISECOND_NS * random.random())))
        faulty.append(Corruption(0.02 * random.random()))
        for _ in range(int(random.random() * 4)):
            faulty.extend(_partition(names, heal_ns, random))
    layers.extend(Until(layer, heal_ns) for layer in faulty)
    return layers


def _partition(names: list[str], heal_ns: int, random: Random) -> list[Fault]:
    """A partition in two for a while; packets are lost in one direction or in both."""
    side = frozenset(name for name in names if random.random() < 0.5)
    other = frozenset(names) - side
    from_ns = int(random.random() * heal_ns)
    until_ns = from_ns + int(random.random() * (heal_ns - from_ns))
    cuts: list[Fault] = [Partition(side, other, from_ns, until_ns)]
    if random.random() < 0.5:
        cuts.append(Partition(other, side, from_ns, until_ns))
    return cuts


def draw_pauses(faults: str, processes: list[str], group: str, heal_ns: int, random: Random) -> list[Action]:
    """The pauses of one run: of a whole process, or of its application only."""
    if faults != ALL:
        return []
    result: list[Action] = []
    for _ in range(int(random.random() * 4)):
        from_ns = int(random.random() * heal_ns)
        until_ns = from_ns + int(random.random() * (heal_ns - from_ns))
        process = processes[int(random.random() * len(processes))]
        if random.random() < 0.5:
            result.append(Action(PAUSE, from_ns, process, until_ns=until_ns))
        else:
            result.append(Action(PAUSE_APPLICATION, from_ns, process, group, until_ns=until_ns))
    return result
