"""The rule of stamps, exhaustively on small systems: a real client, two sequencers, and all ways in which what they
have placed can be stamped and can arrive."""

from itertools import combinations, product

import pytest

from antiphon.kernel.calls import Frames
from antiphon.kernel.effects import Delivered, Effects
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.inputs import Join
from antiphon.kernel.levels import AGREED, CAUSAL_TOTAL
from antiphon.kernel.options import Options
from antiphon.kernel.policies import PRIMARY
from antiphon.stacks.sequencer.client import ServiceClient
from antiphon.stacks.sequencer.member import SequencerMember
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.stamps import comes_before
from antiphon.stacks.sequencer.wire import (
    MOVED,
    PROBE,
    TICK,
    WELCOME,
    FrameReader,
    carried,
    text,
    u64,
)
from tests.stacks.sequencer.service_table import messages_bytes

P, Q = ProcessId("p"), ProcessId("q")
GROUPS = {"a": "g", "b": "h"}
"""The group at each sequencer."""


class TwoSequencers:
    """What two sequencers have for one client, which is in a group of each."""

    def __init__(self) -> None:
        self.client = ServiceClient(P, Options())
        self.log: list[tuple[str, int]] = []
        self.ids = {"a": 1, "b": 2}
        self.streams: dict[str, list[bytes]] = {"a": [], "b": []}
        self.clocks = {"a": 0, "b": 0}
        self.groups = {at: SequencedGroup(name, wire_id(name), 0, 64) for at, name in GROUPS.items()}
        effects = Effects()
        for name in GROUPS.values():
            join = Join(group=name, view=None, contacts=("a",), stack="sequencer", policy=PRIMARY, address="p")
            member = SequencerMember(join, P, 0, Options(), self.client)
            self.client.join(member, ("a",), effects, 0)
        self._dial()
        self._feed("a", carried(WELCOME, b"\0") + carried(MOVED, u64(wire_id("h")), u64(5), text("b")))
        self._dial()
        for at, group in self.groups.items():
            group.admit(P)
            self.clocks[at] += 1
            change = group.join(P, {group.id: 1}, self.clocks[at])
            self._feed(at, [*carried(WELCOME, b"\0"), *change])
        self.settle()

    def _dial(self) -> None:
        effects = Effects()
        for link in self.client.to_dial(0):
            self.client.dial(link, self.ids[link.address], effects, 0)
            self.client.link_up(self.ids[link.address], effects, 0)
        self._finish(effects)

    def place(self, at: str, stamp: int, level: int) -> None:
        """A sequencer has given the next place to a message."""
        group = self.groups[at]
        number = group.number + 1
        self.clocks[at] = stamp
        body = messages_bytes(number, level, [b"m"])
        self.streams[at] += group.accept(Q, number, body, 0, {group.id: number}, stamp)

    def arrive(self, at: str) -> None:
        """The next frame arrives."""
        if self.streams[at]:
            self._feed(at, [self.streams[at].pop(0)])

    def settle(self) -> None:
        while self.streams["a"] or self.streams["b"]:
            self.arrive("a")
            self.arrive("b")

    def _feed(self, at: str, frames: list[bytes]) -> None:
        effects = Effects()
        self.client.receive(self.ids[at], frames, effects, 0)
        self._finish(effects)

    def _finish(self, effects: Effects) -> None:
        self.client.finish(effects, 0)
        for event in effects.events:
            if isinstance(event, Delivered):
                self.log.append((event.group, event.number))
        for call in effects.calls or ():
            if isinstance(call, Frames):
                at = next(address for address, id in self.ids.items() if id == call.link)
                for piece in call.frames:
                    reader = FrameReader(piece[1:])
                    if reader.u8() == PROBE:
                        tag, stamp = reader.number(), reader.number()
                        self.clocks[at] = max(self.clocks[at], stamp)
                        self.streams[at] += carried(TICK, u64(tag), u64(self.clocks[at]))


def test_an_older_word_where_a_group_is_changes_nothing() -> None:
    """Two peers that pass a group to and fro tell that by links of their own; the older word came last, and the client
    waited where the group was not until the other peer gave it up."""
    two = TwoSequencers()
    group = wire_id("h")
    two._feed("a", carried(MOVED, u64(group), u64(4), text("a")))
    assert two.client._where[group] == "b"
    two._feed("a", carried(MOVED, u64(group), u64(6), text("a")))
    assert two.client._where[group] == "a"
    two._feed("a", carried(MOVED, u64(group), u64(0), text("b")))  # an answer
    assert two.client._where[group] == "b"


@pytest.mark.parametrize("levels", list(product((AGREED, CAUSAL_TOTAL), repeat=2)))
def test_agreed_messages_come_in_the_order_of_stamps_however_they_arrive(levels: tuple[int, int]) -> None:
    """Three messages at either sequencer, all interleavings of their stamps, all interleavings of their arrival."""
    for of_a in combinations(range(6), 3):
        for first in combinations(range(6), 3):
            table = TwoSequencers()
            keys: dict[tuple[str, int], tuple[int, int]] = {}
            for place in range(6):
                at = "a" if place in of_a else "b"
                level = levels[place % 2]
                table.place(at, 10 + place, level)
                if level == AGREED:
                    keys[GROUPS[at], table.groups[at].number] = (10 + place, table.groups[at].id)
            for step in range(6):
                table.arrive("a" if step in first else "b")
            table.settle()
            assert len(table.log) == 6, "all is delivered"
            agreed = [keys[message] for message in table.log if message in keys]
            assert agreed == sorted(agreed)
            for group in GROUPS.values():
                numbers = [number for where, number in table.log if where == group]
                assert numbers == sorted(numbers)


def read(arrivals: list[tuple[str, int, str]], reader: str, known: dict[str, set[str]], is_cheap: bool) -> list[str]:
    """What a process in two groups delivers: of each arrival, the group, the stamp and a name, in which "+q" is a join
    of q. It waits for the clock of the other group, or, cheaply, only if it knows that a third process shares both."""
    waiting: list[tuple[int, str, str]] = []
    delivered: list[str] = []
    for group, stamp, name in arrivals:
        if name.startswith("+"):
            known[group] = known[group] | {name[1:]}
        shared = set.intersection(*known.values()) - {reader}
        waiting.append((stamp, group, name))
        if is_cheap and not shared:
            delivered += [name for _, _, name in sorted(waiting)]
            waiting = []
    return delivered + [name for _, _, name in sorted(waiting)]


def test_pairs_need_the_clocks_of_groups_that_nobody_else_shares_too() -> None:
    """Why there is no cheaper setting for pairs alone (docs/papers/sequencer.md, Deviations). p and q are in G, p alone
    is in H. The sequencer of H is behind: q's join there, and m2, have lower stamps than m1 in G, which p has."""
    at_p = [("G", 10, "m1"), ("H", 4, "+q"), ("H", 5, "m2")]
    at_q = [("H", 4, "+q"), ("H", 5, "m2"), ("G", 10, "m1")]
    for is_cheap in (False, True):
        orders = [
            [name for name in read(arrivals, reader, {"G": {"p", "q"}, "H": set(first)}, is_cheap) if name[0] == "m"]
            for reader, arrivals, first in (("p", at_p, {"p"}), ("q", at_q, {"p"}))
        ]
        assert (orders[0] == orders[1]) is not is_cheap


def test_equal_stamps_are_told_apart_by_the_group() -> None:
    orders = set()
    for first in ("a", "b"):
        table = TwoSequencers()
        table.place("a", 10, AGREED)
        table.place("b", 10, AGREED)
        table.arrive(first)
        table.settle()
        orders.add(tuple(table.log))
    assert len(orders) == 1
    assert comes_before(10, 1, 10, 2)
    assert not comes_before(10, 2, 10, 1)
    assert comes_before(9, 2, 10, 1)


def test_a_message_waits_for_the_clock_of_a_sequencer_that_has_nothing_and_is_asked() -> None:
    table = TwoSequencers()
    table.place("a", 50, AGREED)
    table.arrive("a")
    assert table.log == []
    assert table.streams["b"] != [], "the answer to a probe"
    table.arrive("b")
    assert table.log == [("g", 2)]
    assert table.clocks["b"] == 50


def test_a_causal_total_message_waits_for_no_clock() -> None:
    table = TwoSequencers()
    table.place("a", 50, CAUSAL_TOTAL)
    table.arrive("a")
    assert table.log == [("g", 2)]
