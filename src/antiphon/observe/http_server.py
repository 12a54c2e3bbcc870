"""A small HTTP/1.1 server for probes, scrapers and one browser: GET and HEAD, one answer per connection.

It reads a head of at most HEAD_BYTES_MAX bytes within HEAD_S seconds, ignores any body, answers once, and closes. At
most CONNECTIONS_MAX connections are open at a time, and a further one is closed at once; an answer that is not taken
within ANSWER_S seconds is given up. So whoever connects, whatever it sends or leaves unsent, costs a bounded amount of
memory and time. Nothing that comes in can change anything: handlers only read.

Connections come from the running loop (`asyncio.start_server`), so that this works in virtual time, too.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, final

from antiphon.runtime.address import SocketAddress, join_address, split_address
from antiphon.runtime.errors import AddressError

log: Final = logging.getLogger("antiphon")

HEAD_BYTES_MAX: Final = 8192
HEAD_S: Final = 5.0
ANSWER_S: Final = 10.0
CONNECTIONS_MAX: Final = 64

TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a path is answered with."""

    body: bytes
    content_type: str = TEXT
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[], Awaitable[HttpAnswer]]
"""Makes the answer to one path."""


class RefusedRequestError(Exception):
    """A request that cannot be answered, with the status that says why."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(f"{status.value} {status.phrase}")
        self.status = status


def parse_head(head: bytes) -> tuple[str, str]:
    """The method and the path of a request head, without its query. Raises RefusedRequestError."""
    line = head.split(b"\r\n", 1)[0]
    words = line.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST)
    try:
        method, target = words[0].decode("ascii"), words[1].decode("ascii")
    except UnicodeDecodeError:
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST) from None
    if method not in ("GET", "HEAD"):
        raise RefusedRequestError(HTTPStatus.METHOD_NOT_ALLOWED)
    return method, target.partition("?")[0]


def encode_answer(answer: HttpAnswer, with_body: bool) -> bytes:
    """The bytes of a whole answer; of one to HEAD, without the body."""
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return head + answer.body if with_body else head


def refusal(status: HTTPStatus) -> HttpAnswer:
    """The answer to a request that is not served."""
    headers = (("Allow", "GET, HEAD"),) if status == HTTPStatus.METHOD_NOT_ALLOWED else ()
    return HttpAnswer(f"{status.value} {status.phrase}\n".encode(), status=status, headers=headers)


@final
class HttpServer:
    """Serves the paths of `handlers` at one address."""

    def __init__(self, listen: str, handlers: Mapping[str, Handler]) -> None:
        """`listen`: "host:port"; port 0 takes any free one."""
        self._host, self._port = split_address(listen)
        self.address = listen
        """Where this listens; with the port that it was given, once started."""
        self._handlers = handlers
        self._server: asyncio.AbstractServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused = 0
        """Connections that came when too many were open."""

    async def start(self) -> None:
        """Listen. Raises AddressError where that cannot be done."""
        try:
            server = await asyncio.start_server(self._serve, self._host, self._port, limit=HEAD_BYTES_MAX)
        except OSError as error:
            raise AddressError(self.address, f"nothing can listen there: {error.strerror or error}") from error
        self._server = server
        where: SocketAddress = server.sockets[0].getsockname()
        self.address = join_address(where)

    async def close(self) -> None:
        """Listen no more, and end what is being answered."""
        if self._server is None:
            return
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= CONNECTIONS_MAX:
            self.refused += 1
            writer.transport.abort()
            return
        self._tasks.add(task)
        try:
            answer, with_body = await self._answer(reader)
            if answer is not None:
                writer.write(encode_answer(answer, with_body))
                async with asyncio.timeout(ANSWER_S):
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.CancelledError):  # only `close` cancels; asyncio 3.11 would complain
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            with suppress(RuntimeError):  # the loop is closed
                writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[HttpAnswer | None, bool]:
        """The answer to the request that comes, and whether its body is wanted; no answer to one that breaks off."""
        try:
            async with asyncio.timeout(HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None, False
        except asyncio.LimitOverrunError:
            return refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), True
        except TimeoutError:
            return refusal(HTTPStatus.REQUEST_TIMEOUT), True
        try:
            method, path = parse_head(head)
        except RefusedRequestError as error:
            return refusal(error.status), True
        handler = self._handlers.get(path)
        if handler is None:
            return refusal(HTTPStatus.NOT_FOUND), method == "GET"
        try:
            return await handler(), method == "GET"
        except Exception:
            log.exception("the answer to %s could not be made", path)
            return refusal(HTTPStatus.INTERNAL_SERVER_ERROR), method == "GET"
