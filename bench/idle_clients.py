"""What an idle client costs a peer of the sequencing service: memory and processor time, with many clients.

    python -m bench.idle_clients [--clients 1000] [--seconds 10] [--json]

A peer runs by `antiphon sequencer`; clients connect from other processes, each subscribes to two groups of ten
clients, and then nothing happens. Measured are the peer's resident memory before and after, and its processor time in
between."""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import antiphon
from antiphon.runtime.workers import Parent, Workers
from bench.peers.driver import free_ports, process_cpu_s
from bench.peers.services import RUN, is_open
from bench.peers.system import PeerError, environment

PER_PROCESS: Final = 250
GROUP_CLIENTS: Final = 10
START_S: Final = 60.0


def resident_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [size] = [line.split()[1] for line in lines if line.startswith("VmRSS")]
    return int(size) * 1024


def wait_for(peer: subprocess.Popen[bytes], port: int) -> None:
    """Return when the peer listens."""
    limit_s = time.monotonic() + START_S
    while not is_open(port):
        if peer.poll() is not None or time.monotonic() > limit_s:
            raise PeerError("the peer did not come up")
        time.sleep(0.1)


async def work() -> None:
    """Some clients that do nothing."""
    parent = await Parent.connect()
    order = await parent.expect("start")
    clients = []
    for number in order["numbers"]:
        client = await antiphon.connect(order["address"], name=f"c{number}", linger_s=0.0, timeout_s=60.0)
        hood = number // GROUP_CLIENTS
        await client.subscribe(f"g{hood}", f"h{hood}", timeout_s=60.0)
        clients.append(client)
    parent.tell("ready")
    await parent.expect("end")


async def measure(options: argparse.Namespace, address: str, pid: int) -> dict[str, Any]:
    before = resident_bytes(pid)
    numbers = list(range(options.clients))
    parts = [numbers[start : start + PER_PROCESS] for start in range(0, len(numbers), PER_PROCESS)]
    workers = Workers(["-m", "bench.idle_clients", "--work"], [f"w{place}" for place in range(len(parts))])
    async with workers as running:
        for worker, part in zip(running, parts, strict=True):
            worker.tell("start", numbers=part, address=address)
            await worker.expect("ready")
        await asyncio.sleep(2.0)
        after, cpu_s, begun = resident_bytes(pid), process_cpu_s(pid), time.monotonic()
        await asyncio.sleep(options.seconds)
        spent_s, passed_s = process_cpu_s(pid) - cpu_s, time.monotonic() - begun
        for worker in running:
            worker.tell("end")
    return {
        "clients": options.clients,
        "kib_per_client": round((after - before) / 1024 / options.clients, 1),
        "processor_share": round(spent_s / passed_s, 4),
        "microseconds_of_processor_per_client_and_second": round(1e6 * spent_s / passed_s / options.clients, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        asyncio.run(work())
        return
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [sys.executable, "-c", RUN, "sequencer", "--address", address]
    peer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    try:
        wait_for(peer, int(address.rpartition(":")[2]))
        result = asyncio.run(measure(options, address, peer.pid))
    finally:
        peer.kill()
        peer.wait()
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
