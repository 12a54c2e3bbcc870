"""Claims of kindberg-1995, section 5: causal and causal-total order over sequencers; and the stamps that make one order
of what several sequencers accept (4.2)."""

from antiphon.kernel.calls import Frames
from antiphon.kernel.effects import Effects
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.levels import AGREED, CAUSAL_TOTAL
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.context import Context
from antiphon.stacks.sequencer.delivery_rule import is_deliverable
from antiphon.stacks.sequencer.mesh import MeshPeer
from antiphon.stacks.sequencer.place import Place, read_accept, read_change
from antiphon.stacks.sequencer.wire import (
    ACCEPT,
    ACKNOWLEDGE,
    CHANGE,
    CONTEXT,
    CREATE,
    JOIN,
    MOVED,
    MULTICAST,
    NUMBERED,
    PROBE,
    RECEIVED,
    RESUME,
    TICK,
    FrameReader,
    carried,
    groups_bytes,
    pairs_bytes,
    processes_bytes,
    text,
    u64,
)
from tests.simulation.sequencers import run_seed
from tests.stacks.sequencer.service_table import messages_bytes

FAR = 12345
"""A group at another sequencer."""


def names_at_home() -> list[str]:
    """Names of groups that the directory of the first of two peers knows."""
    return [name for name in (f"g{number}" for number in range(40)) if wire_id(name) % 2 == 0]


A, B = names_at_home()[:2]


class OnePeer:
    """One of two sequencers, and clients that speak frames; the other sequencer is not there."""

    def __init__(self) -> None:
        self.peer = MeshPeer(ProcessId("s"), Options(), "a", ["b"], 0)
        self.peer._greeted = {"b"}
        self.sent: dict[int, list[bytes]] = {}
        self.links: dict[str, int] = {}

    def client(self, name: str, *groups: str) -> "OnePeer":
        self.links[name] = link = len(self.links) + 1
        self.peer.link_up(link, ProcessId(name))
        self.ask(name, RESUME, pairs_bytes({}), text(""))
        for group in groups:
            self.ask(name, CREATE, text(group))
            self.ask(name, JOIN, text(group), u64(0), u64(0), groups_bytes([]))
        return self

    def ask(self, name: str, kind: int, *parts: bytes) -> None:
        effects = Effects()
        self.peer.receive(self.links[name], carried(kind, *parts), effects, 0)
        self.peer.finish(effects)
        for call in effects.calls or ():
            if isinstance(call, Frames):
                self.sent.setdefault(call.link, []).extend(call.frames)

    def multicast(self, name: str, group: str, number: int, level: int, named: Context | None = None) -> None:
        messages = messages_bytes(number, level, [b"m"])
        self.ask(
            name,
            MULTICAST,
            u64(wire_id(group)),
            u64(number - 1),
            pairs_bytes(named or {}),
            processes_bytes([]),
            messages,
        )

    def heard(self, name: str) -> list[tuple[int, FrameReader]]:
        readers = [FrameReader(piece[1:]) for piece in self.sent.pop(self.links[name], [])]
        return [(reader.u8(), reader) for reader in readers]

    def places(self, name: str) -> list[Place]:
        found = []
        for kind, reader in self.heard(name):
            if kind in (ACCEPT, CHANGE):
                found.append(read_accept(reader) if kind == ACCEPT else read_change(reader))
        return found


def test_5_rule_3_an_accept_carries_the_context_of_its_sender() -> None:
    one = OnePeer().client("p", A)
    one.heard("p")
    one.ask("p", CONTEXT, u64(7), pairs_bytes({FAR: 9}))
    one.multicast("p", A, 1, CAUSAL_TOTAL)
    (place,) = one.places("p")
    assert place.context == {wire_id(A): place.number, FAR: 9}


def test_5_rule_3_what_a_client_tells_later_is_not_in_what_it_sent_before() -> None:
    one = OnePeer().client("p", A)
    one.heard("p")
    one.multicast("p", A, 1, CAUSAL_TOTAL)
    one.ask("p", CONTEXT, u64(7), pairs_bytes({FAR: 9}))
    one.multicast("p", A, 2, CAUSAL_TOTAL)
    assert [FAR in place.context for place in one.places("p")] == [False, True]


def test_5_an_entry_is_carried_once_in_a_group_and_again_for_those_who_join() -> None:
    one = OnePeer().client("p", A).client("q")
    one.ask("p", CONTEXT, u64(7), pairs_bytes({FAR: 9}))
    one.heard("p")
    one.multicast("p", A, 1, CAUSAL_TOTAL)
    one.multicast("p", A, 2, CAUSAL_TOTAL)
    one.ask("q", JOIN, text(A), u64(0), u64(0), groups_bytes([]))
    assert [place.context.get(FAR) for place in one.places("p")] == [9, None, 9]


def test_5_an_entry_is_dropped_when_it_is_group_stable() -> None:
    one = OnePeer().client("p", A)
    one.heard("p")
    one.peer._stable_elsewhere[FAR] = 9
    one.ask("p", CONTEXT, u64(7), pairs_bytes({FAR: 9, FAR + 1: 3}))
    one.multicast("p", A, 1, CAUSAL_TOTAL)
    (place,) = one.places("p")
    assert (FAR in place.context, FAR + 1 in place.context) == (False, True)


def test_5_causal_total_stamps_only_the_entry_of_its_group_and_agreed_those_of_intersecting_ones() -> None:
    one = OnePeer().client("p", A, B)
    one.heard("p")
    for number, level in ((1, CAUSAL_TOTAL), (2, AGREED)):
        one.multicast("p", B, number, AGREED)
        one.multicast("p", A, number, level)
    in_a = [place for place in one.places("p") if place.group == wire_id(A)]
    assert [wire_id(B) in place.context for place in in_a] == [False, True]


def test_5_messages_of_one_group_are_numbered_in_one_series_whatever_their_level() -> None:
    one = OnePeer().client("p", A)
    (join,) = one.places("p")
    for number, level in ((1, CAUSAL_TOTAL), (2, AGREED), (3, CAUSAL_TOTAL)):
        one.multicast("p", A, number, level)
    assert [place.number for place in one.places("p")] == [join.number + number for number in (1, 2, 3)]


def test_5_increasing_concurrency_a_request_waits_for_the_number_of_a_message_that_it_names() -> None:
    one = OnePeer().client("p", A)
    one.heard("p")
    one.multicast("p", A, 1, CAUSAL_TOTAL, {FAR: 4})
    one.multicast("p", A, 2, CAUSAL_TOTAL)
    assert one.places("p") == [], "and what follows it waits behind it"
    one.ask("p", NUMBERED, u64(FAR), u64(4), u64(77), u64(50))
    first, second = one.places("p")
    assert first.context[FAR] == 77
    assert (first.first, second.first) == (1, 2)
    assert first.stamp > 50, "what it follows has the stamp 50"


def test_5_a_message_to_a_group_of_the_same_sequencer_has_its_number_at_once() -> None:
    one = OnePeer().client("p", A, B)
    one.heard("p")
    one.multicast("p", A, 1, CAUSAL_TOTAL)
    one.multicast("p", B, 1, CAUSAL_TOTAL, {wire_id(A): 1})
    first, second = one.places("p")
    assert second.context[wire_id(A)] == first.number


def test_5_both_items_of_an_entry_count_and_the_larger_is_kept() -> None:
    one = OnePeer().client("p", A)
    one.heard("p")
    one.ask("p", CONTEXT, u64(1), pairs_bytes({FAR: 99}))
    one.multicast("p", A, 1, CAUSAL_TOTAL, {FAR: 4})
    one.ask("p", NUMBERED, u64(FAR), u64(4), u64(77), u64(1))
    (place,) = one.places("p")
    assert place.context[FAR] == 99


def test_5_senders_that_are_no_members_are_told_the_place_of_what_they_sent() -> None:
    one = OnePeer().client("p", A).client("out")
    one.heard("out")
    one.multicast("out", A, 1, CAUSAL_TOTAL)
    ((kind, reader),) = one.heard("out")
    assert kind == ACKNOWLEDGE
    assert (reader.group(), reader.number()) == (wire_id(A), 1)
    *_, placed = one.places("p")
    assert (reader.number(), reader.number()) == (placed.number, placed.stamp)


def test_5_ct1_and_ct2_a_message_waits_for_all_that_its_context_names_in_groups_of_the_receiver() -> None:
    context = {1: 5, 2: 8, 3: 2}
    assert is_deliverable(context, 1, {1: 4, 2: 8})
    assert is_deliverable(context, 1, {1: 4, 2: 9}), 'CT2 has "<=" where T2 has "="'
    assert not is_deliverable(context, 1, {1: 4, 2: 7}), "CT2"
    assert not is_deliverable(context, 1, {1: 3, 2: 8}), "CT1"


def test_5_any_sequencer_may_sequence_any_group() -> None:
    """Groups are moved about at random while messages of all levels are sent: seeds that send causal-total ones."""
    moved = 0
    for seed in (2, 12, 40):
        outcome = run_seed(seed)
        assert outcome.problems == []
        moved += outcome.seen["transfers"]
        assert outcome.seen["request waited for a number"] > 0, "nobody waited to send"
    assert moved > 5


def test_4_2_stamps_rise_over_all_groups_of_a_sequencer_and_above_what_clients_have_delivered() -> None:
    one = OnePeer().client("p", A, B)
    one.heard("p")
    one.multicast("p", A, 1, AGREED)
    one.ask("p", CONTEXT, u64(100), pairs_bytes({}))
    one.multicast("p", B, 1, AGREED)
    one.multicast("p", A, 2, AGREED)
    stamps = [place.stamp for place in one.places("p")]
    assert stamps == sorted(stamps)
    assert (stamps[0] < 100, stamps[1:]) == (True, [101, 102])


def test_4_2_a_probe_raises_the_clock_and_is_answered_after_everything_sent_before() -> None:
    one = OnePeer().client("p", A)
    one.heard("p")
    one.multicast("p", A, 1, AGREED)
    one.ask("p", PROBE, u64(3), u64(500))
    kinds = one.heard("p")
    assert [kind for kind, _ in kinds] == [ACCEPT, TICK]
    assert (kinds[1][1].number(), kinds[1][1].number()) == (3, 500)
    one.multicast("p", A, 2, AGREED)
    assert one.places("p")[0].stamp == 501


def test_4_2_a_join_has_a_higher_stamp_than_what_the_client_has_delivered() -> None:
    one = OnePeer().client("p", A).client("q")
    one.ask("q", JOIN, text(A), u64(0), u64(300), groups_bytes([]))
    (place,) = one.places("q")
    assert place.stamp == 301


def test_4_3_who_is_in_a_group_that_moves_is_told_so_before_any_later_clock() -> None:
    one = OnePeer().client("p", A)
    one.heard("p")
    assert one.peer._move([one.peer._groups[wire_id(A)]], "b")
    one.ask("p", PROBE, u64(1), u64(9))
    told = one.heard("p")
    assert [kind for kind, _ in told] == [MOVED, TICK]
    assert (told[0][1].group(), told[0][1].text()) == (wire_id(A), "")


def test_4_3_while_a_group_moves_nothing_is_accepted_for_it() -> None:
    one = OnePeer().client("p", A)
    one.heard("p")
    one.peer._move([one.peer._groups[wire_id(A)]], "b")
    one.heard("p")
    one.multicast("p", A, 1, AGREED)
    one.ask("p", RECEIVED, pairs_bytes({}))
    assert one.places("p") == []


def test_4_3_a_message_whose_predecessor_was_dropped_is_not_accepted() -> None:
    one = OnePeer().client("p", A)
    one.heard("p")
    messages = messages_bytes(2, AGREED, [b"m"])
    one.ask("p", MULTICAST, u64(wire_id(A)), u64(0), pairs_bytes({}), processes_bytes([]), messages)
    assert one.places("p") == [], "the first one, which has no place yet, comes again before it"
    one.multicast("p", A, 1, AGREED)
    one.ask("p", MULTICAST, u64(wire_id(A)), u64(0), pairs_bytes({}), processes_bytes([]), messages)
    assert [place.first for place in one.places("p")] == [1, 2]
