"""Frames on a TCP connection: four bytes of length, then the body. The length is checked before anything is stored."""

import asyncio
import contextlib
from typing import Final

FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
"""The connection of a peer that announces a longer frame is closed."""
DIFFUSION_BYTES_MAX: Final = FRAME_BYTES_MAX - 1024
"""A payload to or from a client travels in one frame; this leaves room for the other fields."""
LENGTH_BYTES: Final = 4


class FrameError(Exception):
    """The connection cannot be used any more; the text says why."""


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Return the next frame. Raises FrameError if the connection is closed or the frame too long."""
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        if length > FRAME_BYTES_MAX:
            raise FrameError(f"the peer announced a frame of {length} bytes; at most {FRAME_BYTES_MAX} are allowed")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, OSError) as error:
        raise FrameError("the connection was closed") from error


def put_frame(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Queue a frame for sending, without waiting; `writer.drain()` limits what is queued."""
    assert len(body) <= FRAME_BYTES_MAX
    writer.write(len(body).to_bytes(LENGTH_BYTES, "big"))
    writer.write(body)


async def send_frame(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Send a frame, and wait while the receiver is slow."""
    put_frame(writer, body)
    try:
        await writer.drain()
    except OSError as error:
        raise FrameError("the connection was closed") from error


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close the connection, and wait until it is closed."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def split_host(address: str) -> tuple[str, int]:
    """Return host and port of "host:port", where the host may be an IPv6 address in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def join_host(host: str, port: int) -> str:
    """The reverse of `split_host`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
