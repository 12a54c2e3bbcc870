"""Conversations in virtual time: several nodes in one program of a simulated host, and what can be done to them.

Between programs of one host there are no faults; `cut` puts a layer under the nodes that a test can open and close.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any, cast

from antiphon.conversation import (
    Checkpoint,
    Conversation,
    accept_conversation,
    open_conversation,
    restart_conversation,
)
from antiphon.kernel.options import Options
from antiphon.runtime import Node
from antiphon.simulator.fault_schedule import NONE
from antiphon.testing import Host, simulate


class Stage:
    """Named nodes, their conversations and their lives."""

    def __init__(self, disk: Path, **settings: Any) -> None:
        self.disk = disk
        self.settings = {"options": Options.fast()} | settings
        self.nodes: dict[str, Node] = {}
        self.talks: dict[str, Conversation] = {}
        self.lives: dict[str, int] = {}
        self._ports = 7400

    async def node(self, name: str, **settings: Any) -> Node:
        """A node of this name in its next life, at an address of its own."""
        self.lives[name] = self.lives.get(name, 0) + 1
        settings = self.settings | {"incarnation": self.lives[name]} | settings
        if "address" not in settings:
            settings["address"] = self.nodes[name].address if name in self.nodes else self._address()
        self.nodes[name] = Node(name, **settings)
        await self.nodes[name].start()
        return self.nodes[name]

    def _address(self) -> str:
        self._ports += 1
        return f"127.0.0.1:{self._ports}"

    def other_address(self) -> dict[str, str]:
        """The setting of a node that comes back elsewhere."""
        return {"address": self._address()}

    async def begin(
        self, names: Sequence[str] = ("a", "b", "c"), *, keep: bool = True, first: bytes | None = b"first"
    ) -> list[Conversation]:
        """A conversation of these, opened by the first; if it says something, all the others have received that."""
        for name in names:
            if name not in self.nodes:
                await self.node(name)
        accepting = [asyncio.create_task(accept_conversation(self.nodes[name], 10)) for name in names[1:]]
        others = {name: self.nodes[name].address for name in names[1:]}
        opened = await open_conversation(self.nodes[names[0]], others, keep=keep)
        self.talks[names[0]] = opened
        if first is not None:
            await opened.send(first)
            for name, accepted in zip(names[1:], accepting, strict=True):
                self.talks[name] = await accepted
                assert (await self.talks[name].receive(10))[1] == first
        return [self.talks[name] for name in self.talks]

    async def kill(self, name: str) -> None:
        """End a node; the others of a conversation are told nothing."""
        await self.nodes[name].close()

    async def come_back(self, name: str, checkpoint: Checkpoint, *, settings: Any = None, **how: Any) -> Conversation:
        """A node in its next life, and its conversation."""
        node = await self.node(name, **(settings or {}))
        self.talks[name] = await restart_conversation(node, checkpoint, **how)
        return self.talks[name]

    async def close(self) -> None:
        for node in self.nodes.values():
            await node.close()


def on_stage(test: Callable[[Stage], Awaitable[None]], *, seed: int = 1, audited: bool = True, **settings: Any) -> None:
    """Run a test in virtual time; what it raises is raised here. `audited`: what its nodes promise is held against
    their histories."""
    raised: list[BaseException] = []

    async def main(host: Host) -> None:
        stage = Stage(host.disk, **settings)
        try:
            async with asyncio.timeout(600):
                await test(stage)
        except BaseException as error:
            raised.append(error)
        finally:
            await stage.close()

    undecided = ("creation", "fifo", "causal", "settled")  # nodes end before the run does
    result = simulate({"stage": main}, seed=seed, faults=NONE, may_be_unknown=undecided)
    if raised:
        raise raised[0]
    assert not audited or not result.problems, result.problems


async def until(condition: Callable[[], bool], within_s: float = 60) -> None:
    """Wait, in virtual time, for something that no event tells of."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.005)


async def drain(talk: Conversation, until_payload: bytes) -> list[bytes]:
    """Receive up to a message; all that was received."""
    got: list[bytes] = []
    while not got or got[-1] != until_payload:
        got.append((await talk.receive(10))[1])
    return got


class CutTransport:
    """A transport that sends nothing to some ports, or nothing at all."""

    def __init__(self, inner: Any, ports: Collection[int] | None) -> None:
        self._inner = inner
        self._ports = ports

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._inner, attribute)

    def send(self, packets: Any, addresses: Any) -> None:
        left = [] if self._ports is None else [address for address in addresses if address[1] not in self._ports]
        if left:
            self._inner.send(packets, left)


def cut_off(stage: Stage, name: str, *, inwards: bool = True) -> Callable[[], None]:
    """Nothing passes from this node to the others, nor, `inwards`, from them to it, until what is returned is
    called."""
    port = int(stage.nodes[name].address.rpartition(":")[2])
    real = {other: node._running().transport for other, node in stage.nodes.items()}
    for other, node in stage.nodes.items():
        if other == name or inwards:
            node._running().transport = cast(Any, CutTransport(real[other], None if other == name else (port,)))

    def mend() -> None:
        for other, node in stage.nodes.items():
            node._running().transport = real[other]

    return mend
