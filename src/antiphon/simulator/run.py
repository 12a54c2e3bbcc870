"""One simulated run, from options to logs. The same options give the same logs, byte for byte.

A run has three parts: the workload under the weather; healing, from which on the network only delays; and quiet, when
all is delivered and stable, or the patience is at its end. What is missing then shows in the audit as not settled.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, final

from antiphon.faults import Fault
from antiphon.history.log import Log
from antiphon.history.schema import QUIET
from antiphon.kernel.effects import Event
from antiphon.kernel.errors import UsageError
from antiphon.kernel.levels import LEVELS
from antiphon.kernel.options import Options
from antiphon.kernel.policies import STATIC
from antiphon.simulator.fault_schedule import FAULTS, Standstill, network_layers, standstills
from antiphon.simulator.recording import record
from antiphon.simulator.workloads.bursts import Bursts
from antiphon.simulator.workloads.chatter import Chatter
from antiphon.simulator.workloads.dialogue import Dialogue
from antiphon.simulator.workloads.plan import WorkloadPlan
from antiphon.simulator.world import Observer, Workload, World
from antiphon.stacks.registry import DEFAULT, check_level, offer

GROUP: Final = "simulated"
WORKLOADS: Final = ("chatter", "bursts", "dialogue")
MEMBERS_MAX: Final = 100

_MILLISECOND_NS: Final = 1_000_000
_PATIENCE_NS: Final = 60_000 * _MILLISECOND_NS


@final
class SimulationOptions:
    """What a run depends on. Raises UsageError for what cannot be run."""

    def __init__(
        self,
        *,
        members: int = 5,
        messages: int = 100,
        seed: int = 0,
        stack: str = DEFAULT,
        faults: str = "none",
        workload: str = "chatter",
        levels: Sequence[str] = ("causal",),
        size_max: int = 200,
        options: Options | None = None,
    ) -> None:
        _check(members, messages, size_max, stack, faults, workload, levels)
        self.members = members
        self.messages = messages
        self.seed = seed
        self.stack = stack
        self.faults = faults
        self.workload = workload
        self.levels = tuple(levels)
        self.size_max = size_max
        self.options = Options() if options is None else options

    def process_names(self) -> list[str]:
        return [f"p{number}" for number in range(1, self.members + 1)]


def _check(
    members: int, messages: int, size_max: int, stack: str, faults: str, workload: str, levels: Sequence[str]
) -> None:
    if not 1 <= members <= MEMBERS_MAX:
        raise UsageError(f"a simulated group has 1 to {MEMBERS_MAX} members, not {members}")
    if messages < 0 or size_max < 0:
        raise UsageError("the number and size of messages cannot be negative")
    offered = offer(stack)
    if faults not in FAULTS:
        raise UsageError(f"there are no faults {faults!r}; choose one of: {', '.join(FAULTS)}")
    if workload not in WORKLOADS:
        raise UsageError(f"there is no workload {workload!r}; choose one of: {', '.join(WORKLOADS)}")
    for level in levels:
        check_level(offered, level)
    if not levels:
        raise UsageError("a run needs at least one level")


@final
class SimulationResult:
    """The figures of a run."""

    __slots__ = ("datagram_bytes", "datagrams", "delivered", "quiet", "sent", "statistics", "time_ns")

    def __init__(self, world: World) -> None:
        self.sent = world.sent
        self.delivered = sum(world.delivered)
        self.datagrams = world.datagrams
        self.datagram_bytes = world.datagram_bytes
        self.time_ns = world.now_ns
        self.quiet = world.is_quiet()
        self.statistics: dict[str, int] = {}
        for engine in world.engines:
            for name, value in engine.statistics().items():
                self.statistics[name] = self.statistics.get(name, 0) + value


@final
class LogObserver(Observer):
    """Writes each process's events into its log."""

    def __init__(self, logs: Sequence[Log], stack: str) -> None:
        self._logs = list(logs)
        self._stack = stack

    def event(self, member: int, now_ns: int, event: Event) -> None:
        record(self._logs[member], now_ns, event, self._stack, STATIC)


def simulate(options: SimulationOptions, logs: Sequence[Log]) -> SimulationResult:
    """Run it; `logs` are those of `options.process_names()`, in this order. The caller closes them."""
    world, heal_ns = make_world(options, logs)
    world.begin()
    world.run_through(heal_ns)
    world.run(heal_ns + _PATIENCE_NS)
    for log in logs:
        log.stop(world.now_ns, QUIET)
    return SimulationResult(world)


def make_world(options: SimulationOptions, logs: Sequence[Log], observer: Observer | None = None) -> tuple[World, int]:
    """The world before anything has happened, and the time at which it heals. Without an observer the logs are it."""
    names = options.process_names()
    assert [log.process for log in logs] == names, "one log per process, in order"
    duration_ns = (10 + 2 * options.messages) * _MILLISECOND_NS
    layers, stops, heal_ns = draw_faults(options)
    levels = [LEVELS[level] for level in options.levels]
    plan = WorkloadPlan(options.messages, duration_ns, levels, options.size_max, Random(f"{options.seed}/workload"))
    workload: Workload
    if options.workload == "bursts":
        workload = Bursts(plan)
    elif options.workload == "dialogue":
        workload = Dialogue(plan)
    else:
        workload = Chatter(plan)
    world = World(
        GROUP,
        names,
        options.seed,
        layers,
        options.options,
        workload,
        observer or LogObserver(logs, options.stack),
        options.stack,
    )
    for stop in stops:
        if stop.whole:
            world.pause_process(stop.member, stop.from_ns, stop.until_ns)
        else:
            world.pause_application(stop.member, stop.from_ns, stop.until_ns)
    return world, heal_ns


def draw_faults(options: SimulationOptions) -> tuple[list[Fault], list[Standstill], int]:
    """What goes wrong in the run, and the time at which it heals."""
    heal_ns = (110 + 2 * options.messages) * _MILLISECOND_NS
    weather = Random(f"{options.seed}/weather")
    layers = network_layers(options.faults, options.process_names(), heal_ns, weather)
    return layers, standstills(options.faults, options.members, heal_ns, weather), heal_ns
