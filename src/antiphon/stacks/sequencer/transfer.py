"""Groups and their clients as bytes, for the way from one sequencer to another: kindberg-1995, section 4.3, step 2.

What goes: the members, what each process is owed and has reported, the last number of the group, the last number of
each client, who was excluded, and the history, so that whoever misses something can fetch it at the new sequencer. What
does not go: requests without a place, which clients send again."""

from antiphon.kernel.identity import ProcessId
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.wire import FrameReader, blob, groups_bytes, process_bytes, processes_bytes, text, u64


def _numbers(numbers: dict[ProcessId, int]) -> bytes:
    parts = [processes_bytes(list(numbers))]
    return b"".join(parts + [u64(number) for number in numbers.values()])


def _read_numbers(reader: FrameReader) -> dict[ProcessId, int]:
    return {process: reader.number() for process in reader.processes()}


def write_group(group: SequencedGroup) -> bytes:
    """Everything that a sequencer holds for a group."""
    places = [*group.retained, *sorted(group.history)]
    return b"".join(
        [
            text(group.name),
            u64(group.number),
            u64(group.stable),
            u64(group.moves),
            u64(int(group.load)),
            u64(group.rests),
            processes_bytes(group.members),
            _numbers(group.reported),
            _numbers(group.leave_places),
            _numbers(group.last_numbers),
            _numbers(group.last_places),
            processes_bytes([ProcessId(name, incarnation) for name, incarnation in group.excluded.items()]),
            groups_bytes(places),
            *[groups_bytes([len(piece) for piece in group.kept(place)]) for place in places],
            *[blob(b"".join(group.kept(place))) for place in places],
        ]
    )


def read_group(reader: FrameReader, id: int, places_max: int, retained_max: int = 0) -> SequencedGroup:
    """The group that `write_group` has written. Raises MalformedError."""
    group = SequencedGroup(reader.text(), id, reader.number(), places_max, retained_max)
    group.stable = group.told_stable = reader.number()
    group.moves = reader.number()
    group.load = float(reader.number())
    group.rests = reader.number()
    group.members = reader.processes()
    group.reported = _read_numbers(reader)
    group.leave_places = _read_numbers(reader)
    group.last_numbers = _read_numbers(reader)
    group.last_places = _read_numbers(reader)
    group.excluded = {process.name: process.incarnation for process in reader.processes()}
    places = reader.groups()
    sizes = [reader.groups() for _ in places]
    for place, lengths in zip(places, sizes, strict=True):
        data = reader.blob()
        carried, start = [], 0
        for length in lengths:
            carried.append(data[start : start + length])
            start += length
        if place <= group.stable:
            group.retain(place, carried)
            continue
        group.history[place] = carried
        group.history_bytes += start - len(carried)
    return group


def write_client(process: ProcessId, groups: list[int], numbered: list[int]) -> bytes:
    """What a sequencer knows of a client."""
    return process_bytes(process) + groups_bytes(groups) + groups_bytes(numbered)
