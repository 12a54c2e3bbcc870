"""The walk of one message: every call of ours from `Group.send` in one process to `async for` in another.

    python -m bench.walk            how many calls, functions and files
    python -m bench.walk --list     each call, in order, indented by depth

Two nodes on loopback in one process: the profiler sees both. Counted is every Python function of this package that is
entered from the call of `send` until the reader of the other node has the message: the sender's steps, its delivery to
itself included, and the receiver's. Timers that fall in between are counted too; the group is idle before, so that
there are few. Run it with ANTIPHON_PURE=1: compiled functions are not seen.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import antiphon
from antiphon import Group, Message, Node

PACKAGE: Final = str(Path(antiphon.__file__).parent)
WARM: Final = 20
"""Messages before the one that is followed, so that nothing happens for the first time."""


class Walk:
    """Calls of this package's functions, while recording."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, str, str]] = []
        """Depth, file, function."""
        self._depth = 0

    def start(self) -> None:
        self._depth = 0
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return
        if event == "call":
            self.calls.append((self._depth, code.co_filename[len(PACKAGE) + 1 :], code.co_qualname))
            self._depth += 1
        elif event == "return":
            self._depth -= 1


async def follow() -> Walk:
    """The walk of one message of 64 bytes at level causal, in a group of two."""
    nodes = [Node(name, address="127.0.0.1:0", incarnation=1) for name in ("from", "to")]
    for node in nodes:
        await node.start()
    members = {node.process.name: node.address for node in nodes}
    sender, receiver = [await node.join("walk", members=members, policy="static") for node in nodes]
    reader = aiter(receiver)
    sender.listen(_ignore)
    for _ in range(WARM):
        await sender.send(bytes(64))
        while not isinstance(await anext(reader), Message):
            pass
    await asyncio.sleep(0.5)  # until nothing is to be acknowledged any more
    walk = await _record(nodes, sender, reader)
    await asyncio.gather(*(node.close() for node in nodes))
    return walk


def _ignore(event: object) -> None:
    """What the sender hears of itself."""


async def _record(nodes: Sequence[Node], sender: Group, reader: Any) -> Walk:
    walk = Walk()
    reading = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    walk.start()
    await sender.send(bytes(64))
    event = await reading
    walk.stop()
    assert isinstance(event, Message)
    return walk


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench walk", description="The calls of one message, end to end.")
    parser.add_argument("--list", action="store_true", help="each call, in order")
    arguments = parser.parse_args(argv)
    walk = asyncio.run(follow())
    if arguments.list:
        for depth, file, function in walk.calls:
            print(f"{'  ' * depth}{function}  ({file})")
    functions = {(file, function) for _, file, function in walk.calls}
    files = {file for _, file, _ in walk.calls}
    print(f"{len(walk.calls)} calls, {len(functions)} functions, {len(files)} files")


if __name__ == "__main__":
    main()
