"""A plain HTTP client, for any event loop."""

import asyncio
import json
from typing import Any

from antiphon.runtime.address import split_address


async def exchange(address: str, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send raw bytes; status, headers and body of what comes back until the other side closes. Status 0: nothing."""
    reader, writer = await asyncio.open_connection(*split_address(address))
    try:
        writer.write(request)
        await writer.drain()
        answer = await reader.read(-1)
    finally:
        writer.close()
    if not answer:
        return 0, {}, b""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split(" ")[1]), headers, body


async def get(address: str, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    return await exchange(address, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


async def get_json(address: str, path: str) -> tuple[int, dict[str, Any]]:
    status, headers, body = await get(address, path)
    assert headers["content-type"] == "application/json"
    return status, json.loads(body)
