"""Lines from standard input, for a program that runs in an event loop.

    async for line in input_lines():
        await group.send(line.encode())

A read of a terminal blocks, so a thread does the reading. It is a daemon thread that reads the file descriptor itself:
after Ctrl-C the program ends without waiting for another line, which `asyncio.to_thread(input)` would do, and the
interpreter finds no lock of `sys.stdin` held when it exits.

Limit: LINES_MAX lines that were typed and not yet taken; then the thread stops reading until one is taken.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

LINES_MAX: Final = 1024
READ_BYTES: Final = 65_536
STANDARD_INPUT: Final = 0


async def input_lines(descriptor: int = STANDARD_INPUT) -> AsyncIterator[str]:
    """Yield each line of `descriptor`, without its line end and surrounding blanks, until the end of the input."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    room = threading.Semaphore(LINES_MAX)
    reader = threading.Thread(
        target=_read, args=(descriptor, asyncio.get_running_loop(), lines, room), name="input", daemon=True
    )
    reader.start()
    while (line := await lines.get()) is not None:
        room.release()
        yield line


def _read(
    descriptor: int, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str | None], room: threading.Semaphore
) -> None:
    rest = b""
    try:
        while data := os.read(descriptor, READ_BYTES):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                room.acquire()
                loop.call_soon_threadsafe(lines.put_nowait, _text(line))
        if rest:
            loop.call_soon_threadsafe(lines.put_nowait, _text(rest))
        loop.call_soon_threadsafe(lines.put_nowait, None)
    except RuntimeError:
        pass  # the loop is closed


def _text(line: bytes) -> str:
    return line.decode(errors="replace").strip()
