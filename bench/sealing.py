"""What seals cost: processor time per message, sealed against plain, in one process.

    python -m bench.sealing                       causal messages of 64 bytes and of 16 KiB, three members on loopback
    python -m bench.sealing --blocks 9 --messages 20000

Three groups of three nodes each, plain, sealed by a shared key, and sealed between identities, take turns: a block of
messages in one, then the same in the others, so that all meet the same machine. A block ends when all members have all
of it. The time is that of the process, user and system, for all three members together; the ratios are plain by sealed
and plain by identified, 1.0 if seals cost nothing.
"""

import argparse
import asyncio
import json
import secrets
import statistics
import tempfile
import time
from typing import Final

from antiphon import Group, Message, Node
from antiphon.runtime.authority import Authority, create_authority
from antiphon.runtime.identity import load_identity
from antiphon.runtime.keyring import Keyring, SharedKey

NAMES: Final = ("a", "b", "c")
SIZES: Final = (64, 16 * 1024)
BYTES_PER_BLOCK: Final = 48 * 1024 * 1024
"""Blocks of long messages have fewer of them."""


class Trio:
    """Three members of one group."""

    def __init__(self, keyring: Keyring | None, authority: Authority | None = None) -> None:
        self._nodes = [
            Node(
                name,
                address="127.0.0.1:0",
                incarnation=1,
                keyring=keyring,
                identity=None if authority is None else load_identity(authority.issue(name)),
                linger_s=1.0,
            )
            for name in NAMES
        ]
        self._groups: list[Group] = []
        self._left = 0
        self._all_here = asyncio.Event()
        self._readers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        for node in self._nodes:
            await node.start()
        members = {f"{node.process.name}/1": node.address for node in self._nodes}
        self._groups = [await node.join("g", members=members, policy="static") for node in self._nodes]
        self._readers = [asyncio.create_task(self._read(group)) for group in self._groups]

    async def _read(self, group: Group) -> None:
        async for event in group.batches():
            self._left -= len(event.payloads) if hasattr(event, "payloads") else isinstance(event, Message)
            if self._left <= 0:
                self._all_here.set()

    async def block(self, messages: int, size: int) -> float:
        """Seconds of processor for so many messages of the first member to all."""
        payload = secrets.token_bytes(size)
        self._left = messages * len(NAMES)
        self._all_here.clear()
        begun_s = time.process_time()
        for _ in range(messages // 100):
            await self._groups[0].send_many([payload] * 100)
        await self._all_here.wait()
        return time.process_time() - begun_s

    async def close(self) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*(node.close() for node in self._nodes))


async def measure(messages: int, blocks: int) -> list[dict[str, float]]:
    """One row for each size."""
    with tempfile.TemporaryDirectory() as directory:
        trios = {
            "plain": Trio(None),
            "sealed": Trio(Keyring([SharedKey(1, secrets.token_bytes(32))])),
            "identified": Trio(None, create_authority(directory)),
        }
    rows = []
    for trio in trios.values():
        await trio.start()
    try:
        for size in SIZES:
            count = max(100, min(messages, BYTES_PER_BLOCK // size) // 100 * 100)
            times: dict[str, list[float]] = {name: [] for name in trios}
            for block in range(blocks + 1):
                for name, trio in trios.items():
                    took_s = await trio.block(count, size)
                    if block:  # the first one warms up
                        times[name].append(took_s)
            each = {name: statistics.median(took) / count * 1e6 for name, took in times.items()}
            row: dict[str, float] = {"bytes": size, **{f"{name}_us": took_us for name, took_us in each.items()}}
            for name in ("sealed", "identified"):
                pairs = zip(times["plain"], times[name], strict=True)
                row[f"{name}_ratio"] = statistics.median(plain / other for plain, other in pairs)
            rows.append(row)
    finally:
        for trio in trios.values():
            await trio.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--blocks", type=int, default=7)
    arguments = parser.parse_args()
    for row in asyncio.run(measure(arguments.messages, arguments.blocks)):
        print(json.dumps({name: round(value, 3) for name, value in row.items()}), flush=True)


if __name__ == "__main__":
    main()
