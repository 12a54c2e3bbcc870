"""What a campaign makes of a seed number: which run it is, and the script to run it by.

workload  the seed is
static    a group whose members stay, under a network that may do anything (draw.py)
churn    groups whose members come, go, crash and come back (churn_draw.py); every fourth a siege (sieges.py)
all       of every four seeds, one static, two churn, one siege
"""

from typing import Final, final

from antiphon.history.log import Log, MemoryLog
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.effects import Event
from antiphon.kernel.errors import UsageError
from antiphon.kernel.inputs import MAIN
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.kernel.policies import STATIC
from antiphon.simulator.churn_draw import draw_churn
from antiphon.simulator.draw import draw
from antiphon.simulator.run import GROUP, SimulationOptions, draw_faults, make_world
from antiphon.simulator.script import SAY, SLEEP, STOP, TELL, Deed, Gathering, Script
from antiphon.simulator.script_run import ScriptRun, finish_world, run_script
from antiphon.simulator.sieges import draw_siege
from antiphon.simulator.world import Observer
from antiphon.stacks.registry import DEFAULT, offer

STATIC_WORKLOAD: Final = "static"
CHURN: Final = "churn"
ALL: Final = "all"
WORKLOADS: Final = (STATIC_WORKLOAD, CHURN, ALL)

CHURN_SEED: Final = "churn"
SIEGE: Final = "siege"


def check_workload(workload: str) -> None:
    """Raise UsageError if there is no such workload."""
    if workload not in WORKLOADS:
        raise UsageError(f"there is no workload {workload!r}; choose one of: {', '.join(WORKLOADS)}")


def kind_of(seed: int, workload: str) -> str:
    """What this seed is: `static`, `churn` or `siege`."""
    if workload == STATIC_WORKLOAD or (workload == ALL and seed % 4 == 1):
        return STATIC_WORKLOAD
    return SIEGE if seed % 4 == 3 else CHURN_SEED


def draw_any_crowd(seed: int) -> Script:
    """What the workload `churn` makes of this seed."""
    return draw_siege(seed) if kind_of(seed, CHURN) == SIEGE else draw_churn(seed)


def on_stack(script: Script, stack: str) -> Script:
    """The same script for the groups of another stack, as far as that can do what it asks for."""
    script.stack = stack
    offered = offer(stack)
    if not offered.crosses_groups:
        script.groups = script.groups[:1]
        script.domain = MAIN
    names = ["", *[group.name for group in script.groups]]
    script.deeds = [deed for deed in script.deeds if deed.group in names and (offered.private or deed.what != TELL)]
    return script


def _draw_static(seed: int, stack: str) -> SimulationOptions:
    options = draw(seed)
    options.stack = stack
    return options


def run_seed(seed: int, workload: str, stack: str = DEFAULT) -> ScriptRun:
    """The run of this seed."""
    if kind_of(seed, workload) == STATIC_WORKLOAD:
        return run_options(_draw_static(seed, stack))
    return run_script(on_stack(draw_any_crowd(seed), stack))


def script_of_seed(seed: int, workload: str, stack: str = DEFAULT) -> Script:
    """The script of this seed. For a static seed it takes a run to know what its members say, some of it in answer."""
    if kind_of(seed, workload) == STATIC_WORKLOAD:
        return script_of_options(_draw_static(seed, stack))
    return on_stack(draw_any_crowd(seed), stack)


def run_options(options: SimulationOptions) -> ScriptRun:
    """One run with members that stay."""
    result = ScriptRun()
    result.groups = [GROUP]
    result.logs = _logs_of(options)
    logs: list[Log] = list(result.logs)
    world, heal_ns = make_world(options, logs)
    finish_world(world, heal_ns, result)
    return result


def _logs_of(options: SimulationOptions) -> list[MemoryLog]:
    return [MemoryLog(run=f"seed-{options.seed}", process=name) for name in options.process_names()]


@final
class _Scribe(Observer):
    """Takes down what is said, as deeds."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self.deeds: list[Deed] = []

    def event(self, member: int, now_ns: int, event: Event) -> None:
        pass

    def said(self, member: int, now_ns: int, payloads: list[bytes], level: int) -> None:
        sizes = [len(payload) for payload in payloads]
        self.deeds.append(Deed(SAY, now_ns, self._names[member], GROUP, LEVEL_NAMES[level], sizes))


def script_of_options(options: SimulationOptions) -> Script:
    """A run with members that stay, as a script. What was said in answer is said at the same time, unasked: nearly the
    same run, since it may come a moment later among all that happens at that very time."""
    names = options.process_names()
    layers, stops, heal_ns = draw_faults(options)
    script = Script(
        run=f"seed-{options.seed}",
        seed=options.seed,
        policy=STATIC,
        names=names,
        groups=[Gathering(GROUP, names, names)],
        layers=layers,
        options=options.options,
        domain=CausalityDomain(),
        calm_ns=heal_ns,
        stack=options.stack,
    )
    for stop in stops:
        if stop.whole:
            script.add(Deed(SLEEP, stop.from_ns, names[stop.member], until_ns=stop.until_ns))
        else:
            script.add(Deed(STOP, stop.from_ns, names[stop.member], GROUP, until_ns=stop.until_ns))
    scribe = _Scribe(names)
    logs: list[Log] = list(_logs_of(options))
    world, _ = make_world(options, logs, scribe)
    finish_world(world, heal_ns, ScriptRun())
    for deed in scribe.deeds:
        script.add(deed)
    return script
