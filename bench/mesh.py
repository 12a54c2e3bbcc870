"""One process of a mesh of TCP circuits, a plain way to have everybody get everything: a circuit from each process to
each other one, and a copy of each message on every one, without Nagle's delay. Messages have a length before them and
are written in chunks, as `bench.member` hands them to `send_many`. No order between senders; no member is dropped.
"""

import asyncio
import os
import struct
import time
from typing import Final

from antiphon.runtime.workers import Object, Parent
from bench.member import chunk_of, cpu_s
from bench.namespaces import enter

LENGTH: Final = struct.Struct("<I")
READ_BYTES: Final = 256 * 1024


class Mesh:
    """The circuits of one process, and what has come by them."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._writers: list[asyncio.StreamWriter] = []
        self._handed = 0
        self._over = False
        self._server: asyncio.Server | None = None

    async def work(self) -> None:
        """Do jobs until there is no parent any more."""
        while True:
            job = await self._parent.expect("job")
            what = getattr(self, "do_" + job["what"])
            self._parent.tell("done", **(await what(job) or {}))

    async def do_hello(self, job: Object) -> Object:
        return {"pid": os.getpid()}

    async def do_enter(self, job: Object) -> None:
        enter(job["namespace"])

    async def do_bind(self, job: Object) -> Object:
        host = job["host"]
        self._server = await asyncio.start_server(self._read, host, 0, limit=READ_BYTES)
        return {"address": [host, self._server.sockets[0].getsockname()[1]]}

    async def do_connect(self, job: Object) -> None:
        for host, port in job["addresses"]:
            _, writer = await asyncio.open_connection(host, port)
            self._writers.append(writer)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Cut the bytes of one circuit into messages, each an object of its own, as an application is handed them."""
        held = b""
        while data := await reader.read(READ_BYTES):
            held += data
            place, messages = 0, []
            while place + 4 <= len(held):
                (length,) = LENGTH.unpack_from(held, place)
                if place + 4 + length > len(held):
                    break
                messages.append(held[place + 4 : place + 4 + length])
                place += 4 + length
            held = held[place:]
            self._handed += len(messages)

    async def do_flood(self, job: Object) -> Object:
        """Send without end, and count what comes once the warm-up is over; own messages are handed over too."""
        self._over = False
        sending = asyncio.create_task(self._flood(job["size"]))
        await asyncio.sleep(job["warmup"])
        begin_s, handed, used_s = time.perf_counter(), self._handed, cpu_s()
        await asyncio.sleep(job["seconds"])
        lasted_s = time.perf_counter() - begin_s
        handed, used_s = self._handed - handed, cpu_s() - used_s
        self._over = True
        await sending
        return {"rate": handed / lasted_s, "cpu_s": used_s / max(1, handed)}

    async def _flood(self, size: int) -> None:
        count = chunk_of(size)
        chunk = (LENGTH.pack(size) + bytes(size)) * count
        while not self._over:
            for writer in self._writers:
                writer.write(chunk)
            for writer in self._writers:
                await writer.drain()
            self._handed += count


async def main() -> None:
    await Mesh(await Parent.connect()).work()


if __name__ == "__main__":
    asyncio.run(main())
