"""One line at the bottom of a terminal, in which somebody types while other lines are printed above it.

Keys: printable text, backspace, Ctrl-U (clear), Ctrl-W (clear a word), Enter; Ctrl-C and Ctrl-D on an empty line end.
Where the input is no terminal, whole lines are taken from it, and nothing is drawn.
"""

import asyncio
import codecs
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator
from typing import Final, final

READ_BYTES: Final = 65536
LINE_CHARACTERS_MAX: Final = 4000


@final
class LineEditor:
    """Lines that somebody types or pipes in, and lines that are shown meanwhile."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._descriptor = sys.stdin.fileno()
        self._is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self._text = ""
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._before: list[object] | None = None

    def __enter__(self) -> "LineEditor":
        if self._is_terminal:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
            self._draw()
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()

    def show(self, line: str) -> None:
        """Print a line above the one that is typed."""
        sys.stdout.write(f"\r\x1b[K{line}\n" if self._is_terminal else f"{line}\n")
        if self._is_terminal:
            self._draw()
        sys.stdout.flush()

    def _draw(self) -> None:
        width = os.get_terminal_size(sys.stdout.fileno()).columns if self._is_terminal else 80
        room = max(8, width - len(self._prompt) - 1)
        sys.stdout.write(f"\r\x1b[K{self._prompt}{self._text[-room:]}")
        sys.stdout.flush()

    async def lines(self) -> AsyncIterator[str]:
        """Each line that was finished, until the end of the input."""
        reading = asyncio.create_task(self._read())
        try:
            while (line := await self._lines.get()) is not None:
                yield line
        finally:
            reading.cancel()

    async def _read(self) -> None:
        """Read in another thread where the input cannot be waited for, as with a file."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except (OSError, ValueError):
            while data := await asyncio.to_thread(os.read, self._descriptor, READ_BYTES):
                self._take(data)
            self._end()
            return
        try:
            while True:
                await ready.wait()
                ready.clear()
                data = os.read(self._descriptor, READ_BYTES)
                if not data:
                    self._end()
                    return
                self._take(data)
        finally:
            loop.remove_reader(self._descriptor)

    def _end(self) -> None:
        if self._rest:
            self._lines.put_nowait(self._rest)
        self._lines.put_nowait(None)

    def _take(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        if not self._is_terminal:
            *whole, self._rest = (self._rest + text).split("\n")
            for line in whole:
                self._lines.put_nowait(line)
            return
        if text.startswith("\x1b"):  # a key that moves the cursor
            return
        for character in text:
            self._press(character)
        self._draw()

    def _press(self, character: str) -> None:
        if character in "\r\n":
            self._lines.put_nowait(self._text)
            self._text = ""
        elif character in "\x7f\b":
            self._text = self._text[:-1]
        elif character == "\x15":
            self._text = ""
        elif character == "\x17":
            self._text = self._text.rstrip().rpartition(" ")[0]
        elif character == "\x04" and not self._text:
            self._lines.put_nowait(None)
        elif character.isprintable() and len(self._text) < LINE_CHARACTERS_MAX:
            self._text += character
