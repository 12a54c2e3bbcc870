"""Links over TCP: `Listen`, `Dial`, `Frames` and `Hang` (kernel/calls.py).

A link is one connection. Frames go as `length u32 | bytes`, little-endian. The first frame of either side says who it
is: `stack u8 | incarnation u64 | name`; whoever accepts a link gives it to the `Listen` of that stack. TCP keeps frames
whole and in order, and when it breaks, only a suffix is lost. The links of a node that has keys are sealed
(sealed_streams.py): at the other end is somebody who has one of them, which tells nothing about its name.

What is given to a link waits in the connection's buffer. At LINK_BYTES_MAX it is full; `LinkRoom` follows when the
buffer has drained. A peer that reads nothing is the stack's to give up.

Cost. A link has no task and no buffer of its own: all links of a thread read into one, from which each frame is copied
once, and all frames that one read brings are reported together. So thousands of idle links cost little memory, and
long bodies few copies.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from struct import Struct
from typing import Final, cast, final

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
from antiphon.runtime.keyring import KeySupply
from antiphon.runtime.sealed_streams import create_connection, create_server

_LENGTH: Final = Struct("<I")
_HELLO: Final = Struct("<BQ")
READ_BYTES: Final = 1024 * 1024
"""What is read at once, at most: the frames in it are reported together."""
_SHORT_BYTES: Final = 2048
"""Shorter frames are joined before they are given to the connection."""
HELLO_S: Final = 5.0
"""How long the other end may take to say who it is."""
_HUNG_UP: Final = "the other end hung up"
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
        keys: KeySupply | None = None,
    ) -> None:
        self.process = process
        self.address = address
        """Where others dial; a port 0 is replaced by a free one when this listens."""
        self.report = report
        self._fail = fail
        """Told if others cannot dial here at all."""
        self._keys = keys
        self.listens: dict[int, int] = {}
        """The token of `Listen`, by the number of the stack."""
        self._server: asyncio.AbstractServer | None = None
        self.open: dict[int, LinkProtocol] = {}
        """The links that are reported as up, by their ids."""
        self.strangers: set[LinkProtocol] = set()
        """Connections whose other end has not said who it is."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = 0
        self.is_over = False

    def carry_out(self, call: LinkCall) -> None:
        """Do what a stack asks for; it is not waited for."""
        if isinstance(call, Frames):
            link = self.open.get(call.link)
            if link is not None:  # else it broke; that is being reported
                link.send(call.frames)
        elif isinstance(call, Listen):
            first = not self.listens
            self.listens[stack_of_token(call.token)] = call.token
            if first:
                self._start(self._listen())
        elif isinstance(call, Dial):
            self._start(self._dial(call.link, call.address))
        else:
            link = self.open.pop(call.link, None)
            if link is not None:
                link.close()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self) -> None:
        host, port = split_address(self.address)
        try:
            server = await create_server(self._accept, host, port, self._keys)
        except OSError as error:
            if self._fail is None:
                raise
            why = f"no link can be accepted there ({error}); choose another address"
            self._fail(AddressError(self.address, why))
            return
        self._server = server
        self.address = join_address(server.sockets[0].getsockname())

    async def listening(self) -> None:
        """Wait until whoever dials is heard, if a stack listens at all."""
        while self.listens and self._server is None:
            await asyncio.sleep(0)

    def _accept(self) -> "LinkProtocol":
        self._accepted += 1
        return LinkProtocol(self, 0, self._accepted)

    async def _dial(self, link: int, address: str) -> None:
        try:
            host, port = split_address(address)
            await create_connection(lambda: LinkProtocol(self, link, 0), host, port, self._keys)
        except (OSError, ValueError) as error:
            self.report(LinkDown(link, str(error)))

    def _end_all(self) -> None:
        self.is_over = True
        links, self.open = [*self.open.values(), *self.strangers], {}
        self.strangers = set()
        for link in links:
            link.close()
        if self._server is not None:
            self._server.close()

    def mute(self) -> None:
        """End all links and listen no more; nothing more is reported."""
        self.report = _ignore
        self._end_all()

    async def close(self) -> None:
        """End all links; nothing more is reported."""
        self.mute()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))


_SPACES: Final = threading.local()


def _read_space() -> memoryview:
    """Where all links of a thread read: what a read brings is copied out before anything else happens."""
    space: memoryview | None = getattr(_SPACES, "space", None)
    if space is None:
        space = _SPACES.space = memoryview(bytearray(READ_BYTES))
    return space


def _ignore(outcome: CallOutcome) -> None:
    """Whoever was to be told is gone."""


@final
class LinkProtocol(asyncio.BufferedProtocol):
    """One link from its beginning to its end."""

    __slots__ = ("_accepted", "_buffer", "_is_full", "_link", "_links", "_patience", "_reason", "_transport")

    def __init__(self, links: Links, link: int, accepted: int) -> None:
        self._links = links
        self._link = link
        """0 for one that was accepted, as the `accepted`-th, until the other end has said who it is."""
        self._accepted = accepted
        self._buffer = FrameBuffer()
        self._is_full = False
        self._reason = _HUNG_UP
        self._transport: asyncio.Transport | None = None
        self._patience: asyncio.TimerHandle | None = None

    # ---- what its owner wants --------------------------------------------------------------------------------------

    def send(self, frames: list[bytes]) -> None:
        transport = self._transport
        assert transport is not None
        parts: list[bytes] = []
        for frame in frames:
            parts.append(_LENGTH.pack(len(frame)))
            parts.append(frame)
        if len(frames) > 1 or len(frames[0]) < _SHORT_BYTES:
            parts = _join_short(parts)
        transport.writelines(parts)
        if transport.get_write_buffer_size() >= LINK_BYTES_MAX:
            self._is_full = True

    def close(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        if self._transport is not None:
            self._transport.close()

    # ---- what its connection tells ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # that of uvloop is none by class
        self._transport = transport
        if self._links.is_over:
            transport.close()
            return
        self._links.strangers.add(self)
        self._patience = asyncio.get_running_loop().call_later(HELLO_S, self._give_up)
        if self._link:
            self._say_hello(stack_of_token(self._link))

    def _say_hello(self, stack: int) -> None:
        process = self._links.process
        self.send([_HELLO.pack(stack, process.incarnation) + process.name.encode()])

    def _give_up(self) -> None:
        self._reason = f"the other end did not say within {HELLO_S:g} s who it is"
        self.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _read_space()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._buffer.take(_read_space()[:nbytes])
            if self._patience is not None and frames:
                self._meet(frames.pop(0))
        except (ValueError, KeyError) as error:
            self._reason = str(error)
            self.close()
            return
        if frames and self._link in self._links.open:
            self._links.report(LinkFrames(self._link, frames))

    def _meet(self, hello: bytes) -> None:
        """The other end has said who it is."""
        links = self._links
        stack, identity = _read_hello(hello)
        listen = 0
        if not self._link:
            listen = links.listens[stack]
            self._link = accepted_link(listen, self._accepted)
            self._say_hello(stack)
        assert self._patience is not None
        self._patience.cancel()
        self._patience = None
        if self in links.strangers:  # else all links are being ended
            links.strangers.discard(self)
            links.open[self._link] = self
            links.report(LinkUp(self._link, identity, listen))

    def resume_writing(self) -> None:
        if self._is_full:
            self._is_full = False
            if self._link in self._links.open:
                self._links.report(LinkRoom(self._link))

    def connection_lost(self, exc: Exception | None) -> None:
        links = self._links
        if self._patience is not None:
            self._patience.cancel()
        if exc is not None:
            self._reason = str(exc) or type(exc).__name__
        was_up = links.open.get(self._link) is self
        was_wanted = self in links.strangers and self._link > 0
        links.strangers.discard(self)
        if was_up:
            del links.open[self._link]
        if was_up or was_wanted:
            links.report(LinkDown(self._link, self._reason))


def _join_short(parts: list[bytes]) -> list[bytes]:
    """The same bytes, in fewer parts; long ones are not copied."""
    joined: list[bytes] = []
    short: list[bytes] = []
    for part in parts:
        if len(part) < _SHORT_BYTES:
            short.append(part)
        else:
            joined += (b"".join(short), part)
            short = []
    if short:
        joined.append(b"".join(short))
    return joined


class FrameBuffer:
    """Cuts what comes by a connection into frames."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = bytearray()
        """A frame that has not come to its end, with its length in front."""

    def take(self, data: memoryview) -> list[bytes]:
        """The frames that are whole with this. Raises ValueError for one that is too long."""
        frames: list[bytes] = []
        start, end = 0, len(data)
        if self._begun:
            start = self._complete(data, frames)
        while end - start >= _LENGTH.size:
            stop = start + _LENGTH.size + self._size_at(data, start)
            if stop > end:
                break
            frames.append(bytes(data[start + _LENGTH.size : stop]))
            start = stop
        if start < end:
            self._begun += data[start:]
        return frames

    def _complete(self, data: memoryview, frames: list[bytes]) -> int:
        """Go on with the frame that has begun; how much of the data belongs to it."""
        begun = self._begun
        start = max(0, _LENGTH.size - len(begun))
        begun += data[:start]
        if len(begun) < _LENGTH.size:
            return len(data)
        stop = start + _LENGTH.size + self._size_at(begun, 0) - len(begun)
        begun += data[start:stop]
        if stop > len(data):
            return len(data)
        frames.append(bytes(memoryview(begun)[_LENGTH.size :]))
        self._begun = bytearray()
        return stop

    def _size_at(self, data: memoryview | bytearray, start: int) -> int:
        size = int(_LENGTH.unpack_from(data, start)[0])
        if size > FRAME_BYTES_MAX:
            raise ValueError(f"a frame of {size} bytes; at most {FRAME_BYTES_MAX} are taken")
        return size


def _read_hello(frame: bytes) -> tuple[int, ProcessId]:
    if not _HELLO.size < len(frame) <= _HELLO.size + NAME_BYTES_MAX:
        raise ValueError("the other end did not say who it is")
    stack, incarnation = _HELLO.unpack_from(frame)
    return int(stack), ProcessId(frame[_HELLO.size :].decode(errors="replace"), int(incarnation))
