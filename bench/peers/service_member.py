"""A client of Antiphon's sequencing service. Extra arguments: the address, the window, `load` or `latency`, and the
event loop."""

import asyncio
import importlib
import json
import sys

import antiphon
from antiphon import Connection
from antiphon.runtime.readers import BatchReader
from bench.peers.antiphon_member import aside
from bench.peers.member import Seat, take_seat, wait_for_end, wait_for_go
from bench.peers.ordered import GROUP, LatencyPhase, OrderedPhase


async def run_phase(client: Connection, reader: BatchReader, phase: OrderedPhase) -> None:
    """Send while the window has room, read, and so on."""
    while not phase.is_done:
        if phase.room() > 0:
            await client.publish_many(GROUP, phase.next_payloads())
        event = await anext(reader)
        if isinstance(event, antiphon.Batch):
            phase.take_run(event.payloads)


async def ping(client: Connection, reader: BatchReader, count: int, size: int) -> LatencyPhase:
    phase = LatencyPhase(count)
    payload = b"." * size
    while phase.begin():
        await client.publish(GROUP, payload)
        while not isinstance(await anext(reader), antiphon.Batch):
            pass
        phase.end()
    return phase


async def work(seat: Seat) -> None:
    address, window, mode = seat.extra[:3]
    client = await antiphon.connect(address, name=f"p{seat.rank}", linger_s=0.0, timeout_s=60.0)
    await client.subscribe(GROUP)
    reader = client.batches()
    await aside(wait_for_go)
    if mode == "latency":
        await ping(client, reader, seat.warmup, seat.size)
        await aside(wait_for_go)
        print(json.dumps((await ping(client, reader, seat.count, seat.size)).report()), flush=True)
    else:
        warmup = OrderedPhase(seat, seat.warmup, int(window))
        await run_phase(client, reader, warmup)
        await aside(lambda: wait_for_go(warmup.tally))
        phase = OrderedPhase(seat, seat.count, int(window))
        await run_phase(client, reader, phase)
        phase.report()
    await aside(wait_for_end)


def main() -> None:
    seat = take_seat(sys.argv[1:])
    factory = importlib.import_module("uvloop").new_event_loop if "uvloop" in seat.extra else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work(seat))


if __name__ == "__main__":
    main()
