"""One copy of a replicated set: a process with a node and two conversations, one for each order that is compared.

The set has two operations: one adds an element, which commutes with other additions; one looks at the set and clears
it, which commutes with nothing. In the conversation `commuting` that is made use of; in the conversation `agreed` all
operations come in the one order of waves.
"""

import asyncio
import os
import struct
import time
from collections import deque
from random import Random
from typing import Any, Final

from antiphon import (
    Node,
)
from antiphon.conversation import (
    Conversation,
    ConversationFilter,
    FilterOptions,
    Operation,
    accept_conversation,
    open_conversation,
    ordered_broadcast,
    replicated_operations,
)
from antiphon.parts.message_graph import GraphNode as Handle
from antiphon.runtime.workers import Object, Parent
from bench.figures import IncompleteError
from bench.member import cpu_s

COMMUTING: Final = "commuting"
AGREED: Final = "agreed"
SYSTEMS: Final = (COMMUTING, AGREED)
ADD: Final = b"+"
CLEAR: Final = b"-"
ELEMENT: Final = struct.Struct("<cq")
ELEMENTS: Final = 100_000
MILLISECOND_NS: Final = 1_000_000
FINISH_S: Final = 20.0


class SetCopy:
    """The set, and what tells whether two copies went the same way."""

    def __init__(self) -> None:
        self.elements: set[int] = set()
        self.executed = 0
        self.path = 0
        """Of what every clearing saw, in their order."""

    def apply(self, payload: bytes) -> None:
        self.executed += 1
        if payload[:1] == ADD:
            self.elements.add(ELEMENT.unpack(payload)[1])
        else:
            self.path = hash((self.path, len(self.elements), sum(self.elements)))
            self.elements.clear()

    def digest(self) -> list[int]:
        return [self.executed, self.path, len(self.elements), sum(self.elements)]


class Replica:
    """One system's copy, and the clients that work on it."""

    def __init__(self, conversation: Conversation, system: str, manner: FilterOptions) -> None:
        self.copy = SetCopy()
        self._me = conversation.core.me
        self._commutes = system == COMMUTING
        self._adding: deque[asyncio.Future[None]] = deque()
        self._clearing: deque[asyncio.Future[None]] = deque()
        self.filter: ConversationFilter[Any, Any]
        if self._commutes:
            self.filter = replicated_operations(conversation, self._execute, manner)
        else:
            self.filter = ordered_broadcast(conversation, self._hear, manner)

    def _execute(self, operation: Operation) -> None:
        self._take(operation.sender, operation.payload, self._adding if operation.commutes else self._clearing)

    def _hear(self, one: tuple[Handle, bytes]) -> None:
        self._take(one[0].sender, one[1], self._clearing)

    def _take(self, sender: int, payload: bytes, calls: deque[asyncio.Future[None]]) -> None:
        self.copy.apply(payload)
        if sender == self._me:
            calls.popleft().set_result(None)

    async def call(self, payload: bytes) -> None:
        """Issue an operation, and wait until it was executed here."""
        await self.filter.room()
        adds = self._commutes and payload[:1] == ADD
        if self.filter.offer(payload, adds):
            self.copy.apply(payload)
            await self.filter.give_way()
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._adding if adds else self._clearing).append(done)
        await done


class SetMember:
    """Does the jobs that its parent names."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._node: Node | None = None
        self._replicas: dict[str, Replica] = {}
        self._random = Random(os.getpid())

    async def work(self) -> None:
        """Do jobs until there is no parent any more."""
        while True:
            job = await self._parent.expect("job")
            what = getattr(self, f"do_{job['what']}")
            self._parent.tell("done", **(await what(job) or {}))

    async def do_hello(self, job: Object) -> Object:
        return {"pid": os.getpid()}

    async def do_bind(self, job: Object) -> Object:
        self._node = Node(job["name"], address="127.0.0.1:0", incarnation=1)
        await self._node.__aenter__()
        return {"address": self._node.address}

    async def do_meet(self, job: Object) -> None:
        """Open a conversation, or accept one, and take part in it."""
        assert self._node is not None
        if job["others"]:
            conversation = await open_conversation(self._node, job["others"])
        else:
            conversation = await accept_conversation(self._node)
        leisurely = {"ack_every": job["ack_every"], "ack_delay_ns": int(job["ack_delay_ms"] * MILLISECOND_NS)}
        replica = Replica(conversation, job["system"], FilterOptions(window=job["window"], **leisurely))
        self._replicas[job["system"]] = replica
        await replica.filter.__aenter__()

    async def do_run(self, job: Object) -> Object:
        """So many clients issue one operation after the other, for so long."""
        replica = self._replicas[job["system"]]
        begin_s = time.monotonic() + job["warmup"]
        end_s = begin_s + job["seconds"]
        counts = [0, 0]
        """Operations in all, and within the time that counts."""

        async def client() -> None:
            while (now_s := time.monotonic()) < end_s:
                adds = self._random.random() < job["share"]
                payload = ELEMENT.pack(ADD, self._random.randrange(ELEMENTS)) if adds else CLEAR
                await replica.call(payload)
                counts[0] += 1
                counts[1] += now_s >= begin_s

        cpu_before_s = cpu_s()
        await asyncio.gather(*[client() for _ in range(job["clients"])])
        return {"sent": counts[0], "rate": counts[1] / job["seconds"], "cpu_s": cpu_s() - cpu_before_s}

    async def do_finish(self, job: Object) -> Object:
        """Wait until so many operations were executed here; the state."""
        replica = self._replicas[job["system"]]
        try:
            async with asyncio.timeout(FINISH_S):
                while replica.copy.executed < job["operations"]:
                    await replica.filter.changed()
        except TimeoutError:
            raise IncompleteError(f"{replica.copy.executed} operations of {job['operations']} were executed") from None
        return {"digest": replica.copy.digest(), "acks": replica.filter.machine.acks()}


async def main() -> None:
    await SetMember(await Parent.connect()).work()


if __name__ == "__main__":
    asyncio.run(main())
