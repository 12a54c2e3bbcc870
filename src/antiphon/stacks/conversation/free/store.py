"""What a process writes down of its conversations, to depend less on others when it comes back (psync-1989, 5.1).

One log for each conversation that is kept: its messages, as they were attached. One log more, INDEX, names the
conversations with their participants and addresses. Nothing waits for the disk but a participant that comes back: it
reads its log before it goes on. What was not written when the process died is fetched from others, and so is what
finds UNWRITTEN_BYTES_MAX bytes unwritten: it is dropped and counted.

A participant that was removed, or has diverged, may have written down messages that count for nobody else. With those
in its graph it would be out again in each further life. So it writes LEFT_BEHIND, and whatever stands before that in
its log is not read any more: the others have all that counts.

Each life of the process in a conversation begins with a record of its incarnation. One that was used before is found
out by that: it would give numbers again in one life, which nobody could tell apart.

What the limits make a process forget stays in the log, and is read from there for whoever lacks it.
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.calls import Load, Store
from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.outcomes import CallOutcome, Loaded, Stored
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.wire import participants_section, read_participants

INDEX: Final = "conversations"
UNWRITTEN_BYTES_MAX: Final = 64 * 1024 * 1024
LEFT_BEHIND: Final = b"\xff"
"""No message is as short as this."""
_CID: Final = Struct("<Q")
_LIFE: Final = Struct("<BQ")
LIFE: Final = 0xFE
"""The first byte of a record of a life; nor is any message as short as that record."""


def log_of(cid: int) -> str:
    """Return the name of the log of a conversation."""
    return f"conversation {cid:016x}"


def read_log(records: list[bytes]) -> list[bytes]:
    """Return the messages in the log of a conversation that count."""
    start = 0
    for place, record in enumerate(records):
        if record == LEFT_BEHIND:
            start = place + 1
    return [record for record in records[start:] if len(record) != _LIFE.size]


def latest_life(records: list[bytes]) -> int:
    """Return the highest incarnation of which the log of a conversation has a record."""
    return max([int(_LIFE.unpack(record)[1]) for record in records if len(record) == _LIFE.size], default=0)


@final
class StoredConversation:
    """A conversation that a process has on its disk."""

    __slots__ = ("cid", "participants")

    def __init__(self, cid: int, participants: dict[str, str]) -> None:
        self.cid = cid
        self.participants = participants
        """Names and addresses, in their order."""

    def __repr__(self) -> str:
        return f"StoredConversation({self.cid:016x}, {self.participants!r})"


def read_index(records: list[bytes]) -> list[StoredConversation]:
    """Return the conversations that the index names, each once, without malformed records."""
    found: dict[int, StoredConversation] = {}
    for record in records:
        try:
            processes, addresses, _ = read_participants(record, _CID.size)
        except MalformedError:
            continue
        cid = int(_CID.unpack_from(record)[0])
        found[cid] = StoredConversation(
            cid, {process.name: address for process, address in zip(processes, addresses, strict=True)}
        )
    return list(found.values())


@final
class ConversationStore:
    """The calls of one process to its disk that are not answered yet."""

    __slots__ = ("_loading", "_unwritten", "_unwritten_bytes", "dropped")

    def __init__(self) -> None:
        self._unwritten: dict[int, int] = {}
        """By token: how many bytes are being written."""
        self._unwritten_bytes = 0
        self._loading: dict[int, int] = {}
        """By token: the conversation whose log is being read."""
        self.dropped = 0
        """Messages that were not written."""

    def begin(self, conversation: ConversationCore, effects: Effects, token: int) -> None:
        """Name a conversation in the index."""
        head = _CID.pack(conversation.cid) + participants_section(conversation.participants, conversation.addresses)
        self._store(INDEX, [head], effects, token)

    def begin_life(self, conversation: ConversationCore, effects: Effects, token: int) -> None:
        """Note that the process is in a conversation in its present incarnation."""
        self._store(log_of(conversation.cid), [_LIFE.pack(LIFE, conversation.life)], effects, token)

    def load(self, cid: int, effects: Effects, token: int) -> None:
        """Have the log of a conversation read."""
        self._loading[token] = cid
        effects.call(Load(log_of(cid), token))

    def write(self, conversation: ConversationCore, effects: Effects, token: int) -> None:
        """Store what a conversation has attached since the last call; nothing while its log is being read."""
        records = conversation.records
        if not records or conversation.is_loading():
            return
        conversation.records = []
        if self._unwritten_bytes > UNWRITTEN_BYTES_MAX:
            self.dropped += len(records)
        else:
            self._store(log_of(conversation.cid), records, effects, token)

    def leave_behind(self, cid: int, effects: Effects, token: int) -> None:
        """Void all that was stored of a conversation so far."""
        self._store(log_of(cid), [LEFT_BEHIND], effects, token)

    def _store(self, log: str, records: list[bytes], effects: Effects, token: int) -> None:
        size = sum([len(record) for record in records])
        self._unwritten[token] = size
        self._unwritten_bytes += size
        effects.call(Store(log, records, token))

    def outcome(self, outcome: CallOutcome) -> int | None:
        """Process the outcome of a call; return the conversation whose log was read, if it was such a call."""
        if isinstance(outcome, Stored):
            self._unwritten_bytes -= self._unwritten.pop(outcome.token, 0)
        elif isinstance(outcome, Loaded):
            return self._loading.pop(outcome.token, None)
        return None
