"""The log of a seat on disk: what its sequencer has told is there when its process comes back.

Promise. With the option `durable`, what a peer has told its clients survives its crash, a power loss included: members
find their groups, numbers and history as they left them, and go on.

Rule. The seat has one voter, its own process. An entry is told when the disk says that it is safe (`Stored`). A
process that starts reads the log (`Load`) and leads, in the next term, with what it says. Each entry has its term in
front. When the log has grown by COMPACT_BYTES, the state as a whole is written as an entry, and what came before it is
trimmed.

Safe. Entries are told in their order, after they are stored; what was stored and never told is in the state of the
next life all the same, as if it had been told to nobody yet. `Load` gives a prefix of what was stored, with all that
was reported.

Limits. Not together with `replicas`: whoever wants both puts the copies on several machines, which outlive one disk."""

from typing import Final, final

from antiphon.kernel.calls import Store, Trim
from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.seat_log import SeatLog
from antiphon.stacks.sequencer.seat_state import SeatState, pack_records, unpack_records
from antiphon.stacks.sequencer.wire import FrameReader, u64

COMPACT_BYTES: Final = 64 * 1024 * 1024
_ENTRY: Final = b"\0"
_WHOLE: Final = b"\1"


@final
class SeatDisk:
    """What one seat has on disk, and what is on its way there."""

    __slots__ = ("_bytes", "_count", "log", "name", "storing", "unstored")

    def __init__(self, log: SeatLog, name: str) -> None:
        self.log = log
        self.name = name
        self._count = 0
        """Entries on disk, or on the way there."""
        self._bytes = 0
        self.unstored: list[bytes] = []
        self.storing: dict[int, int] = {}
        """Indexes that `Stored` with this token makes safe."""

    def note(self) -> None:
        """An entry was appended."""
        entry = u64(self.log.last_term) + _ENTRY + self.log.last_entry()
        self.unstored.append(entry)
        self._bytes += len(entry)

    def wants_compacting(self) -> bool:
        return self._bytes > COMPACT_BYTES

    def write(self, token: int, effects: Effects) -> None:
        """Have what was appended stored."""
        effects.call(Store(self.name, self.unstored, token))
        self.storing[token] = self.log.index
        self._count += len(self.unstored)
        self.unstored = []

    def compact(self, state: SeatState, token: int, effects: Effects) -> None:
        """Have the state as a whole stored, and what came before it dropped."""
        effects.call(Store(self.name, [u64(self.log.last_term) + _WHOLE + pack_records(state.records())], token))
        effects.call(Trim(self.name, self._count))
        self._count = 1
        self._bytes = 0

    def stored(self, token: int) -> None:
        """All up to an index is safe."""
        index = self.storing.pop(token, 0)
        self.log.commit = max(self.log.commit, index)

    def loaded(self, entries: list[bytes], options: Options, now_ns: int) -> None:
        """Go on with what was stored. What makes no sense ends the log there."""
        state, index, term = SeatState(options), 0, 0
        self._count = len(entries)
        for entry in entries:
            try:
                reader = FrameReader(entry)
                last_term, kind = reader.number(), reader.u8()
                if kind == _WHOLE[0]:
                    state = SeatState(options)
                for record in unpack_records(reader.rest()):
                    state.apply(record)
            except MalformedError:
                self._bytes = COMPACT_BYTES + 1  # what follows must not come between this and new entries
                break
            index += 1
            term = last_term
            self._bytes += len(entry)
        self.log.restore(state, index, term, now_ns)
