"""A client of NATS JetStream: one stream, an ordered consumer for each client, by nats-py. Messages are published
without an acknowledgement each, which is quicker: the sender reads them back from the stream. Extra arguments: the
address, the window, `load` or `latency`, `memory` or `file`."""

import asyncio
import json
import sys
from typing import Any

import nats
from nats.js.api import StorageType, StreamConfig

from bench.peers.member import Seat, take_seat, wait_for_end, wait_for_go
from bench.peers.ordered import GROUP, LatencyPhase, OrderedPhase


async def aside(wait: Any) -> None:
    await asyncio.get_running_loop().run_in_executor(None, wait)


class StreamClient:
    """One connection; `phase` takes what comes."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self.phase: OrderedPhase | None = None
        self.came = asyncio.Event()
        self._connection: Any = None

    async def open(self, address: str, storage: str) -> None:
        self._connection = await nats.connect(f"nats://{address}", pending_size=64 * 1024 * 1024)
        stream = self._connection.jetstream()
        kind = StorageType.FILE if storage == "file" else StorageType.MEMORY
        await stream.add_stream(StreamConfig(name="BENCH", subjects=[GROUP], storage=kind))
        await stream.subscribe(
            GROUP, ordered_consumer=True, cb=self._take, pending_msgs_limit=-1, pending_bytes_limit=-1
        )

    async def _take(self, message: Any) -> None:
        if self.phase is not None:
            self.phase.take([message.data])
        self.came.set()

    async def publish(self, payload: bytes) -> None:
        await self._connection.publish(GROUP, payload)

    async def run(self, phase: OrderedPhase) -> None:
        self.phase = phase
        while not phase.is_done:
            self.came.clear()
            for payload in phase.next_payloads():
                await self.publish(payload)
            if phase.room() <= 0:
                await self.came.wait()

    async def ping(self, count: int) -> LatencyPhase:
        phase = LatencyPhase(count)
        payload = b"." * self._seat.size
        while phase.begin():
            self.came.clear()
            await self.publish(payload)
            await self.came.wait()
            phase.end()
        return phase


async def work(seat: Seat) -> None:
    address, window, mode, storage = seat.extra
    client = StreamClient(seat)
    await client.open(address, storage)
    await aside(wait_for_go)
    if mode == "latency":
        await client.ping(seat.warmup)
        await aside(wait_for_go)
        print(json.dumps((await client.ping(seat.count)).report()), flush=True)
    else:
        warmup, phase = OrderedPhase(seat, seat.warmup, int(window)), OrderedPhase(seat, 0, 0)
        await client.run(warmup)
        client.phase = phase
        await aside(lambda: wait_for_go(warmup.tally))
        phase = OrderedPhase(seat, seat.count, int(window))
        await client.run(phase)
        phase.report()
    await aside(wait_for_end)


if __name__ == "__main__":
    asyncio.run(work(take_seat(sys.argv[1:])))
