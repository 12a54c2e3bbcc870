"""Whole programs on a simulated network in virtual time.

`Simulation` holds the hosts and their programs and does to them what the plan says; a program that ends because the
others gave it up is started again, as a supervisor would. When all faults have been over for a while, programs are
told by `Host.calm` to send nothing more; when everything has had the time to arrive, the history is closed, and they
are told by `Host.ending`. So what they do in order to end, to leave their groups for one, cannot make up for delays.
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from antiphon.history.schema import QUIET
from antiphon.kernel.errors import ClosedError
from antiphon.runtime.errors import ExcludedError, JoinError
from antiphon.testing.disk import HostDisk, watched_syncs
from antiphon.testing.fault_plan import SECOND_NS, FaultPlan, KillProgram, PauseProgram
from antiphon.testing.host import Host, Main, Program, leaves_of
from antiphon.testing.network import Network
from antiphon.testing.recording import STALLED, ProgramLog, stalled_groups
from antiphon.testing.timeline import Timeline

CALM_NS: Final = 6 * SECOND_NS
"""After the last fault, how long programs go on as before, …"""
QUIET_NS: Final = 4 * SECOND_NS
"""…how long they are then quiet before the history is closed, …"""
END_NS: Final = 12 * SECOND_NS
"""…and how long they then have to end."""
RESTART_NS: Final = SECOND_NS // 5
CLOCK_SKEW_NS: Final = SECOND_NS // 20
GIVEN_UP: Final = ExcludedError | JoinError
"""A program that ends by one of these is started again."""


class Simulation:
    """One run: hosts, programs, network, faults."""

    def __init__(self, programs: Mapping[str, Main], plan: FaultPlan, seed: int, sealed: bool = True) -> None:
        self.seed = seed
        self.plan = plan
        self.timeline = Timeline(seed)
        self.network = Network(self.timeline, sealed)
        self.network.layers = plan.layers()
        self.hosts: dict[str, Host] = {}
        self.programs: list[Program] = []
        """All starts of all programs."""
        self._running: dict[str, Program] = {}
        self._mains = dict(programs)
        self._calm = False
        self._ending = False
        self.kills = 0
        for number, name in enumerate(programs):
            offset_ns = int((self.timeline.random.random() - 0.5) * CLOCK_SKEW_NS)
            self.hosts[name] = host = Host(name, f"10.0.{number // 250}.{number % 250 + 1}", offset_ns)
            self.network.add(host)
        for host in self.hosts.values():
            host.addresses = {name: other.address for name, other in self.hosts.items()}

    def run(self) -> None:
        """From the beginning to the end."""
        state = random.getstate()
        random.seed(self.seed)
        try:
            for name in self.hosts:
                self._start(name)
            self._schedule()
            calm_ns = self.plan.heal_ns + CALM_NS
            self.timeline.at(calm_ns, self._tell_calm)
            self.timeline.at(calm_ns + QUIET_NS, self._tell_ending)
            with watched_syncs(self._disks):
                self.timeline.run(calm_ns + QUIET_NS + END_NS, self._is_over)
            self._close_history()
        finally:
            random.setstate(state)

    def _disks(self) -> list[HostDisk]:
        return [host.storage for host in self.hosts.values() if host.storage is not None]

    def _is_over(self) -> bool:
        return self._ending and all(program.is_over for program in self._running.values())

    def _start(self, name: str) -> None:
        program = Program(name, self.hosts[name], self._mains[name], self.timeline, self.network)
        self.programs.append(program)
        self._running[name] = program
        program.start()
        assert program.task is not None
        program.task.add_done_callback(partial(self._ended, program))
        if self._calm:
            program.tell(program.host.calm)

    def _ended(self, program: Program, task: Any) -> None:
        """A supervisor starts a program again that the others gave up."""
        if program.is_alive and not task.cancelled() and _is_given_up(task.exception()):
            program.kill()
            if not self._ending:
                self.timeline.at(self.timeline.now_ns + RESTART_NS, partial(self._start_again, program.name))

    def _start_again(self, name: str) -> None:
        if self._running[name].is_over:
            self._start(name)

    def _schedule(self) -> None:
        for fault in self.plan.faults:
            if isinstance(fault, KillProgram):
                self.timeline.at(fault.at_ns, partial(self._kill, fault))
            elif isinstance(fault, PauseProgram):
                self.timeline.at(fault.at_ns, partial(self._pause, fault))

    def _kill(self, fault: KillProgram) -> None:
        program = self._running[fault.program]
        if program.is_over:
            return
        self.kills += 1
        if fault.power:
            program.light_fuse(fault.calls)
        else:
            program.kill(power=False)
        if fault.restart_ns is not None:
            self._restart_when_dead(program, fault.restart_ns)

    def _restart_when_dead(self, program: Program, after_ns: int) -> None:
        if program.is_alive:
            self.timeline.at(
                self.timeline.now_ns + SECOND_NS // 100, partial(self._restart_when_dead, program, after_ns)
            )
        else:
            self.timeline.at(self.timeline.now_ns + after_ns, partial(self._start_again, program.name))

    def _pause(self, fault: PauseProgram) -> None:
        self._running[fault.program].pause(fault.for_ns)

    def _tell_calm(self) -> None:
        self._calm = True
        for program in self._running.values():
            program.tell(program.host.calm)

    def _tell_ending(self) -> None:
        self._ending = True
        self._close_history()
        for program in self._running.values():
            program.tell(program.host.ending)

    # ---- the end ---------------------------------------------------------------------------------------------------

    def _close_history(self) -> None:
        """End all logs. Who goes on by now had healed and was given the time to go quiet."""
        for program in self.programs:
            if program.is_alive:
                for log in program.logs:
                    if not log.is_ended:
                        log.end(_last_word(log, program), self.wall_ns(program))

    def wall_ns(self, program: Program) -> int:
        """What the clock of a program's host shows."""
        return program.loop.antiphon_environment.time_ns()

    def logs(self) -> list[ProgramLog]:
        return [log for program in self.programs for log in program.logs]

    def problems(self) -> list[str]:
        """What programs raised. That the others gave a program up is none: it would have been started again."""
        return [
            problem
            for program in self.programs
            for problem in program.problems()
            if not _has_been_given_up(program.task)
        ]

    def returned(self) -> dict[str, Any]:
        """What the last start of each program returned, if it came to its end."""
        found = {}
        for name, program in self._running.items():
            task = program.task
            if program.is_alive and task is not None and task.done() and task.exception() is None:
                found[name] = task.result()
        return found

    def scrap(self) -> None:
        """Let go of everything, after the last look at it."""
        level = logging.root.manager.disable
        logging.disable()  # nobody wants to read what the dead have to say
        for program in self.programs:
            program.is_alive = False
            program.loop.bury()
        logging.disable(level)
        for host in self.hosts.values():
            host.scrap()


def _has_been_given_up(task: asyncio.Task[Any] | None) -> bool:
    return task is not None and task.done() and not task.cancelled() and _is_given_up(task.exception())


def _is_given_up(error: BaseException | None) -> bool:
    """Whether this says that the others went on without the process, or did not let it in; its tasks may have found
    their groups closed by that."""
    leaves = leaves_of(error)
    return any(isinstance(each, GIVEN_UP) for each in leaves) and all(
        isinstance(each, GIVEN_UP | ClosedError) for each in leaves
    )


def _last_word(log: ProgramLog, program: Program) -> str:
    """How a log ends that its process did not end itself."""
    rows = list(log.rows())
    if any(row.kind == "note" and (row.label or "").startswith("excluded from group") for row in rows):
        return "excluded"
    if stalled_groups(rows):
        return STALLED
    return "ended" if program.is_over else QUIET
