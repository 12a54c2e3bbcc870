"""Writing a journal: one writer at a time, each append on disk before it returns.

A directory that holds a journal already is gone on with, if it is of the same group and listener. What a killed writer
left unfinished at the end is cut off: it was never told of to anybody.
"""

import json
import os
import secrets
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from antiphon.history.durable import StorageError, count_up, sync_directory, take_lock, write_durably
from antiphon.history.journal import (
    FACTS,
    MAGIC,
    VERSION,
    JournalRow,
    encode_frame,
    facts_of,
    segment_path,
    segments,
    whole_frames,
)
from antiphon.history.private_files import make_private

SEGMENT_BYTES: Final = 64 * 1024 * 1024
LOCK: Final = "lock"
INCARNATION: Final = "incarnation"


class JournalWriter:
    """The one writer of a journal; `close` it, or use it as a context manager."""

    def __init__(self, directory: Path | str, *, group: str, listener: str, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.directory = Path(directory)
        self._segment_bytes = segment_bytes
        self._descriptor = -1
        self._lock = -1
        try:
            make_private(self.directory)
            self._lock = take_lock(self.directory / LOCK)
            self._claim(group, listener)
            self._open_last()
        except OSError as error:
            self.close()
            raise StorageError(self.directory, f"it cannot be written ({error.strerror or error})") from error
        except BaseException:
            self.close()
            raise

    def _claim(self, group: str, listener: str) -> None:
        if not (self.directory / FACTS).exists():
            new = {"version": VERSION, "id": secrets.token_hex(16), "group": group, "listener": listener}
            write_durably(self.directory / FACTS, json.dumps(new).encode())
        facts = facts_of(self.directory)
        if (facts["group"], facts["listener"]) != (group, listener):
            whose = f"listener {facts['listener']!r} of group {facts['group']!r}"
            raise StorageError(self.directory, f"this journal belongs to {whose}; choose another directory")

    def _open_last(self) -> None:
        """Go on at the end; what was not finished there is cut off."""
        firsts = segments(self.directory)
        first = firsts[-1] if firsts else 0
        path = segment_path(self.directory, first)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.end, self._position = first, 0
        for frame in whole_frames(self._descriptor, first, 0):
            self.end, self._position = frame.end, frame.end_position
        self._refuse_damage(path)
        os.ftruncate(self._descriptor, self._position)
        os.fsync(self._descriptor)
        sync_directory(self.directory)

    def _refuse_damage(self, path: Path) -> None:
        """A bad frame with a whole one behind it was not left by a killed writer."""
        rest = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, self._position)
        at = rest.find(MAGIC, 1)
        while at > 0:
            offset = int.from_bytes(rest[at + 8 : at + 16], "little")
            if next(whole_frames(self._descriptor, offset, self._position + at), None) is not None:
                raise StorageError(path, f"it is damaged at byte {self._position}; begin anew in another directory")
            at = rest.find(MAGIC, at + 1)

    def next_incarnation(self) -> int:
        """One more than ever before; remembered before it is used."""
        return count_up(self.directory / INCARNATION)

    def append(self, rows: list[JournalRow]) -> int:
        """Write these rows, which together are one frame; the offset after them. They are on disk when it returns."""
        if not rows:
            return self.end
        frame = encode_frame(self.end, rows)
        try:
            if self._position and self._position + len(frame) > self._segment_bytes:
                self._begin_segment()
            written = os.pwrite(self._descriptor, frame, self._position)
            if written < len(frame):
                raise StorageError(self.directory, "the disk is full; make room and start the listener again")
            os.fsync(self._descriptor)
        except OSError as error:
            raise StorageError(self.directory, f"it cannot be written ({error.strerror or error})") from error
        self._position += len(frame)
        self.end += len(rows)
        return self.end

    def _begin_segment(self) -> None:
        os.close(self._descriptor)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        self._descriptor = os.open(segment_path(self.directory, self.end), flags, 0o600)
        self._position = 0
        sync_directory(self.directory)

    def close(self) -> None:
        """A second call does nothing."""
        for descriptor in (self._descriptor, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def trim(directory: Path, before: int) -> int:
    """Let go of the segments that lie wholly before this offset; how many. The last segment always stays."""
    firsts = segments(directory)
    gone = [first for first, following in pairwise(firsts) if following <= before]
    for first in gone:
        with suppress(FileNotFoundError):
            segment_path(directory, first).unlink()
    return len(gone)
