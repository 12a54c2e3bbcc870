"""All events that wait for the application of one node: in one stream over all groups, or in one stream per group.

Promise: who reads the node (`async for event in node`, `node.batches()`) is handed the events of all groups in the
order in which the engine delivered them, which keeps the causal order between the groups of one domain. Who reads group
by group (`async for event in group`) is handed the events of each group in that group's order; how two readers overtake
each other is up to the application, so nothing is promised between groups. Listeners are called at the moment of
delivery, and so in the order of delivery too, as long as nothing waits in a group that has no listener yet: what is
delivered in other groups after that would overtake it. The history of a node in several groups has a note when one of
them gets a reader of its own, or when a message waits for its listener while another group has one, so that nobody is
held to an order that was not promised.

Rule: all groups share one stream until the first reader or listener comes, and it decides: a reader of the node keeps
that stream; a reader of a group, or a listener, has it divided into one stream per group. After that the other way of
reading is refused.

Limits: the shared stream is full at the same numbers as that of a single group, and then all groups are paused.
"""

from typing import Final, Protocol, final

from antiphon.kernel.inputs import Pause, Resume
from antiphon.runtime.driver import Driver
from antiphon.runtime.errors import ReaderError
from antiphon.runtime.stream import Stream

UNDECIDED: Final = "undecided"
BY_NODE: Final = "node"
BY_GROUP: Final = "group"


class StreamedGroup(Protocol):
    """A group, as the streams of its node know it."""

    name: str
    _stream: Stream
    """Where its events are put."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""

    def _fill_up(self) -> None:
        """The stream is full."""


@final
class NodeStreams:
    """The streams of one node."""

    def __init__(self, driver: Driver, node: str, messages_max: int, bytes_max: int, recorded: bool) -> None:
        self._driver = driver
        self._node = node
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self.is_recorded = recorded
        self._members: dict[str, StreamedGroup] = {}
        self.reading: str = UNDECIDED
        """Whether the node is read as a whole or group by group."""
        self.apart = False
        """Whether some group has a reader of its own, or a listener that came late, so that no order between groups is
        promised."""
        self._listened = False
        self._noted = False
        self.stream = self._make_stream(f"node {node!r}", None)

    def _make_stream(self, source: str, group: str | None) -> Stream:
        """A stream for one group, or (None) for all of them."""
        driver = self._driver
        return Stream(
            source,
            messages_max=self._messages_max,
            bytes_max=self._bytes_max,
            on_full=self._pause if group is None else lambda: self._pause_group(group),
            on_room=self._resume if group is None else lambda: driver.step(Resume(group)),
            on_taken=driver.record_taken if self.is_recorded else None,
            on_view=driver.record_view,
            on_transitional=driver.record_transitional,
            on_barrier=driver.record_barrier,
            on_excluded=driver.return_to,
        )

    def _make_group_stream(self, group: str) -> Stream:
        stream = self._make_stream(f"group {group!r}", group)
        if self._listened:
            stream.on_waiting = self._note_waiting
        return stream

    def add(self, member: StreamedGroup) -> Stream:
        """Where the events of a group that is being joined go. A former group of that name keeps what it has."""
        former = self._members.get(member.name)
        if former is not None and self.reading == UNDECIDED:
            self._divide(former)
        self._members[member.name] = member
        if self._listened:
            self._check_waiting(member)
        self._note_reading()
        return self._make_group_stream(member.name) if self.reading == BY_GROUP else self.stream

    def entered(self, member: StreamedGroup) -> None:
        """A group has its first view: if the application is behind with the others, this one waits as well."""
        if member._stream is self.stream and self.stream.is_full:
            self._driver.follow(Pause(member.name))

    def remove(self, member: StreamedGroup) -> None:
        """Forget a group that was left; what it has can still be read."""
        if self._members.get(member.name) is member:
            if self.reading == UNDECIDED:
                self._divide(member)
            del self._members[member.name]

    def read_node(self) -> Stream:
        """The stream over all groups. Raises ReaderError if the groups are read one by one."""
        if self.reading == BY_GROUP:
            raise ReaderError(
                f"node {self._node!r}",
                "and some are read by `async for event in group`, or by a listener; choose one way for the whole node",
            )
        self.reading = BY_NODE
        return self.stream

    def read_group(self, member: StreamedGroup, listening: bool = False) -> Stream:
        """The stream of one group, for a reader or a listener. Raises ReaderError if the node is read as a whole."""
        if self.reading == BY_NODE and member._stream is self.stream:
            raise ReaderError(
                f"group {member.name!r}",
                f"and `async for event in node` reads those of all groups of node {self._node!r}; each event names its "
                "group",
            )
        if self.reading == UNDECIDED:
            self.reading = BY_GROUP
            for each in list(self._members.values()):
                self._divide(each)
            self._divide(member)
        if listening:
            self._listened = True
            for each in self._members.values():
                each._stream.on_waiting = self._note_waiting
            self._check_waiting(member)
        else:
            self.apart = True
            self._note_reading()
        return member._stream

    def _check_waiting(self, member: StreamedGroup) -> None:
        """A group gets a listener, or is joined: what waits in others may be overtaken from here on."""
        if any(each._stream.is_waiting for each in self._members.values() if each is not member):
            self._note_waiting()

    def _note_waiting(self) -> None:
        """Something waits in a group while another group has a listener, which may be told of what comes after it."""
        if len(self._members) > 1:
            self.apart = True
            self._note_reading()

    def _note_reading(self) -> None:
        if self.apart and not self._noted and len(self._members) > 1:
            self._noted = True
            self._driver.record_reading_apart()

    def drop_unseen(self, member: StreamedGroup) -> bool:
        """Drop what a group has put here if nobody reads at all so far; return whether that is so."""
        if self.reading != UNDECIDED:
            return False
        member._stream.take_out(member.name)
        member._stream.check_room()
        return True

    def split_off(self, member: StreamedGroup) -> Stream:
        """The stream of one group alone, for its end; its events are read by no reader of the node any more."""
        self._divide(member)
        return member._stream

    def finish(self, member: StreamedGroup) -> None:
        """Nothing more will come from a group."""
        if member._stream is not self.stream:
            member._stream.finish()

    def _divide(self, member: StreamedGroup) -> None:
        if member._stream is not self.stream:
            return
        paused = self.stream.is_full
        member._stream = self._make_group_stream(member.name)
        for entry in self.stream.take_out(member.name):
            member._stream.put(entry)
        if member.is_over:
            member._stream.finish()
        elif paused and not member._stream.is_full:
            self._driver.step(Resume(member.name))
        self.stream.check_room()

    def _pause(self) -> None:
        for member in self._members.values():
            self._driver.follow(Pause(member.name))
            member._fill_up()

    def _pause_group(self, group: str) -> None:
        self._driver.follow(Pause(group))
        if group in self._members:
            self._members[group]._fill_up()

    def _resume(self) -> None:
        for member in self._members.values():
            if not member.is_over and member._stream is self.stream:
                self._driver.step(Resume(member.name))

    def end(self, error: Exception | None) -> None:
        """The node has ended: its reader gets `error`, or sees the stream end."""
        self.stream.end(error)
