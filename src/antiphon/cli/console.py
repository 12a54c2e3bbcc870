"""Output of the commands: the result on standard output, progress and errors on standard error.

With `--json` the result is one document, and nothing else may reach standard output, not even what libraries or child
processes print there.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

PIECE_LENGTH_MAX: Final = 300
UNWRAPPED_WIDTH: Final = 1_000_000
"""Columns of a pipe or file: wide enough that nothing is wrapped or cut."""

errors = Console(stderr=True, highlight=False, soft_wrap=True)


def show(result: RenderableType) -> None:
    """Print a result for people. Only a terminal wraps lines: in a pipe or a file a sentence stays on its line."""
    output = Console(highlight=False)
    if not output.is_terminal:
        output = Console(highlight=False, width=UNWRAPPED_WIDTH)
    output.print(result)


def show_json(document: dict[str, Any]) -> None:
    """Print the one document of `--json`."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def one_line(text: str) -> str:
    """Return `text` on one line, cut to PIECE_LENGTH_MAX characters."""
    line = " ".join(text.split())
    return line if len(line) <= PIECE_LENGTH_MAX else line[: PIECE_LENGTH_MAX - 1] + "…"


def complain(sentence: str) -> None:
    """Print an error message."""
    errors.print(Text.assemble(("antiphon: ", "bold red"), sentence))


@contextmanager
def steps(first: str) -> Iterator[Callable[[str], None]]:
    """Print what is being done. Yields a function to call at each further step; a terminal shows one changing line."""
    if errors.is_terminal:
        with errors.status(Text(first)) as status:
            yield lambda step: status.update(Text(step))
    else:
        errors.print(Text(first))
        yield lambda step: errors.print(Text(step))


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Print the progress of a count. Yields a function of (done, total): a bar on a terminal, else a line per tenth."""
    if not errors.is_terminal:
        yield _Tenths(what).update
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


class _Tenths:
    """Prints the count whenever another tenth of it is done."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._tenths = 0

    def update(self, done: int, total: int) -> None:
        tenths = 10 * done // total if total else 0
        if tenths > self._tenths:
            self._tenths = tenths
            errors.print(Text(f"{self._what} {done:,} of {total:,}"))


@contextmanager
def quiet_standard_output() -> Iterator[None]:
    """Redirect to standard error all that this process and its children write to standard output meanwhile."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
