"""The log of a seat on disk, at one of its voters: what the voter has promised is there when its process comes back.

Promise. With the option `durable`, what a peer has told its clients survives its crash, a power loss included: members
find their groups, numbers and history as they left them, and go on. Together with `replicas` all peers of the service
may be killed at once; when k + 1 voters of a seat are started again, nothing that it told is lost.

Rule. A voter writes down, in the order in which it happens: entries of the log, a state that replaces the log, and
before each promise its term, its vote and the lives that it knows of. A promise (a vote, a request for votes, an
acknowledgement, an answer to a voter that recovers) leaves when the disk says that all that was written before it is
safe (`Stored`). A leader sends entries to the others while its own disk writes; it counts itself as one that holds an
entry when its disk does. When the log has grown by COMPACT_BYTES, the state as a whole is written, and what came before
it is trimmed once the state is safe.
  A process that starts reads the log (`Load`) before it does anything else. One that finds a term, or an entry, goes on
  as a voter that has slept. One that finds nothing is new: it has promised nothing, or its disk was replaced; the rule
  Lives of seat_log.py serves both. A log that cannot be read to its end has lost promises, so its voter has forgotten
  everything, and recovers by the same rule. A seat with one voter (`replicas` = 0) leads at once, in the next term.

Safe. `Load` gives a prefix of what was stored, with all that was reported; so nothing that was promised is forgotten,
and the proof of seat_log.py holds with "crash" replaced by "sleep". What was stored and never told is in the state of
the next life all the same, as if it had been told to nobody yet. A leader's own term is on disk before anybody votes
for it, so that entries, which leave at once, are of a term that it will not forget.

Live. Disks answer. One gap is left: if more than k voters are killed while a seat is founded for the first time, some
with and some without a term on disk, too few remember, and the seat stands still; nothing was told by it then, and its
log on all disks may be deleted."""

from collections import deque
from typing import Final, final

from antiphon.kernel.calls import Store, Trim
from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.seat_state import SeatState, pack_records, unpack_records
from antiphon.stacks.sequencer.wire import FrameReader, text, u64

COMPACT_BYTES: Final = 64 * 1024 * 1024
_ENTRY: Final = b"\0"
_WHOLE: Final = b"\1"
_PROMISE: Final = b"\2"
_LIVES_MAX: Final = 64


def lives_bytes(lives: dict[str, int]) -> bytes:
    """The lives of voters."""
    return b"".join([u64(len(lives)), *[text(voter) + u64(life) for voter, life in lives.items()]])


def read_lives(reader: FrameReader) -> dict[str, int]:
    """The inverse. Raises MalformedError."""
    lives: dict[str, int] = {}
    for _ in range(min(reader.number(), _LIVES_MAX)):
        voter = reader.text()
        lives[voter] = reader.number()
    return lives


@final
class SeatCopy:
    """What a voter knew when it wrote last."""

    __slots__ = ("index", "is_damaged", "last_term", "lives", "state", "term", "voted_for")

    def __init__(self, options: Options) -> None:
        self.is_damaged = False
        """What was written could not be read to its end."""
        self.state = SeatState(options)
        self.index = 0
        self.last_term = 0
        self.term = 0
        self.voted_for = ""
        self.lives: dict[str, int] = {}

    def is_empty(self) -> bool:
        """Whether nothing was ever promised."""
        return not self.term and not self.index

    def apply(self, record: bytes, options: Options) -> None:
        """Go on with what was written next. Raises MalformedError."""
        reader = FrameReader(record)
        kind, term = reader.u8(), reader.number()
        if kind == _PROMISE[0]:
            self.term, self.voted_for, self.lives = term, reader.text(), read_lives(reader)
            return
        if kind == _WHOLE[0]:
            self.state = SeatState(options)
            self.index = reader.number()
        elif kind == _ENTRY[0]:
            self.index += 1
        else:
            raise MalformedError("record")
        for part in unpack_records(reader.rest()):
            self.state.apply(part)
        self.last_term = term
        if term > self.term:  # entries tell of a term that nothing was promised in
            self.term, self.voted_for = term, ""


@final
class SeatDisk:
    """What one voter of a seat has on disk, and what is on its way there."""

    __slots__ = (
        "_bytes",
        "_compact_bytes",
        "_end",
        "_front",
        "_promised",
        "_storing",
        "_trim_to",
        "_unstored",
        "_whole_at",
        "is_loaded",
        "name",
        "safe",
        "safe_index",
        "written",
    )

    def __init__(self, name: str, compact_bytes: int = 0) -> None:
        self.name = name
        self._compact_bytes = compact_bytes or COMPACT_BYTES
        self.is_loaded = False
        """Whether what was there at the beginning has been read."""
        self.written = 0
        """Records so far…"""
        self.safe = 0
        """…and how many of them are safe."""
        self.safe_index = 0
        """Of a leader: up to which index its entries are safe."""
        self._promised = (0, "", 0)
        """Term, vote and sum of lives as they were last written."""
        self._bytes = 0
        """Since the last whole state."""
        self._front = 0
        """The log on disk begins with this record, counted from the first that was ever loaded or written…"""
        self._end = 0
        """…and ends before this one."""
        self._unstored: list[bytes] = []
        self._storing: deque[tuple[int, int, int, int]] = deque()
        """Of each `Store` under way: token, `written`, index, and where the last whole state stands."""
        self._whole_at = 0
        """Where the last whole state stands."""
        self._trim_to = 0
        """What comes before this record may be trimmed."""

    # ---- writing ---------------------------------------------------------------------------------------------------

    def _append(self, record: bytes) -> None:
        self._unstored.append(record)
        self._bytes += len(record)
        self._end += 1
        self.written += 1

    def entry(self, term: int, entry: bytes) -> None:
        """An entry was appended to the log."""
        self._append(_ENTRY + u64(term) + entry)

    def promise(self, term: int, voted_for: str, lives: dict[str, int]) -> None:
        """Something is about to be promised by a voter that knows this."""
        promised = (term, voted_for, sum(lives.values()))
        if promised != self._promised:
            self._promised = promised
            self._append(_PROMISE + u64(term) + text(voted_for) + lives_bytes(lives))

    def whole(
        self, state: SeatState, index: int, last_term: int, term: int, voted_for: str, lives: dict[str, int]
    ) -> None:
        """A state replaces all of the log. What the voter has promised is written anew behind it, and stored together
        with it."""
        self._whole_at = self._end
        self._append(_WHOLE + u64(last_term) + u64(index) + pack_records(state.records()))
        self._bytes = 0
        self._promised = (0, "", 0)
        self.promise(term, voted_for, lives)

    def wants_compacting(self) -> bool:
        return self._bytes > self._compact_bytes

    def has_unstored(self) -> bool:
        return bool(self._unstored)

    def write(self, token: int, index: int, effects: Effects) -> None:
        """Have what was written stored; `index` is that of the log's end."""
        effects.call(Store(self.name, self._unstored, token))
        self._storing.append((token, self.written, index, self._whole_at))
        self._unstored = []

    def stored(self, token: int) -> bool:
        """A `Store` is done, and so are all before it; whether that is news to this log."""
        if token not in [under_way[0] for under_way in self._storing]:
            return False
        done = 0
        while done != token:
            done, self.safe, self.safe_index, self._trim_to = self._storing.popleft()
        return True

    def trim(self, effects: Effects) -> None:
        """Drop what a whole state that is safe has replaced."""
        if self._trim_to > self._front:
            effects.call(Trim(self.name, self._trim_to - self._front))
            self._front = self._trim_to

    # ---- reading ---------------------------------------------------------------------------------------------------

    def loaded(self, records: list[bytes], options: Options) -> SeatCopy:
        """What was written, as far as it can be read."""
        self.is_loaded = True
        self._end = len(records)
        copy = SeatCopy(options)
        try:
            for record in records:
                copy.apply(record, options)
                self._bytes += len(record)
        except MalformedError:
            copy.is_damaged = True
            self._bytes = self._compact_bytes + 1  # what follows must not stay behind what cannot be read
        return copy
