"""From a script to what it leaves behind: logs, figures, and what the run itself can tell that no history can.

Two things are of the run and not of the history. After the last fault every group must come to *rest*: all that live in
it in one view, and all that was sent stable. And no input may make the engine fail: where it does, that is the
*mistake*, and the logs end there.

A group that has lost its majority is excused from rest, since no view can follow its last one, and so is a group that
causal order makes wait for it.
"""

from typing import Final, final

from antiphon.history.log import Log, MemoryLog
from antiphon.history.schema import QUIET
from antiphon.kernel.levels import CAUSAL, LEVELS
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.policies import STATIC
from antiphon.simulator.churn_world import Charter, ChurnWorld, CrashTrigger
from antiphon.simulator.run import LogObserver
from antiphon.simulator.script import (
    ACCIDENT,
    AMBUSH,
    BARRIER,
    CRASH,
    LEAVE,
    PACKETS,
    SAY,
    SLEEP,
    START,
    STOP,
    TELL,
    Deed,
    Script,
)
from antiphon.simulator.world import Workload, World

REST_NS_MAX: Final = 60_000 * MILLISECOND_NS
"""Virtual time that the groups have to come to rest in."""

_PRIVATE: Final = b"for you alone"
_BARRIER: Final = b"so far"
_FILLER: Final = bytes(range(256)) * 256


@final
class ScriptRun:
    """What one run leaves behind."""

    __slots__ = (
        "coverage", "excused", "failures", "groups", "logs", "mistake", "resilience", "restless", "time_ns"
    )  # fmt: skip

    def __init__(self) -> None:
        self.logs: list[MemoryLog] = []
        self.groups: list[str] = []
        self.excused: list[str] = []
        """Groups that cannot come to rest."""
        self.restless: list[str] = []
        """Groups that could have, and did not."""
        self.mistake = ""
        """How the engine failed, if it did."""
        self.failures = 0
        """Crashes and exclusions."""
        self.resilience = 0
        """How many failures at once the causality domain was told to expect; 0: any number."""
        self.time_ns = 0
        """Virtual."""
        self.coverage: dict[str, int] = {}


def run_script(script: Script) -> ScriptRun:
    """Run it; the same script leaves the same logs, byte for byte."""
    return _run_world(script) if script.policy == STATIC else _run_crowd(script)


def failure(error: Exception) -> str:
    """How the engine failed, in words."""
    return f"{type(error).__name__}: {error}"


# ---- members that come and go ----------------------------------------------------------------------------------------


@final
class _LogMaker:
    def __init__(self, run: str) -> None:
        self._run = run
        self.logs: list[MemoryLog] = []

    def make(self, process: str, incarnation: int) -> Log:
        log = MemoryLog(run=self._run, process=process, incarnation=incarnation)
        self.logs.append(log)
        return log


def make_churn_world(script: Script, logs: _LogMaker) -> ChurnWorld:
    """The churn with all that is planned for it."""
    place = {name: number for number, name in enumerate(script.names)}
    charters = [
        Charter(group.name, [place[name] for name in group.places], [place[name] for name in group.founders])
        for group in script.groups
    ]
    churn = ChurnWorld(
        script.names, charters, script.seed, script.faults(), script.options, logs.make, script.domain, script.stack
    )
    numbers = {group.name: number for number, group in enumerate(script.groups)}
    for deed in script.deeds:
        _plan(churn, deed, place.get(deed.who, -1), numbers.get(deed.group, -1), place.get(deed.to, -1))
    return churn


def _plan(churn: ChurnWorld, deed: Deed, place: int, group: int, to: int) -> None:
    if deed.what == SAY:
        for size in deed.sizes:
            churn.plan_say(deed.at_ns, place, LEVELS[deed.level], bytes(size), group)
    elif deed.what == TELL:
        churn.plan_say(deed.at_ns, place, CAUSAL, _PRIVATE, group, to)
    elif deed.what == BARRIER:
        churn.plan_barrier(deed.at_ns, place, _BARRIER, group)
    elif deed.what == LEAVE:
        churn.plan_leave(deed.at_ns, place, group)
    elif deed.what == CRASH:
        churn.plan_crash(deed.at_ns, place)
    elif deed.what == ACCIDENT:
        churn.plan_accident(deed.at_ns, place)
    elif deed.what == START:
        churn.plan_start(deed.at_ns, place)
    elif deed.what == AMBUSH:
        churn.plan_crash_trigger(CrashTrigger(deed.group, PACKETS[deed.packet], deed.at_ns, deed.countdown, deed.both))
    elif deed.what == SLEEP:
        churn.pause(place, deed.at_ns, deed.until_ns)
    else:
        assert deed.what == STOP
        churn.pause_application(place, deed.at_ns, deed.until_ns, group)


def _run_crowd(script: Script) -> ScriptRun:
    result = ScriptRun()
    maker = _LogMaker(script.run)
    result.logs = maker.logs
    result.groups = [group.name for group in script.groups]
    result.resilience = script.domain.resilience
    try:
        churn = make_churn_world(script, maker)
    except Exception as error:  # the founders take their first steps right here
        result.mistake = failure(error)
        return result
    try:
        churn.run_through(script.calm_ns)
        churn.run(script.calm_ns + REST_NS_MAX)
        result.excused = churn.excused()
        result.restless = [
            group for group in result.groups if group not in result.excused and not churn.is_at_rest(group)
        ]
        churn.end()
    except Exception as error:  # whatever it was: no input may make the engine raise
        result.mistake = failure(error)
    result.time_ns = churn.now_ns
    result.failures = churn.crashes + churn.exclusions
    result.coverage = churn.coverage.counts
    return result


# ---- members that stay -----------------------------------------------------------------------------------------------


@final
class _Scripted(Workload):
    """Says what the script says. Deeds of one member at one time come in the script's order."""

    def __init__(self, script: Script) -> None:
        self._names = script.names
        self._deeds = [deed for deed in script.deeds if deed.what == SAY]
        self._queues: list[list[Deed]] = [[] for _ in script.names]

    def begin(self, world: World) -> None:
        for deed in sorted(self._deeds, key=_time_of):
            member = self._names.index(deed.who)
            self._queues[member].append(deed)
            world.schedule(deed.at_ns, member)

    def act(self, world: World, member: int) -> None:
        deed = self._queues[member].pop(0)
        world.send(member, [_FILLER[:size] for size in deed.sizes], LEVELS[deed.level])


def _time_of(deed: Deed) -> int:
    return deed.at_ns


def _run_world(script: Script) -> ScriptRun:
    result = ScriptRun()
    group = script.groups[0].name
    result.groups = [group]
    result.logs = [MemoryLog(run=script.run, process=name) for name in script.names]
    world = World(
        group,
        script.names,
        script.seed,
        script.faults(),
        script.options,
        _Scripted(script),
        LogObserver(result.logs, script.stack),
        script.stack,
    )
    for deed in script.deeds:
        if deed.what == SLEEP:
            world.pause_process(script.names.index(deed.who), deed.at_ns, deed.until_ns)
        elif deed.what == STOP:
            world.pause_application(script.names.index(deed.who), deed.at_ns, deed.until_ns)
    finish_world(world, script.calm_ns, result)
    return result


def finish_world(world: World, calm_ns: int, result: ScriptRun) -> None:
    """Run a world to its end, and write down what came of it."""
    try:
        world.begin()
        world.run_through(calm_ns)
        world.run(calm_ns + REST_NS_MAX)
        if not world.is_quiet():
            result.restless = list(result.groups)
        for log in result.logs:
            log.stop(world.now_ns, QUIET)
    except Exception as error:  # whatever it was: no input may make the engine raise
        result.mistake = failure(error)
    result.time_ns = world.now_ns
    result.coverage = world.coverage.counts
