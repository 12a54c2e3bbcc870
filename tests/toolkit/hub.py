"""A group that lives in one event loop and does what the test says: total order, views on command, no network.

Every member gets every multicast at the same place, unless the test lets one lag behind (`hold`). So the toolkit can
be brought into each corner on purpose; that it works on a real group too is shown by other tests.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from antiphon import Barrier, ClosedError, Excluded, Message, ProcessId, Trust, UsageError, View, ViewChange
from antiphon.toolkit.channel import GroupEvent


class Member:
    """One member's end; a Channel for the toolkit."""

    def __init__(self, hub: "Hub", process: ProcessId) -> None:
        self.name = "g"
        self.process = process
        self.trust = Trust()
        self.is_held = False
        self.barrier_bytes_max = 16_384
        self.flushed = asyncio.Event()
        self.flushed.set()
        """A test clears this where stability is to be long in coming."""
        self._hub = hub
        self._number = 0
        self._events: deque[GroupEvent] = deque()
        self._arrived = asyncio.Event()
        self._is_over = False

    async def send(self, payload: bytes, *, order: str = "causal", to: ProcessId | None = None) -> None:
        if self._is_over:
            raise ClosedError("over")
        if to is not None and to not in self._hub.view.members:
            raise UsageError(f"{to} is not a member")
        self._number += 1
        message = Message(
            payload=payload,
            sender=self.process,
            number=self._number,
            order=order,
            group="g",
            view_id=self._hub.view.id,
            private=to is not None,
        )
        self._hub.spread(message, to)

    async def barrier(self, payload: bytes) -> None:
        self._number += 1
        view = self._hub.view
        self._hub.spread(
            Barrier(payload=payload, sender=self.process, number=self._number, group="g", view_id=view.id), None
        )
        self._hub.install(view.members)

    async def flush(self) -> None:
        await self.flushed.wait()

    async def __aiter__(self) -> AsyncIterator[GroupEvent]:
        while True:
            while not self._events or self.is_held:
                if self._is_over:
                    return
                self._arrived.clear()
                await self._arrived.wait()
            yield self._events.popleft()

    def put(self, event: GroupEvent) -> None:
        self._events.append(event)
        self._arrived.set()

    def release(self) -> None:
        self.is_held = False
        self._arrived.set()

    def end(self) -> None:
        self._is_over = True
        self._events.clear()
        self._arrived.set()


class Hub:
    """All members, and the view that they are in."""

    def __init__(self) -> None:
        self.members: dict[ProcessId, Member] = {}
        self.view = View(0, ())
        self.sent: list[Message | Barrier] = []

    def spread(self, event: Message | Barrier, to: ProcessId | None) -> None:
        self.sent.append(event)
        for process in self.view.members if to is None else (to,):
            self.members[process].put(event)

    def found(self, names: str) -> list[Member]:
        processes = tuple(ProcessId(name) for name in names)
        for process in processes:
            self.members[process] = Member(self, process)
        self.install(processes)
        return [self.members[process] for process in processes]

    def join(self, *names: str) -> list[Member]:
        """In one view."""
        joiners = tuple(ProcessId(name) for name in names)
        for joiner in joiners:
            self.members[joiner] = Member(self, joiner)
        self.install((*self.view.members, *joiners))
        return [self.members[joiner] for joiner in joiners]

    def fail(self, *names: str, left: bool = False) -> None:
        """The others go on without these, which are dead or have left."""
        gone = [process for process in self.view.members if process.name in names]
        for process in gone:
            self.members.pop(process).end()
        self.install(tuple(process for process in self.view.members if process not in gone), left=left)

    def expel(self, name: str) -> Member:
        """The others go on without this one, wrongly, and it is told."""
        (process,) = [process for process in self.view.members if process.name == name]
        member = self.members.pop(process)
        member.put(Excluded(group="g", view=self.view))
        self.install(tuple(process for process in self.view.members if process != member.process))
        return member

    def readmit(self, member: Member) -> None:
        """It comes back, as its next incarnation, in the same stream."""
        member.process = ProcessId(member.process.name, member.process.incarnation + 1)
        self.members[member.process] = member
        self.install((*self.view.members, member.process))

    def install(self, members: tuple[ProcessId, ...], left: bool = False) -> None:
        before = self.view.members
        self.view = View(self.view.id + 1, members, ("127.0.0.1:1",) * len(members))
        gone = tuple(process for process in before if process not in members)
        joined = tuple(process for process in members if process not in before)
        for process in members:
            self.members[process].put(
                ViewChange(
                    group="g",
                    view=self.view,
                    joined=joined if process in before else members,
                    left=gone if left else (),
                    failed=() if left else gone,
                    founded=not before,
                )
            )
