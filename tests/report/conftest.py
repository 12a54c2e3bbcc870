"""One browser for all tests of the page: starting it is what costs."""

from collections.abc import Iterator

import pytest

from tests.report.browser import Browser, browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started
