"""Refuses to test compiled files that no longer match their sources: the results would be about some other program."""

import signal

import pytest

from antiphon import _build


def pytest_configure() -> None:
    stale = [] if _build.pure_forced() else _build.stale_sources()
    if stale:
        pytest.exit(f"the compiled core does not match its sources ({', '.join(stale)}); run `make compile`", 4)


def pytest_report_header() -> str:
    return f"antiphon: {_build.describe()}"


@pytest.fixture(autouse=True)
def _own_interrupts() -> None:
    """Spark puts its own handler for Ctrl-C into the process; no test shall depend on whether Spark ran before it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
