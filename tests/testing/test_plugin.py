"""The pytest plugin: many seeds by one fixture, one seed by an option, and a failure that tells how to repeat it."""

from typing import Final

import pytest

from antiphon.testing import Host, SimulationFailedError
from antiphon.testing.plugin import SimulationRunner

pytest_plugins = ["pytester"]

FAILING: Final = """
import asyncio

async def main(host):
    await asyncio.sleep(1)
    assert host.starts == 1, "was started twice"

def test_programs(simulation):
    simulation({"a": main, "b": main, "c": main}, seeds=40)
"""


async def nothing(host: Host) -> None:
    """A program that does nothing."""


def test_the_fixture_runs_as_many_seeds_as_asked_for(simulation: SimulationRunner) -> None:
    assert [result.seed for result in simulation({"a": nothing}, seeds=3)] == [0, 1, 2]


def test_an_option_chooses_one_seed() -> None:
    assert [result.seed for result in SimulationRunner("test", 7, None)({"a": nothing})] == [7]
    assert len(SimulationRunner("test", None, 2)({"a": nothing})) == 2


async def raises(host: Host) -> None:
    raise ValueError("a mistake in the program")


def test_a_failure_tells_its_seed_and_how_to_repeat_it() -> None:
    with pytest.raises(SimulationFailedError) as caught:
        SimulationRunner("tests/test_it.py::test_it", None, None)({"a": raises, "b": nothing})
    text = str(caught.value)
    assert "seed 0: not kept" in text
    assert "a mistake in the program" in text
    assert "programs: a;" in text
    assert "pytest --antiphon-seed 0 'tests/test_it.py::test_it'" in text


def test_pytest_prints_the_report(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILING)
    outcome = pytester.runpytest_inprocess("-p", "antiphon.testing.plugin", "-p", "no:cacheprovider")
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*was started twice*", "*repeat it: pytest --antiphon-seed * '*test_programs'*"])
