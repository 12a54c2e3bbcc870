"""The file of one copy of a replicated object: a snapshot, and what has happened since.

    size (4) | CRC-32 (4) | record in MessagePack    and so on; the first record is an `ObjectSnapshot`

What is to be written waits in a list and is written and synced by a worker thread, one batch at a time; whatever comes
meanwhile shares the next sync. A new snapshot is a new file, which replaces the old one by a rename: a crash leaves the
one or the other, whole. A record that was not synced may be torn: what is behind the last whole record is cut off when
the file is opened, and was never acknowledged.

Limit: when WAITING_BYTES_MAX bytes wait for the disk, they are written at once, and the process waits for the disk.
A disk that fails ends the copy: what a failed sync has left on the disk nobody knows.
"""

import asyncio
import fcntl
import logging
import os
import struct
import zlib
from collections import deque
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from antiphon import UsageError, log_event
from antiphon.toolkit.operations import OperationCall

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
COMPACT_BYTES_MIN: Final = 1024 * 1024
"""A file shorter than this is not worth a new snapshot; a longer one is once it is three times its snapshot."""
_HEAD: Final = struct.Struct("<II")


class ObjectSnapshot(msgspec.Struct, array_like=True, tag=0):
    """All of it, at one index."""

    epoch: int
    index: int
    promised: int
    operations: int
    """How many packs of operations came before, in all epochs."""
    bases: list[list[str]]
    state: bytes


class PackRecord(msgspec.Struct, array_like=True, tag=1):
    """Calls that were executed."""

    index: int
    calls: list[OperationCall]


class ViewRecord(msgspec.Struct, array_like=True, tag=2):
    """A view, by the names of its members, the oldest first."""

    index: int
    members: list[str]


class BaseRecord(msgspec.Struct, array_like=True, tag=3):
    """The last view is all that a restart has to look at."""


class PromiseRecord(msgspec.Struct, array_like=True, tag=4):
    """Nothing of an epoch below this one is taken any more."""

    epoch: int


ObjectRecord = ObjectSnapshot | PackRecord | ViewRecord | BaseRecord | PromiseRecord
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(ObjectRecord)


def _framed(record: ObjectRecord) -> bytes:
    body = _ENCODER.encode(record)
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


class ObjectLog:
    """The file. `load` first, then `append` and `replace`, and `sync` in one task."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise UsageError(f"{self.path} is a directory; give the object a file of its own")
        self.bytes = 0
        """How long the file is, with what waits."""
        self.snapshot_bytes = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._replaces = False
        """Whether what waits begins a new file."""
        self._file = -1
        self._lock_file = -1
        self._batches: deque[tuple[list[bytes], bool]] = deque()
        """What was handed to a thread and is not written yet, in order."""
        self._writing = Lock()

    def load(self) -> list[ObjectRecord]:
        """Return what is in the file; nothing if there is none. Raises UsageError if it is another's."""
        try:
            self._lock_file = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.lockf(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            self.close()
            raise UsageError(f"{self.path} is in use by another process; give each copy a file of its own") from None
        except OSError as error:
            raise UsageError(f"{self.path} cannot be used: {error}") from error
        data = self.path.read_bytes() if self.path.exists() else b""
        records, end = _read(data)
        if data and not (records and isinstance(records[0], ObjectSnapshot)):
            raise UsageError(f"{self.path} is no file of a replicated object; give another")
        if end < len(data):
            log_event(logging.WARNING, "object_file_cut", file=str(self.path), bytes=len(data) - end)
            os.truncate(self.path, end)
        if records:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            self.bytes = end
            self.snapshot_bytes = len(_framed(records[0]))
        return records

    @property
    def is_long(self) -> bool:
        """Whether a new snapshot is worth while."""
        return self.bytes > max(COMPACT_BYTES_MIN, 3 * self.snapshot_bytes)

    def append(self, record: ObjectRecord) -> None:
        """Have a record written behind all others, at the next `sync`."""
        framed = _framed(record)
        self._waiting.append(framed)
        self._waiting_bytes += len(framed)
        self.bytes += len(framed)
        if self._waiting_bytes > WAITING_BYTES_MAX:
            self._hand_over()
            self._write()

    def replace(self, snapshot: ObjectSnapshot) -> None:
        """Have a new file with this snapshot in place of the old one, at the next `sync`."""
        framed = _framed(snapshot)
        self._waiting = [framed]
        self._waiting_bytes = self.bytes = self.snapshot_bytes = len(framed)
        self._replaces = True

    async def sync(self) -> None:
        """Wait until all that was appended so far is on disk. Raises OSError."""
        self._hand_over()
        if self._batches:
            await asyncio.get_running_loop().run_in_executor(None, self._write)

    def close(self) -> None:
        """Close the file; what was not synced is not written."""
        with self._writing:
            self._batches.clear()
            for file in (self._file, self._lock_file):
                if file >= 0:
                    os.close(file)
            self._file = self._lock_file = -1

    def _hand_over(self) -> None:
        if self._waiting:
            self._batches.append((self._waiting, self._replaces))
        self._waiting, self._waiting_bytes, self._replaces = [], 0, False

    def _write(self) -> None:
        """Write all batches, in their order, whichever thread comes first."""
        with self._writing:
            while self._batches:
                framed, replaces = self._batches.popleft()
                if replaces:
                    self._write_anew(b"".join(framed))
                else:
                    _write_all(self._file, b"".join(framed))
                    os.fdatasync(self._file)

    def _write_anew(self, data: bytes) -> None:
        beside = self.path.with_name(f"{self.path.name}.new")
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        _write_all(file, data)
        os.fsync(file)
        beside.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        if self._file >= 0:
            os.close(self._file)
        self._file = file


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _read(data: bytes) -> tuple[list[ObjectRecord], int]:
    """Return the whole records, and where the last of them ends."""
    records: list[ObjectRecord] = []
    place = 0
    while place + _HEAD.size <= len(data):
        size, check = _HEAD.unpack_from(data, place)
        body = data[place + _HEAD.size : place + _HEAD.size + size]
        if len(body) < size or zlib.crc32(body) != check:
            break
        try:
            records.append(_DECODER.decode(body))
        except msgspec.DecodeError:
            break
        place += _HEAD.size + size
    return records, place
