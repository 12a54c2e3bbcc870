"""A snapshot on its way: one TCP connection from the joiner to the provider, apart from the group's own traffic.

    joiner ──▶ provider    token                       32 random bytes, told inside the group, good for one connection
    provider ──▶ joiner    header, chunk, chunk…, end  or, at any point, an error in words

The provider writes at the pace at which the joiner reads, a chunk at a time, and takes the next chunk from the
application only when there is room. `end` is the word that the snapshot may be used: see `state.py` for when it is
given. A side that hears nothing for IDLE_S hangs up.
"""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final

import msgspec

from antiphon import current_environment
from antiphon.toolkit.errors import TransferError
from antiphon.toolkit.frames import (
    FrameError,
    join_host,
    read_frame,
    send_frame,
    split_host,
)
from antiphon.toolkit.messages import SnapshotOffer, WireProcess

TOKEN_BYTES: Final = 32
CHUNK_BYTES_MAX: Final = 256 * 1024
"""Longer chunks of the application travel in slices of this length."""
IDLE_S: Final = 30.0
CONNECTIONS_MAX: Final = 64
"""More joiners, or strangers, at a time are hung up on, and try again."""
HEADER: Final = b"H"
CHUNK: Final = b"C"
END: Final = b"E"
ERROR: Final = b"X"

log: Final = logging.getLogger("antiphon")

Chunks = AsyncIterator[bytes] | Iterable[bytes]


class Header(msgspec.Struct, array_like=True, frozen=True):
    """Where in the group's history a snapshot belongs, and what the toolkit itself has to remember there."""

    view_id: int
    position: list[tuple[WireProcess, int]]
    """Of each member, the last message that the snapshot contains."""
    lacking: list[WireProcess]
    """Members that have no state there."""
    clients: list[tuple[str, int]]
    """Of each client, the last message delivered."""
    diffused: list[tuple[WireProcess, int]]
    """Of each member, the last message that was diffused to clients."""


class Waiting:
    """One snapshot that waits for its joiner."""

    def __init__(self, header: Header, chunks: Chunks) -> None:
        self.token = current_environment().token_bytes(TOKEN_BYTES)
        self.header = header
        self.chunks = chunks


class SnapshotServer:
    """Hands out snapshots to those who know their tokens. Holds at most one per joiner, by its key."""

    def __init__(self, settle: Callable[[], Awaitable[None]]) -> None:
        self._settle = settle
        self._waiting: dict[object, Waiting] = {}
        self._server: asyncio.Server | None = None
        self._starting = asyncio.Lock()
        self._serving: set[asyncio.Task[None]] = set()

    async def offer(self, host: str, joiner: object, header: Header, chunks: Chunks) -> SnapshotOffer:
        """Keep a snapshot for `joiner`, instead of any earlier one; where it can be had."""
        async with self._starting:
            if self._server is None:
                self._server = await asyncio.start_server(self._accept, host, 0)
        waiting = Waiting(header, chunks)
        self._waiting[joiner] = waiting
        port: int = self._server.sockets[0].getsockname()[1]
        return SnapshotOffer(join_host(host, port), waiting.token)

    def withdraw(self, joiner: object) -> None:
        self._waiting.pop(joiner, None)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._waiting.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._serving) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._serving.add(task)
        try:
            async with asyncio.timeout(IDLE_S):
                waiting = self._claim(await read_frame(reader))
            if waiting is not None:
                await self._serve(waiting, writer)
        except (FrameError, TimeoutError):
            log.info("a joiner hung up before it had the whole snapshot")
        except asyncio.CancelledError:
            pass  # by `close`; nobody awaits this task but it
        finally:
            self._serving.discard(task)
            writer.close()

    def _claim(self, token: bytes) -> Waiting | None:
        for joiner, waiting in self._waiting.items():
            if hmac.compare_digest(waiting.token, token):
                return self._waiting.pop(joiner)
        return None

    async def _serve(self, waiting: Waiting, writer: asyncio.StreamWriter) -> None:
        await _send(writer, HEADER + msgspec.msgpack.encode(waiting.header))
        try:
            async for chunk in _slices(waiting.chunks):
                await _send(writer, CHUNK + chunk)
            await self._settle()
        except (FrameError, TimeoutError):
            raise
        except Exception as error:  # of the application's iterator: the joiner is told, and asks again
            log.exception("the snapshot for a joiner could not be made")
            await _send(writer, ERROR + f"{type(error).__name__}: {error}".encode()[:1000])
        else:
            await _send(writer, END)


async def _send(writer: asyncio.StreamWriter, body: bytes) -> None:
    async with asyncio.timeout(IDLE_S):
        await send_frame(writer, body)


async def _slices(chunks: Chunks) -> AsyncIterator[bytes]:
    """The chunks, none longer than CHUNK_BYTES_MAX; the rest of the event loop gets a turn after each."""
    if isinstance(chunks, AsyncIterator):
        async for chunk in chunks:
            for start in range(0, len(chunk), CHUNK_BYTES_MAX):
                yield chunk[start : start + CHUNK_BYTES_MAX]
        return
    for chunk in chunks:
        for start in range(0, len(chunk), CHUNK_BYTES_MAX):
            yield chunk[start : start + CHUNK_BYTES_MAX]
            await asyncio.sleep(0)


class Fetch:
    """The joiner's end of the connection: `async with`, then the header, then the chunks."""

    def __init__(self, offer: SnapshotOffer) -> None:
        self._offer = offer
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._ended = False

    async def __aenter__(self) -> "Fetch":
        try:
            host, port = split_host(self._offer.address)
            async with asyncio.timeout(IDLE_S):
                self._reader, self._writer = await asyncio.open_connection(host, port)
                await send_frame(self._writer, self._offer.token)
        except (OSError, ValueError, FrameError) as error:  # OSError: TimeoutError too
            await self.__aexit__()
            raise TransferError(f"the provider at {self._offer.address} cannot be reached: {error}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()

    async def header(self) -> Header:
        kind, body = await self._frame()
        if kind != HEADER:
            raise TransferError("the provider sent something else than a snapshot")
        try:
            return msgspec.msgpack.decode(body, type=Header)
        except msgspec.DecodeError as error:
            raise TransferError(f"the provider sent a header that cannot be read: {error}") from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """Until the provider says that this is all, and may be used. TransferError: what came so far is worthless."""
        while not self._ended:
            kind, body = await self._frame()
            if kind == CHUNK:
                yield body
            elif kind == END:
                self._ended = True
            else:
                raise TransferError(f"the provider gave up: {body.decode(errors='replace')}")

    async def _frame(self) -> tuple[bytes, bytes]:
        assert self._reader is not None
        try:
            async with asyncio.timeout(IDLE_S):
                frame = await read_frame(self._reader)
        except (FrameError, TimeoutError) as error:
            raise TransferError(f"the provider fell silent: {error}") from error
        return frame[:1], frame[1:]
