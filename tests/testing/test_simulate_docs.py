"""The program of docs/testing.md has the bug that is told of there, and is right when that is mended."""

import re
from pathlib import Path
from typing import Any

import pytest

from antiphon.testing import SimulationFailedError
from antiphon.testing.plugin import SimulationRunner

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def program() -> dict[str, Any]:
    """The names that the page's program defines."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1], names)
    return names


def test_the_bug_is_found_and_reported_as_the_page_says() -> None:
    names = program()
    with pytest.raises(SimulationFailedError) as caught:
        names["test_dictionary"](SimulationRunner("test_dictionary.py::test_dictionary", None, None))
    told = str(caught.value).splitlines()
    shown = re.search(r"```\n(seed 0.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown is not None
    assert [line[:22] for line in told] == [line[:22] for line in shown[1].strip().splitlines()]


def test_the_mended_program_passes() -> None:
    names = program()
    names["ORDER"] = "agreed"
    names["test_dictionary"](SimulationRunner("test_dictionary", None, 3))
