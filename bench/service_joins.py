"""How long it takes to join and to leave a group of the sequencing service, under load: real processes on loopback.

    python -m bench.service_joins [--rounds 100] [--clients 8] [--rate 2000] [--json]

Two peers run (kindberg-1995, 4.2), each with ten groups, to all of which clients publish at a steady rate, in all so
many messages a second. One more client, which is in a group of the first peer all the time, joins and leaves a group,
round after round, in three ways: a group at the peer that it has a link to; one at the other peer, to which it has to
dial; one that begins to move from the first peer to the second, or back, at the moment of the join. Told are p50, p99
and the longest of `subscribe` and `unsubscribe`, in milliseconds."""

import argparse
import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from typing import Any, Final

import antiphon
from antiphon.stacks.sequencer.plan import PlaceGroups
from bench.peers.driver import free_ports

GROUPS: Final = 10
"""Of each peer."""
PAYLOAD: Final = b"x" * 64
TURN_S: Final = 0.02
PAUSE_S: Final = 0.01
WAYS: Final = ("linked", "dialled", "moving")


def groups_of(peer: int) -> list[str]:
    return [f"g{peer}-{number}" for number in range(GROUPS)]


async def serve(address: str, other: str) -> None:
    """Be a peer; a line on standard input has a group and the address that it is to move to."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with antiphon.Node(f"peer-{address.rpartition(':')[2]}", address=address) as node:
        node.serve("sequencer", peers=[other])
        print("ready", flush=True)
        driver = node._driver
        assert driver is not None
        while line := (await reader.readline()).decode().split():
            driver.ask(PlaceGroups((line[0],), line[1]))


async def load(addresses: list[str], clients: int, rate: int) -> None:
    """Publish to all groups at a steady rate, and read them, until standard input ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    opened = []
    for number in range(clients):
        client = await antiphon.connect(addresses[number % 2], name=f"load{number}")
        await client.subscribe(*groups_of(number % 2))
        opened.append((client, asyncio.create_task(read(client))))
    print("ready", flush=True)
    ending = asyncio.create_task(reader.read())
    number, start_s = 0, time.monotonic()
    while not ending.done():
        while number < (time.monotonic() - start_s) * rate:
            client = opened[number % clients][0]
            await client.publish(groups_of(number % clients % 2)[number // clients % GROUPS], PAYLOAD)
            number += 1
        await asyncio.sleep(TURN_S)
    for client, reading in opened:
        reading.cancel()
        await client.close()


async def read(client: antiphon.Connection) -> None:
    async for _ in client:
        pass


async def start(*arguments: str) -> Process:
    command = [sys.executable, "-m", "bench.service_joins", *arguments]
    child = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert child.stdout is not None
    if await asyncio.wait_for(child.stdout.readline(), 30) != b"ready\n":
        raise SystemExit(f"{' '.join(arguments)} did not start")
    return child


async def rounds(way: str, count: int, addresses: list[str], peers: list[Process]) -> dict[str, list[float]]:
    """Join and leave so often; how long each took, in milliseconds."""
    taken: dict[str, list[float]] = {"join": [], "leave": []}
    client = await antiphon.connect(addresses[0], name=f"joiner-{way}")
    reading = asyncio.create_task(read(client))
    await client.subscribe(groups_of(0)[0])
    at = 0
    for number in range(count):
        group = {"linked": groups_of(0)[1], "dialled": groups_of(1)[number % GROUPS], "moving": groups_of(0)[2]}[way]
        if way == "moving":
            stdin = peers[at].stdin
            assert stdin is not None
            stdin.write(f"{group} {addresses[1 - at]}\n".encode())
            at = 1 - at
        start_s = time.perf_counter()
        await client.subscribe(group)
        joined_s = time.perf_counter()
        await client.unsubscribe(group)
        taken["join"].append((joined_s - start_s) * 1e3)
        taken["leave"].append((time.perf_counter() - joined_s) * 1e3)
        await asyncio.sleep(PAUSE_S)
    reading.cancel()
    await client.close()
    return taken


def summary(values: list[float]) -> list[float]:
    """p50, p99 and the longest."""
    ranked = sorted(values)
    return [round(ranked[int(len(ranked) * share)], 2) for share in (0.5, 0.99)] + [round(ranked[-1], 2)]


async def measure(count: int, clients: int, rate: int) -> list[dict[str, Any]]:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    children: list[Process] = []
    try:
        for place in (0, 1):
            children.append(await start("--serve", addresses[place], addresses[1 - place]))
        children.append(await start("--load", *addresses, "--clients", str(clients), "--rate", str(rate)))
        results = []
        for way in WAYS:
            taken = await rounds(way, count, addresses, children[:2])
            results.append({"way": way, "rounds": count, **{what: summary(values) for what, values in taken.items()}})
        return results
    finally:
        for child in reversed(children):
            assert child.stdin is not None
            child.stdin.close()
            try:
                await asyncio.wait_for(child.wait(), 10)
            except TimeoutError:
                child.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(*arguments.serve))
    elif arguments.load:
        asyncio.run(load(arguments.load, arguments.clients, arguments.rate))
    else:
        results = asyncio.run(measure(arguments.rounds, arguments.clients, arguments.rate))
        if arguments.json:
            print(json.dumps({"results": results}))
            return
        for one in results:
            print(f"{one['way']:10} join p50, p99, max {one['join']} ms, leave {one['leave']} ms")


if __name__ == "__main__":
    main()
