"""Frames on a TCP connection: four bytes of length, then the body. The limit is checked before anything is kept."""

import asyncio
import contextlib
from typing import Final

FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
"""A peer that announces a longer frame is cut off."""
DIFFUSION_BYTES_MAX: Final = FRAME_BYTES_MAX - 1024
"""A payload for clients, or of one, travels in one frame, and leaves room for what is said about it."""
LENGTH_BYTES: Final = 4


class FrameError(Exception):
    """The connection is of no use any more; the text says why."""


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next frame. FrameError: the other side is gone, or does not keep to the format."""
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        if length > FRAME_BYTES_MAX:
            raise FrameError(f"a frame of {length} bytes was announced, and at most {FRAME_BYTES_MAX} are allowed")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, OSError) as error:
        raise FrameError("the connection was closed") from error


def put_frame(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Have a frame sent; whoever sends many waits for `writer.drain()` now and then."""
    assert len(body) <= FRAME_BYTES_MAX
    writer.write(len(body).to_bytes(LENGTH_BYTES, "big"))
    writer.write(body)


async def send_frame(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Send a frame, at the pace of the receiver."""
    put_frame(writer, body)
    try:
        await writer.drain()
    except OSError as error:
        raise FrameError("the connection was closed") from error


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close the connection and wait until it is."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def split_host(address: str) -> tuple[str, int]:
    """The host and port of "host:port", where the host may be an IPv6 address in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def join_host(host: str, port: int) -> str:
    """The reverse of `split_host`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
