"""A failing run made smaller: faults, then programs, are left out one by one as long as the same thing goes wrong.

Greedy and bounded: what is left need not be the least, but each fault that is left is needed while the others stay.
"""

from collections.abc import Sequence
from typing import Final

from antiphon.faults import Fault
from antiphon.simulator.fault_schedule import ALL
from antiphon.testing.fault_plan import SECOND_NS, FaultPlan, draw_plan
from antiphon.testing.host import Main
from antiphon.testing.simulate import ACTIVE_S, Programs, Result, mains_of, run_plan
from antiphon.testing.verdict import Expectations

RUNS_MAX: Final = 60


def shrink(
    programs: Programs, plan: FaultPlan, failed: Result, expected: Expectations, *, sealed: bool = True
) -> Result:
    """The smallest run found that fails as `failed` did under `plan`."""
    return _Shrinking(programs, plan, failed, expected, sealed).run()


def find_failure(
    programs: Programs,
    *,
    seed: int,
    faults: str | FaultPlan | Sequence[Fault] = ALL,
    active_s: float = ACTIVE_S,
    expected: Expectations,
    sealed: bool = True,
) -> Result:
    """`simulate`, and where that fails, the smallest run found that fails alike."""
    plan = draw_plan(faults, list(mains_of(programs)), int(active_s * SECOND_NS), seed)
    result = run_plan(programs, plan, seed, expected, sealed=sealed)
    return result if result.kept else shrink(programs, plan, result, expected, sealed=sealed)


class _Shrinking:
    def __init__(
        self, programs: Programs, plan: FaultPlan, failed: Result, expected: Expectations, sealed: bool
    ) -> None:
        self._sealed = sealed
        self._programs = programs
        self._plan = plan
        self._smallest = failed
        self._symptom = _symptom(failed)
        self._expected = expected
        self._names = list(failed.programs)
        self._runs = 0

    def run(self) -> Result:
        for number in list(self._plan.numbers):
            rest = [other for other in self._plan.numbers if other != number]
            self._try(self._plan.only(rest), self._names)
        for name in list(self._names):
            if len(self._names) > 1:
                rest_names = [other for other in self._names if other != name]
                self._try(self._plan.among(rest_names), rest_names)
        return self._smallest

    def _try(self, plan: FaultPlan, names: list[str]) -> None:
        if self._runs >= RUNS_MAX:
            return
        self._runs += 1
        result = run_plan(lambda: self._chosen(names), plan, self._smallest.seed, self._expected, sealed=self._sealed)
        if not result.kept and _symptom(result) == self._symptom:
            self._smallest, self._plan, self._names = result, plan, names

    def _chosen(self, names: list[str]) -> dict[str, Main]:
        mains = mains_of(self._programs)
        return {name: mains[name] for name in names}


def _symptom(result: Result) -> str:
    """What went wrong first, by its first word."""
    return result.problems[0].split()[0]
