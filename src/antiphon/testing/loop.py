"""An asyncio event loop in virtual time, for one program of a simulation.

It does what asyncio's own loop does: each turn calls back whoever is ready, in order; then sockets and timers are
looked at. A turn takes a little virtual time, drawn by chance, so that programs interleave differently from seed to
seed, and a task that spins on `sleep(0)` does not stop time. While a loop is paused it takes no turns; what happens
meanwhile waits. A loop that was killed never runs again, and keeps its tasks, since a coroutine that is dropped would
run its `finally`.

Tasks and futures hash by the order of their making, not by their address: asyncio keeps them in sets, and the order of
a set must be the same in each run.
"""

import asyncio
import socket
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from antiphon.testing.environment import SimulatedEnvironment
    from antiphon.testing.host import Program
    from antiphon.testing.streams import StreamProtocol

TURN_NS_MIN: Final = 5_000
TURN_NS_SPREAD: Final = 45_000
"""What a turn of a loop takes: at least the one, and up to so much more."""
WORK_NS_MAX: Final = 5_000_000
"""What a worker thread may take for a call."""
BURIAL_ROUNDS: Final = 50
"""How often a task that goes on when it is cancelled is cancelled again…"""
BURIAL_CALLS: Final = 10_000
"""…and how many calls may follow from that."""

T = TypeVar("T")


class VirtualFuture(asyncio.Future[T]):
    """A future that hashes alike in each run."""

    def __init__(self, *, loop: "VirtualLoop") -> None:
        super().__init__(loop=loop)
        self._made = loop.program.timeline.number()

    def __hash__(self) -> int:
        return self._made


class VirtualTask(asyncio.Task[T]):
    """A task that hashes alike in each run."""

    def __init__(
        self, coro: Coroutine[Any, Any, T], loop: "VirtualLoop", name: str | None, context: Context | None
    ) -> None:
        self._made = loop.program.timeline.number()
        super().__init__(coro, loop=loop, name=name or f"Task-{self._made}", context=context)

    def __hash__(self) -> int:
        return self._made


class VirtualLoop(asyncio.AbstractEventLoop):
    """The event loop of one program."""

    def __init__(self, program: "Program", environment: "SimulatedEnvironment") -> None:
        self.program = program
        self.antiphon_environment = environment
        self._timeline = program.timeline
        self._ready: deque[asyncio.Handle] = deque()
        self._readers: dict[int, asyncio.Handle] = {}
        self._writers: dict[int, asyncio.Handle] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._turn_due = False
        self._busy_until_ns = 0
        self._closed = False
        self._exception_handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None

    # ---- turns -----------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Take a turn as soon as can be."""
        if not self._turn_due and self.program.is_alive and not self.program.is_paused:
            self._turn_due = True
            self._timeline.at(self._busy_until_ns, self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        program, ready = self.program, self._ready
        if not program.may_run:
            return
        self._look_at_sockets()
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                if not program.is_alive:  # killed by what it just called
                    return
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
        finally:
            events._set_running_loop(before)
        timeline = self._timeline
        self._busy_until_ns = timeline.now_ns + TURN_NS_MIN + int(timeline.random.random() * TURN_NS_SPREAD)
        if ready or self._has_input():
            self.wake()

    def _look_at_sockets(self) -> None:
        readable = self.program.readable
        if readable:
            for fd, handle in self._readers.items():
                if fd in readable:
                    self._ready.append(handle)
        if self._writers:
            self._ready.extend(self._writers.values())

    def _has_input(self) -> bool:
        readable = self.program.readable
        return bool(self._writers) or (bool(readable) and not readable.keys().isdisjoint(self._readers))

    def bury(self) -> None:
        """Cancel all that a program left behind, until it is gone: after the simulation, when nothing that it does has
        any effect. Were it dropped instead, the interpreter would close it, somewhere else and with complaints."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for _ in range(BURIAL_ROUNDS):
                if not self._tasks:
                    break
                for task in list(self._tasks):
                    task.cancel()
                self._run_out()
        finally:
            events._set_running_loop(before)
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._ready.clear()

    def _run_out(self) -> None:
        for _ in range(BURIAL_CALLS):
            if not self._ready:
                break
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    # ---- calls -----------------------------------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self.wake()
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self._call_at(self._timeline.now_ns + round(delay * 1e9), callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self._call_at(round(when * 1e9), callback, args, context)

    def _call_at(
        self, when_ns: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when_ns / 1e9, callback, args, self, context)
        self._timeline.at(when_ns, partial(self._fire, handle))
        return handle

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        if not handle.cancelled():
            self._ready.append(handle)
            self.wake()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """The timeline finds out when it comes to it."""

    def time(self) -> float:
        return self._timeline.now_ns / 1e9

    def create_future(self) -> VirtualFuture[Any]:
        return VirtualFuture(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> VirtualTask[T]:
        task = VirtualTask(coro, self, name, context)
        self._tasks[task] = None
        task.add_done_callback(self._forget, context=context or copy_context())
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> VirtualFuture[T]:
        """A worker thread: the call happens at once in one go, somewhat later. A program that is dead by then has not
        made it."""
        future: VirtualFuture[T] = VirtualFuture(loop=self)
        delay_ns = int(self._timeline.random.random() * WORK_NS_MAX)
        self._timeline.at(self._timeline.now_ns + delay_ns, partial(self._work, future, func, args))
        return future

    def _work(self, future: VirtualFuture[T], func: Callable[..., T], args: tuple[Any, ...]) -> None:
        if not self.program.is_alive:
            return
        self.program.touch()
        if not self.program.is_alive:
            return
        try:
            result = func(*args)
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)

    # ---- sockets and streams ---------------------------------------------------------------------------------------

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        self._readers[fd] = asyncio.Handle(callback, args, self)
        if fd in self.program.readable:
            self.wake()

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    def add_writer(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        self._writers[fd] = asyncio.Handle(callback, args, self)
        self.wake()

    def remove_writer(self, fd: Any) -> bool:
        return self._writers.pop(fd, None) is not None

    async def getaddrinfo(  # type: ignore[override]
        self,
        host: str | None,
        port: int | str | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        """Hosts of the simulation are known by name; what is written in figures stands for itself."""
        await asyncio.sleep(0)
        numeric = self.program.network.resolve(host or "127.0.0.1")
        return socket.getaddrinfo(  # type: ignore[return-value]
            numeric, port, family=family, type=type, proto=proto, flags=flags | socket.AI_NUMERICHOST
        )

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: "Callable[[], StreamProtocol]", host: str, port: int, **options: Any
    ) -> "tuple[asyncio.Transport, StreamProtocol]":
        return await self.program.network.connect(self.program, protocol_factory, host, port)

    async def create_server(  # type: ignore[override]
        self, protocol_factory: "Callable[[], StreamProtocol]", host: str, port: int, **options: Any
    ) -> asyncio.AbstractServer:
        return self.program.network.listen(self.program, protocol_factory, host, port)

    # ---- the rest of a loop ----------------------------------------------------------------------------------------

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """There is no debug mode."""

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True

    async def shutdown_asyncgens(self) -> None:
        """Generators are closed with the tasks that run them."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    def set_exception_handler(self, handler: Any) -> None:
        self._exception_handler = handler

    def get_exception_handler(self) -> Any:
        return self._exception_handler

    def get_task_factory(self) -> None:
        return None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        else:
            self.default_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.program.report(str(context.get("message", "")), context.get("exception"))
