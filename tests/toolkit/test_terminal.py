"""Lines of standard input, read without blocking the event loop."""

import asyncio
import os
import threading

import pytest

from antiphon.toolkit import terminal
from antiphon.toolkit.terminal import input_lines
from tests.runtime.cluster import run


def test_lines_come_stripped_and_the_last_needs_no_line_end() -> None:
    async def test() -> None:
        reading, writing = os.pipe()
        os.write(writing, "5\n\n  zwölf \nlast".encode())
        os.close(writing)
        assert [line async for line in input_lines(reading)] == ["5", "", "zwölf", "last"]
        os.close(reading)

    run(test)


def test_a_line_that_arrives_in_pieces_is_one_line_and_bad_bytes_do_no_harm() -> None:
    async def test() -> None:
        reading, writing = os.pipe()
        lines = input_lines(reading)
        os.write(writing, b"on")
        first = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0.01)
        assert not first.done()  # and the loop was not blocked
        os.write(writing, b"e\n\xff\n")
        os.close(writing)
        assert await first == "one"
        assert await anext(lines) == "\ufffd"
        with pytest.raises(StopAsyncIteration):
            await anext(lines)
        os.close(reading)

    run(test)


def test_the_thread_reads_no_more_than_the_limit_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "LINES_MAX", 3)
    monkeypatch.setattr(terminal, "READ_BYTES", 2)

    async def test() -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        lines = input_lines(reading)
        os.write(writing, b"0\n")
        assert await anext(lines) == "0"
        os.write(writing, b"".join(b"%d\n" % number for number in range(1, 10)))
        await asyncio.sleep(0.05)
        (thread,) = [thread for thread in threading.enumerate() if thread.name == "input"]
        assert thread.is_alive()
        assert os.read(reading, 100) == b"5\n6\n7\n8\n9\n"  # three wait here, one in the thread's hands
        os.close(writing)
        assert [line async for line in lines] == ["1", "2", "3", "4"]
        os.close(reading)

    run(test)


def test_a_loop_that_is_over_ends_the_thread() -> None:
    async def first() -> str:
        lines = input_lines(reading)
        os.write(writing, b"one\n")
        return await anext(lines)

    reading, writing = os.pipe()
    assert asyncio.run(first()) == "one"
    os.write(writing, b"two\n")
    for thread in threading.enumerate():
        if thread.name == "input":
            thread.join(10)
            assert not thread.is_alive()
    os.close(reading)
    os.close(writing)
