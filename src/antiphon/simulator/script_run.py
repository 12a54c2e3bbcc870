"""From a script to what its run leaves behind: logs, figures, and what the run itself can tell that no history can.

Two things are of the run and not of the history. After the last fault every group must become quiet, and give up nobody
that runs (group_progress.py). And no input may make the engine fail: where it does, that is the *mistake*, and the logs
end there.
"""

from typing import Final, final

from antiphon.history.log import Log, MemoryLog
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.simulator.script import Script
from antiphon.simulator.workload import Workload
from antiphon.simulator.world import World

_LOOK_INTERVAL_NS: Final = 50 * MILLISECOND_NS
"""How often to look whether all groups are quiet."""
_EXCUSED_WAIT_NS: Final = 5_000 * MILLISECOND_NS
"""How long the groups that are held up by one without a majority are given to become quiet after all…"""
_IDLE_SILENCES: Final = 4
"""…unless nothing has happened anywhere for so many times the silence after which a member is suspected."""
QUIET_NS_MAX: Final = 60_000 * MILLISECOND_NS
"""Virtual time that the groups have to become quiet in."""


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
        """Groups that cannot become quiet."""
        self.restless: list[str] = []
        """Groups that could have become quiet, and did not, or only after members that ran were given up, long after
        the network had healed."""
        self.mistake = ""
        """How the engine failed, if it did."""
        self.failures = 0
        """Crashes and exclusions."""
        self.resilience = 0
        """How many failures at once the causality domain was told to expect; 0: any number."""
        self.time_ns = 0
        """Virtual."""
        self.coverage: dict[str, int] = {}


@final
class LogMaker:
    """Makes the logs of a run in memory, and keeps them."""

    def __init__(self, run: str) -> None:
        self._run = run
        self.logs: list[MemoryLog] = []

    def make(self, process: str, incarnation: int) -> Log:
        log = MemoryLog(run=self._run, process=process, incarnation=incarnation)
        self.logs.append(log)
        return log


def run_script(script: Script, workload: Workload | None = None) -> ScriptRun:
    """Run it; the same script and workload leave the same logs, byte for byte."""
    result = ScriptRun()
    maker = LogMaker(script.run)
    result.logs = maker.logs
    result.groups = [group.name for group in script.groups]
    result.resilience = script.domain.resilience
    world = World(script, maker.make, workload)
    try:
        play(world, script)
        result.excused = world.progress.excused()
        progress = world.progress
        result.restless = [
            group
            for group in result.groups
            if group not in result.excused and (not progress.is_quiet(group) or progress.is_wrongful(group))
        ]
        world.end()
    except Exception as error:  # whatever it was: no input may make the engine raise
        result.mistake = f"{type(error).__name__}: {error}"
    result.time_ns = world.now_ns
    result.failures = world.crashes + world.exclusions
    result.coverage = world.coverage.counts
    return result


def play(world: World, script: Script) -> None:
    """All of a run: the script and its faults, and then as much time as it takes to become quiet."""
    world.begin()
    world.run_through(script.heal_ns)
    run_until_quiet(world, _IDLE_SILENCES * script.options.silence_ns_min, script.heal_ns + QUIET_NS_MAX)


def run_until_quiet(world: World, idle_ns: int, until_ns: int) -> None:
    """Go on until every group is quiet or cannot become so, or until this time."""
    progress = world.progress
    give_up_ns = until_ns
    while world.now_ns < until_ns:
        waiting = [group for group in progress.groups if not progress.is_quiet(group)]
        lost = [group for group in waiting if progress.has_lost_majority(group)]
        is_over = world.now_ns >= min(give_up_ns, world.last_event_ns + idle_ns)
        if not world.planned and (waiting == lost or (is_over and waiting == progress.excused())):
            return
        if lost and give_up_ns == until_ns:
            give_up_ns = world.now_ns + _EXCUSED_WAIT_NS
        world.run_through(min(world.now_ns + _LOOK_INTERVAL_NS, until_ns))
