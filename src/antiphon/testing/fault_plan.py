"""What a seed does to the network and to whole programs, as a list of single faults that a shorter run can leave out.

All faults are over at `heal_ns`. A delay is no fault: nothing arrives before it was sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from antiphon.faults import (
    BurstLoss,
    Corruption,
    Delay,
    Duplication,
    Fault,
    Flapping,
    Loss,
    Oversize,
    Partition,
    Reordering,
)
from antiphon.kernel.errors import UsageError
from antiphon.simulator.fault_schedule import ALL, LOSS, NONE, Until

MILLISECOND_NS: Final = 1_000_000
SECOND_NS: Final = 1_000_000_000
NETWORK: Final = "network"
"""All faults but those that end a program."""
CALLS_MAX: Final = 40
"""A kill strikes at one of so many calls of an adapter."""


@dataclass(frozen=True)
class KillProgram:
    """`program` is killed at the `calls`-th call of an adapter after `at_ns`, and started again later, or never."""

    program: str
    at_ns: int
    calls: int = 0
    power: bool = True
    restart_ns: int | None = None
    """After so long; None: never."""

    def __str__(self) -> str:
        what = "kill" if self.power else "power loss"
        again = "" if self.restart_ns is None else f", started again after {self.restart_ns / 1e9:.3f} s"
        return f"{what} of {self.program} at {self.at_ns / 1e9:.3f} s, at its call {self.calls} from then{again}"


@dataclass(frozen=True)
class PauseProgram:
    """`program` does nothing for a while."""

    program: str
    at_ns: int
    for_ns: int

    def __str__(self) -> str:
        return f"pause of {self.program} at {self.at_ns / 1e9:.3f} s for {self.for_ns / 1e9:.3f} s"


@dataclass(frozen=True)
class NetworkFault:
    """One layer under the network, until it heals."""

    layer: Fault

    @property
    def is_partition(self) -> bool:
        """Whether nothing at all passes between some."""
        return isinstance(self.layer, Partition)

    def __str__(self) -> str:
        layer = self.layer.layer if isinstance(self.layer, Until) else self.layer
        if isinstance(layer, Partition):
            sources, destinations = ", ".join(sorted(layer.sources)), ", ".join(sorted(layer.destinations))
            span = f"from {layer.from_ns / 1e9:.3f} s to {layer.until_ns / 1e9:.3f} s"
            return f"nothing passes from {sources or 'nobody'} to {destinations or 'nobody'} {span}"
        numbers = ", ".join(f"{name} {value:g}" for name, value in vars_of(layer).items())
        return f"{type(layer).__name__.lower()}: {numbers}"


def vars_of(layer: Fault) -> dict[str, float]:
    """The numbers of a layer; compiled layers have no `__dict__`."""
    names = ("probability", "length_ns", "lag_ns_max", "hold_ns_max", "least_ns", "spread_ns")
    return {name: getattr(layer, name) for name in names if hasattr(layer, name)}


SimulationFault = KillProgram | PauseProgram | NetworkFault


class FaultPlan:
    """A delay, and the faults of one run."""

    def __init__(
        self, delay: Delay, faults: Sequence[SimulationFault], heal_ns: int, numbers: Sequence[int] | None = None
    ) -> None:
        self.delay = delay
        self.faults = list(faults)
        self.heal_ns = heal_ns
        self.numbers = list(range(len(self.faults)) if numbers is None else numbers)
        """The number of each fault in the plan that was drawn."""

    def __repr__(self) -> str:
        return f"FaultPlan(faults={self.faults!r}, heal_ns={self.heal_ns}, numbers={self.numbers})"

    def only(self, numbers: Sequence[int]) -> "FaultPlan":
        """The same with these faults only."""
        kept = [place for place, number in enumerate(self.numbers) if number in numbers]
        return FaultPlan(
            self.delay, [self.faults[place] for place in kept], self.heal_ns, [self.numbers[place] for place in kept]
        )

    def among(self, names: Sequence[str]) -> "FaultPlan":
        """The same without what happens to other programs."""
        own = [
            number
            for number, fault in zip(self.numbers, self.faults, strict=True)
            if isinstance(fault, NetworkFault) or fault.program in names
        ]
        return self.only(own)

    def layers(self) -> list[Fault]:
        """New layers for the network: some of them remember what they did."""
        return [self.delay, *(fault.layer.fresh() for fault in self.faults if isinstance(fault, NetworkFault))]


def draw_plan(faults: "str | FaultPlan | Sequence[Fault]", names: Sequence[str], heal_ns: int, seed: int) -> FaultPlan:
    """The plan that `faults` stands for: drawn by the seed for `none`, `loss`, `network` or `all`; from layers; or a
    plan itself."""
    if isinstance(faults, FaultPlan):
        _check_names(faults, names)
        return faults
    random = Random(f"faults {seed}")
    delay = Delay(int(MILLISECOND_NS * (0.05 + random.random())), int(MILLISECOND_NS * 4 * random.random()))
    if not isinstance(faults, str):
        plan = FaultPlan(delay, [NetworkFault(Until(layer, heal_ns)) for layer in faults], heal_ns)
        _check_names(plan, names)
        return plan
    if faults not in (NONE, LOSS, NETWORK, ALL):
        raise UsageError(
            f"faults are 'none', 'loss', 'network', 'all', a list of layers or a FaultPlan, not {faults!r}"
        )
    drawn: list[SimulationFault] = []
    if faults != NONE:
        drawn.append(NetworkFault(Until(Loss(0.2 * random.random() ** 2), heal_ns)))
    if faults in (NETWORK, ALL):
        drawn += _draw_layers(heal_ns, random)
        drawn += _draw_partitions(names, heal_ns, random)
        drawn += _draw_kills(names, heal_ns, random) if faults == ALL else []
        drawn += _some(lambda: _draw_pause(names, heal_ns, random), 3, random)
        drawn += _draw_broken_links(names, heal_ns, random)
    return FaultPlan(delay, drawn, heal_ns)


def _check_names(plan: FaultPlan, names: Sequence[str]) -> None:
    """Refuse a fault of a host that is not there: it would strike nobody, and the run would show nothing."""
    for fault in plan.faults:
        unknown = _named(fault) - set(names)
        if unknown:
            raise UsageError(f"the fault `{fault}` names {min(unknown)!r}, but the programs are: {', '.join(names)}")


def _named(fault: SimulationFault) -> set[str]:
    if not isinstance(fault, NetworkFault):
        return {fault.program}
    layer = fault.layer.layer if isinstance(fault.layer, Until) else fault.layer
    if isinstance(layer, Partition | Oversize):
        return {*layer.sources, *layer.destinations}
    return {*layer.ones, *layer.others} if isinstance(layer, Flapping) else set()


def _some(make: Callable[[], SimulationFault], most: int, random: Random) -> list[SimulationFault]:
    return [make() for _ in range(int(random.random() * most))]


def _draw_layers(heal_ns: int, random: Random) -> list[SimulationFault]:
    layers: list[Fault] = []
    if random.random() < 0.4:
        layers.append(BurstLoss(0.01 * random.random(), int(50 * MILLISECOND_NS * random.random())))
    if random.random() < 0.4:
        layers.append(Duplication(0.2 * random.random() ** 2, 20 * MILLISECOND_NS))
    if random.random() < 0.5:
        layers.append(Reordering(0.3 * random.random() ** 2, int(30 * MILLISECOND_NS * random.random())))
    if random.random() < 0.3:
        layers.append(Corruption(0.02 * random.random()))
    return [NetworkFault(Until(layer, heal_ns)) for layer in layers]


def _draw_partitions(names: Sequence[str], heal_ns: int, random: Random) -> list[SimulationFault]:
    """Some on one side, the rest on the other; one way or both, for a while."""
    found: list[SimulationFault] = []
    for _ in range(int(random.random() * 3)):
        side = frozenset(name for name in names if random.random() < 0.5)
        other = frozenset(names) - side
        from_ns = int(random.random() * heal_ns)
        until_ns = from_ns + int(random.random() * (heal_ns - from_ns))
        found.append(NetworkFault(Partition(side, other, from_ns, until_ns)))
        if random.random() < 0.6:
            found.append(NetworkFault(Partition(other, side, from_ns, until_ns)))
    return found


def _draw_broken_links(names: Sequence[str], heal_ns: int, random: Random) -> list[SimulationFault]:
    """Two that do not hear each other, in one direction or both, while the others hear them: not transitive."""
    found: list[SimulationFault] = []
    if len(names) > 2 and random.random() < 0.3:
        one, other = (frozenset((name,)) for name in random.sample(list(names), 2))
        from_ns = int(random.random() * heal_ns)
        until_ns = from_ns + int(random.random() * (heal_ns - from_ns))
        found.append(NetworkFault(Partition(one, other, from_ns, until_ns)))
        if random.random() < 0.6:
            found.append(NetworkFault(Partition(other, one, from_ns, until_ns)))
    return found


def _draw_kills(names: Sequence[str], heal_ns: int, random: Random) -> list[SimulationFault]:
    """A minority is killed, once each; most are started again, some at once."""
    found: list[SimulationFault] = []
    victims = list(names)
    random.shuffle(victims)
    for name in victims[: int(random.random() * ((len(names) - 1) // 2 + 1))]:
        at_ns = int(random.random() * heal_ns * 0.8)
        restart_ns = int(random.random() ** 2 * 2 * SECOND_NS) if random.random() < 0.7 else None
        calls = int(random.random() * CALLS_MAX)
        found.append(KillProgram(name, at_ns, calls, power=random.random() < 0.8, restart_ns=restart_ns))
    return found


def _draw_pause(names: Sequence[str], heal_ns: int, random: Random) -> PauseProgram:
    at_ns = int(random.random() * heal_ns)
    return PauseProgram(names[int(random.random() * len(names))], at_ns, int(random.random() ** 2 * (heal_ns - at_ns)))
