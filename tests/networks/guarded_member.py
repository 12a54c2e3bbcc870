"""One member of a trial of locks, leaders and resilient objects: `python -m tests.networks.guarded_member SETTINGS`.

It adds to two numbers of the guarded resource, one under a lock and one while it leads, and lines to a resilient
object; what was acknowledged goes to a file, synchronously. Standard input takes {"settle": true} and {"halt": true},
as for the other trials; when it ends, the parent is gone, and so is this.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import IO, Any

from antiphon import ClosedError, Message, Node, ProcessId, View
from antiphon.toolkit import (
    Leader,
    LockLostError,
    Locks,
    StaleTokenError,
    Tool,
    Tools,
    WorkError,
    make_resilient,
    operation,
    resilient,
)
from tests.networks.member import JOIN_S, Member, commands, make_node

HOLD_S = 0.02
GIVEN_UP = (LockLostError, StaleTokenError, TimeoutError, ClosedError)


@resilient
class Additions:
    """Every line that was ever added."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @operation
    async def add(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)


class Views(Tool):
    """Tells the parent of views and exclusions."""

    def __init__(self, tools: Tools, member: Member) -> None:
        super().__init__(tools, "views")
        self._member = member

    def resume(self) -> None:
        view = self.tools.view
        members = [f"{process.name}/{process.incarnation}" for process in view.members]
        self._member.tell("view", group=self.tools.group.name, id=view.id, members=members)

    def suspend(self, why: str, excluded: bool) -> None:
        self._member.tell("excluded" if excluded else "stalled", group=self.tools.group.name)

    def install(self, view: View, gone: tuple[ProcessId, ...]) -> None: ...

    def take(self, event: Message, payload: bytes) -> None: ...


class Resource:
    """A connection to the guarded resource."""

    def __init__(self, path: str, tools: Tools) -> None:
        self._path = path
        self._tools = tools
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    async def access(self, item: str, token: int, holder: ProcessId, value: int | None = None) -> int:
        asked = {"item": item, "token": token, "holder": f"{holder.name}/{holder.incarnation}", "value": value}
        async with self._turn:
            if self._streams is None:
                self._streams = await asyncio.open_unix_connection(self._path)
            reader, writer = self._streams
            try:
                writer.write(json.dumps(asked).encode() + b"\n")
                answer = json.loads(await reader.readline())
            except BaseException:
                self._streams = None  # an answer that nobody waits for must not be taken for the next one
                writer.close()
                raise
        if "stale" in answer:
            raise StaleTokenError(token, answer["stale"])
        return int(answer["value"])


async def use_lock(locks: Locks, resource: Resource) -> None:
    while True:
        try:
            async with locks.write("number", timeout_s=30) as claim:
                me = locks.tools.process
                value = await resource.access("lock", claim.token, me)
                await asyncio.sleep(HOLD_S)
                await resource.access("lock", claim.token, me, value + 1)
        except GIVEN_UP:
            await asyncio.sleep(HOLD_S)
        await asyncio.sleep(HOLD_S)


async def lead(leader: Leader, resource: Resource) -> None:
    while True:
        try:
            async with leader.term() as term:
                while True:
                    me = leader.tools.process
                    value = await resource.access("leader", term.token, me)
                    await asyncio.sleep(HOLD_S)
                    await resource.access("leader", term.token, me, value + 1)
        except GIVEN_UP:
            await asyncio.sleep(HOLD_S)


async def add(additions: Additions, node: Node, acknowledged: int) -> None:
    number = 0
    while True:
        number += 1
        line = f"{node.process.name}/{node.process.incarnation}:{os.getpid()}:{number}"
        try:
            await additions.add(line)
            os.write(acknowledged, line.encode() + b"\n")
        except (ClosedError, TimeoutError):
            pass  # executed or not
        except WorkError as error:
            raise AssertionError(str(error)) from error
        await asyncio.sleep(5 * HOLD_S)


async def take_part(settings: dict[str, Any], events: IO[str]) -> None:
    orders = await commands()
    acknowledged = os.open(settings["acknowledged"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    async with make_node(settings, settings["incarnation"]) as node:
        [(name, contacts)] = settings["groups"].items()
        group = await node.join(name, contacts=contacts, timeout_s=JOIN_S, found_after_s=settings["found_after_s"])
        member = Member(node, {name: group}, events)
        tools = Tools(group)
        Views(tools, member)
        locks, leader, additions = Locks(tools), Leader(tools), make_resilient(tools, Additions)
        resource = Resource(settings["resource"], tools)
        async with tools:
            await tools.live()
            working = [
                asyncio.create_task(work)
                for work in (
                    use_lock(locks, resource),
                    lead(leader, Resource(settings["resource"], tools)),
                    add(additions, node, acknowledged),
                )
            ]
            while line := await orders.readline():
                if "settle" not in json.loads(line):
                    break
                for task in working:
                    task.cancel()
                failures = await asyncio.gather(*working, return_exceptions=True)
                assert all(isinstance(failure, asyncio.CancelledError) for failure in failures), failures
                await asyncio.sleep(1.0)  # the others stop as well
                await tools.flush()
                await asyncio.sleep(1.0)
                Path(settings["lines"]).joinpath(settings["name"]).write_text("\n".join(additions.lines))
                member.tell("settled", views={name: group.view.id})
            await member.halt()
            os._exit(0)  # nothing more may be sent or recorded


async def main() -> None:
    settings: dict[str, Any] = json.loads(sys.argv[1])
    with Path(settings["events"]).open("a") as events:
        await take_part(settings, events)


if __name__ == "__main__":
    asyncio.run(main())
