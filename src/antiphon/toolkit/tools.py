"""Several tools on one group: locks, a leader, shared data, and so on, whose messages keep one order.

    tools = Tools(group)
    locks, board = Locks(tools), BulletinBoard(tools)
    async with tools:
        ...

A tool is a state that all members keep alike and that changes only by what the group delivers. `Tools` reads the group,
by a Service, and gives each message and each view to the tools in the order of delivery; so a message of one tool that
follows a message of another in causal order is acted upon after it. All members must have the same tools, by name.

What a tool may rely on. `take` and `install` are called at all members with the same state, in the order of delivery,
except that causal messages that do not depend on each other may come in different orders. A member that joins gets the
state of all tools at one point of that order. `suspend` is called when this member has lost its connection to the
majority (Stalled) or its membership (Excluded); after an exclusion the state of the next incarnation is fetched anew.

Sending. Messages of tools leave in the order of the calls of `post` and `send`. A message that was not sent when the
process is excluded is dropped: it belongs to the incarnation that is over. Limit: QUEUED_MAX messages, then `send`
waits; `post`, for what a tool owes others, never does, and each tool bounds what it owes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from antiphon import (
    AntiphonError,
    Barrier,
    ClosedError,
    Excluded,
    ExcludedError,
    LevelNotOfferedError,
    Message,
    MessageTooLargeError,
    Order,
    ProcessId,
    Stalled,
    UsageError,
    View,
    ViewChange,
    log_event,
)
from antiphon.toolkit.channel import Channel
from antiphon.toolkit.service import Service

QUEUED_MAX: Final = 1024
CLOSE_S: Final = 1.0
BYTES_MAX: Final = 1 << 30
OVERHEAD_BYTES: Final = 300
"""What the toolkit adds to a message at most: the name of a process, where a message to one member goes to all."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_PAYLOAD: Final = msgspec.msgpack.Decoder(tuple[str, bytes])
_STATE: Final = msgspec.msgpack.Decoder(tuple[int, dict[str, bytes]])
_Entry = tuple[bytes, Order | None, ProcessId | None]
"""A message, its level (None: it is a barrier), and the member that it is for, if it is not for all."""


class Tool:
    """One state that the members of a group share. Made with the Tools that it belongs to, before those are started."""

    def __init__(self, tools: "Tools", name: str) -> None:
        self.name = name
        self.tools = tools
        tools.add(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} in group {self.tools.group.name!r}>"

    def take(self, event: Message, payload: bytes) -> None:
        """Act on a message of this tool. Raises msgspec.DecodeError if it cannot be read; it is dropped then."""

    def reach(self, event: Barrier, payload: bytes) -> None:
        """Act on a barrier of this tool: all members have taken the same messages before it. Raises like `take`."""

    def install(self, view: View, gone: tuple[ProcessId, ...]) -> None:
        """Act on a view; `gone` are the members that left or failed. The first one has no former members."""

    def suspend(self, why: str, excluded: bool) -> None:
        """This member cannot know any more what the others do: till the next view, or for ever."""

    def resume(self) -> None:
        """This member has state and view, and the majority with it."""

    def end(self, error: Exception) -> None:
        """The group is over here."""

    def close(self) -> None:
        """This member stops using the tool; post what the others must know."""

    def export(self) -> bytes:
        """Return the state."""
        return b""

    def restore(self, state: bytes) -> None:
        """Replace the state by an exported one."""


class Tools:
    """The tools of one member of a group. They read its stream, which nobody else may read."""

    def __init__(self, group: Channel) -> None:
        policy = getattr(group, "policy", "primary")
        if policy != "primary":
            raise UsageError(
                f"group {group.name!r} has policy {policy!r}, and tools need `primary`: only there does one majority "
                "go on, and members that failed are given up; join with policy='primary'"
            )
        self.group = group
        self.view = View(0, ())
        self.is_live = False
        """Whether this member has the state and, as far as it knows, is among the majority."""
        self.strays = 0
        """How many messages were dropped because they belong to no tool here, or could not be read."""
        self.error: Exception | None = None
        """Why the group is over here; None while it is not."""
        self._service = Service(group, snapshot=self._snapshot, restore=self._restore)
        self._tools: dict[str, Tool] = {}
        self._view_id = 0
        """The view up to which the tools' states are; those of a snapshot may be ahead of the stream."""
        self._queue: deque[_Entry] = deque()
        self._queued = asyncio.Event()
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._live = asyncio.Event()
        self._over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def __repr__(self) -> str:
        state = "live" if self.is_live else "over" if self.error is not None else "not live"
        return f"<Tools of {self.group.process} in group {self.group.name!r}: {', '.join(self._tools)}; {state}>"

    @property
    def process(self) -> ProcessId:
        """This member."""
        return self.group.process

    def add(self, tool: Tool) -> None:
        """Called by each tool when it is made."""
        if self._tasks:
            raise UsageError("tools are made before `async with tools`: what others send to them would be missed")
        if tool.name in self._tools:
            raise UsageError(f"there is a tool called {tool.name!r} already; give this one another name")
        self._tools[tool.name] = tool

    async def __aenter__(self) -> Self:
        if self._tasks:
            raise UsageError("these tools were started before; make new ones on a new membership")
        await self._service.__aenter__()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._send())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release what is held here, and stop. The others wait for answers of this member until it leaves the group, so
        leave it, or close the node, as well."""
        for tool in self._tools.values():
            tool.close()
        if self.is_live:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._idle.wait()
            except TimeoutError:
                log_event(logging.DEBUG, "tools_closed_early", group=self.group.name)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._service.close()
        self._finish(ClosedError(f"the tools of group {self.group.name!r} were closed"))

    async def live(self) -> None:
        """Wait until this member has the state and is in a view; raises what ended the group here."""
        while not self.is_live:
            if self.error is not None:
                raise self.error
            self._live.clear()
            await self._live.wait()

    async def ended(self) -> Exception:
        """Wait until the group is over here, and return why: left, excluded for good, closed, or failed."""
        while self.error is None:
            self._over.clear()
            await self._over.wait()
        return self.error

    # ---- sending -----------------------------------------------------------------------------------------------------

    def post(self, tool: Tool, payload: bytes, *, order: Order = "causal", to: ProcessId | None = None) -> None:
        """Send when its turn comes; never waits. Raises MessageTooLargeError."""
        bytes_max = int(getattr(self.group, "message_bytes_max", BYTES_MAX))
        self._enqueue(tool, payload, order, to, bytes_max)

    def post_barrier(self, tool: Tool, payload: bytes) -> None:
        """Have a barrier when its turn comes; never waits. Raises MessageTooLargeError."""
        self._enqueue(tool, payload, None, None, int(getattr(self.group, "barrier_bytes_max", BYTES_MAX)))

    def _enqueue(self, tool: Tool, payload: bytes, order: Order | None, to: ProcessId | None, bytes_max: int) -> None:
        message = _ENCODER.encode((tool.name, payload))
        if len(message) > bytes_max - OVERHEAD_BYTES:
            raise MessageTooLargeError(len(message), bytes_max - OVERHEAD_BYTES)
        self._queue.append((message, order, to))
        self._queued.set()
        self._idle.clear()

    async def send(self, tool: Tool, payload: bytes, *, order: Order = "causal") -> None:
        """Send when its turn comes; waits for room in the queue."""
        await self.room()
        self.post(tool, payload, order=order)

    async def room(self) -> None:
        """Wait until there is room in the queue; raises what ended the group here."""
        if self.error is not None:
            raise self.error
        while len(self._queue) >= QUEUED_MAX:
            self._room.clear()
            await self._room.wait()
            if self.error is not None:
                raise self.error

    def lost_error(self) -> ExcludedError:
        """Return what calls of this incarnation end with when it is excluded."""
        return ExcludedError(self.group.name, self.group.process)

    async def flush(self) -> None:
        """Wait until what was posted here has been acted upon by all members."""
        await self._idle.wait()
        await self._service.settle()

    async def _send(self) -> None:
        while True:
            while not self._queue:
                self._idle.set()
                self._queued.clear()
                await self._queued.wait()
            payload, order, to = self._queue.popleft()
            self._room.set()
            try:
                if order is None:
                    await self._service.barrier(payload)
                else:
                    await self._service.send(payload, order=order, to=to)
            except LevelNotOfferedError as error:
                self._finish(error)
            except AntiphonError as error:  # `to` is gone, or this process is
                log_event(logging.DEBUG, "message_not_sent", str(error), to=to or "the group")

    # ---- reading -----------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        ended: Exception = ClosedError(f"this process is no longer a member of group {self.group.name!r}")
        try:
            async for event in self._service:
                match event:
                    case Message() | Barrier():
                        self._take(event)
                    case ViewChange():
                        self._install(event)
                    case Stalled():
                        self._suspend("no majority of the group can be reached", False)
                    case Excluded():
                        self._suspend("the others took this process to have failed", True)
                        ended = self.lost_error()
        except Exception as error:
            ended = error
        self._finish(ended)

    def _take(self, event: Message | Barrier) -> None:
        try:
            name, payload = _PAYLOAD.decode(event.payload)
            tool = self._tools.get(name)
            if tool is None:
                self.strays += 1
            elif isinstance(event, Barrier):
                tool.reach(event, payload)
            else:
                tool.take(event, payload)
        except msgspec.DecodeError:
            self.strays += 1

    def _install(self, change: ViewChange) -> None:
        self.view = change.view
        if change.view.id > self._view_id:
            self._view_id = change.view.id
            for tool in self._tools.values():
                tool.install(change.view, (*change.left, *change.failed))
        self.is_live = True
        self._live.set()
        for tool in self._tools.values():
            tool.resume()

    def _suspend(self, why: str, excluded: bool) -> None:
        self.is_live = False
        if excluded:
            self._queue.clear()
            self._room.set()
        for tool in self._tools.values():
            tool.suspend(why, excluded)

    def _finish(self, error: Exception) -> None:
        if self.error is None:
            self.is_live = False
            self.error = error
            self._queue.clear()
            for event in (self._live, self._room, self._idle, self._over):
                event.set()
            for tool in self._tools.values():
                tool.end(error)

    # ---- state -------------------------------------------------------------------------------------------------------

    def _snapshot(self) -> Iterable[bytes]:
        return [_ENCODER.encode((self._view_id, {name: tool.export() for name, tool in self._tools.items()}))]

    async def _restore(self, chunks: AsyncIterator[Any]) -> None:
        view_id, states = _STATE.decode(b"".join([chunk async for chunk in chunks]))
        if states.keys() != self._tools.keys():
            raise UsageError(
                f"the other members of group {self.group.name!r} have the tools {', '.join(states)}, and this one has "
                f"{', '.join(self._tools)}; give all the same"
            )
        self._view_id = view_id
        for name, tool in self._tools.items():
            tool.restore(states[name])
