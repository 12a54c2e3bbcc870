"""`simulate`: programs in virtual time under a seed, the audit of what they did, and a report by which it repeats."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from antiphon.faults import Fault
from antiphon.history.schema import Row
from antiphon.pipeline.campaign.judge import Judgement
from antiphon.pipeline.result import BROKEN
from antiphon.simulator.fault_schedule import ALL
from antiphon.testing.fault_plan import SECOND_NS, FaultPlan, draw_plan
from antiphon.testing.host import Main
from antiphon.testing.simulation import Simulation
from antiphon.testing.verdict import Expectations, judge_simulation

ACTIVE_S: Final = 6.0
CHECK: Final = "check"

Programs = Mapping[str, Main] | Callable[[], Mapping[str, Main]]


@dataclass(frozen=True)
class Result:
    """What became of one seed."""

    seed: int
    problems: tuple[str, ...]
    """What was not kept, one each; empty if all was."""
    unknown: tuple[str, ...]
    """What cannot be told, and may be left undecided, because the caller says so, or because an operator's word leaves
    it open; what else cannot be told is among the problems."""
    faults: tuple[str, ...]
    """What the seed did, one fault each."""
    programs: tuple[str, ...]
    returned: Mapping[str, Any]
    """What each program's `main` returned, where it came to its end."""
    judgement: Judgement
    rows: tuple[tuple[Row, ...], ...]
    """The history: the rows of each process incarnation."""
    virtual_s: float
    disks: Mapping[str, Path] = field(default_factory=dict)
    """The disks that programs used, by host; they are there while `check` is called."""
    counts: tuple[int, ...] = ()
    """Of events, nanoseconds and datagrams."""

    @property
    def digest(self) -> str:
        """The same for the same trace."""
        text = blake2b(repr(self.counts).encode(), digest_size=16)
        for rows in self.rows:
            for row in rows:
                text.update(repr(row).encode())
        return text.hexdigest()

    @property
    def kept(self) -> bool:
        return not self.problems

    def report(self, command: str) -> str:
        """What a person needs to repeat and understand a failure."""
        lines = [f"seed {self.seed}: {'kept' if self.kept else 'not kept'}", *(f"  {text}" for text in self.problems)]
        lines += [f"  {text}" for text in self.unknown]
        lines.append(f"programs: {', '.join(self.programs)}; faults of this run, with their numbers:")
        lines += [f"  {fault}" for fault in self.faults] or ["  none"]
        lines.append(f"repeat it: {command}")
        return "\n".join(lines)


class SimulationFailedError(AssertionError):
    """A promise was not kept, a program raised, or a check failed."""

    def __init__(self, result: Result, command: str) -> None:
        super().__init__(result.report(command))
        self.result = result


def simulate(
    programs: Programs,
    *,
    seed: int,
    faults: str | FaultPlan | Sequence[Fault] = ALL,
    active_s: float = ACTIVE_S,
    check: Callable[[Result], object] | None = None,
    only: Sequence[int] | None = None,
    apart: bool = False,
    may_stall: bool = False,
    may_be_unknown: Collection[str] = (),
) -> Result:
    """Run these programs to their end; what became of it.

    programs  the `main` of each program by the name of its host, or a function that makes them anew for each run
    faults    `none`, `loss`, `all`; layers of `antiphon.faults`; or a FaultPlan
    active_s  virtual seconds in which there are faults; then all heals
    check     called with the result; an AssertionError that it raises counts as a problem
    only      of the faults that the seed draws, only those with these numbers
    apart     judge each group by itself, because the groups are in several causality domains
    may_stall        whether a group may lose its majority for good, and stand still to the end
    may_be_unknown   the guarantees that may be left undecided, by their ids
    """
    plan = draw_plan(faults, list(mains_of(programs)), int(active_s * SECOND_NS), seed)
    if only is not None:
        plan = plan.only(only)
    return run_plan(programs, plan, seed, Expectations(check, apart, may_stall, may_be_unknown))


def run_plan(programs: Programs, plan: FaultPlan, seed: int, expected: Expectations, *, sealed: bool = True) -> Result:
    """The same under a given plan; without seals, if it is to be the run that a seed was before there were any."""
    mains = mains_of(programs)
    simulation = Simulation(mains, plan, seed, sealed)
    try:
        simulation.run()
        judgement = judge_simulation(simulation, expected)
        passed = [
            problem
            for problem in judgement.problems
            if problem.verdict != BROKEN and (problem.by_word or problem.guarantee in expected.may_be_unknown)
        ]
        result = Result(
            seed=seed,
            problems=tuple(str(problem) for problem in judgement.problems if problem not in passed),
            unknown=tuple(str(problem) for problem in passed),
            faults=tuple(f"{number}: {fault}" for number, fault in zip(plan.numbers, plan.faults, strict=True)),
            programs=tuple(mains),
            returned=simulation.returned(),
            judgement=judgement,
            rows=tuple(tuple(log.rows()) for log in simulation.logs()),
            virtual_s=simulation.timeline.now_ns / 1e9,
            counts=(simulation.timeline.events, simulation.timeline.now_ns, simulation.network.datagrams_sent),
            disks={name: host.disk for name, host in simulation.hosts.items() if host.storage is not None},
        )
        return _checked(result, expected.check)
    finally:
        simulation.scrap()


def mains_of(programs: Programs) -> dict[str, Main]:
    """The programs of one run."""
    return dict(programs() if callable(programs) else programs)


def _checked(result: Result, check: Callable[[Result], object] | None) -> Result:
    if check is None:
        return result
    try:
        check(result)
    except AssertionError as error:
        return replace(result, problems=(*result.problems, f"{CHECK}: {str(error).partition(chr(10))[0]}"))
    return result
