"""A result store: the rows that a piece of work returned, by a key that names everything that they depend on.

In memory it holds one record batch per key. On disk it is one Arrow file, compressed, whose name is the digest of its
bytes: a file whose bytes are not those that it was written with is found out before anything in it is believed.
"""

import json
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Final, Self

import pyarrow as pa

SUFFIX: Final = ".arrow"
KEYS: Final = b"antiphon.keys"
CHUNK_BYTES: Final = 1 << 20


class DamagedStoreError(Exception):
    """The file is not what was written; the text says why."""


class ResultStore:
    """What is known, by key; what is not taken or put since it was read is not written again."""

    def __init__(self, schema: pa.Schema, known: dict[str, pa.RecordBatch] | None = None) -> None:
        self._schema = schema
        self._known = known or {}
        self._used: dict[str, pa.RecordBatch] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def take(self, key: str) -> pa.RecordBatch:
        batch = self._known[key]
        self._used[key] = batch
        return batch

    def put(self, key: str, rows: pa.Table) -> None:
        # Taken row by row: a slice would keep the table alive that it was cut from.
        batches = rows.cast(self._schema).take(pa.array(range(len(rows)), pa.int64())).combine_chunks().to_batches()
        empty = pa.RecordBatch.from_pylist([], self._schema)
        self._known[key] = self._used[key] = batches[0] if batches else empty

    def write(self, directory: Path) -> str:
        """Write what was used; gives back the name of the file."""
        schema = self._schema.with_metadata({KEYS: json.dumps(list(self._used)).encode()})
        fresh = directory / f"new{SUFFIX}"
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.OSFile(str(fresh), "wb") as stream, pa.ipc.new_file(stream, schema, options=options) as writer:
            for batch in self._used.values():
                writer.write_batch(batch)
        name = digest_of_file(fresh) + SUFFIX
        fresh.rename(directory / name)
        return name

    @classmethod
    def read(cls, directory: Path, name: str, schema: pa.Schema) -> Self:
        """Raises DamagedStoreError where the file is not there, not whole, or not of this schema."""
        file = directory / name
        try:
            if digest_of_file(file) + SUFFIX != name:
                raise DamagedStoreError(f"{name} has changed since it was written")
            with pa.OSFile(str(file), "rb") as stream, pa.ipc.open_file(stream) as reader:
                keys = json.loads((reader.schema.metadata or {})[KEYS])
                batches = [reader.get_batch(place) for place in range(reader.num_record_batches)]
                if reader.schema.remove_metadata() != schema.remove_metadata():
                    raise DamagedStoreError(f"{name} holds other columns")
            return cls(schema, dict(zip(keys, batches, strict=True)))
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise DamagedStoreError(f"{name} cannot be read ({error})") from error


def digest_of_file(file: Path) -> str:
    """Of all bytes of a file."""
    digest = blake2b(digest_size=16)
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def digest_of_files(files: Iterable[Path]) -> str:
    """Of the bytes of several files, in this order."""
    digest = blake2b(digest_size=16)
    for file in files:
        digest.update(digest_of_file(file).encode())
    return digest.hexdigest()
