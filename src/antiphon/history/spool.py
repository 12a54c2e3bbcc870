"""The spool: batches of rows on their way from a streaming query to a group, each published once and sent in order.

A spool is a directory that the query's driver and executors and the feeder share:

    spool.json              {"version": 1, "feed": …}: the id that the rows of this spool go under, made up at random
    query.json              {"query": …}: the one query that may publish here, the first that did
    staged/<name>.arrow     rows of one write task, as an Arrow stream of SCHEMA; of no meaning unless a batch names it
    batches/<id>.json       a published batch: {"batch": id, "first": n, "rows": k, "files": […]}
    position.json           {"batch": id, "next": n}: the rows before number n, in batches up to id, are at all members
    incarnation, lock       the feeder's

Rows of a feed are numbered 1, 2, 3… over all batches. A batch is published by giving its finished description a name
that nobody else can take (link), so it is there as a whole or not at all, and once: Spark gives the same id to a batch
that it repeats after a failure, and a repeated batch is recognised by its id and dropped. Its rows may then even be
others: the first publication stands. Batches are published one after the other, with rising ids; so when a batch
is there, all before it are.

The feeder lets go of what is sent. That a batch was published is remembered by the position then: one whose id is not
above it is dropped as well, here and, should the two meet in between, by the feeder.

Query ids: batch ids mean something within one query only, that is, one checkpoint. A query that comes with another
checkpoint counts from 0 again, and its batches would be taken for repeated ones; so it is refused.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from antiphon.history.durable import StorageError, sync_directory, write_durably
from antiphon.history.private_files import make_private, open_private

VERSION: Final = 1
FACTS: Final = "spool.json"
QUERY: Final = "query.json"
POSITION: Final = "position.json"
STAGED: Final = "staged"
BATCHES: Final = "batches"
SUFFIX: Final = ".json"
SENDABLE: Final = ("fifo", "causal", "agreed", "safe")
"""A row that came in no order could not be told from a repeated one, so `reliable` is not for feeds."""

SCHEMA: Final = pa.schema([pa.field("payload", pa.binary()), pa.field("level", pa.string())])


class PublishedBatch(msgspec.Struct, frozen=True):
    """One batch, as its description has it."""

    batch: int
    first: int
    """The number of its first row."""
    rows: int
    files: list[str]


@dataclass(frozen=True)
class Position:
    """How far the feeder is: rows before number `next`, and batches up to `batch`, are at all members."""

    batch: int = -1
    next: int = 1


@dataclass(frozen=True)
class StagedFile:
    """What a write task left."""

    file: str
    rows: int


class Spool:
    """A spool as both sides see it; it is made if need be."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self._batches = self.directory / BATCHES
        self._staged = self.directory / STAGED
        try:
            make_private(self.directory)
            make_private(self._batches)
            make_private(self._staged)
            self._name_once(self.directory / FACTS, json.dumps({"version": VERSION, "feed": secrets.token_hex(16)}))
        except OSError as error:
            raise StorageError(self.directory, f"no spool can be made here ({error.strerror or error})") from error

        facts = _read_json(self.directory / FACTS)
        if facts.get("version") != VERSION:
            why = f"its version is {facts.get('version')!r}; this program knows version {VERSION}"
            raise StorageError(self.directory / FACTS, why)
        self.feed = str(facts["feed"])
        """Under this id the group sees the rows of this spool."""

    # The query's side.

    def stage(self, batches: Iterable[pa.RecordBatch]) -> StagedFile:
        """Keep the rows of one write task until their batch is published, or for nothing."""
        name = f"{secrets.token_hex(16)}.arrow"
        rows = 0
        with open_private(self._staged / name) as stream:
            with pa.ipc.new_stream(stream, SCHEMA) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
            stream.flush()
            os.fsync(stream.fileno())
        sync_directory(self._staged)
        return StagedFile(name, rows)

    def discard(self, files: Iterable[StagedFile]) -> None:
        """Let go of what was staged and will not be published."""
        for staged in files:
            with suppress(FileNotFoundError):
                (self._staged / staged.file).unlink()

    def publish(self, batch: int, files: list[StagedFile], query: str | None) -> bool:
        """Publish a batch; false if it was published before, and what was staged is let go."""
        self._claim(query)
        last = self._last()
        if batch <= last.batch:
            self.discard(files)
            return False
        rows = sum(staged.rows for staged in files)
        description = PublishedBatch(batch, last.next, rows, [staged.file for staged in files if staged.rows])
        if not self._name_once(self._path(batch), msgspec.json.encode(description).decode()):
            self.discard(files)
            return False
        self.discard(staged for staged in files if not staged.rows)
        return True

    def _name_once(self, path: Path, content: str) -> bool:
        """Make a file as a whole, unless there is one of that name already; whether it was made."""
        if path.exists():
            return False
        partial = self.directory / f"{secrets.token_hex(8)}.new"
        write_durably(partial, content.encode())
        try:
            os.link(partial, path)
        except FileExistsError:
            return False
        finally:
            partial.unlink()
        sync_directory(path.parent)
        return True

    def _last(self) -> Position:
        """Where the last published batch ends."""
        while True:
            position = self.position()
            ids = [number for number in self._ids() if number > position.batch]
            if not ids:
                return position
            try:
                last = self._describe(ids[-1])
            except FileNotFoundError:
                continue  # sent and let go meanwhile: the position tells
            return Position(last.batch, last.first + last.rows)

    def _claim(self, query: str | None) -> None:
        """Only one query may publish here. None: the batch had no tasks that could have told, and has no rows."""
        if query is None:
            return
        self._name_once(self.directory / QUERY, json.dumps({"query": query}))
        owner = _read_json(self.directory / QUERY)["query"]
        if query != owner:
            why = (
                f"this spool belongs to the query {owner}, and {query} has another checkpoint: its batches are counted "
                "anew and could not be told from those sent before; go on with the old checkpoint or name a new spool"
            )
            raise StorageError(self.directory, why)

    # The feeder's side.

    def position(self) -> Position:
        """What is known to be at all members."""
        path = self.directory / POSITION
        if not path.exists():
            return Position()
        facts = _read_json(path)
        return Position(int(facts["batch"]), int(facts["next"]))

    def waiting(self) -> list[PublishedBatch]:
        """The published batches that are not known to be at all members, in order."""
        position = self.position()
        return [self._describe(number) for number in self._ids() if number > position.batch]

    def rows(self, published: PublishedBatch) -> Iterator[tuple[list[bytes], str]]:
        """The payloads of a batch in order, in runs of one level each."""
        for name in published.files:
            path = self._staged / name
            try:
                with pa.OSFile(str(path)) as stream, pa.ipc.open_stream(stream) as reader:
                    for batch in reader:
                        yield from _runs(batch["payload"].to_pylist(), batch["level"].to_pylist())
            except (OSError, pa.ArrowInvalid) as error:
                raise StorageError(path, f"these rows of batch {published.batch} cannot be read ({error})") from error

    def settle(self, published: PublishedBatch) -> None:
        """A batch is at all members: remember that, then let go of it and of repeated ones below it."""
        position = Position(published.batch, published.first + published.rows)
        write_durably(self.directory / POSITION, json.dumps(asdict(position)).encode())
        for number in self._ids():
            if number <= published.batch:
                done = self._describe(number)
                self.discard(StagedFile(name, 0) for name in done.files)
                self._path(number).unlink()

    def _ids(self) -> list[int]:
        names = [name.removesuffix(SUFFIX) for name in os.listdir(self._batches) if name.endswith(SUFFIX)]
        return sorted(int(name) for name in names if name.isdecimal())

    def _path(self, batch: int) -> Path:
        return self._batches / f"{batch:020}{SUFFIX}"

    def _describe(self, batch: int) -> PublishedBatch:
        path = self._path(batch)
        try:
            return msgspec.json.decode(path.read_bytes(), type=PublishedBatch)
        except msgspec.DecodeError as error:
            raise StorageError(path, f"this batch cannot be read ({error})") from error


def _runs(payloads: list[bytes], levels: list[str]) -> Iterator[tuple[list[bytes], str]]:
    start = 0
    for place in range(1, len(levels) + 1):
        if place == len(levels) or levels[place] != levels[start]:
            yield payloads[start:place], levels[start]
            start = place


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(path, f"it cannot be read ({error})") from error
