"""One place in the order of a group, as a client reads it from a frame."""

from typing import final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import AGREED, LEVEL_NAMES
from antiphon.stacks.sequencer.context import Context
from antiphon.stacks.sequencer.wire import ACCEPT, CHANGE, FrameReader


@final
class Place:
    """Consecutive messages of `sender` or, where that is None, a change of members."""

    __slots__ = (
        "context",
        "count",
        "failed",
        "first",
        "group",
        "is_bare",
        "joined",
        "left",
        "level",
        "members",
        "number",
        "payloads",
        "sender",
        "size",
        "stamp",
    )

    def __init__(self, group: int, number: int, stamp: int, context: Context) -> None:
        self.group = group
        self.number = number
        self.stamp = stamp
        """The clock of the sequencer that gave the place (stamps.py)."""
        self.context = context
        self.sender: ProcessId | None = None
        self.first = 0
        self.count = 0
        """Of messages."""
        self.is_bare = False
        """The messages have yet to come, from their sender (bodies.py); `size` is that of the batch until then."""
        self.level = 0
        self.payloads: list[bytes] = []
        self.size = 0
        self.members: list[ProcessId] = []
        self.joined: list[ProcessId] = []
        self.left: list[ProcessId] = []
        self.failed: list[ProcessId] = []


def _read_head(reader: FrameReader) -> Place:
    group = reader.group()
    number = reader.number()
    stamp = reader.number()
    context = reader.pairs()
    if context.get(group, -1) != number:
        raise MalformedError("context")
    return Place(group, number, stamp, context)


def is_ordered(place: Place) -> bool:
    """Whether it has one place in the order over all groups: agreed messages and changes of members."""
    return place.sender is None or place.level == AGREED


def read_accept(reader: FrameReader) -> Place:
    """The rest of an ACCEPT. Raises MalformedError."""
    place = _read_head(reader)
    place.sender = reader.process()
    place.first = reader.number()
    place.level = reader.u8()
    place.payloads = reader.payloads()
    place.count = len(place.payloads)
    place.size = sum([len(payload) for payload in place.payloads])
    if place.level >= len(LEVEL_NAMES):
        raise MalformedError("messages")
    return place


def read_order(reader: FrameReader) -> Place:
    """The rest of an ORDER: a place without its messages. Raises MalformedError."""
    place = _read_head(reader)
    place.sender = reader.process()
    place.first = reader.number()
    place.level = reader.u8()
    place.count = reader.number()
    place.size = reader.number()
    place.is_bare = True
    if place.level >= len(LEVEL_NAMES) or not place.count:
        raise MalformedError("messages")
    return place


def read_change(reader: FrameReader) -> Place:
    """The rest of a CHANGE. Raises MalformedError."""
    place = _read_head(reader)
    place.members = reader.processes()
    place.joined = reader.processes()
    place.left = reader.processes()
    place.failed = reader.processes()
    return place


def read_place(reader: FrameReader) -> Place:
    """A whole frame with a place. Raises MalformedError."""
    kind = reader.u8()
    if kind == ACCEPT:
        return read_accept(reader)
    if kind == CHANGE:
        return read_change(reader)
    raise MalformedError("kind")
