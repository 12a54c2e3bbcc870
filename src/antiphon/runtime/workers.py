"""Worker processes and their parent: one JSON object per line, down the worker's standard input and up its output.

Every object has a "kind". The parent reaps what it started, by its own handle, whichever way it leaves. A worker whose
input ends has lost its parent and goes too; Ctrl-C is for the parent alone to act on.
"""

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Final, Self

from antiphon.kernel.errors import AntiphonError

Object = dict[str, Any]

REAP_S: Final = 5.0
"""How long a worker that was asked to end may take before it is killed."""
ANSWER_S: Final = 60.0
LINE_BYTES_MAX: Final = 1024 * 1024


class WorkerError(AntiphonError):
    """A worker process reported a mistake, or ended when it should not have."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"worker {name!r}: {problem}")
        self.name = name


async def last_words(process: asyncio.subprocess.Process, errors: IO[bytes]) -> str:
    """How a process that should not have ended has ended, and the last line that it left in `errors`."""
    status = await process.wait()
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return f"ended with status {status}" + (f" ({lines[-1]})" if lines else "")


async def reap(process: asyncio.subprocess.Process) -> None:
    """See a process to its end: close its input, wait a while, then kill it."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(REAP_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class Worker:
    """One worker process, seen by its parent."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self.name = name
        self._process = process
        self._errors = errors

    def tell(self, kind: str, **fields: object) -> None:
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # a worker that is gone shows when it is next listened to
            self._process.stdin.write(json.dumps({"kind": kind, **fields}).encode() + b"\n")

    async def hear(self) -> Object:
        """The next object. Raises WorkerError if there is none, or if it says that something went wrong."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise WorkerError(self.name, await last_words(self._process, self._errors))
        message: Object = json.loads(line)
        if message["kind"] == "error":
            raise WorkerError(self.name, message["problem"])
        return message

    async def expect(self, kind: str) -> Object:
        """The next object of this kind; others are passed over."""
        while (message := await self.hear())["kind"] != kind:
            pass
        return message

    async def expect_soon(self, kind: str) -> Object:
        """`expect`, for an answer that takes no more than ANSWER_S unless something is wrong."""
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self.expect(kind)
        except TimeoutError:
            raise WorkerError(self.name, f"did not say {kind!r} within {ANSWER_S:.0f} s") from None

    async def reap(self) -> None:
        """See the process to its end."""
        await reap(self._process)
        self._errors.close()


class Workers:
    """Named worker processes, all running `python arguments…`; a context manager that leaves none behind."""

    def __init__(self, arguments: Sequence[str], names: Sequence[str]) -> None:
        self._arguments = arguments
        self._names = names
        self._workers: list[Worker] = []

    async def __aenter__(self) -> list[Worker]:
        try:
            for name in self._names:
                errors = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the worker)
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *self._arguments,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    limit=LINE_BYTES_MAX,
                )
                self._workers.append(Worker(name, process, errors))
        except BaseException:
            await self._reap()
            raise
        return self._workers

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._reap()

    async def _reap(self) -> None:
        await asyncio.gather(*(worker.reap() for worker in self._workers))


class Parent:
    """The parent process, seen by a worker."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    @classmethod
    async def connect(cls) -> Self:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        return cls(reader)

    def tell(self, kind: str, **fields: object) -> None:
        sys.stdout.write(json.dumps({"kind": kind, **fields}) + "\n")
        sys.stdout.flush()

    async def expect(self, kind: str) -> Object:
        """The next object, which must be of this kind. Without its parent the worker exits here."""
        line = await self._reader.readline()
        if not line:
            raise SystemExit(1)
        message: Object = json.loads(line)
        assert message["kind"] == kind, f"expected {kind!r}, got {message['kind']!r}"
        return message
