"""The journal: what one listener was handed by its group, row by row, on disk, at offsets 0, 1, 2… without gaps.

A journal is a directory:

    journal.json                   who it belongs to: {"version": 1, "id": …, "group": …, "listener": …}
    incarnation                    the last incarnation that the listener used
    lock                           held by the one process that writes
    00000000000000000000.segment   rows from this offset on; the next segment begins where this one ends

A segment is a sequence of frames, each written by one call and synced before the next: a header (magic, rows, offset of
the first row, bytes and CRC-32 of what follows) and one Arrow record batch of SCHEMA. What stands at an offset never
changes, so whoever reads the same range twice reads the same rows. Rows leave only from the front, by whole segments.

A frame that is not complete can only be the last: the writer was killed. Readers stop before it, and the next
writer cuts it off. A bad frame anywhere else is damage, and refused. Readers sync the segment before they tell of its
end, so that nothing that they have told of is lost even if the machine loses power.

kind      columns that are set beside offset, time_ns, kind, group, listener
message   view, sender, sender_incarnation, number, level, private, payload, repeated; and if it is a row of a feed
          (history/spool.py), feed and feed_number. repeated: the listener had this row of the feed before
barrier   the same
view      view, members ("name/incarnation", ranked by age)
stalled   view: no majority of it can be reached
gap       the listener was away: what the group delivered between the rows before and after may be missing here

Memory: a reader holds one frame. Frames hold at most FRAME_BYTES of payload, or one message that is longer.
"""

import json
import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from antiphon.history.durable import StorageError

VERSION: Final = 1
FACTS: Final = "journal.json"
SUFFIX: Final = ".segment"
FRAME_BYTES: Final = 4 * 1024 * 1024
MAGIC: Final = b"ANJ1"
HEADER: Final = struct.Struct("<4sIQII")

MESSAGE: Final = "message"
BARRIER: Final = "barrier"
VIEW: Final = "view"
STALLED: Final = "stalled"
GAP: Final = "gap"

SCHEMA: Final = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("time_ns", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("group", pa.string()),
        pa.field("listener", pa.string()),
        pa.field("view", pa.int64()),
        pa.field("members", pa.list_(pa.string())),
        pa.field("sender", pa.string()),
        pa.field("sender_incarnation", pa.int64()),
        pa.field("number", pa.int64()),
        pa.field("level", pa.string()),
        pa.field("private", pa.bool_()),
        pa.field("payload", pa.binary()),
        pa.field("feed", pa.string()),
        pa.field("feed_number", pa.int64()),
        pa.field("repeated", pa.bool_()),
    ]
)


class JournalRow(NamedTuple):
    """One row, as SCHEMA has it, without its offset, which its place gives."""

    time_ns: int
    kind: str
    group: str
    listener: str
    view: int | None = None
    members: list[str] | None = None
    sender: str | None = None
    sender_incarnation: int | None = None
    number: int | None = None
    level: str | None = None
    private: bool | None = None
    payload: bytes | None = None
    feed: str | None = None
    feed_number: int | None = None
    repeated: bool | None = None


@dataclass(frozen=True)
class Frame:
    """Where a frame lies: its body is at `position + HEADER.size` in the segment."""

    position: int
    first: int
    rows: int
    size: int
    checksum: int

    @property
    def end(self) -> int:
        """The offset after its last row."""
        return self.first + self.rows

    @property
    def end_position(self) -> int:
        return self.position + HEADER.size + self.size


def facts_of(directory: Path) -> dict[str, object]:
    """What `journal.json` says; refused if this is no journal."""
    try:
        facts = json.loads((directory / FACTS).read_bytes())
    except FileNotFoundError:
        why = f"there is no journal here: no {FACTS}; name the directory that a listener writes (antiphon listen --log)"
        raise StorageError(directory, why) from None
    except (OSError, ValueError) as error:
        raise StorageError(directory / FACTS, f"it cannot be read ({error})") from error
    version = facts.get("version") if isinstance(facts, dict) else None
    if version != VERSION:
        raise StorageError(directory / FACTS, f"its version is {version!r}; this program reads version {VERSION}")
    return dict(facts)


def segment_path(directory: Path, first: int) -> Path:
    return directory / f"{first:020}{SUFFIX}"


def segments(directory: Path) -> list[int]:
    """The first offset of each segment, in order."""
    try:
        names = [name for name in os.listdir(directory) if name.endswith(SUFFIX)]
    except OSError as error:
        raise StorageError(directory, f"it cannot be read ({error.strerror or error})") from error
    return sorted(int(name.removesuffix(SUFFIX)) for name in names if name.removesuffix(SUFFIX).isdecimal())


def encode_frame(first: int, rows: list[JournalRow]) -> bytes:
    """A frame with these rows, as it lies in a segment."""
    columns = [list(range(first, first + len(rows))), *map(list, zip(*rows, strict=True))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    body: bytes = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA).serialize().to_pybytes()
    return HEADER.pack(MAGIC, len(rows), first, len(body), zlib.crc32(body)) + body


def frame_at(descriptor: int, position: int, size: int) -> Frame | None:
    """The frame that begins at `position` of a file of `size` bytes, if it is all there; its body is not looked at."""
    header = os.pread(descriptor, HEADER.size, position) if position + HEADER.size <= size else b""
    if len(header) < HEADER.size:
        return None
    magic, rows, first, length, checksum = HEADER.unpack(header)
    if magic != MAGIC or position + HEADER.size + length > size:
        return None
    return Frame(position, first, rows, length, checksum)


def body_of(descriptor: int, frame: Frame) -> bytes | None:
    """The bytes of a frame, or None if they are not what was written."""
    body = os.pread(descriptor, frame.size, frame.position + HEADER.size)
    return body if len(body) == frame.size and zlib.crc32(body) == frame.checksum else None


def whole_frames(descriptor: int, first: int, position: int) -> Iterator[Frame]:
    """The frames from `position` on, where offset `first` stands, up to the first that is not whole."""
    size = os.fstat(descriptor).st_size
    while (frame := frame_at(descriptor, position, size)) is not None and frame.first == first:
        if body_of(descriptor, frame) is None:
            return
        yield frame
        first, position = frame.end, frame.end_position


class JournalReader:
    """Reads a journal, while it is being written or not. It keeps no file open between calls."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self.id = str(facts_of(self.directory).get("id"))
        self._segment = 0
        self._end = 0
        self._position = 0
        """How far the frames have been looked at: offset `_end` stands at `_position` in `_segment`."""

    def start(self) -> int:
        """The first offset that is still there."""
        return next(iter(segments(self.directory)), 0)

    def end(self) -> int:
        """The offset after the last row. Everything before it is on disk for good."""
        for first in segments(self.directory):
            if first < self._segment:
                continue
            if first > self._segment:
                self._segment, self._end, self._position = first, first, 0
            self._look_on()
        return self._end

    def _look_on(self) -> None:
        path = segment_path(self.directory, self._segment)
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return  # let go meanwhile
        try:
            os.fsync(descriptor)
            for frame in whole_frames(descriptor, self._end, self._position):
                self._end, self._position = frame.end, frame.end_position
        finally:
            os.close(descriptor)

    def read(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The rows at offsets start … end - 1, one batch per frame. Refused if they are not all there."""
        firsts = segments(self.directory)
        if start >= end:
            return
        if not firsts or start < firsts[0]:
            gone = f"the rows at offsets {start} to {min(end, firsts[0] if firsts else end) - 1} have been let go"
            raise StorageError(self.directory, f"{gone}; start a new query, with a new checkpoint, from what is left")
        for first in firsts[bisect_right(firsts, start) - 1 :]:
            if first >= end:
                break
            for batch in self._read_segment(first, start, end):
                yield batch
                start += batch.num_rows
        if start < end:
            raise StorageError(self.directory, f"it is damaged: the rows from offset {start} on cannot be read")

    def _read_segment(self, first: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        path = segment_path(self.directory, first)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            position = 0
            while first < end and (frame := frame_at(descriptor, position, size)) is not None:
                if frame.first != first:
                    raise StorageError(path, f"it is damaged: at byte {position} offset {first} was to be expected")
                if frame.end > start:
                    body = body_of(descriptor, frame)
                    if body is None:
                        raise StorageError(path, f"it is damaged at byte {position}, offset {first}")
                    batch = pa.ipc.read_record_batch(pa.py_buffer(body), SCHEMA)
                    yield batch.slice(max(0, start - first), min(end, frame.end) - max(start, first))
                first, position = frame.end, frame.end_position
        finally:
            os.close(descriptor)
