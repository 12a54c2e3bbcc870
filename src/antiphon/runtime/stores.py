"""The logs of one process on a real disk: `Store`, `Load` and `Trim` (kernel/calls.py).

One file per log, appended to: `length u32 | CRC-32 u32 | record`, little-endian. Reading ends at the first record that
is cut short or damaged: nothing after it was ever reported as stored. A worker thread does one batch of calls after the
other, in the order of the calls, and syncs each file that it has written before `Stored` is reported. So what was asked
for while the disk was busy shares one sync. `Trim` writes the rest of the log into a new file and renames it.

The queue is bounded by the stack, which is told of each `Stored`. A disk that fails ends the node.
"""

import asyncio
import os
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import Struct
from typing import Final, final
from urllib.parse import quote

from antiphon.history.private_files import make_private
from antiphon.kernel.calls import Load, Store, Trim
from antiphon.kernel.outcomes import CallOutcome, Loaded, Stored

_HEAD: Final = Struct("<II")
DiskCall = Store | Load | Trim


@final
class Stores:
    """The logs of one process, in one directory."""

    def __init__(
        self, directory: Path, report: Callable[[CallOutcome], object], fail: Callable[[Exception], object]
    ) -> None:
        self._directory = directory
        self._report = report
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="antiphon-store")
        self._files: dict[str, int] = {}
        """Logs that are open to append to; the worker's alone while it writes."""
        self._waiting: list[DiskCall] = []
        self._writing: asyncio.Future[list[CallOutcome]] | None = None
        self._closed = False

    def carry_out(self, call: DiskCall) -> None:
        """Do this after all that was asked for before."""
        if self._closed:
            return
        self._waiting.append(call)
        self._next()

    def _next(self) -> None:
        if self._writing is None and self._waiting:
            batch, self._waiting = self._waiting, []
            self._writing = self._loop.run_in_executor(
                self._worker, carry_out_batch, self._directory, batch, self._files
            )
            self._writing.add_done_callback(self._done)

    def _done(self, written: asyncio.Future[list[CallOutcome]]) -> None:
        self._writing = None
        error = written.exception()
        if isinstance(error, Exception):
            self._closed = True
            self._fail(error)
            return
        for outcome in written.result():
            if not self._closed:
                self._report(outcome)
        self._next()

    async def close(self) -> None:
        """Wait until all that was asked for is on disk; nothing more is reported."""
        while self._writing is not None or self._waiting:
            self._next()
            if self._writing is not None:
                await asyncio.wait([self._writing])
                await asyncio.sleep(0)
        self._closed = True
        self._worker.shutdown(wait=False)
        close_logs(self._files)


def path_of(directory: Path, log: str) -> Path:
    """The file of a log, whatever characters its name has."""
    return directory / f"{quote(log, safe=' ')}.log"


def carry_out_batch(directory: Path, calls: list[DiskCall], files: dict[str, int] | None = None) -> list[CallOutcome]:
    """Do these calls in order, and sync; what there is to report. `files`: the logs that are open, which stay so."""
    if files is None:
        files = {}
        try:
            return carry_out_batch(directory, calls, files)
        finally:
            close_logs(files)
    make_private(directory)
    outcomes: list[CallOutcome] = []
    written: dict[str, list[bytes]] = {}
    for call in calls:
        if isinstance(call, Store):
            if call.log not in files:
                files[call.log] = _open_log(directory, call.log)
            written.setdefault(call.log, []).append(_framed(call.records))
            outcomes.append(Stored(call.token))
            continue
        _write_all(files, written)
        if isinstance(call, Load):
            outcomes.append(Loaded(call.token, read_log(path_of(directory, call.log))))
        else:
            if call.log in files:
                os.close(files.pop(call.log))
            _rewrite(directory, call.log, read_log(path_of(directory, call.log))[call.count :])
    _write_all(files, written)
    return outcomes


def _write_all(files: dict[str, int], written: dict[str, list[bytes]]) -> None:
    """Write to each log what is for it, and sync."""
    for log, parts in written.items():
        _write(files[log], b"".join(parts))
        os.fsync(files[log])
    written.clear()


def close_logs(files: dict[str, int]) -> None:
    """Let go of the logs that are open."""
    while files:
        os.close(files.popitem()[1])


def _open_log(directory: Path, log: str) -> int:
    """Open a log to append to it; what a crash left half written at its end is cut off."""
    path = path_of(directory, log)
    is_new = not path.exists()
    sound = sum(_HEAD.size + len(record) for record in read_log(path))
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.ftruncate(file, sound)
    os.lseek(file, sound, os.SEEK_SET)
    if is_new:
        _sync_directory(directory)
    return file


def _framed(records: list[bytes]) -> bytes:
    return b"".join([_HEAD.pack(len(record), zlib.crc32(record)) + record for record in records])


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _rewrite(directory: Path, log: str, records: list[bytes]) -> None:
    path = path_of(directory, log)
    beside = path.with_suffix(".new")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _write(file, _framed(records))
        os.fsync(file)
    finally:
        os.close(file)
    beside.replace(path)
    _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_log(path: Path) -> list[bytes]:
    """The records of a log, up to the first that is damaged; none if there is no such file."""
    if not path.exists():
        return []
    data = path.read_bytes()
    records: list[bytes] = []
    position = 0
    while position + _HEAD.size <= len(data):
        size, checksum = _HEAD.unpack_from(data, position)
        record = data[position + _HEAD.size : position + _HEAD.size + size]
        if len(record) < size or zlib.crc32(record) != checksum:
            break
        records.append(record)
        position += _HEAD.size + size
    return records
