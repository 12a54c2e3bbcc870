"""`antiphon top`: members and groups as they run, by their observers."""

import asyncio
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final, final

import typer
from rich.console import Console
from rich.live import Live

from antiphon.cli.console import show, show_json
from antiphon.cli.top_screen import screen
from antiphon.kernel.errors import UsageError
from antiphon.observe.board import SORTS, Board
from antiphon.observe.fetch import fetch_json
from antiphon.observe.observer import LISTEN

READ_BYTES: Final = 1024
ONCE_LINES: Final = 40
"""How high the screen is where there is no terminal."""
BETWEEN_S: Final = 1.0
"""Between the two looks of `--once` and `--json`, which rates need."""
KEYS: Final = {b"\x1b[C": "g", b"\x1b[D": "G", b" ": "p", b"\x03": "q", b"\x04": "q", b"": "q"}
"""Keys that mean the same as others; no bytes are what a terminal sends that is gone."""
KEY: Final = re.compile(rb"\x1b(?:[\[O][0-9;]*.)?|.", re.DOTALL)
"""One key: a character, or a sequence that begins with Escape."""


async def look(board: Board, timeout_s: float) -> None:
    """Ask all observers at once."""

    async def ask(address: str) -> None:
        try:
            board.take(address, await fetch_json(address, "/status", timeout_s))
        except (OSError, ValueError) as error:
            board.lose(address, reason(error))

    await asyncio.gather(*(ask(address) for address in board.addresses))


def reason(error: Exception) -> str:
    """Why an observer did not answer, in few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error)


@final
class TopKeys:
    """What the keyboard has chosen."""

    def __init__(self, board: Board, changed: asyncio.Event, group: str, sort: str) -> None:
        self._board = board
        self._changed = changed
        self.sort = sort
        self.group = group
        self.is_paused = False
        self.shows_help = False
        self.is_over = False

    def read(self, descriptor: int) -> None:
        """Take the keys that have been pressed."""
        try:
            data = os.read(descriptor, READ_BYTES)
        except OSError:  # the terminal is gone
            data = b""
        for key in KEY.findall(data) or [b""]:
            self.press(key)

    def press(self, key: bytes) -> None:
        """One key, or what the terminal sends for it."""
        name = KEYS.get(key, key.decode(errors="replace"))
        if name == "q":
            self.is_over = True
        elif name == "s":
            self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        elif name in ("g", "G"):
            names = ["", *self._board.group_names()]
            place = names.index(self.group) if self.group in names else 0
            self.group = names[(place + (1 if name == "g" else -1)) % len(names)]
        elif name == "p":
            self.is_paused = not self.is_paused
        elif name == "?":
            self.shows_help = not self.shows_help
        self._changed.set()


@contextmanager
def unbuffered_keys(descriptor: int) -> Iterator[None]:
    """Have keys come one by one and unseen, and the terminal be as before in the end."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def watch(board: Board, every_s: float, group: str, sort: str) -> None:
    """Draw until `q`."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    keys = TopKeys(board, changed, group, sort)
    descriptor = sys.stdin.fileno()
    console = Console(highlight=False)
    loop.add_reader(descriptor, keys.read, descriptor)
    loop.add_signal_handler(signal.SIGTERM, lambda: keys.press(b"q"))
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        with unbuffered_keys(descriptor), Live(console=console, screen=True, auto_refresh=False) as live:
            due_s = 0.0
            while not keys.is_over:
                if not keys.is_paused and loop.time() >= due_s:
                    due_s = loop.time() + every_s
                    await look(board, every_s)
                changed.clear()
                view = board.view(keys.group, keys.sort)
                live.update(
                    screen(view, console.height, keys.group, keys.sort, keys.is_paused, keys.shows_help), refresh=True
                )
                try:
                    async with asyncio.timeout(max(0.0, due_s - loop.time()) if not keys.is_paused else None):
                        await changed.wait()
                except TimeoutError:
                    pass
    finally:
        loop.remove_reader(descriptor)


async def look_twice(board: Board, timeout_s: float) -> None:
    await look(board, timeout_s)
    await asyncio.sleep(BETWEEN_S)
    await look(board, timeout_s)


def top(
    addresses: Annotated[
        list[str] | None, typer.Argument(metavar="[ADDRESS]…", help="Observers, as HOST:PORT; one per member.")
    ] = None,
    every: Annotated[float, typer.Option(metavar="S", min=0.1, help="Seconds between two looks.")] = 1.0,
    group: Annotated[str, typer.Option(metavar="G", help="Show this group alone.")] = "",
    sort: Annotated[str, typer.Option(metavar="COLUMN", help=f"Sort members by {', '.join(SORTS)}.")] = SORTS[0],
    once: Annotated[bool, typer.Option("--once", help="Look, print, and exit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The same as one JSON document.")] = False,
) -> None:
    """Watch running members: groups, views, who is slow, rates, latencies, back-pressure, suspicions.

    Each ADDRESS is where a member's observer answers (`antiphon node` has one, by its configuration; a program has one
    by antiphon.observe.Observer). Without any, 127.0.0.1:9400. A member that does not answer is shown as unreachable
    and asked again. Keys: q quits, s sorts, g picks a group, p pauses, ? helps.

    \b
      antiphon top
      antiphon top 10.0.0.1:9400 10.0.0.2:9400 10.0.0.3:9400
      antiphon top --once --sort behind 10.0.0.1:9400      who holds up the others?
      antiphon top --json 10.0.0.1:9400 | jq '.groups[].p99_ms'
    """
    if sort not in SORTS:
        raise UsageError(f"members cannot be sorted by {sort!r}; choose one of: {', '.join(SORTS)}")
    board = Board(list(dict.fromkeys(addresses or [LISTEN])))
    if once or json:
        asyncio.run(look_twice(board, every + 1.0))
        view = board.view(group, sort)
        if json:
            show_json(view.as_json())
        else:
            show(screen(view, ONCE_LINES, group, sort, keys=""))
        return
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UsageError("to watch takes a terminal; use --once or --json")
    asyncio.run(watch(board, every, group, sort))
