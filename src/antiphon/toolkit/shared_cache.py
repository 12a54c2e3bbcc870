"""A cache in each worker process of a machine, which all workers keep from getting old: no server, no settings.

    from antiphon.toolkit import SharedCache
    cache = SharedCache("prices")                   # in every worker process
    price = cache.get("IBM", load_price)            # from this process's memory, or by calling load_price("IBM")

    cache.invalidate("IBM")                         # after a change: when this returns no worker has the old value

For plain threads. A background thread joins the group of all workers of this machine and user that name the same cache:
they find each other by files in `directory`, each locked by its worker for as long as it lives.

The rule. `invalidate` multicasts the key, and waits until all workers have dropped it. A worker serves values only
while it is in a view with the others and knows of no doubt: when it is stalled, excluded or still joining it calls
`load` each time and keeps nothing, and it begins anew with an empty cache. A value whose key is invalidated while it is
being loaded is returned, but not kept.

So after `invalidate` has returned, no worker returns a value that was loaded before it was called, except one that was
cut off or stopped: such a worker may do so until it notices, or until it is given up, whichever comes first.

If workers are killed and the rest has no majority, the group stalls. Here, on one machine, the files tell for certain
which workers are dead: then the rest goes on without them (`Group.recover`).

Limits: `entries_max` values, the one that was loaded first is dropped first.
"""

import asyncio
import atexit
import contextlib
import fcntl
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from antiphon import (
    AntiphonError,
    ClosedError,
    Excluded,
    Group,
    Message,
    Node,
    ProcessId,
    Stalled,
    UsageError,
    View,
    ViewChange,
    log_event,
)

V = TypeVar("V")

ENTRIES_MAX: Final = 100_000
FOUND_AFTER_S: Final = 2.0
INVALIDATE_S: Final = 10.0
RETRY_S: Final = 0.2


class _Drop(msgspec.Struct, array_like=True, tag="drop"):
    number: int
    key: str


class _Dropped(msgspec.Struct, array_like=True, tag="dropped"):
    worker: str
    number: int


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Drop | _Dropped)


class WorkerFiles:
    """Finds the workers of one cache: a file for each, with its address, locked as long as the worker lives."""

    def __init__(self, directory: Path, worker: str) -> None:
        self._directory = directory
        self._own = directory / worker
        self._file = -1

    def announce(self, address: str) -> None:
        """Write the own file."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._own, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, address.encode(), 0)

    async def addresses(self, own: str) -> Sequence[str]:
        """Return the addresses of all workers that live."""
        found = []
        for path in sorted(self._directory.glob("*")) if self._directory.exists() else ():
            if path == self._own or self.is_alive(path.name):
                with contextlib.suppress(OSError):
                    found.append(path.read_text())
        return [address for address in found if address]

    def is_alive(self, worker: str) -> bool:
        """Return whether a worker holds its file; that of a dead one is removed."""
        path = self._directory / worker
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def close(self) -> None:
        """Remove the own file."""
        if self._file >= 0:
            self._own.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1


class SharedCache(Generic[V]):
    """One worker's cache. Any thread may use it."""

    def __init__(
        self, name: str, *, directory: str | os.PathLike[str] | None = None, entries_max: int = ENTRIES_MAX
    ) -> None:
        if not name or "/" in name:
            raise UsageError(f"{name!r} cannot name a cache: a name is not empty and has no slash")
        common = Path(tempfile.gettempdir()) / f"antiphon-caches-{os.getuid()}"
        self.name = name
        self.hits = 0
        self.loads = 0
        self._directory = (common if directory is None else Path(directory)) / name
        self._entries_max = entries_max
        self._values: dict[str, V] = {}
        self._loading: dict[Hashable, tuple[str, list[bool]]] = {}
        """By load under way: its key, and whether the key was invalidated meanwhile."""
        self._lock = threading.Lock()
        self._live = threading.Event()
        self._closing = False
        self._waiting: dict[int, tuple[asyncio.Future[None], set[ProcessId]]] = {}
        self._number = 0
        self._worker = f"w{os.getpid()}"
        self._loop = asyncio.new_event_loop()
        self._group: Group | None = None
        self._view = View(0, ())
        self._files = WorkerFiles(self._directory, self._worker)
        self._thread = threading.Thread(target=self._run, name=f"cache {name!r}", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def __repr__(self) -> str:
        state = "live" if self._live.is_set() else "not live"
        return f"<SharedCache {self.name!r} of {self._worker}: {len(self._values)} values, {state}>"

    def get(self, key: str, load: Callable[[str], V]) -> V:
        """Return the value of a key: from memory, or from `load`."""
        token, mark = object(), [False]
        with self._lock:
            if self._live.is_set() and key in self._values:
                self.hits += 1
                return self._values[key]
            self.loads += 1
            self._loading[token] = (key, mark)
        try:
            value = load(key)
        finally:
            with self._lock:
                del self._loading[token]
        with self._lock:
            if self._live.is_set() and not mark[0]:
                self._values[key] = value
                if len(self._values) > self._entries_max:
                    del self._values[next(iter(self._values))]
        return value

    def invalidate(self, key: str, *, timeout_s: float = INVALIDATE_S) -> None:
        """Have all workers drop a key, and wait until they have. Raises TimeoutError if they have not in time."""
        self._drop(key)
        if self._closing:
            raise ClosedError(f"cache {self.name!r} was closed")
        future = asyncio.run_coroutine_threadsafe(self._invalidate(key, timeout_s), self._loop)
        try:
            future.result()
        except TimeoutError:
            raise TimeoutError(
                f"{key!r} was invalidated here, but not all workers have answered within {timeout_s:g} s"
            ) from None

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until this worker is among the others and keeps values; return whether it is."""
        return self._live.wait(timeout_s)

    def close(self) -> None:
        """Leave the other workers. A second call does nothing."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon_threadsafe(self._main.cancel)
            self._thread.join(INVALIDATE_S)
            self._files.close()
            atexit.unregister(self.close)

    def _drop(self, key: str) -> None:
        with self._lock:
            self._values.pop(key, None)
            for loading, mark in self._loading.values():
                if loading == key:
                    mark[0] = True

    def _doubt(self) -> None:
        """Keep nothing: what the others invalidate may not be heard here."""
        with self._lock:
            self._live.clear()
            self._values.clear()
            for _, mark in self._loading.values():
                mark[0] = True

    # ---- in the background thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._take_part())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._main)
        self._loop.close()

    async def _take_part(self) -> None:
        try:
            async with Node(self._worker, address="127.0.0.1:0", rejoin=True, linger_s=0.5) as node:
                self._files.announce(node.address)
                while self._group is None:
                    with contextlib.suppress(TimeoutError):
                        self._group = await node.join(
                            f"cache {self.name}", contacts=self._files, found_after_s=FOUND_AFTER_S
                        )
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._read(self._group))
                    tasks.create_task(self._revive(self._group))
        except AntiphonError as error:
            log_event(logging.ERROR, "cache_failed", str(error), cache=self.name, exc_info=error)
        finally:
            self._doubt()

    async def _read(self, group: Group) -> None:
        async for event in group:
            match event:
                case Message():
                    await self._take(group, event)
                case ViewChange(view=view):
                    self._view = view
                    for future, missing in self._waiting.values():
                        missing.intersection_update(view.members)
                        self._finish(future, missing)
                    self._live.set()
                case Stalled():
                    self._doubt()
                case Excluded():
                    self._doubt()
                    for future, _ in self._waiting.values():  # the others may not have heard of it: it is sent again
                        if not future.done():
                            future.set_exception(ClosedError("this worker was excluded"))
                case _:
                    pass

    async def _take(self, group: Group, event: Message) -> None:
        try:
            message = _DECODER.decode(event.payload)
        except msgspec.DecodeError:
            return
        if isinstance(message, _Drop):
            self._drop(message.key)
            if event.sender == group.process and message.number in self._waiting:
                future, missing = self._waiting[message.number]
                missing.update(self._view.members)
            answer = _ENCODER.encode(_Dropped(event.sender.name, message.number))
            await group.send(answer)
        elif message.worker == self._worker and message.number in self._waiting:
            future, missing = self._waiting[message.number]
            missing.discard(event.sender)
            self._finish(future, missing)

    def _finish(self, future: "asyncio.Future[None]", missing: set[ProcessId]) -> None:
        if not missing and not future.done():
            future.set_result(None)

    async def _invalidate(self, key: str, timeout_s: float) -> None:
        self._number += 1
        number = self._number
        async with asyncio.timeout(timeout_s):
            while self._group is None:
                await asyncio.sleep(RETRY_S)
            while True:
                # A worker that joins later has nothing old; a missing one is struck off by a view.
                self._waiting[number] = (self._loop.create_future(), {self._group.process})
                try:
                    await self._group.send(_ENCODER.encode(_Drop(number, key)))
                    return await self._waiting[number][0]
                except ClosedError:
                    if self._group.is_over:
                        raise
                    await asyncio.sleep(RETRY_S)
                finally:
                    del self._waiting[number]

    async def _revive(self, group: Group) -> None:
        """Where the group stalls because workers were killed, go on without them."""
        while True:
            await asyncio.sleep(RETRY_S)
            if group.is_stalled and not group.is_over:
                others = [member.name for member in group.view.members if member != group.process]
                living = [name for name in others if self._files.is_alive(name)]
                if len(living) < len(others):
                    with contextlib.suppress(AntiphonError, TimeoutError):
                        await group.recover(confirm=group.name, timeout_s=5.0)
