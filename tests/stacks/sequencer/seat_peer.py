"""A peer of the sequencing service as a process, to be killed: python -m tests.stacks.sequencer.seat_peer ADDRESS DIR
PEER PEER…

It is replicated once, and keeps its log in a directory."""

import asyncio
import sys
from pathlib import Path

from antiphon.kernel.options import Options
from antiphon.runtime.node import Node

SETTINGS = {"sequencer.replicas": 1, "sequencer.durable": 1}


async def serve(address: str, storage: Path, peers: list[str]) -> None:
    async with Node("peer", address=address, options=Options(of_stacks=SETTINGS), storage=storage) as node:
        node.serve("sequencer", peers=peers)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
