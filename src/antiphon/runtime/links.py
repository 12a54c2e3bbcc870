"""Links over TCP: `Listen`, `Dial`, `Frames` and `Hang` (kernel/calls.py).

A link is one connection. Frames go as `length u32 | bytes`, little-endian. The first frame of either side says who it
is: `stack u8 | incarnation u64 | name`; whoever accepts a link gives it to the `Listen` of that stack. TCP keeps frames
whole and in order, and when it breaks, only a suffix is lost. Who is at the other end is as sure as the network is: on
a network that is not trusted, links want TLS, which belongs here and is not built yet.

What is given to a link waits in the connection's buffer. At LINK_BYTES_MAX it is full; `LinkRoom` follows when the
buffer has drained. A peer that reads nothing is the stack's to give up.
"""

import asyncio
from collections.abc import Callable, Coroutine
from struct import Struct
from typing import Final, final

from antiphon.kernel.calls import (
    FRAME_BYTES_MAX,
    LINK_BYTES_MAX,
    Dial,
    Frames,
    Hang,
    Listen,
    accepted_link,
    stack_of_token,
)
from antiphon.kernel.identity import NAME_BYTES_MAX, ProcessId
from antiphon.kernel.outcomes import CallOutcome, LinkDown, LinkFrames, LinkRoom, LinkUp
from antiphon.runtime.address import join_address, split_address
from antiphon.runtime.errors import AddressError

_LENGTH: Final = Struct("<I")
_HELLO: Final = Struct("<BQ")
READ_BYTES: Final = 1024 * 1024
"""What is read at once, at most: the frames in it are reported together."""
HELLO_S: Final = 5.0
"""How long the other end may take to say who it is."""
LinkCall = Listen | Dial | Frames | Hang


@final
class Links:
    """The links of one process, which listens at one address."""

    def __init__(
        self,
        process: ProcessId,
        address: str,
        report: Callable[[CallOutcome], object],
        fail: Callable[[Exception], object] | None = None,
    ) -> None:
        self._process = process
        self.address = address
        """Where others dial; a port 0 is replaced by a free one when this listens."""
        self._report = report
        self._fail = fail
        """Told if others cannot dial here at all."""
        self._listens: dict[int, int] = {}
        """The token of `Listen`, by the number of the stack."""
        self._server: asyncio.Server | None = None
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._full: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = 0

    def carry_out(self, call: LinkCall) -> None:
        """Do what a stack asks for; it is not waited for."""
        if isinstance(call, Listen):
            first = not self._listens
            self._listens[stack_of_token(call.token)] = call.token
            if first:
                self._start(self._listen())
        elif isinstance(call, Dial):
            self._start(self._dial(call.link, call.address))
        elif isinstance(call, Frames):
            self._send(call.link, call.frames)
        else:
            writer = self._writers.pop(call.link, None)
            if writer is not None:
                writer.close()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self) -> None:
        host, port = split_address(self.address)
        try:
            self._server = await asyncio.start_server(self._accept, host, port, limit=READ_BYTES)
        except OSError as error:
            if self._fail is None:
                raise
            why = f"no link can be accepted there ({error}); choose another address"
            self._fail(AddressError(self.address, why))
            return
        self.address = join_address(self._server.sockets[0].getsockname())

    async def listening(self) -> None:
        """Wait until whoever dials is heard, if a stack listens at all."""
        while self._listens and self._server is None:
            await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted += 1
        await self._run(0, reader, writer, self._accepted)

    async def _dial(self, link: int, address: str) -> None:
        try:
            host, port = split_address(address)
            reader, writer = await asyncio.open_connection(host, port, limit=READ_BYTES)
        except (OSError, ValueError) as error:
            self._report(LinkDown(link, str(error)))
            return
        await self._run(link, reader, writer)

    async def _run(
        self, link: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, accepted: int = 0
    ) -> None:
        """One link from its beginning to its end; `link` is 0 for one that was accepted, as the so-manieth."""
        if link:
            hello = _HELLO.pack(stack_of_token(link), self._process.incarnation) + self._process.name.encode()
            writer.write(_LENGTH.pack(len(hello)) + hello)
        reason = "the other end hung up"
        try:
            stack, identity = _read_hello(await asyncio.wait_for(_read_frame(reader), HELLO_S))
            listen = 0
            if not link:
                listen = self._listens[stack]
                link = accepted_link(listen, accepted)
                hello = _HELLO.pack(stack, self._process.incarnation) + self._process.name.encode()
                writer.write(_LENGTH.pack(len(hello)) + hello)
            self._writers[link] = writer
            self._report(LinkUp(link, identity, listen))
            buffer = FrameBuffer()
            while link in self._writers:
                data = await reader.read(READ_BYTES)
                if not data:
                    break
                frames = buffer.take(data)
                if frames and link in self._writers:
                    self._report(LinkFrames(link, frames))
        except (asyncio.IncompleteReadError, KeyError):
            pass
        except (OSError, ValueError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
        finally:
            writer.close()
        if self._writers.pop(link, None) is not None or (link and reason != "the other end hung up"):
            self._report(LinkDown(link, reason))

    def _send(self, link: int, frames: list[bytes]) -> None:
        writer = self._writers.get(link)
        if writer is None:
            return  # it broke; that is being reported
        writer.write(b"".join([part for frame in frames for part in (_LENGTH.pack(len(frame)), frame)]))
        if writer.transport.get_write_buffer_size() >= LINK_BYTES_MAX and link not in self._full:
            self._full.add(link)
            self._start(self._drain(link, writer))

    async def _drain(self, link: int, writer: asyncio.StreamWriter) -> None:
        try:
            await writer.drain()
        except OSError:
            return
        finally:
            self._full.discard(link)
        if link in self._writers:
            self._report(LinkRoom(link))

    def mute(self) -> None:
        """End all links and listen no more; nothing more is reported."""
        self._report = _ignore
        writers, self._writers = list(self._writers.values()), {}
        for writer in writers:
            writer.close()
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """End all links; nothing more is reported."""
        writers, self._writers = list(self._writers.values()), {}
        for writer in writers:
            writer.close()
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))


def _ignore(outcome: CallOutcome) -> None:
    """Whoever was to be told is gone."""


class FrameBuffer:
    """Cuts what comes by a connection into frames."""

    def __init__(self) -> None:
        self._begun = bytearray()
        """A frame that has not come to its end."""

    def take(self, data: bytes) -> list[bytes]:
        """The frames that are whole with this. Raises ValueError for one that is too long."""
        if self._begun:
            self._begun += data
            if len(self._begun) < _LENGTH.size or len(self._begun) < _LENGTH.size + self._size_at(self._begun, 0):
                return []
            data = bytes(self._begun)
            self._begun.clear()
        frames: list[bytes] = []
        start, end = 0, len(data)
        while end - start >= _LENGTH.size:
            stop = start + _LENGTH.size + self._size_at(data, start)
            if stop > end:
                break
            frames.append(data[start + _LENGTH.size : stop])
            start = stop
        self._begun += data[start:]
        return frames

    def _size_at(self, data: bytes | bytearray, start: int) -> int:
        size = int(_LENGTH.unpack_from(data, start)[0])
        if size > FRAME_BYTES_MAX:
            raise ValueError(f"a frame of {size} bytes; at most {FRAME_BYTES_MAX} are taken")
        return size


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    size = int(_LENGTH.unpack(await reader.readexactly(_LENGTH.size))[0])
    if size > FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {size} bytes; at most {FRAME_BYTES_MAX} are taken")
    return await reader.readexactly(size)


def _read_hello(frame: bytes) -> tuple[int, ProcessId]:
    if not _HELLO.size < len(frame) <= _HELLO.size + NAME_BYTES_MAX:
        raise ValueError("the other end did not say who it is")
    stack, incarnation = _HELLO.unpack_from(frame)
    return int(stack), ProcessId(frame[_HELLO.size :].decode(errors="replace"), int(incarnation))
