"""What a campaign makes of a seed number: which kind of run it is, and the script to run it by.

workload  the seed is
static    a group whose members stay, under a network that may do anything (draw.py)
churn     groups whose members join, leave, crash and come back (churn_draw.py); every fourth adversarial
          (adversarial_draw.py)
links     as churn, with links that work one way only, are not transitive, or flap (link_draw.py)
all       of every four seeds, one static, two churn, one adversarial
"""

from random import Random
from typing import Final, final

from antiphon.kernel.effects import Delivered
from antiphon.kernel.errors import UsageError
from antiphon.kernel.inputs import MAIN
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.simulator.actions import BARRIER, CRASH, CUT_LINKS, SEND, SEND_PRIVATE, START, Action
from antiphon.simulator.adversarial_draw import draw_adversarial
from antiphon.simulator.churn_draw import draw_churn
from antiphon.simulator.draw import draw
from antiphon.simulator.link_draw import draw_links
from antiphon.simulator.run import GROUP, SimulationOptions, add_services, make_workload, static_script
from antiphon.simulator.script import Script
from antiphon.simulator.script_run import ScriptRun, run_script
from antiphon.simulator.subset_draw import draw_subsets
from antiphon.simulator.workload import Workload
from antiphon.simulator.world import World
from antiphon.stacks.registry import DEFAULT, offer

STATIC_WORKLOAD: Final = "static"
CHURN: Final = "churn"
ALL: Final = "all"
LINKS: Final = "links"
WORKLOADS: Final = (STATIC_WORKLOAD, CHURN, LINKS, ALL)

CHURN_SEED: Final = "churn"
ADVERSARIAL: Final = "adversarial"


def check_workload(workload: str) -> None:
    """Raise UsageError if there is no such workload."""
    if workload not in WORKLOADS:
        raise UsageError(f"there is no workload {workload!r}; choose one of: {', '.join(WORKLOADS)}")


def kind_of(seed: int, workload: str) -> str:
    """What this seed is: `static`, `churn`, `adversarial` or `links`."""
    if workload == LINKS:
        return LINKS
    if workload == STATIC_WORKLOAD or (workload == ALL and seed % 4 == 1):
        return STATIC_WORKLOAD
    return ADVERSARIAL if seed % 4 == 3 else CHURN_SEED


def draw_churn_workload(seed: int) -> Script:
    """What the workload `churn` makes of this seed."""
    return draw_adversarial(seed) if kind_of(seed, CHURN) == ADVERSARIAL else draw_churn(seed)


def on_stack(script: Script, stack: str) -> Script:
    """The same script for the groups of another stack, as far as that can do what it asks for."""
    script.stack = stack
    offered = offer(stack)
    if offered.service_role:
        script.domain = MAIN
        _draw_services(script)
    if not offered.crosses_groups:
        script.groups = script.groups[:1]
        script.domain = MAIN
    names = ["", *[group.name for group in script.groups]]
    script.actions = [
        action
        for action in script.actions
        if action.group in names
        and (offered.private or action.kind != SEND_PRIVATE)
        and (offered.barriers or action.kind != BARRIER)
    ]
    for action in script.actions:
        if action.level and action.level not in offered.levels:
            action.level = offered.levels[-1]
    if offered.labels:
        _draw_labels(script)
    elif offered.subsets:
        draw_subsets(script)
    return script


def _draw_labels(script: Script) -> None:
    """Some messages get labels that order them, some are in the order of a label's queue, and some go to fewer members
    than the view."""
    random = Random(f"{script.seed}/labels")
    members = script.groups[0].members
    for action in script.actions:
        if action.kind != SEND:
            continue
        draw = random.random()
        if draw < 0.25:
            action.level, action.label = "abcast", random.choice(("", "red", "blue"))
        elif draw < 0.5:
            moment = action.at_ns // (20 * MILLISECOND_NS)
            label = random.choice((f"clock={moment}", f"vector={moment},{random.randrange(3)}", "none=x"))
            action.level, action.label = "reliable", label
        if len(members) > 1 and random.random() < 0.3:
            action.destinations = tuple(random.sample(members, random.randint(1, len(members) - 1)))


def _draw_services(script: Script) -> None:
    """One to three processes hold the groups. Links break now and then. In a quarter of the seeds, a process that holds
    groups crashes and comes back."""
    random = Random(f"{script.seed}/service")
    add_services(script, random.choice((1, 2, 3)))
    for _ in range(random.choice((0, 3, 10))):
        at_ns = int(random.random() * script.heal_ns)
        script.add(Action(CUT_LINKS, at_ns, random.choice(script.processes)))
    if random.random() < 0.25:
        at_ns = int(random.random() * script.heal_ns)
        back_ns = at_ns + int(random.random() * 2 * script.options.silence_ns_min)
        service = random.choice(script.services)
        script.add(Action(CRASH, at_ns, service))
        script.add(Action(START, back_ns, service))
        script.heal_ns = max(script.heal_ns, back_ns)


def _draw_static(seed: int, stack: str) -> SimulationOptions:
    options = draw(seed)
    options.stack = stack
    offered = offer(stack).levels
    options.levels = tuple(level if level in offered else offered[-1] for level in options.levels)
    return options


def run_seed(seed: int, workload: str, stack: str = DEFAULT) -> ScriptRun:
    """The run of this seed."""
    if kind_of(seed, workload) == STATIC_WORKLOAD:
        options = _draw_static(seed, stack)
        return run_script(static_script(options), make_workload(options))
    return run_script(script_of_seed(seed, workload, stack))


def script_of_seed(seed: int, workload: str, stack: str = DEFAULT) -> Script:
    """The script of this seed. For a static seed it takes a run to know what its members send, some of it in answer."""
    if kind_of(seed, workload) == STATIC_WORKLOAD:
        return script_of_options(_draw_static(seed, stack))
    return on_stack(draw_links(seed) if workload == LINKS else draw_churn_workload(seed), stack)


@final
class _SendRecorder(Workload):
    """Another workload, and what is sent in it, as actions."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self.actions: list[Action] = []

    def begin(self, world: World) -> None:
        self._workload.begin(world)

    def act(self, world: World, host: int) -> None:
        self._workload.act(world, host)

    def delivered(self, world: World, host: int, event: Delivered) -> None:
        self._workload.delivered(world, host, event)

    def sent(self, world: World, host: int, payloads: list[bytes], level: int) -> None:
        sizes = [len(payload) for payload in payloads]
        self.actions.append(Action(SEND, world.now_ns, world.names[host], GROUP, LEVEL_NAMES[level], sizes))


def script_of_options(options: SimulationOptions) -> Script:
    """A run of a static group as a script alone. What was sent in answer is sent at the same time, unasked: nearly the
    same run, since it may come a moment later among all that happens at that very time."""
    script = static_script(options)
    recorder = _SendRecorder(make_workload(options))
    run_script(script, recorder)
    for action in recorder.actions:
        script.add(action)
    return script
