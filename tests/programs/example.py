"""The programs of docs/examples as they are, but for their input, their output, and the clock that they read."""

import ast
import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any, Final

import antiphon

EXAMPLES: Final = Path(__file__).parent.parent.parent / "docs" / "examples"
_COMPILED: dict[str, CodeType] = {}


class Example:
    """One start of one example; `lines` are typed at these times."""

    def __init__(self, file: str, lines: Sequence[tuple[float, str]]) -> None:
        self.printed: list[str] = []
        self._lines = lines
        self._names: dict[str, Any] = {"__name__": "example"}
        exec(_code(file), self._names)
        self._names["input_lines"] = self._input
        self._names["print"] = self._print
        self._names["time"] = SimpleNamespace(time_ns=lambda: antiphon.current_environment().time_ns())

    async def run(self, *arguments: str) -> None:
        """Its `main`, as its last line would call it."""
        await self._names["main"](*arguments)

    async def _input(self) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        for time_s, line in self._lines:
            await asyncio.sleep(max(0.0, time_s - loop.time()))
            yield line

    def _print(self, *values: object, flush: bool = False) -> None:
        self.printed.append(" ".join(str(value) for value in values))


def _code(file: str) -> CodeType:
    """All but the last statement, which would run it in an event loop of its own."""
    if file not in _COMPILED:
        tree = ast.parse((EXAMPLES / file).read_text())
        tree.body.pop()
        _COMPILED[file] = compile(tree, file, "exec")
    return _COMPILED[file]
