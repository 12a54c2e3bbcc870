"""One simulated run of a group whose members stay, from options to logs. The same options give the same logs.

A run has three parts: the workload under faults; healing, from which on the network only delays; and quiet, when all is
delivered and stable, or the time for it is over. What is missing then shows in the audit as not settled.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, final

from antiphon.history.log import Log, MemoryLog
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import UsageError
from antiphon.kernel.levels import LEVELS
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import PARTITIONABLE, PRIMARY, SITES, STATIC
from antiphon.simulator.fault_schedule import ALL, FAULTS, draw_pauses, network_layers
from antiphon.simulator.island_draw import ISLANDS_NS, island_layers, island_sends
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.script_run import play
from antiphon.simulator.subset_draw import draw_subsets
from antiphon.simulator.workload import Workload
from antiphon.simulator.workloads.bursts import Bursts
from antiphon.simulator.workloads.chatter import Chatter
from antiphon.simulator.workloads.dialogue import Dialogue
from antiphon.simulator.workloads.plan import WorkloadPlan
from antiphon.simulator.world import World
from antiphon.stacks.registry import DEFAULT, check_level, offer

GROUP: Final = "simulated"
SERVICE: Final = "service"
"""The process that holds the groups, on a stack whose members do not found them; or a site, of a policy with sites."""
SITES_COUNT: Final = 3
"""Members are attached to these in turn."""
WORKLOADS: Final = ("chatter", "bursts", "dialogue")
MEMBERS_MAX: Final = 100


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
        policy: str = STATIC,
        faults: str = "none",
        workload: str = "chatter",
        levels: Sequence[str] = ("causal",),
        size_max: int = 200,
        options: Options | None = None,
    ) -> None:
        _check(members, messages, size_max, stack, faults, workload, levels)
        served = bool(offer(stack).service_role) and policy == STATIC  # its own policy serves those that stay
        if not served and (policy not in (STATIC, PARTITIONABLE, SITES) or policy not in offer(stack).policies):
            raise UsageError(
                f"such runs of stack {stack!r} have no policy {policy!r}: it is `static`, or `partitionable` or "
                "`sites` on stacks that offer them; `antiphon campaign` runs groups whose members come and go"
            )
        self.members = members
        self.messages = messages
        self.seed = seed
        self.stack = stack
        self.policy = policy
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
        self.datagrams = world.network.datagrams
        self.datagram_bytes = world.network.datagram_bytes
        self.time_ns = world.now_ns
        self.quiet = world.is_quiet()
        self.statistics: dict[str, int] = {}
        for incarnation in world.running:
            assert incarnation is not None, "nobody fails in a static group"
            for name, value in incarnation.engine.statistics().items():
                self.statistics[name] = self.statistics.get(name, 0) + value


@final
class _GivenLogs:
    """Logs that somebody else has made, by process."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self._logs = {log.process: log for log in logs}

    def make(self, process: str, incarnation: int) -> Log:
        if process.startswith(SERVICE):
            return MemoryLog(run="service", process=process, incarnation=incarnation)
        assert incarnation == 1, "nobody fails in a static group"
        return self._logs[process]


def simulate(options: SimulationOptions, logs: Sequence[Log]) -> SimulationResult:
    """Run it; `logs` are those of `options.process_names()`, in this order. The caller closes them."""
    assert [log.process for log in logs] == options.process_names(), "one log per process, in order"
    script = static_script(options)
    world = World(script, _GivenLogs(logs).make, make_workload(options))
    play(world, script)
    world.end()
    return SimulationResult(world)


def static_script(options: SimulationOptions) -> Script:
    """The group and what goes wrong in the run. What its members send is the workload's affair."""
    heal_ns = (110 + 2 * options.messages) * MILLISECOND_NS
    random = Random(f"{options.seed}/weather")  # this text is part of what a seed means
    processes = options.process_names()
    layers = network_layers(options.faults, processes, heal_ns, random)
    parts = options.policy == PARTITIONABLE and options.faults == ALL
    if parts:
        heal_ns = max(heal_ns, ISLANDS_NS)
        layers += island_layers(processes, random)
    script = Script(
        run=f"seed-{options.seed}",
        seed=options.seed,
        policy=options.policy,
        processes=processes,
        groups=[ScriptedGroup(GROUP, processes, processes)],
        layers=layers,
        options=options.options,
        domain=CausalityDomain(),
        heal_ns=heal_ns,
        stack=options.stack,
    )
    if options.policy == SITES:
        add_services(script, SITES_COUNT)
    elif offer(options.stack).service_role:
        script.policy = PRIMARY
        add_services(script, 1 + options.seed % 3 if options.faults == ALL else 1)
    for pause in draw_pauses(options.faults, processes, GROUP, heal_ns, random):
        script.add(pause)
    if parts:
        for send in island_sends(processes, GROUP, random):
            script.add(send)
        if offer(options.stack).subsets:
            draw_subsets(script)
    return script


def add_services(script: Script, count: int = 1) -> None:
    """Have so many processes of their own hold the groups. Whatever cuts the network in two leaves the first of them on
    the side of those that are named first, and the others in turn on either side."""
    script.services = [SERVICE if number == 1 else f"{SERVICE}{number}" for number in range(1, count + 1)]
    for place, service in enumerate(script.services):
        for layer in script.layers:
            if layer["kind"] == "partition" and layer["sources"]:
                is_first = layer["sources"][0] == script.processes[0]
                side = "sources" if is_first == (place % 2 == 0) else "destinations"
                layer[side] = [*layer[side], service]
        script.processes.append(service)


def make_workload(options: SimulationOptions) -> Workload:
    """What the members send, and when."""
    duration_ns = (10 + 2 * options.messages) * MILLISECOND_NS
    levels = [LEVELS[level] for level in options.levels]
    plan = WorkloadPlan(options.messages, duration_ns, levels, options.size_max, Random(f"{options.seed}/workload"))
    if options.workload == "bursts":
        return Bursts(plan)
    if options.workload == "dialogue":
        return Dialogue(plan)
    return Chatter(plan)
