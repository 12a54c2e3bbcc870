"""What a host writes down of a conversation, so that it depends less on others when it comes back (psync-1989, 5.1).

One file per conversation, appended to: `length u32 | CRC-32 u32 | record`, little-endian. The first record names the
conversation, its participants and their addresses; each further one is a message, as it was attached. Reading ends at
the first record that is cut short or does not add up: a crash leaves such an end, and it is cut off before more is
written.

Writing happens behind the conversation's back, in another thread, one batch after the other. Nothing waits for it: what
was not written when the process died is fetched from others. So is what finds UNWRITTEN_BYTES_MAX bytes unwritten: it
is dropped and counted, like everything after the disk has failed.
"""

import asyncio
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from antiphon.kernel.errors import MalformedError
from antiphon.stacks.conversation.free.conversation import ConversationCore as Core
from antiphon.stacks.conversation.free.wire import participants_section, read_participants

SUFFIX: Final = ".talk"
UNWRITTEN_BYTES_MAX: Final = 64 * 1024 * 1024
_HEAD: Final = Struct("<II")
_CID: Final = Struct("<Q")


class StoredConversation:
    """What a file holds."""

    def __init__(self, cid: int, participants: dict[str, str], sections: list[bytes], size: int) -> None:
        self.cid = cid
        self.participants = participants
        """Names and addresses, in their order."""
        self.sections = sections
        self.size = size
        """Bytes of the file that are sound."""


def pack(record: bytes) -> bytes:
    return _HEAD.pack(len(record), crc32(record)) + record


def read_records(data: bytes) -> tuple[list[bytes], int]:
    """The sound records from the beginning on, and how many bytes they take."""
    records: list[bytes] = []
    position = 0
    while position + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, position)
        record = data[position + _HEAD.size : position + _HEAD.size + length]
        if len(record) != length or crc32(record) != checksum:
            break
        records.append(record)
        position += _HEAD.size + length
    return records, position


def read_stored(path: Path) -> StoredConversation | None:
    """What a file holds; None if there is none, or not even its beginning is sound."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    records, size = read_records(data)
    if not records or len(records[0]) < _CID.size:
        return None
    try:
        processes, addresses, _ = read_participants(records[0], _CID.size)
    except MalformedError:
        return None
    participants = {process.name: address for process, address in zip(processes, addresses, strict=True)}
    return StoredConversation(int(_CID.unpack_from(records[0])[0]), participants, records[1:], size)


def path_of(directory: Path, name: str, cid: int) -> Path:
    """The file of one participant in one conversation."""
    return directory / f"{name}-{cid:016x}{SUFFIX}"


def read_all(directory: Path, name: str) -> list[StoredConversation]:
    """All conversations that a participant has written down."""
    if not directory.is_dir():
        return []
    found = [read_stored(path) for path in sorted(directory.glob(f"*{SUFFIX}")) if path.name.startswith(f"{name}-")]
    return [stored for stored in found if stored is not None]


class ConversationStore:
    """The file of one conversation, while it is written to."""

    def __init__(self, directory: Path, core: Core) -> None:
        self._core = core
        name = core.participants[core.me].name
        self._path = path_of(directory, name, core.cid)
        self._begun = False
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._writing: asyncio.Task[None] | None = None
        self.dropped = 0
        """Messages that were not written."""
        self.failure: OSError | None = None

    def collect(self) -> None:
        """Take what the conversation has to be written."""
        records = self._core.records
        if not records:
            return
        self._core.records = []
        for record in records:
            if self.failure is not None or self._unwritten_bytes > UNWRITTEN_BYTES_MAX:
                self.dropped += 1
            else:
                self._unwritten.append(record)
                self._unwritten_bytes += len(record)
        if self._writing is None and self._unwritten:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._unwritten:
                batch, self._unwritten = self._unwritten, []
                self._unwritten_bytes = 0
                await asyncio.to_thread(self._write, batch)
        except OSError as error:
            self.failure = error
            self.dropped += len(self._unwritten)
            self._unwritten = []
        finally:
            self._writing = None

    def _write(self, batch: list[bytes]) -> None:
        if not self._begun:
            self._begin()
            self._begun = True
        with self._path.open("ab") as file:
            file.write(b"".join([pack(record) for record in batch]))

    def _begin(self) -> None:
        """Cut off what a crash has left half written, or begin the file."""
        stored = read_stored(self._path)
        if stored is not None:
            with self._path.open("r+b") as file:
                file.truncate(stored.size)
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        core = self._core
        head = _CID.pack(core.cid) + participants_section(core.participants, core.addresses)
        self._path.write_bytes(pack(head))

    async def close(self) -> None:
        """Wait until all is written."""
        self.collect()
        if self._writing is not None:
            await self._writing
