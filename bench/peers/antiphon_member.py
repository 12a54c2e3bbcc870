"""A member of an Antiphon group. Extra arguments: the order; `batches` or `messages`, how it reads, or `plain`, the
program that people write first: one `await group.send` a message, one message at a time out of `async for`, without own
ones, as in the programs of the peers; the event loop, `asyncio` or `uvloop`; and `profile`, to have the first member's
profile in its report.
"""

import asyncio
import cProfile
import importlib
import io
import pstats
import sys
from collections.abc import Callable
from typing import Final, cast

from antiphon import Batch, Group, Message, Node, Order
from bench.peers.member import NUMBERS, Seat, Tally, take_seat, wait_for_end, wait_for_go

GROUP: Final = "bench"
BURST: Final = 256
"""Sent singly between two turns of the reader, as in the program of the ZeroMQ mesh."""
PROFILE_LINES: Final = 30


async def send(group: Group, payloads: list[bytes], order: Order, count: int) -> None:
    for _ in range(count // NUMBERS):
        await group.send_many(payloads, order=order)
    await group.send_many(payloads[: count % NUMBERS], order=order)


async def send_singly(group: Group, payloads: list[bytes], order: Order, count: int) -> None:
    for number in range(count):
        await group.send(payloads[number % NUMBERS], order=order)
        if number % BURST == BURST - 1:  # to send does not wait while there is room: let the reader have its turn
            await asyncio.sleep(0)


async def read_others(group: Group, tally: Tally, own: int, count: int) -> None:
    """Each message of the others by itself."""
    positions = tally.positions
    left = tally.left
    async for event in group.events(own=False):
        if type(event) is Message:
            payload = event.payload
            rank = payload[1]
            position = positions[rank]
            if payload[0] != position % NUMBERS:
                tally.wrong += 1
            positions[rank] = position + 1
            left -= 1
            if not left:
                tally.add(tally.left)
                return


async def read_batches(group: Group, tally: Tally, own: int, count: int) -> None:
    """To the last own message, too: who leaves some unread holds up what it still has to send."""
    left = count
    async for event in group.batches():
        if type(event) is Batch:
            rank = event.payloads[0][1]
            tally.take(event.payloads, rank)
            if rank == own:
                left -= len(event.payloads)
            if tally.is_complete and not left:
                return


async def read_messages(group: Group, tally: Tally, own: int, count: int) -> None:
    positions = tally.positions
    left = tally.left
    async for event in group:
        if type(event) is Message:
            payload = event.payload
            rank = payload[1]
            position = positions[rank]
            if payload[0] != position % NUMBERS:
                tally.wrong += 1
            positions[rank] = position + 1
            if rank != own:
                left -= 1
                if not left:
                    tally.add(tally.left)
            if not left and positions[own] == count:
                return


async def phase(group: Group, seat: Seat, count: int) -> Tally:
    order, reading, *_ = seat.extra
    tally = Tally(seat, count)
    read = {"batches": read_batches, "plain": read_others}.get(reading, read_messages)
    sender = send_singly if reading == "plain" else send
    reader = read(group, tally, seat.rank, count)
    await asyncio.gather(sender(group, seat.payloads(), cast("Order", order), count), reader)
    return tally


async def aside(wait: Callable[[], None]) -> None:
    """Wait in a thread: meanwhile the node serves the others."""
    await asyncio.get_running_loop().run_in_executor(None, wait)


async def work(seat: Seat) -> None:
    addresses = {f"p{rank}": f"127.0.0.1:{port}" for rank, port in enumerate(seat.ports)}
    name = f"p{seat.rank}"
    multicast = f"239.255.74.1:{seat.ports[0]}" if "multicast" in seat.extra else None
    async with Node(name, address=addresses[name], incarnation=1, multicast=multicast, linger_s=0.0) as node:
        group = await node.join(GROUP, members=addresses, policy="static")
        await aside(wait_for_go)
        warmup = await phase(group, seat, seat.warmup)
        await aside(lambda: wait_for_go(warmup))
        if "profile" in seat.extra and seat.rank == 0:
            with cProfile.Profile() as profile:
                tally = await phase(group, seat, seat.count)
            tally.report(profile=render(profile), statistics=node.statistics())
        else:
            tally = await phase(group, seat, seat.count)
            tally.report(statistics=node.statistics())
        await aside(wait_for_end)


def render(profile: cProfile.Profile) -> str:
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(PROFILE_LINES)
    return text.getvalue()


def main() -> None:
    seat = take_seat(sys.argv[1:])
    factory = importlib.import_module("uvloop").new_event_loop if "uvloop" in seat.extra else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work(seat))


if __name__ == "__main__":
    main()
