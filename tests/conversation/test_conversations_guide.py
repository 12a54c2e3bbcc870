"""The programs of docs/conversations.md do what the page says."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conversation.stage import Stage, on_stage

PAGE = Path(__file__).parents[2] / "docs" / "conversations.md"


def programs() -> dict[str, Any]:
    """All that the page's code defines."""
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(code, names)
    return names


NAMES = programs()
PROGRAMS = [
    name
    for name, value in NAMES.items()
    if inspect.iscoroutinefunction(value) and not inspect.signature(value).parameters and name != "begin"
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_guide_runs(name: str) -> None:
    async def test(stage: Stage) -> None:
        begin = NAMES["begin"]

        async def begin_and_remember() -> Any:
            nodes, talks = await begin()
            stage.nodes.update(nodes)
            return nodes, talks

        NAMES["begin"] = begin_and_remember
        try:
            await NAMES[name]()
        finally:
            NAMES["begin"] = begin

    on_stage(test)


def test_the_guide_has_a_program_for_each_thing_that_can_happen() -> None:
    assert {"checkpoints", "adopting", "running_again", "alone", "masks", "removal", "requests"} <= set(PROGRAMS)
