"""The transfer of a snapshot: one TCP connection from the joiner to the provider, apart from the group's own traffic.

    joiner ──▶ provider    token                       32 random bytes, sent inside the group, valid for one connection
    provider ──▶ joiner    header, chunk, chunk…, end  or, at any point, an error as text

The provider sends one chunk at a time, as fast as the joiner reads, and takes the next chunk from the application only
when there is room. `end` means that the snapshot may be used (`state.py` explains when it is sent). Either side closes
the connection when it hears nothing for IDLE_S.
"""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final

import msgspec

from antiphon import Trust, current_environment, log_event, open_connection, start_server
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
"""Longer chunks of the application are cut into slices of this length."""
IDLE_S: Final = 30.0
CONNECTIONS_MAX: Final = 64
"""Further connections are closed; a joiner tries again."""
HEADER: Final = b"H"
CHUNK: Final = b"C"
END: Final = b"E"
ERROR: Final = b"X"

Chunks = AsyncIterator[bytes] | Iterable[bytes]


class Header(msgspec.Struct, array_like=True, frozen=True):
    """The position of a snapshot, and the toolkit's own tables at that position."""

    view_id: int
    position: list[tuple[WireProcess, int]]
    """For each member, the number of its last message that the snapshot contains."""
    lacking: list[WireProcess]
    """Members that lacked the state then."""
    clients: list[tuple[str, int]]
    """For each client, the number of its last message delivered."""
    diffused: list[tuple[WireProcess, int]]
    """For each member, the number of its last message for clients."""


class OfferedSnapshot:
    """One snapshot that its joiner has not fetched yet."""

    def __init__(self, header: Header, chunks: Chunks) -> None:
        self.token = current_environment().token_bytes(TOKEN_BYTES)
        self.header = header
        self.chunks = chunks


class SnapshotServer:
    """Serves each snapshot once, to the connection that presents its token. Holds at most one for each joiner."""

    def __init__(self, settle: Callable[[], Awaitable[None]], trust: Trust | None = None) -> None:
        self._settle = settle
        self._trust = trust or Trust()
        self._offered: dict[object, OfferedSnapshot] = {}
        self._server: asyncio.Server | None = None
        self._starting = asyncio.Lock()
        self._serving: dict[asyncio.Task[None], None] = {}

    async def offer(self, host: str, joiner: object, header: Header, chunks: Chunks) -> SnapshotOffer:
        """Keep a snapshot for `joiner`, in place of an earlier one; return the offer to send to it."""
        async with self._starting:
            if self._server is None:
                self._server = await start_server(self._accept, host, 0, trust=self._trust)
        offered = OfferedSnapshot(header, chunks)
        self._offered[joiner] = offered
        port: int = self._server.sockets[0].getsockname()[1]
        return SnapshotOffer(join_host(host, port), offered.token)

    def withdraw(self, joiner: object) -> None:
        """Drop the snapshot for `joiner`, if there is one."""
        self._offered.pop(joiner, None)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._offered.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._serving) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._serving[task] = None
        try:
            async with asyncio.timeout(IDLE_S):
                offered = self._claim(await read_frame(reader))
            if offered is not None:
                await self._serve(offered, writer)
        except (FrameError, TimeoutError):
            log_event(logging.INFO, "snapshot_abandoned")
        except asyncio.CancelledError:
            pass  # by `close`, which alone awaits this task
        finally:
            self._serving.pop(task, None)
            writer.close()

    def _claim(self, token: bytes) -> OfferedSnapshot | None:
        for joiner, offered in self._offered.items():
            if hmac.compare_digest(offered.token, token):
                return self._offered.pop(joiner)
        return None

    async def _serve(self, offered: OfferedSnapshot, writer: asyncio.StreamWriter) -> None:
        await _send(writer, HEADER + msgspec.msgpack.encode(offered.header))
        try:
            async for chunk in _slices(offered.chunks):
                await _send(writer, CHUNK + chunk)
            await self._settle()
        except (FrameError, TimeoutError):
            raise
        except Exception as error:  # raised by the application's iterator; the joiner gets the text and asks again
            log_event(logging.ERROR, "snapshot_failed", str(error), joiner="", exc_info=error)
            await _send(writer, ERROR + f"{type(error).__name__}: {error}".encode()[:1000])
        else:
            await _send(writer, END)


async def _send(writer: asyncio.StreamWriter, body: bytes) -> None:
    async with asyncio.timeout(IDLE_S):
        await send_frame(writer, body)


async def _slices(chunks: Chunks) -> AsyncIterator[bytes]:
    """Yield the chunks in slices of at most CHUNK_BYTES_MAX, with a turn of the event loop after each."""
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
    """The joiner's side of the connection: `async with`, then `header`, then `chunks`."""

    def __init__(self, offer: SnapshotOffer, trust: Trust | None = None) -> None:
        self._offer = offer
        self._trust = trust or Trust()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._ended = False

    async def __aenter__(self) -> "Fetch":
        try:
            host, port = split_host(self._offer.address)
            async with asyncio.timeout(IDLE_S):
                self._reader, self._writer = await open_connection(host, port, trust=self._trust)
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
        """Return the header, which comes first."""
        kind, body = await self._frame()
        if kind != HEADER:
            raise TransferError("the provider did not send a snapshot")
        try:
            return msgspec.msgpack.decode(body, type=Header)
        except msgspec.DecodeError as error:
            raise TransferError(f"the provider sent a header that cannot be read: {error}") from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks up to `end`. Raises TransferError when the transfer fails; then the chunks must not be
        used."""
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
            raise TransferError(f"nothing more came from the provider: {error}") from error
        return frame[:1], frame[1:]
