"""Ask an observer for a document, as `antiphon top` does: bounded in bytes and in time."""

import asyncio
import json
from typing import Any, Final

from antiphon.runtime.address import split_address

DOCUMENT_BYTES_MAX: Final = 16 * 1024 * 1024


async def fetch_json(address: str, path: str, timeout_s: float) -> dict[str, Any]:
    """The document at `path` of the observer at `address`, "host:port" or a URL. Raises OSError, which TimeoutError
    is, and ValueError for what is no such document."""
    where = address.removeprefix("http://").rstrip("/")
    host, port = split_address(where)
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {where}\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while piece := await reader.read(65536):
                answer += piece
                if len(answer) > DOCUMENT_BYTES_MAX:
                    raise ValueError("the answer is too long")
        finally:
            writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1."):
        raise ValueError("this does not answer as an observer does")
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError("this does not answer as an observer does")
    return document
