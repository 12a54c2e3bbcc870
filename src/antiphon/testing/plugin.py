"""The pytest plugin: a fixture that runs programs under many seeds, and shrinks and reports the first that fails.

def test_replicas_agree(simulation):
    simulation({"a": main, "b": main, "c": main}, seeds=50)

pytest --antiphon-seed 7 …      runs seed 7 alone
pytest --antiphon-seeds 1000 …  runs so many instead of those that the test asks for
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from antiphon.faults import Fault
    from antiphon.testing.fault_plan import FaultPlan
    from antiphon.testing.simulate import Programs, Result

SEEDS: Final = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("antiphon", "programs in virtual time")
    group.addoption("--antiphon-seed", type=int, default=None, help="simulate this seed alone")
    group.addoption("--antiphon-seeds", type=int, default=None, help="simulate so many seeds")


class SimulationRunner:
    """What the fixture `simulation` is."""

    def __init__(self, test: str, seed: int | None, seeds: int | None) -> None:
        self._test = test
        self._seed = seed
        self._seeds = seeds

    def __call__(
        self,
        programs: "Programs",
        *,
        seeds: int = SEEDS,
        faults: "str | FaultPlan | Sequence[Fault]" = "all",
        active_s: float = 6.0,
        check: "Callable[[Result], object] | None" = None,
        apart: bool = False,
        may_stall: bool = False,
        may_be_unknown: Collection[str] = (),
    ) -> "list[Result]":
        """Run the programs under each seed; the first that fails is made smaller and raised: SimulationFailedError."""
        # Every run of pytest loads this file, and few of them simulate: the rest is loaded by those.
        from antiphon.testing.shrink import find_failure
        from antiphon.testing.simulate import SimulationFailedError
        from antiphon.testing.verdict import Expectations

        expected = Expectations(check, apart, may_stall, may_be_unknown)
        results = []
        for seed in [self._seed] if self._seed is not None else range(self._seeds or seeds):
            result = find_failure(programs, seed=seed, faults=faults, active_s=active_s, expected=expected)
            if not result.kept:
                raise SimulationFailedError(result, f"pytest --antiphon-seed {seed} '{self._test}'")
            results.append(result)
        return results


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> SimulationRunner:
    """Runs programs in virtual time under many seeds; see docs/testing.md."""
    config = request.config
    return SimulationRunner(
        request.node.nodeid, config.getoption("--antiphon-seed"), config.getoption("--antiphon-seeds")
    )
