"""What members remember of senders from outside: tables, their limits, and frames that anybody may have made."""

import contextlib
from random import Random

import pytest

from antiphon.engine import Engine
from antiphon.kernel.calls import Frames, Hang
from antiphon.kernel.codec import seal
from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import Join, Receive, Tick
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import LinkDown, LinkFrames, LinkUp
from antiphon.kernel.packet_kinds import KNOCK
from antiphon.stacks.label.guest_frames import (
    HELLO,
    REFUSED,
    VIEW,
    GuestView,
    decode_message,
    decode_view,
    encode_message,
    encode_number,
    encode_view,
)
from antiphon.stacks.label.guest_queue import GuestMessage, GuestQueue
from antiphon.stacks.label.guests import (
    GUEST_IDLE_NS,
    GUESTS_BYTES_MAX,
    GuestEntry,
    GuestTable,
    decode_table,
    encode_table,
    merge_tables,
)
from antiphon.stacks.label.offers import NUMBER

X, Y = ProcessId("x", 3), ProcessId("y", 1 << 40)


def numbers(table: dict[ProcessId, GuestEntry]) -> dict[ProcessId, int]:
    return {guest: entry.number for guest, entry in table.items()}


def test_the_next_view_has_the_greatest_number_that_anybody_holds() -> None:
    one = GuestTable({X: GuestEntry(4, False)}, 3, {})
    other = GuestTable({X: GuestEntry(4, False)}, 3, {})
    one.hold(X, 5)
    other.hold(X, 7)
    other.hold(Y, 1)
    merged = merge_tables([one.table(), other.table()])
    assert numbers(merged) == {X: 7, Y: 1}
    assert numbers(decode_table(encode_table(merged), 0)) == {X: 7, Y: 1}


def test_what_was_taken_and_has_not_left_is_not_in_the_table() -> None:
    table = GuestTable({X: GuestEntry(4, False)}, 3, {})
    assert table.take(X, 5)
    assert table.take(X, 6)
    assert not table.take(X, 6)
    assert not table.take(X, 4)
    table.hold(X, 5)
    assert (table.before(X), table.held(X), table.last(X)) == (4, 5, 6)
    assert numbers(table.table()) == {X: 5}


def test_a_guest_is_forgotten_when_all_have_not_heard_of_it_for_long() -> None:
    seen_ns: list[dict[ProcessId, int]] = [{}, {}]
    tables = [GuestTable({X: GuestEntry(4, False), Y: GuestEntry(1, False)}, 2, seen) for seen in seen_ns]
    for table in tables:
        table.see(X, 1)
        table.see(Y, 1)
    tables[0].see(X, GUEST_IDLE_NS)
    for table in tables:
        table.now_ns = GUEST_IDLE_NS + 2
    assert numbers(merge_tables([table.table() for table in tables])) == {X: 4}
    later = GuestTable({X: GuestEntry(4, False)}, 2, seen_ns[1])
    later.forget()
    assert set(seen_ns[1]) == {X}


def test_doors_share_the_room_of_the_table() -> None:
    """Each of three doors admits as many new guests as fit into its share; together they fit into an annex."""
    tables = [GuestTable({}, 3, {}) for _ in range(3)]
    admitted = 0
    for place, table in enumerate(tables):
        for count in range(1000):
            guest = ProcessId(f"guest {place} {count}")
            if table.admit(guest):
                admitted += 1
                for each in tables:
                    each.hold(guest, 1)
        assert not table.admit(ProcessId("one more"))
    merged = merge_tables([table.table() for table in tables])
    assert len(merged) == admitted > 200
    assert len(encode_table(merged)) <= GUESTS_BYTES_MAX
    full = GuestTable(merged, 3, {})
    for count in range(1000):
        full.hold(ProcessId(f"too many {count}"), 1)
    assert len(encode_table(full.table())) <= GUESTS_BYTES_MAX


def test_long_messages_leave_the_queue_in_fragments() -> None:
    queue = GuestQueue(Options(pending_bytes_max=10, message_bytes_max=30))
    first, second = (GuestMessage(X, number, CAUSAL, "", (), bytes(25)) for number in (1, 2))
    assert queue.has_room(first)
    queue.add(first)
    assert not queue.has_room(second)
    loads = [queue.next_load(10) for _ in range(3)]
    assert [(load.index, load.total, len(load.fragment), len(load.complete)) for load in loads] == [
        (0, 3, 10, 0), (1, 3, 10, 0), (2, 3, 5, 1),
    ]  # fmt: skip
    assert queue.has_room(second)


def test_frames_are_read_as_they_were_written() -> None:
    message = GuestMessage(X, 5, CAUSAL, "", (X, Y), b"payload")
    view_id, read = decode_message(encode_message(message, 9), X)
    assert (view_id, read.number, read.level, read.destinations, read.payload) == (9, 5, CAUSAL, (X, Y), b"payload")
    told = decode_view(encode_view(GuestView(View(3, (X, Y), ("1.2.3.4:5", "")), 7, 8, True)))
    assert (told.view.id, told.view.members, told.view.addresses) == (3, (X, Y), ("1.2.3.4:5", ""))
    assert (told.before, told.last, told.is_known) == (7, 8, True)


@pytest.mark.parametrize("seed", range(4))
def test_frames_that_anybody_made_raise_nothing_else(seed: int) -> None:
    random = Random(seed)
    sound = [
        encode_message(GuestMessage(X, 5, CAUSAL, "", (X, Y), b"payload"), 9),
        encode_view(GuestView(View(3, (X, Y), ("1.2.3.4:5", "")), 7, 8, True)),
        encode_table({X: GuestEntry(5, True), Y: GuestEntry(6, False)}),
    ]
    for _ in range(300):
        frame = bytearray(random.choice(sound))
        for _ in range(random.randint(1, 4)):
            frame[random.randrange(len(frame))] = random.randrange(256)
        data = bytes(frame[: random.randint(1, len(frame))])
        for decode in (lambda data: decode_message(data, X), decode_view, lambda data: decode_table(data, 0)):
            with contextlib.suppress(MalformedError):
                decode(data)


class Door:
    """A member alone in its group, at the engine, and one link to it."""

    LINK = NUMBER << 32 | 1 << 31 | 1

    def __init__(self) -> None:
        self.engine = Engine(ProcessId("a"), Random(1), Options())
        self.now_ns = 1
        view = View(1, (ProcessId("a"),), ("a",))
        self.step(Join(group="g", stack="label", view=view, policy="primary", address="a"))

    def step(self, input: object) -> Effects:
        self.now_ns += 1_000_000
        return self.engine.step(input, self.now_ns)  # type: ignore[arg-type]

    def frames(self, effects: Effects) -> list[bytes]:
        return [frame for call in effects.calls or () if isinstance(call, Frames) for frame in call.frames]


def test_a_knock_is_answered_and_a_link_is_served_or_ended() -> None:
    door = Door()
    knock = seal(NUMBER, KNOCK, wire_id("g"), 0, 0, 0, 0, [b"x"])
    effects = door.step(Receive([knock]))
    assert [transmit.route.addresses for transmit in effects.transmits] == [("x",)]
    assert len(effects.calls or ()) == 1
    assert not door.step(Receive([knock])).calls, "it listens already"
    door.step(LinkUp(Door.LINK, X, 1))
    told = door.frames(door.step(LinkFrames(Door.LINK, [encode_number(HELLO, wire_id("g"))])))
    assert [frame[0] for frame in told] == [VIEW]
    effects = door.step(LinkFrames(Door.LINK, [b"\x77 nonsense"]))
    assert [frame[0] for frame in door.frames(effects)] == [REFUSED]
    assert any(isinstance(call, Hang) for call in effects.calls or ())
    door.step(LinkDown(Door.LINK, "gone"))
    door.step(LinkUp(Door.LINK + 1, Y, 1))
    effects = door.step(LinkFrames(Door.LINK + 1, [encode_number(HELLO, wire_id("another group"))]))
    assert [frame[0] for frame in door.frames(effects)] == [REFUSED]


@pytest.mark.parametrize("seed", range(3))
def test_no_frame_of_a_guest_raises_out_of_the_engine(seed: int) -> None:
    random = Random(seed)
    door = Door()
    for count in range(80):
        link = Door.LINK + count
        door.step(LinkUp(link, ProcessId(f"guest {count % 7}"), 1))
        door.step(LinkFrames(link, [encode_number(HELLO, wire_id("g"))]))
        for number in range(1, 4):
            sound = encode_message(GuestMessage(X, number, random.randrange(7), "", (X,), bytes(5000)), 1)
            frame = bytearray(sound)
            if random.random() < 0.7:
                frame[random.randrange(30)] = random.randrange(256)
            door.step(LinkFrames(link, [bytes(frame)]))
        door.step(Tick())
        if random.random() < 0.5:
            door.step(LinkDown(link, "gone"))
