"""Node and Group for plain threads: the asyncio ones, run in a background thread that belongs to the node.

Every call may come from any thread but the node's own, and blocks until done; `timeout_s` bounds it, and TimeoutError
means that nothing has happened: no message was sent, none was taken.

The end. `close` may be called beside other calls, and by several threads at once. From then on new calls are refused;
those under way end with what the node's end means for them, at the latest with ClosedError when its thread ends. All
calls of `close` return when that is done.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from threading import Event, Lock, Thread, current_thread
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, Unpack

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import ClosedError, UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import MAIN
from antiphon.kernel.levels import Order
from antiphon.kernel.policies import Policy
from antiphon.runtime import connection
from antiphon.runtime import group as asynchronous_group
from antiphon.runtime import node as asynchronous_node
from antiphon.runtime.arguments import Destinations
from antiphon.runtime.connection import ConnectSettings
from antiphon.runtime.discovery import Discovery
from antiphon.runtime.events import StreamEvent
from antiphon.runtime.readers import CALLER, MessageReader
from antiphon.runtime.settings import NodeSettings
from antiphon.stacks.registry import DEFAULT, StackName

T = TypeVar("T")


class Startable(Protocol):
    """What runs in the background thread: a node, or a client of a service."""

    async def start(self) -> None:
        """Begin."""

    async def close(self, *, quiet: bool = False) -> bool:
        """End; whether all went well."""
        raise NotImplementedError

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        """Read its events."""
        raise NotImplementedError


class ThreadedNode:
    """Something asynchronous with a thread of its own, called `name`."""

    def __init__(self, name: str, started: Startable) -> None:
        self._name = name
        self._started = started
        self._reader: AsyncIterator[StreamEvent] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._lock = Lock()
        """Held while a call is handed to the node's thread, so that none is once it is closing."""
        self._running = False
        self._closing = False
        self._closed = Event()
        self._settled = True

    def start(self) -> None:
        """Bind the socket and begin; `with` does this."""
        with self._lock:
            if self._running or self._closing:
                raise UsageError(f"{self._name} was started before; make a new one")
            self._running = True
        self._thread.start()
        try:
            self.call(self._started.start())
        except BaseException:
            self._end()
            raise

    def _run(self) -> None:
        """The node's thread: whatever is still under way when it is told to stop is cancelled."""
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(_finish(list(left)))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    def recv(self, *, timeout_s: float | None = None) -> StreamEvent:
        """The next event of all groups, in the order of delivery; see `antiphon.Node.__aiter__`. ClosedError when there
        will be no more."""
        try:
            return self.call(self._next(), timeout_s)
        except StopAsyncIteration:
            raise ClosedError(f"{self._name} was closed; there is nothing more to read") from None

    async def _next(self) -> StreamEvent:
        if self._reader is None:
            self._reader = aiter(self._started)
        return await anext(self._reader)

    def __iter__(self) -> Iterator[StreamEvent]:
        while True:
            try:
                event = self.recv()
            except ClosedError:
                return
            yield event

    def close(self, *, quiet: bool = False) -> bool:
        """See `antiphon.Node.close`. A second call waits for the first, and returns the same."""
        with self._lock:
            first = self._running and not self._closing
            if first:
                closing = asyncio.run_coroutine_threadsafe(self._started.close(quiet=quiet), self._loop)
                self._closing = True
        if first:
            try:
                self._settled = closing.result()
            finally:
                self._end()
        elif self._closing:
            self._closed.wait()
        return self._settled

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Have `work` done in the node's thread and wait for it."""
        if current_thread() is self._thread:
            work.close()
            raise UsageError("this call would wait for itself: it came from the node's own thread, a listener perhaps")
        with self._lock:
            if not self._running or self._closing:
                work.close()
                raise self._closed_error()
            future = asyncio.run_coroutine_threadsafe(_within(work, timeout_s, current_thread()), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise self._closed_error() from None
        except BaseException:
            future.cancel()  # Ctrl-C in the waiting thread must not leave the work behind
            raise

    def _closed_error(self) -> ClosedError:
        return ClosedError(f"{self._name} is not running: it was not started, or has been closed; use it as `with`")

    def _end(self) -> None:
        with self._lock:
            self._closing = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._closed.set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Node(ThreadedNode):
    """A node with a thread of its own. Takes what `antiphon.Node` takes."""

    def __init__(self, name: str, **settings: Unpack[NodeSettings]) -> None:
        self._node = asynchronous_node.Node(name, **settings)
        super().__init__(f"node {name!r}", self._node)

    def __repr__(self) -> str:
        return f"sync.{self._node!r}"

    def join(
        self,
        group: str,
        *,
        members: Mapping[str, str] | None = None,
        contacts: Sequence[str] | Discovery = (),
        policy: Policy | None = None,
        stack: StackName = DEFAULT,
        domain: CausalityDomain = MAIN,
        timeout_s: float = asynchronous_node.JOIN_S,
        found_after_s: float = asynchronous_node.FOUND_AFTER_S,
    ) -> "Group":
        """See `antiphon.Node.join`."""
        joining = self._node.join(
            group,
            members=members,
            contacts=contacts,
            policy=policy,
            stack=stack,
            domain=domain,
            timeout_s=timeout_s,
            found_after_s=found_after_s,
        )
        return Group(self, self.call(joining))

    @property
    def asynchronous(self) -> asynchronous_node.Node:
        """The node itself, for what runs in its thread by `call`."""
        return self._node

    @property
    def process(self) -> ProcessId:
        """Who this node is."""
        return self._node.process

    @property
    def address(self) -> str:
        """Where this node receives."""
        return self._node.address

    def flush(self, domain: str = MAIN.name, *, k: int = 0, timeout_s: float | None = None) -> None:
        """See `antiphon.Node.flush`."""
        self.call(self._node.flush(domain, k=k), timeout_s)

    def statistics(self) -> dict[str, int]:
        """See `antiphon.Node.statistics`."""
        return self._node.statistics()


class Group:
    """A group for plain threads; made by `Node.join`. Iterating over it reads until it is closed."""

    def __init__(self, node: Node, group: asynchronous_group.Group) -> None:
        self._node = node
        self._group = group
        self._reader: MessageReader | None = None

    def __repr__(self) -> str:
        return f"sync.{self._group!r}"

    @property
    def name(self) -> str:
        """The group's name."""
        return self._group.name

    @property
    def view(self) -> View:
        """The view that the engine is in."""
        return self._group.view

    def send(
        self,
        payload: bytes,
        *,
        order: Order = "causal",
        to: Destinations = None,
        label: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """See `antiphon.Group.send`."""
        self._node.call(self._group.send(payload, order=order, to=to, label=label), timeout_s)

    def barrier(self, payload: bytes, *, timeout_s: float | None = None) -> None:
        """See `antiphon.Group.barrier`."""
        self._node.call(self._group.barrier(payload), timeout_s)

    def flush(self, *, k: int = 0, timeout_s: float | None = None) -> None:
        """See `antiphon.Group.flush`."""
        self._node.call(self._group.flush(k=k), timeout_s)

    def send_many(
        self,
        payloads: Sequence[bytes],
        *,
        order: Order = "causal",
        to: Destinations = None,
        label: str | None = None,
    ) -> None:
        """See `antiphon.Group.send_many`."""
        self._node.call(self._group.send_many(payloads, order=order, to=to, label=label))

    def recv(self, *, timeout_s: float | None = None) -> StreamEvent:
        """The next event; ClosedError when there will be no more."""
        try:
            return self._node.call(self._next(), timeout_s)
        except StopAsyncIteration:
            raise ClosedError(f"group {self._group.name!r} was closed; there is nothing more to read") from None

    async def _next(self) -> StreamEvent:
        if self._reader is None:
            self._reader = aiter(self._group)
        return await anext(self._reader)

    def __iter__(self) -> Iterator[StreamEvent]:
        while True:
            try:
                event = self.recv()
            except ClosedError:
                return
            yield event

    def leave(self, *, timeout_s: float | None = None) -> bool:
        """See `antiphon.Group.leave`."""
        return self._node.call(self._group.leave(timeout_s=timeout_s))

    def close(self) -> bool:
        """See `antiphon.Group.close`."""
        return self._node.call(self._group.close())


class ConnectingClient:
    """What `antiphon.connect` makes, when it is started."""

    def __init__(self, address: str | Sequence[str], settings: ConnectSettings) -> None:
        self._address = address
        self._settings = settings
        self._client: connection.Connection | None = None

    def __repr__(self) -> str:
        return f"<Connection to {self._address}, not started>" if self._client is None else repr(self._client)

    @property
    def client(self) -> connection.Connection:
        if self._client is None:
            raise UsageError("this client is not connected; make one by antiphon.sync.connect(…)")
        return self._client

    async def start(self) -> None:
        self._client = await connection.connect(self._address, **self._settings)

    async def close(self, *, quiet: bool = False) -> bool:
        return await self.client.close(quiet=quiet)

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return aiter(self.client)


class Connection(ThreadedNode):
    """A client of the sequencing service for plain threads; made by `connect`. Iterating over it reads all groups."""

    def __init__(self, address: str | Sequence[str], **settings: Unpack[ConnectSettings]) -> None:
        self._connecting = ConnectingClient(address, settings)
        super().__init__(f"the client of {address}", self._connecting)

    def __repr__(self) -> str:
        return f"sync.{self._connecting!r}"

    def __enter__(self) -> Self:
        return self

    @property
    def process(self) -> ProcessId:
        """Who this client is."""
        return self._connecting.client.process

    @property
    def groups(self) -> list[str]:
        """The groups that it has subscribed to."""
        return self._connecting.client.groups

    def subscribe(
        self, *groups: str, after: Mapping[str, str] | None = None, timeout_s: float = asynchronous_node.JOIN_S
    ) -> None:
        """See `antiphon.Connection.subscribe`."""
        self.call(self._connecting.client.subscribe(*groups, after=after, timeout_s=timeout_s))

    def position(self, group: str) -> str:
        """See `antiphon.Connection.position`."""
        return self._connecting.client.position(group)

    def unsubscribe(self, *groups: str, timeout_s: float | None = None) -> bool:
        """See `antiphon.Connection.unsubscribe`."""
        return self.call(self._connecting.client.unsubscribe(*groups, timeout_s=timeout_s))

    def publish(self, group: str, payload: bytes, *, order: Order = "agreed", timeout_s: float | None = None) -> None:
        """See `antiphon.Connection.publish`."""
        self.call(self._connecting.client.publish(group, payload, order=order), timeout_s)

    def flush(self, *, timeout_s: float = connection.FLUSH_S) -> None:
        """See `antiphon.Connection.flush`."""
        self.call(self._connecting.client.flush(timeout_s=timeout_s))


def connect(address: str | Sequence[str], **settings: Unpack[ConnectSettings]) -> Connection:
    """See `antiphon.connect`. The client has a thread of its own until it is closed."""
    client = Connection(address, **settings)
    client.start()
    return client


async def _within(work: Coroutine[Any, Any, T], timeout_s: float | None, thread: Thread) -> T:
    CALLER.set(thread)
    # The timeout runs in the loop's own thread, where nothing can happen between its end and the cancelling.
    async with asyncio.timeout(timeout_s):
        return await work


async def _finish(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
