"""The runtime and the hierarchy broken on purpose, hunted with whole programs in virtual time."""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon import Order
from antiphon.kernel.effects import Delivered, Effects
from antiphon.kernel.identity import ProcessId
from antiphon.recording import ProcessRecorder
from antiphon.runtime.address import SocketAddress
from antiphon.runtime.address_book import AddressBook
from antiphon.runtime.driver import Driver
from antiphon.runtime.events import Batch, BatchEvent, Message, StreamEvent, ViewChange
from antiphon.runtime.group import Group
from antiphon.runtime.node import Node
from antiphon.runtime.node_streams import NodeStreams
from antiphon.runtime.outbox import Outbox, OutboxLane, OutboxRun, SendMode
from antiphon.runtime.readers import MessageReader
from antiphon.runtime.stream import Stream
from antiphon.runtime.tap import HistoryTap
from antiphon.toolkit import Hierarchy
from tests.mutants.mutants import Mutant

ANYTHING = ""
"""Whatever the program shows: a broken guarantee, a failed check, an error."""


@dataclass(frozen=True)
class RuntimeMutant(Mutant):
    """A bug in the runtime, and the programs that show it."""

    programs: tuple[str, ...] = ("one_group",)


# ---- readers and streams --------------------------------------------------------------------------------------------

_put = Stream.put


def _put_and_drop_some(self: Stream, entry: BatchEvent) -> None:
    """Every seventh batch never reaches the application."""
    if not (isinstance(entry, Batch) and entry.number % 7 == 0):
        _put(self, entry)


def _put_views_first(self: Stream, entry: BatchEvent) -> None:
    _put(self, entry)
    if isinstance(entry, ViewChange) and self._entries and self._entries[-1] is entry and not self._position:
        self._entries.rotate(1)


_take_message = Stream.take_message


def _skip_within_a_batch(self: Stream) -> StreamEvent:
    """The second message of a batch is never handed out one by one."""
    message = _take_message(self)
    if isinstance(message, Message) and self._position == 1:
        _take_message(self)
    return message


_attach = Stream.attach


def _attach_and_drop_the_rest(self: Stream, reader: object) -> None:
    """A new reader does not go on in the middle of a batch."""
    _attach(self, reader)
    if self._position:
        entry = self._entries.popleft()
        assert isinstance(entry, Batch)
        self.messages -= len(entry.payloads) - self._position
        self._position = 0


async def _take_and_then_wait(self: MessageReader) -> StreamEvent:
    """Takes the event before the wait that may be cancelled."""
    import asyncio

    stream = self._stream
    if not stream.is_ready(self):
        await stream.ready(self)
    event = stream.take_message()
    await asyncio.sleep(0.001)
    return event


_take_out = Stream.take_out


def _take_out_backwards(self: Stream, group: str) -> list[BatchEvent]:
    return _take_out(self, group)[::-1]


def _put_and_tell_later(self: Stream, entry: BatchEvent) -> None:
    """A listener is told of an event when the next one comes."""
    listener, self._listener = self._listener, None
    if self._entries and listener is not None:
        self._listener = listener
        self.tell()
        self._listener = None
    _put(self, entry)
    self._listener = listener


def _divide_and_lose(self: NodeStreams, member: Any) -> None:
    """What was delivered before the first reader came is gone."""
    if member._stream is self.stream:
        self.stream.take_out(member.name)
    _divide(self, member)


_divide = NodeStreams._divide


def _resume_the_first(self: NodeStreams) -> None:
    from antiphon.kernel.inputs import Resume

    for member in list(self._members.values())[:1]:
        self._driver.step(Resume(member.name))


# ---- outbox ---------------------------------------------------------------------------------------------------------


def _flush_the_last_first(self: Outbox) -> None:
    self._runs = deque(list(self._runs)[::-1])
    _flush(self)


_flush = Outbox._flush


def _flush_past_the_blocked(self: Outbox) -> None:
    """A group that has room overtakes one that has none."""
    if self._flushing:
        return
    self._flushing = True
    try:
        while open_runs := [run for run in self._runs if not run.lane.blocked]:
            self._runs.remove(open_runs[0])
            self._offer(open_runs[0])
    finally:
        self._flushing = False
    self._wake()


_outbox_put = Outbox._put


def _put_in_front(self: Outbox, lane: OutboxLane, payloads: Sequence[bytes], mode: SendMode, size: int) -> int:
    """Of two groups, the one that was sent to last goes first."""
    if self._runs and self._runs[0].lane is not lane and not self._flushing:
        self._runs.appendleft(OutboxRun(lane, mode, list(payloads), sum(map(len, payloads))))
        self.messages += len(payloads)
        self._bytes += sum(map(len, payloads))
        lane.messages += len(payloads)
        self._schedule()
        return len(payloads)
    return _outbox_put(self, lane, payloads, mode, size)


_offer = Outbox._offer


def _offer_and_lose_one(self: Outbox, run: OutboxRun) -> None:
    """Of a run that is accepted in part, the next message is lost."""
    _offer(self, run)
    if self._runs and self._runs[0] is run and len(run.payloads) > 1:
        lost = run.payloads.pop(0)
        run.size -= len(lost)
        self._bytes -= len(lost)
        self.messages -= 1
        run.lane.messages -= 1


def _send_to_all(self: Group, order: Order, to: ProcessId | None, label: str | None) -> SendMode:
    """A message to one member goes to all."""
    return _way(self, order, None, label)


_way = Group._way

# ---- driver ---------------------------------------------------------------------------------------------------------

_group_deliver = Group._deliver


def _forget_own(self: Group, event: Delivered) -> None:
    """What a process sends does not come back to itself."""
    if event.sender != self.process:
        _group_deliver(self, event)


_carry_out = Driver._carry_out


def _transmit_before_recording(self: Driver, effects: Effects, now_ns: int) -> None:
    transmits, effects.transmits = effects.transmits, []
    self._transmit(transmits)
    _carry_out(self, effects, now_ns)


def _carry_out_backwards(self: Driver, effects: Effects, now_ns: int) -> None:
    """Events of one step that follow each other in one group are told in the wrong order."""
    deliveries = [place for place, event in enumerate(effects.events) if isinstance(event, Delivered)]
    for one, other in zip(deliveries, reversed(deliveries), strict=True):
        if one < other:
            effects.events[one], effects.events[other] = effects.events[other], effects.events[one]
    _carry_out(self, effects, now_ns)


def _never_ring(self: Driver) -> None:
    """The timer goes off, and nothing follows."""
    self._timer = None


async def _flush_nothing(self: Driver, groups: Sequence[str], k: int) -> None:
    """A flush returns at once."""


_next_life = Node._next_life


def _same_incarnation(self: Node) -> Any:
    """A process that was excluded comes back as who it was."""
    self.process = ProcessId(self.process.name, self.process.incarnation - 1)
    return _next_life(self)


_find = AddressBook.find


def _all_but_the_third(self: AddressBook, route: Any) -> list[SocketAddress]:
    """Nothing goes to the third host, which the others can hear."""
    found = [address for address in _find(self, route) if not address[0].endswith(".3")]
    route.resolved = found
    return found


def _install_and_tell_nobody(self: Group, event: Any) -> None:
    """After the first view, the application hears of no other."""
    stream, quiet = self._stream, self._entered.is_set()
    if quiet:
        self._stream = _Nowhere()  # type: ignore[assignment]
    _group_install(self, event)
    self._stream = stream


class _Nowhere:
    def put(self, entry: BatchEvent) -> None:
        """Drops it."""


_group_install = Group._install

# ---- history --------------------------------------------------------------------------------------------------------

_tap_deliver = HistoryTap.deliver


def _record_twice(self: HistoryTap, batch: Batch, number: int, *rest: Any) -> None:
    _tap_deliver(self, batch, number, *rest)
    if number % 5 == 0:
        _tap_deliver(self, batch, number, *rest)


def _record_one_of_many(self: HistoryTap, batch: Batch, number: int, count: int, *rest: Any) -> None:
    _tap_deliver(self, batch, number, 1, *rest)


def _record_no_sends(self: ProcessRecorder, *_: Any) -> None:
    """What the application calls for, and what leaves, is not on record."""


def _runtime(
    name: str, programs: tuple[str, ...], *patches: tuple[Any, str, Any], breaks: tuple[str, ...] = (ANYTHING,)
) -> RuntimeMutant:
    return RuntimeMutant(name, breaks, patches, programs=programs)


# ---- hierarchy ------------------------------------------------------------------------------------------------------

_take_from_leaf = Hierarchy._take_from_leaf


async def _forget_the_place(self: Hierarchy, event: Message) -> None:
    """What came down before is delivered again when it comes down again."""
    self._down = 0
    await _take_from_leaf(self, event)


async def _restore_nothing(self: Hierarchy, chunks: AsyncIterator[bytes]) -> None:
    """Who joins the leaders begins to count anew."""
    async for _ in chunks:
        pass


ONE = ("one_group", "batches")
LEAVES = ("hierarchy",)
BATCHES = ("batches",)
TIGHT = ("back_pressure",)
LISTENERS = ("two_groups_listeners",)
RUNTIME_MUTANTS = (
    _runtime("a batch dropped on its way to the reader", ONE, (Stream, "put", _put_and_drop_some)),
    _runtime("views overtake the messages before them", ONE, (Stream, "put", _put_views_first)),
    _runtime("a message skipped within a batch", BATCHES, (Stream, "take_message", _skip_within_a_batch)),
    _runtime("rest of a batch dropped by the next reader", BATCHES, (Stream, "attach", _attach_and_drop_the_rest)),
    _runtime("an event lost with its cancelled reader", BATCHES, (MessageReader, "__anext__", _take_and_then_wait)),
    _runtime("what waited for a reader comes backwards", ONE, (Stream, "take_out", _take_out_backwards)),
    _runtime("what waited for a reader is lost", ONE, (NodeStreams, "_divide", _divide_and_lose)),
    _runtime("listeners are told one event late", LISTENERS, (Stream, "put", _put_and_tell_later)),
    _runtime("a paused stream never resumes", (*TIGHT, *ONE), (Stream, "check_room", lambda self: None)),
    _runtime("only one group of a node resumes", TIGHT, (NodeStreams, "_resume", _resume_the_first)),
    _runtime("outbox empties from the wrong end", TIGHT, (Outbox, "_flush", _flush_the_last_first)),
    _runtime("a group overtakes a blocked one", TIGHT, (Outbox, "_flush", _flush_past_the_blocked)),
    _runtime("another group's message goes in front", TIGHT, (Outbox, "_put", _put_in_front)),
    _runtime("one lost of a run accepted in part", TIGHT, (Outbox, "_offer", _offer_and_lose_one)),
    _runtime("private messages go to all", BATCHES, (Group, "_way", _send_to_all)),
    _runtime("own messages do not come back", ONE, (Group, "_deliver", _forget_own)),
    _runtime("sent before it is recorded", ONE, (Driver, "_carry_out", _transmit_before_recording)),
    _runtime("deliveries of one step reversed", ONE, (Driver, "_carry_out", _carry_out_backwards)),
    _runtime("the timer does nothing", ONE, (Driver, "_ring", _never_ring)),
    _runtime("flush waits for nothing", ("flushing",), (Driver, "flush", _flush_nothing)),
    _runtime("an excluded process comes back as who it was", ("rejoin",), (Node, "_next_life", _same_incarnation)),
    _runtime("one member is not sent to", ONE, (AddressBook, "find", _all_but_the_third)),
    _runtime("views are not told", ONE, (Group, "_install", _install_and_tell_nobody)),
    _runtime("a delivery recorded twice", ONE, (HistoryTap, "deliver", _record_twice)),
    _runtime("a batch recorded as one message", BATCHES, (HistoryTap, "deliver", _record_one_of_many)),
    _runtime(
        "sends are not recorded",
        ONE,
        (ProcessRecorder, "call", _record_no_sends),
        (ProcessRecorder, "depart", _record_no_sends),
    ),
    _runtime("views of who retires are not noted", ("node_reader",), (ProcessRecorder, "untold", _record_no_sends)),
    _runtime("leaving is not recorded", ("leavers", "node_reader"), (ProcessRecorder, "leaves", _record_no_sends)),
    _runtime("a leaf delivers what it has", LEAVES, (Hierarchy, "_take_from_leaf", _forget_the_place)),
    _runtime("a new leader counts anew", LEAVES, (Hierarchy, "_restore", _restore_nothing)),
)
