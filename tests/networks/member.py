"""One member of a trial: `python -m tests.networks.member SETTINGS`, a process of its own on a host of its own.

It joins, sends at a rate, reads, keeps a journal, and comes back by itself if the others went on without it. What it
reads of views goes to a file, one JSON object per line, with the monotonic time, which all processes of a machine
share. It is in all groups that `groups` names with their contacts, and reads them as one stream. Standard input takes
{"rate": messages per second}, {"settle": true} and {"halt": true}; when it ends, the parent is gone, and so is this.

With `cycles`, it joins and leaves so many times instead, as one incarnation after the other.
"""

import asyncio
import json
import sys
import time
from collections import defaultdict
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final

from antiphon import Batch, Group, Node, Options, Order, ProcessId, ViewChange
from antiphon.recording import ProcessRecorder
from antiphon.runtime.keyring import Keyring, SharedKey
from antiphon.runtime.tap import HistoryTap
from tests.networks.journal import Journal

ORDERS: Final[tuple[Order, ...]] = ("causal", "agreed", "causal", "safe")
PAYLOAD: Final = bytes(64)
FAREWELL: Final = b"farewell"
BEAT_S: Final = 0.01
"""A sender wakes up so often and sends what is due by then."""
LINGER_S: Final = 20.0
JOIN_S: Final = 60.0


class JournalingNode(Node):
    """A node whose log outlives `kill -9`."""

    def _make_tap(self) -> HistoryTap:
        process = self.process
        directory = Path(str(self._history))
        journal = Journal(directory, run=self._run, process=process.name, incarnation=process.incarnation)
        return HistoryTap(ProcessRecorder(journal), journal.close)


class Member:
    """Reads everything, sends at `rate`, and tells what it sees."""

    def __init__(self, node: Node, groups: dict[str, Group], events: IO[str]) -> None:
        self._node = node
        self._groups = groups
        self._events = events
        self._settling = False
        self._farewells: defaultdict[str, set[tuple[ProcessId, str]]] = defaultdict(set)
        """By group, whose farewells have been read in this view, at which levels."""
        self.rate = 0.0

    def tell(self, kind: str, **fields: object) -> None:
        line = {"kind": kind, "time_ns": time.monotonic_ns(), "process": repr(self._node.process), **fields}
        self._events.write(json.dumps(line) + "\n")
        self._events.flush()

    async def read(self) -> None:
        async for event in self._node.batches():
            if isinstance(event, ViewChange):
                members = [f"{member.name}/{member.incarnation}" for member in event.view.members]
                self.tell("view", group=event.group, id=event.view.id, members=members)
                self._farewells[event.group].clear()
                if self._settling:
                    await self._say_farewell(event.group)
            elif not isinstance(event, Batch):
                self.tell(type(event).__name__.lower(), group=event.group)
            else:
                self.note(event)
        self.tell("ended")

    def note(self, batch: Batch) -> None:
        """Messages have come."""
        if FAREWELL in batch.payloads:
            self._farewells[batch.group].add((batch.sender, batch.order))

    async def send(self) -> None:
        owed, turn, before_s = 0.0, 0, time.monotonic()
        while True:
            await asyncio.sleep(BEAT_S)
            now_s = time.monotonic()
            owed = min(owed + (now_s - before_s) * self.rate, self.rate)  # never more than a second's worth at once
            before_s = now_s
            if owed >= 1:
                group = list(self._groups.values())[turn % len(self._groups)]
                await group.send_many([PAYLOAD] * int(owed), order=ORDERS[turn // len(self._groups) % len(ORDERS)])
                owed -= int(owed)
                turn += 1

    async def settle(self) -> None:
        """Send no more, and say when all that anybody in the view has sent is delivered here: nobody sends anything
        after its farewells, so whoever has read everybody's has read everything."""
        self.rate = 0.0
        self._settling = True
        for name in self._groups:
            await self._say_farewell(name)
        while not all(self._is_settled(name) for name in self._groups):
            await asyncio.sleep(BEAT_S)
        self.tell("settled", views={name: group.view.id for name, group in self._groups.items()})

    def _is_settled(self, name: str) -> bool:
        group = self._groups[name]
        wanted = {(member, order) for member in group.view.members for order in ORDERS}
        return not group.outstanding() and bool(wanted) and wanted <= self._farewells[name]

    async def _say_farewell(self, group: str) -> None:
        for order in dict.fromkeys(ORDERS):
            await self._groups[group].send(FAREWELL, order=order)

    async def halt(self) -> None:
        """Stop as a member, without leaving: the history then holds this process to everything it was owed."""
        driver = self._node._driver
        assert driver is not None
        driver.stop(None)
        await driver.close_logs()


def make_node(settings: dict[str, Any], incarnation: int | None) -> Node:
    return JournalingNode(
        settings["name"],
        address=settings["address"],
        incarnation=incarnation,
        options=Options(**settings["options"]),
        history=settings["journals"],
        run=settings["run"],
        linger_s=LINGER_S,
        rejoin=True,
        keyring=keys_of(settings["run"]),
    )


def keys_of(run: str) -> Keyring:
    """The keys that all processes of a run share."""
    return Keyring([SharedKey(1, sha256(run.encode()).digest())])


async def commands() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def take_part(settings: dict[str, Any], events: IO[str]) -> None:
    orders = await commands()
    async with make_node(settings, settings["incarnation"]) as node:
        found_after_s = settings["found_after_s"]
        groups: dict[str, Group] = {}
        member = Member(node, groups, events)
        for name, contacts in settings["groups"].items():
            groups[name] = await node.join(name, contacts=contacts, timeout_s=JOIN_S, found_after_s=found_after_s)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(member.read())
            sending = tasks.create_task(member.send())
            while line := await orders.readline():
                order = json.loads(line)
                if "rate" in order:
                    member.rate = order["rate"]
                elif "settle" in order:
                    await member.settle()
                else:
                    break
            sending.cancel()
            await member.halt()


async def come_and_go(settings: dict[str, Any], events: IO[str]) -> None:
    first = settings["incarnation"]
    for incarnation in range(first, first + settings["cycles"]):
        async with make_node(settings, incarnation) as node:
            [(name, contacts)] = settings["groups"].items()
            group = await node.join(name, contacts=contacts, timeout_s=JOIN_S)
            member = Member(node, {name: group}, events)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(member.read())
                await group.send(PAYLOAD)
                left = await group.leave()
                await node.close()  # the node's stream ends with the node, not with the group
            member.tell("left", left=left)


async def main() -> None:
    settings: dict[str, Any] = json.loads(sys.argv[1])
    with Path(settings["events"]).open("a") as events:
        await (come_and_go if settings["cycles"] else take_part)(settings, events)


if __name__ == "__main__":
    asyncio.run(main())
