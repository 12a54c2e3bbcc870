"""The HTTP server against whatever may connect to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from antiphon.observe import http_server
from antiphon.observe.http_server import HttpAnswer, HttpServer
from antiphon.runtime.address import split_address
from antiphon.runtime.errors import AddressError
from tests.observe.asking import exchange, get
from tests.runtime.cluster import run


async def hello() -> HttpAnswer:
    return HttpAnswer(b"hello")


async def broken() -> HttpAnswer:
    raise ValueError("a defect")


@asynccontextmanager
async def served() -> AsyncIterator[HttpServer]:
    server = HttpServer("127.0.0.1:0", {"/hello": hello, "/broken": broken})
    await server.start()
    try:
        yield server
    finally:
        await server.close()


def test_get_and_head() -> None:
    async def test() -> None:
        async with served() as server:
            status, headers, body = await get(server.address, "/hello?at=once")
            assert (status, body, headers["content-length"], headers["connection"]) == (200, b"hello", "5", "close")
            status, headers, body = await get(server.address, "/hello", "HEAD")
            assert (status, body, headers["content-length"]) == (200, b"", "5")

    run(test)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404),
        (b"POST /hello HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405),
        (b"GET /hello\r\n\r\n", 400),
        (b"GET hello HTTP/1.1\r\n\r\n", 400),
        (b"GET /h\xffllo HTTP/1.1\r\n\r\n", 400),
        (b"GET /hello SPDY/3\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET /broken HTTP/1.1\r\n\r\n", 500),
        (b"GET /hello HTTP/1.1\r\nX: " + b"x" * 20_000, 431),
    ],
)
def test_every_bad_request_has_its_status(request_bytes: bytes, status: int) -> None:
    async def test() -> None:
        async with served() as server:
            assert (await exchange(server.address, request_bytes))[0] == status
            assert (await get(server.address, "/hello"))[0] == 200

    run(test)


def test_who_hangs_up_or_says_nothing_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_S", 0.1)

    async def test() -> None:
        async with served() as server:
            _, writer = await asyncio.open_connection(*split_address(server.address))
            writer.write(b"GET /hel")
            writer.close()
            assert (await exchange(server.address, b"GET /slow"))[0] == 408
            assert (await get(server.address, "/hello"))[0] == 200

    run(test)


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 3)

    async def test() -> None:
        async with served() as server:
            where = split_address(server.address)
            idle = [await asyncio.open_connection(*where) for _ in range(3)]
            with pytest.raises(OSError, match="reset"):
                await get(server.address, "/hello")
            assert server.refused == 1
            idle.pop()[1].close()
            while len(server._tasks) == 3:
                await asyncio.sleep(0.01)
            assert (await get(server.address, "/hello"))[0] == 200

    run(test)


def test_an_answer_that_nobody_takes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "ANSWER_S", 0.2)

    async def large() -> HttpAnswer:
        return HttpAnswer(bytes(64 * 1024 * 1024))

    async def test() -> None:
        server = HttpServer("127.0.0.1:0", {"/large": large})
        await server.start()
        reader, writer = await asyncio.open_connection(*split_address(server.address), limit=1024)
        writer.write(b"GET /large HTTP/1.1\r\n\r\n")
        while not server._tasks:
            await asyncio.sleep(0.01)
        while server._tasks:
            await asyncio.sleep(0.01)
        assert len(await reader.read(-1)) < 64 * 1024 * 1024
        writer.close()
        await server.close()

    run(test)


def test_an_address_that_is_taken_is_named() -> None:
    async def test() -> None:
        async with served() as server:
            with pytest.raises(AddressError, match="nothing can listen there"):
                await HttpServer(server.address, {}).start()

    run(test)
