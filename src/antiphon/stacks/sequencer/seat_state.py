"""What the log of a seat (seat_log.py) amounts to: the groups of one replicated sequencer, as records tell them.

A record is what the leader's sequencer has changed (seat_sequencer.py): a place in the order of a group with its body,
a group as a whole, one that was given away, what is stable, who is buried, a transfer that begins or ends. Whoever has
applied the same records holds the same groups, members, last numbers and history, except that reports of single
members are not in the log: a copy knows of each member that it has everything up to the last stable number, and
members report again when they come to the next leader.

A state as a whole is written as records, too: those that would make it out of nothing."""

from typing import Final, final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.context import Context
from antiphon.stacks.sequencer.offers import retained_bytes
from antiphon.stacks.sequencer.place import read_accept, read_change
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.transfer import read_group, write_group
from antiphon.stacks.sequencer.wire import (
    ACCEPT,
    CHANGE,
    FrameReader,
    blob,
    frame,
    groups_bytes,
    pairs_bytes,
    process_bytes,
    text,
    u64,
)

GROUP: Final = 1
PLACE: Final = 2
DROP: Final = 3
STABLE: Final = 4
DEAD: Final = 5
FORGET: Final = 6
NUMBER: Final = 7
PART: Final = 8
GIVE: Final = 9
TAKEN: Final = 10
END: Final = 11
CLOCK: Final = 12


def group_record(group: SequencedGroup) -> bytes:
    return frame(GROUP, u64(group.id), write_group(group))


def place_record(group: SequencedGroup, placed: list[bytes]) -> bytes:
    return frame(PLACE, u64(group.id), u64(group.number), groups_bytes([len(piece) for piece in placed]), *placed)


def drop_record(group: int, moves: int, address: str) -> bytes:
    """A group is not here any more: it went to an address, or, without one, is lost."""
    return frame(DROP, u64(group), u64(moves), text(address))


def stable_record(stable: Context) -> bytes:
    return frame(STABLE, pairs_bytes(stable))


def dead_record(process: ProcessId) -> bytes:
    return frame(DEAD, process_bytes(process))


def forget_record(process: ProcessId) -> bytes:
    return frame(FORGET, process_bytes(process))


def number_record(group: int, process: ProcessId, number: int) -> bytes:
    return frame(NUMBER, u64(group), process_bytes(process), u64(number))


def part_record(group: int, process: ProcessId) -> bytes:
    return frame(PART, u64(group), process_bytes(process))


def give_record(token: int, address: str, groups: list[int]) -> bytes:
    return frame(GIVE, u64(token), text(address), groups_bytes(groups))


def taken_record(source: str, token: int) -> bytes:
    return frame(TAKEN, text(source), u64(token))


def clock_record(clock: int) -> bytes:
    return frame(CLOCK, u64(clock))


def end_record(token: int) -> bytes:
    return frame(END, u64(token))


@final
class GivenAway:
    """A transfer that has begun: where the groups go."""

    __slots__ = ("address", "groups")

    def __init__(self, address: str, groups: list[int]) -> None:
        self.address = address
        self.groups = groups


@final
class SeatState:
    """A copy of what one sequencer holds."""

    __slots__ = ("_places_max", "_retained_max", "clock", "dead", "given", "given_to", "groups", "taken", "transfers")

    def __init__(self, options: Options) -> None:
        self._places_max = options.window_packets
        self._retained_max = retained_bytes(options)
        self.groups: dict[int, SequencedGroup] = {}
        self.clock = 0
        """The highest stamp that was given, or told (stamps.py)."""
        self.dead: dict[str, int] = {}
        """The highest buried incarnation of each name."""
        self.given: dict[int, int] = {}
        """Groups that were given away, and how often they had moved…"""
        self.given_to: dict[int, str] = {}
        """…and where they went."""
        self.taken: dict[str, int] = {}
        """Of each source, the last transfer that was taken over."""
        self.transfers: dict[int, GivenAway] = {}

    def records(self) -> list[bytes]:
        """What makes this state out of nothing."""
        written = [clock_record(self.clock)]
        written += [group_record(group) for group in self.groups.values()]
        written += [dead_record(ProcessId(name, incarnation)) for name, incarnation in self.dead.items()]
        written += [drop_record(group, moves, self.given_to[group]) for group, moves in self.given.items()]
        written += [taken_record(source, token) for source, token in self.taken.items()]
        written += [give_record(token, given.address, given.groups) for token, given in self.transfers.items()]
        return written

    def apply(self, record: bytes) -> None:
        """Do what a record tells. Raises MalformedError for one that makes no sense."""
        reader = FrameReader(record)
        kind = reader.u8()
        if kind == PLACE:
            self._place(reader)
        elif kind == STABLE:
            for id, number in reader.pairs().items():
                group = self._group(id)
                for process, reported in group.reported.items():
                    group.reported[process] = max(reported, number)
                group.prune()
        elif kind == GROUP:
            id = reader.group()
            self.groups[id] = read_group(reader, id, self._places_max, self._retained_max)
            self.given.pop(id, None)
            self.given_to.pop(id, None)
        elif kind == DROP:
            id, moves, address = reader.group(), reader.number(), reader.text()
            self.groups.pop(id, None)
            if address:
                self.given[id] = moves
                self.given_to[id] = address
        elif kind == NUMBER:
            group = self._group(reader.group())
            process = reader.process()
            group.last_numbers[process] = max(group.last_numbers.get(process, 0), reader.number())
        elif kind == PART:
            group = self._group(reader.group())
            group.end_owing(reader.process())
        else:
            self._apply_rare(kind, reader)

    def _apply_rare(self, kind: int, reader: FrameReader) -> None:
        if kind == DEAD:
            process = reader.process()
            self.dead[process.name] = max(process.incarnation, self.dead.get(process.name, 0))
        elif kind == FORGET:
            process = reader.process()
            for group in self.groups.values():
                group.forget_client(process)
        elif kind == GIVE:
            token = reader.number()
            self.transfers[token] = GivenAway(reader.text(), reader.groups())
        elif kind == TAKEN:
            source = reader.text()
            self.taken[source] = reader.number()
        elif kind == CLOCK:
            self.clock = max(self.clock, reader.number())
        elif kind == END:
            self.transfers.pop(reader.number(), None)
        else:
            raise MalformedError("record")

    def _group(self, id: int) -> SequencedGroup:
        group = self.groups.get(id)
        if group is None:
            raise MalformedError("record")
        return group

    def _place(self, reader: FrameReader) -> None:
        group = self._group(reader.group())
        number = reader.number()
        placed: list[bytes] = []
        data, start = b"", 0
        lengths = reader.groups()
        data = reader.rest()
        for length in lengths:
            placed.append(data[start : start + length])
            start += length
        if start != len(data) or number != group.number + 1:
            raise MalformedError("record")
        self._note(group, number, FrameReader(b"".join([piece[1:] for piece in placed])))
        group.keep(placed)

    def _note(self, group: SequencedGroup, number: int, reader: FrameReader) -> None:
        """What a place says of members and of last numbers."""
        kind = reader.u8()
        if kind == ACCEPT:
            accept = read_accept(reader)
            self.clock = max(self.clock, accept.stamp)
            if accept.sender is not None:
                group.last_numbers[accept.sender] = accept.first + len(accept.payloads) - 1
                group.last_places[accept.sender] = number
            return
        if kind != CHANGE:
            raise MalformedError("record")
        change = read_change(reader)
        self.clock = max(self.clock, change.stamp)
        group.members = change.members
        for process in change.joined:
            group.leave_places.pop(process, None)
            group.reported[process] = number - 1
        for process in change.left + change.failed:
            group.leave_places[process] = number
        for process in change.failed:
            group.note_excluded(process)


def pack_records(records: list[bytes]) -> bytes:
    """Records as one entry of a log."""
    return b"".join([blob(record) for record in records])


def unpack_records(entry: bytes) -> list[bytes]:
    """The inverse of `pack_records`. Raises MalformedError."""
    reader = FrameReader(entry)
    found: list[bytes] = []
    while not reader.is_empty():
        found.append(reader.blob())
    return found
