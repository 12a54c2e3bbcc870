"""What holds for all tests: no stale build, true marks, and one worker for tests that must not run at the same time.

A test that starts other processes says so by a mark: `processes`, `spark` or `networks`. `make quick` leaves those out.
An audit hook sees every start of a process and fails the test that has no such mark.

With several workers (pytest-xdist, `--dist loadgroup`) tests of one group run in one worker, one after the other. All
tests that share a Spark session are one group, so that Java is started once; so are those that build networks. Tests
whose own processes start Java are another group (`java`), so that two of them never compete for memory and cores.

Tests of random cases (hypothesis) take a sample of them, anew in each run; `make hunt` takes many more. `--sample N`,
which `make quick` gives, takes N cases of each test that has more, spread over all of them; `make test` takes all.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import settings

from antiphon import _build

STARTING_MARKS: Final = ("processes", "spark", "networks")
STARTING_EVENTS: Final = frozenset(("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"))
GROUPED: Final = ("alone", "networks", "spark", "chromium")
"""Marks and fixtures whose tests share a worker. Where a test has several, the first of these counts."""
FIRST: Final = ("spark", "java", "networks", "chromium", "alone")
"""Those groups again, the longest first."""


SHORT_LIVED_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java optimises for long runs, on cores of its own; for the few seconds that a test needs it, that is most of its
work. Without it the first audit of a session takes 22 s of processor instead of 58."""
for _variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):  # of drivers, also in processes of tests; of clusters
    os.environ.setdefault(_variable, SHORT_LIVED_JAVA)

settings.register_profile("suite", max_examples=25, deadline=None)
settings.register_profile("hunt", max_examples=1000, deadline=None)
settings.load_profile("suite")


class Running:
    """The test that runs now, if it may not start processes."""

    test: str | None = None


def refuse_processes(event: str, arguments: tuple[object, ...]) -> None:
    """Fail the running test if it starts a process without saying so."""
    if Running.test is not None and event in STARTING_EVENTS:
        raise AssertionError(f"{Running.test} starts a process ({arguments[:1]}): mark it `processes`")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", type=int, default=0, help="how many cases of each test to run at most; 0: all")
    parser.addoption("--rewrite", action="store_true", help="write the transcripts anew instead of comparing them")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("dist", "no") == "loadgroup" and pytest.version_tuple[:2] >= (9, 2):
        pytest.exit(f"pytest {pytest.__version__} keeps no groups of tests in one worker; install `antiphon[dev]`", 4)

    stale = [] if _build.pure_forced() else _build.stale_sources()
    if stale:
        pytest.exit(f"the compiled core does not match its sources ({', '.join(stale)}); run `make compile`", 4)
    sys.addaudithook(refuse_processes)


def pytest_report_header() -> str:
    return f"antiphon: {_build.describe()}"


def sampled(cases: list[pytest.Item], count: int) -> list[pytest.Item]:
    """So many cases of one test, spread over all of them; all if there are no more, or `count` is 0."""
    if not count or len(cases) <= count:
        return cases
    return [cases[place * len(cases) // count] for place in range(count)]


def turn(item: pytest.Item) -> int:
    """When to begin with a test. Groups that only one worker can run come first, the longest before the others, then
    tests that wait for other processes; the many short ones last, so that all workers have work to the end."""
    group = item.get_closest_marker("xdist_group")
    if group is not None:
        return FIRST.index(group.args[0]) if group.args and group.args[0] in FIRST else len(FIRST)
    return len(FIRST) + (1 if item.get_closest_marker("processes") else 2)


def pytest_collection_finish() -> None:
    """Have the collector of garbage leave alone what stays until the end: tests, modules, libraries."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take a sample if one is asked for. Mark tests by the fixtures they use, and put them into their group, unless
    they name another themselves."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = [item for cases in tests.values() for item in sampled(cases, config.getoption("sample"))]
    if len(chosen) < len(items):
        left_out = set(items) - set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if "spark" in fixtures:
            item.add_marker(pytest.mark.spark)
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.random)
        needs = {mark.name for mark in item.iter_markers()} | fixtures
        groups = [group for group in GROUPED if group in needs]
        if groups[:1] == ["spark"] and "spark" not in fixtures:
            groups = ["java"]
        if groups and "xdist_group" not in needs:
            item.add_marker(pytest.mark.xdist_group(groups[0]))
    items.sort(key=turn)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note which test runs, for the audit hook."""
    may_start = any(item.get_closest_marker(mark) for mark in STARTING_MARKS)
    Running.test = None if may_start else item.nodeid
    try:
        return (yield)
    finally:
        Running.test = None


@pytest.fixture(autouse=True)
def _own_interrupts() -> None:
    """Spark puts its own handler for Ctrl-C into the process; no test shall depend on whether Spark ran before it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
