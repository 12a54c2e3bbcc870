"""One test per claim of kindberg-1995, cited by section, at whole engines: a sequencer and its clients on a table.

What section 4.2 asks of several sequencers is shown on the rules themselves (test_kindberg_1995_placement.py).
"""

from antiphon.kernel.effects import Delivered
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.inputs import Open
from antiphon.kernel.levels import AGREED, CAUSAL, FIFO
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import LinkFrames
from antiphon.stacks.sequencer.peer import SequencerPeer
from antiphon.stacks.sequencer.place import read_accept, read_change
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.stack import SequencerStack
from antiphon.stacks.sequencer.wire import (
    ACCEPT,
    ACKNOWLEDGE,
    CHANGE,
    CREATE,
    CREATED,
    FETCH,
    JOIN,
    LEAVE,
    MULTICAST,
    NO_GROUP,
    RECEIVED,
    FrameReader,
    carried,
    groups_bytes,
    pairs_bytes,
    processes_bytes,
    text,
    u64,
)
from tests.stacks.sequencer.service_table import SERVICE, ServiceTable, messages_bytes

G = wire_id("g")


class RawClient:
    """A client that speaks frames, so that a test sees each request and response."""

    def __init__(self, table: ServiceTable, name: str) -> None:
        self.table = table
        table.hold(name)
        table.log[name], table.events[name] = [], []
        self.link = table.accept(name)

    def ask(self, kind: int, *parts: bytes) -> list[tuple[int, FrameReader]]:
        """Send one request; the responses."""
        self.table.step(SERVICE, LinkFrames(self.link.accepted, carried(kind, *parts)))
        return self.heard()

    def heard(self) -> list[tuple[int, FrameReader]]:
        readers = [FrameReader(piece[1:]) for piece in self.link.to_client]
        self.link.to_client = []
        return [(reader.u8(), reader) for reader in readers]

    def kinds(self, kind: int, *parts: bytes) -> list[int]:
        return [answered for answered, _ in self.ask(kind, *parts)]

    def join(self, group: str = "g") -> None:
        self.ask(CREATE, text(group))
        self.ask(JOIN, text(group), u64(0), u64(0), groups_bytes([]))

    def multicast(self, number: int, payload: bytes = b"m", group: int = G) -> list[tuple[int, FrameReader]]:
        return self.ask(
            MULTICAST,
            u64(group),
            u64(number - 1),
            pairs_bytes({}),
            processes_bytes([]),
            messages_bytes(number, AGREED, [payload]),
        )


def peer_group(table: ServiceTable, group: str = "g") -> SequencedGroup:
    """What the sequencer holds for a group."""
    stack = table.engines[SERVICE]._stacks_by_name["sequencer"]
    assert isinstance(stack, SequencerStack)
    assert isinstance(stack._peer, SequencerPeer)
    return stack._peer._groups[wire_id(group)]


def joined(clients: int, *groups: str, options: Options | None = None) -> ServiceTable:
    """Clients that are all in these groups."""
    table = ServiceTable(clients, options)
    for name in table.names[1:]:
        table.join(name, *(groups or ("g",)))
    table.run()
    return table


# ---- tables 1 and 2: operations and messages -----------------------------------------------------------------------


def test_table_1_to_create_a_group_is_not_to_join_it() -> None:
    client = RawClient(ServiceTable(0), "raw")
    assert client.kinds(CREATE, text("g")) == [CREATED]
    assert peer_group(client.table).members == []
    assert [kind for kind, _ in client.multicast(1)] == [ACKNOWLEDGE], "it is sequenced, and nobody receives it"


def test_table_1_the_caller_joins_and_leaves_the_named_group() -> None:
    table = joined(2)
    table.leave("p2", "g")
    table.run()
    table.send("p1", "g")
    table.run()
    assert table.log["p1"] == ["g: p1", "g: p1 p2", "g: p1", "g:p1#1"]
    assert table.log["p2"] == ["g: p1 p2", "g: left"]


def test_table_1_multicast_delivers_to_the_members_of_the_group() -> None:
    table = joined(2)
    table.step("p1", Open(stack="sequencer", role="client", contacts=(SERVICE,)))
    table.join("p1", "h")
    table.run()
    table.send("p2", "g")
    table.send("p1", "h")
    table.run()
    assert sorted(table.messages("p1")) == ["g:p2#1", "h:p1#1"]
    assert table.messages("p2") == ["g:p2#1"]


def test_table_2_every_request_has_its_response() -> None:
    client = RawClient(ServiceTable(0), "raw")
    assert client.kinds(JOIN, text("g"), u64(0), u64(0), groups_bytes([])) == [NO_GROUP]
    assert client.kinds(CREATE, text("g")) == [CREATED]
    ((kind, reader),) = client.ask(JOIN, text("g"), u64(0), u64(0), groups_bytes([]))
    assert kind == CHANGE
    assert read_change(reader).joined == [ProcessId("raw")]
    ((kind, reader),) = client.multicast(1, b"body")
    accept = read_accept(reader)
    assert (kind, accept.payloads, accept.number, accept.context) == (ACCEPT, [b"body"], 2, {G: 2})
    assert client.kinds(FETCH, u64(G), u64(1), u64(2)) == [CHANGE, ACCEPT, ACKNOWLEDGE]
    ((kind, reader),) = client.ask(LEAVE, u64(G), groups_bytes([G]))
    assert kind == CHANGE
    assert read_change(reader).left == [ProcessId("raw")]


def test_table_2_members_tell_the_sequencer_which_groups_they_are_in() -> None:
    """The group list of a join names the groups that a process is in, and those that it has asked to join."""
    table = joined(1, "a", "b")
    table.hold("p1")
    table.join("p1", "c")
    (sent,) = [piece for link in table.links for piece in link.to_service if piece[1] == JOIN]
    reader = FrameReader(sent[2:])
    assert (reader.text(), reader.number()) == ("c", 0)
    reader.number()  # its clock
    assert reader.groups() == [wire_id(name) for name in "abc"]


# ---- 3: sequencer-based multicast ----------------------------------------------------------------------------------


def test_3_1_fifo_messages_of_one_process_come_in_the_order_of_sending() -> None:
    table = joined(2, "g", "h")
    for number in range(10):
        table.send("p1", "gh"[number % 2], b"%d" % number, level=FIFO)
    table.run()
    expected = [f"{'gh'[number % 2]}:p1#{number // 2 + 1}" for number in range(10)]
    assert table.messages("p1") == table.messages("p2") == expected


def test_3_1_total_order_holds_over_intersecting_groups() -> None:
    table = joined(3, "g", "h")
    for number in range(12):
        table.send(f"p{number % 3 + 1}", "gh"[number % 2])
        table.pass_all()
    table.run()
    assert table.messages("p1") == table.messages("p2") == table.messages("p3")
    assert len(table.messages("p1")) == 12


def test_3_1_causal_order_holds_over_groups() -> None:
    """An answer in h to what was read in g comes after it, also at a member that has both and got the answer first."""
    table = joined(3, "g", "h")
    table.hold("p3")
    table.send("p1", "g", level=CAUSAL)
    table.run()
    assert table.messages("p2") == ["g:p1#1"]
    table.send("p2", "h", level=CAUSAL)
    table.run()
    (link,) = [link for link in table.links if link.client == "p3"]
    accepts = [piece for piece in link.to_client if piece[1] == ACCEPT]
    link.to_client = list(reversed(accepts))
    table.release("p3")
    table.run()
    assert table.messages("p3") == ["g:p1#1", "h:p2#1"]


def test_3_2_sequence_numbers_rise_by_one_in_each_group() -> None:
    client = RawClient(ServiceTable(0), "raw")
    client.join()
    numbers = [read_accept(reader).number for number in range(1, 6) for _, reader in client.multicast(number)]
    assert numbers == [2, 3, 4, 5, 6]


def test_3_2_an_arriving_number_that_is_larger_than_expected_has_the_missing_ones_fetched() -> None:
    table = joined(2)
    table.hold("p2")
    for number in range(3):
        table.send("p1", "g", b"%d" % number)
        table.run(1)
    (link,) = [link for link in table.links if link.client == "p2"]
    link.to_client = [piece for piece in link.to_client if piece[1] == ACCEPT][2:]
    table.release("p2")
    table.pass_all()
    assert table.messages("p2") == []
    assert table.engines["p2"].held("g") == 1
    table.run(100)
    assert table.messages("p2") == ["g:p1#1", "g:p1#2", "g:p1#3"]
    assert table.engines[SERVICE].situations()["missing messages fetched"] >= 1


def test_3_2_the_history_holds_what_not_all_members_are_known_to_have() -> None:
    table = joined(3)
    table.hold("p3")
    table.send("p1", "g")
    table.run()
    assert list(peer_group(table).history) == [4]
    table.release("p3")
    table.run()
    assert peer_group(table).history == {}


def test_3_2_changes_of_membership_have_places_among_the_messages() -> None:
    table = joined(2)
    table.join("p1", "h")
    table.send("p1", "g")
    table.leave("p2", "g")
    table.send("p1", "g")
    table.run()
    table.join("p2", "g")
    table.run()
    own = [entry for entry in table.log["p1"] if entry.startswith("g")]
    assert own == ["g: p1", "g: p1 p2", "g:p1#1", "g:p1#2", "g: p1", "g: p1 p2"] or own == [
        *("g: p1", "g: p1 p2", "g:p1#1", "g: p1", "g:p1#2", "g: p1 p2"),
    ]
    left_at = own.index("g: p1", 1)
    assert table.log["p2"][:-1] == ["g: p1 p2", *own[2:left_at], "g: left"]


def test_3_2_to_join_or_leave_takes_a_single_request() -> None:
    table = ServiceTable(1)
    client = RawClient(table, "raw")
    client.ask(CREATE, text("g"))
    table.join("p1", "g")
    table.pass_all()
    assert table.log["p1"] == ["g: p1"], "one request, one response"
    table.leave("p1", "g")
    table.pass_all()
    assert table.log["p1"] == ["g: p1", "g: left"]


def test_3_3_the_sender_need_not_be_a_member_and_does_not_receive_its_own_notification() -> None:
    table = ServiceTable(2)
    table.join("p1", "g")
    table.step("p2", Open(stack="sequencer", role="client", contacts=(SERVICE,)))
    table.run()
    table.send("p2", "g")
    table.run()
    assert table.messages("p1") == ["g:p2#1"]
    assert table.messages("p2") == []


def test_3_3_groups_that_are_disjoint_do_not_wait_for_each_other() -> None:
    table = ServiceTable(2)
    table.join("p1", "a")
    table.join("p2", "b")
    table.run()
    table.hold("p1")
    table.send("p2", "b")
    table.run(1)
    assert table.messages("p2") == ["b:p2#1"]


# ---- 4: the service ------------------------------------------------------------------------------------------------


def test_4_a_sender_that_is_no_member_gets_an_acknowledgement_of_its_own() -> None:
    table = ServiceTable(0)
    member, sender = RawClient(table, "member"), RawClient(table, "sender")
    member.join()
    assert [kind for kind, _ in sender.multicast(1)] == [ACKNOWLEDGE]
    assert [kind for kind, _ in member.heard()] == [ACCEPT]
    assert [kind for kind, _ in member.multicast(1)] == [ACCEPT], "to a member the accept is the acknowledgement"


def test_4_a_repeated_request_is_acknowledged_and_not_multicast() -> None:
    table = ServiceTable(0)
    member, sender = RawClient(table, "member"), RawClient(table, "sender")
    member.join()
    sender.multicast(1)
    member.heard()
    assert [kind for kind, _ in sender.multicast(1)] == [ACKNOWLEDGE]
    assert member.heard() == []
    assert peer_group(table).number == 2


def test_4_a_repeat_is_recognised_though_the_history_has_been_pruned() -> None:
    table = ServiceTable(0)
    member = RawClient(table, "member")
    member.join()
    member.multicast(1)
    member.ask(RECEIVED, pairs_bytes({G: 2}))
    assert peer_group(table).history == {}
    assert [kind for kind, _ in member.multicast(1)] == [ACKNOWLEDGE]
    assert peer_group(table).number == 2


def test_4_messages_are_numbered_by_sender_and_group() -> None:
    table = joined(2, "g", "h")
    for group in "gghg":
        table.send("p1", group)
    table.run()
    assert table.messages("p2") == ["g:p1#1", "g:p1#2", "h:p1#1", "g:p1#3"]


def test_4_group_stability_counts_those_who_were_members_at_the_first_receipt() -> None:
    table = ServiceTable(0)
    early, late = RawClient(table, "early"), RawClient(table, "late")
    early.join()
    early.multicast(1)
    late.join()
    early.ask(RECEIVED, pairs_bytes({G: 2}))
    assert peer_group(table).stable == 2, "the newcomer is not waited for"
    early.multicast(2)
    early.ask(LEAVE, u64(G), groups_bytes([G]))
    late.ask(RECEIVED, pairs_bytes({G: 5}))
    assert peer_group(table).stable == 2, "who has left since is waited for"
    early.ask(RECEIVED, pairs_bytes({G: 5}))
    assert peer_group(table).stable == 5


def test_4_each_body_travels_once_to_the_sequencer_and_once_to_each_member() -> None:
    table = joined(3)
    for name in table.names[1:]:
        table.hold(name)
    table.send("p1", "g", b"body" * 100)
    table.pass_all()
    assert [sum(b"body" * 100 in piece for piece in link.to_client) for link in table.links] == [1, 1, 1]


def test_footnote_3_messages_are_deleted_when_all_have_reported_and_reports_are_occasional() -> None:
    table = joined(1, options=Options(ack_every_packets=8))
    table.hold("p1")
    for _ in range(7):
        table.send("p1", "g")
        table.pass_all()
    table.release("p1")
    table.pass_all()
    reports = [piece for link in table.links for piece in link.to_service if piece[1] == RECEIVED]
    assert reports == []
    assert len(peer_group(table).history) == 7
    table.run(10)
    assert peer_group(table).history == {}


def test_4_limits_a_full_history_makes_senders_wait_and_members_that_report_make_room() -> None:
    table = joined(2, options=Options(window_packets=4))
    table.hold("p2")
    for _ in range(8):
        table.send("p1", "g")
        table.run(1)
    assert len(peer_group(table).history) == 4
    assert len(table.messages("p1")) == 4
    table.release("p2")
    table.run()
    assert table.messages("p1") == table.messages("p2") == [f"g:p1#{number}" for number in range(1, 9)]


# ---- 4.1: one sequencer, many groups -------------------------------------------------------------------------------


def test_4_1_an_accept_carries_the_numbers_of_groups_that_intersect_and_no_others() -> None:
    table = ServiceTable(0)
    both, one, other = (RawClient(table, name) for name in ("both", "one", "other"))
    both.join("a")
    both.join("b")
    one.join("a")
    other.join("c")
    both.multicast(1, group=wire_id("b"))
    ((_, reader),) = one.multicast(1, group=wire_id("a"))
    assert read_accept(reader).context == {wire_id("a"): 3, wire_id("b"): 2}
    ((_, reader),) = one.multicast(2, group=wire_id("a"))
    assert read_accept(reader).context == {wire_id("a"): 4}, "the place before it carries the rest"
    ((_, reader),) = other.multicast(1, group=wire_id("c"))
    assert read_accept(reader).context == {wire_id("c"): 2}


def test_4_1_groups_intersect_until_a_leaver_has_reported_its_leave() -> None:
    table = ServiceTable(0)
    both, one = RawClient(table, "both"), RawClient(table, "one")
    both.join("a")
    both.join("b")
    one.join("a")
    both.ask(LEAVE, u64(wire_id("b")), groups_bytes([]))
    ((_, reader),) = one.multicast(1, group=wire_id("a"))
    assert wire_id("b") in read_accept(reader).context, "what it is still owed in b may come late"
    both.ask(RECEIVED, pairs_bytes({wire_id("b"): 2}))
    ((_, reader),) = one.multicast(2, group=wire_id("a"))
    assert wire_id("b") not in read_accept(reader).context


def test_4_1_a_message_of_another_group_that_was_dropped_is_missed_and_fetched() -> None:
    """The paper's example: <group 1, 46>, <group 2, 157>, <group 1, 47>, of which the second is dropped."""
    table = joined(2, "one", "two")
    table.hold("p2")
    for group in ("one", "two", "one"):
        table.send("p1", group)
        table.run(1)
    (link,) = [link for link in table.links if link.client == "p2"]
    accepts = [piece for piece in link.to_client if piece[1] == ACCEPT]
    link.to_client = [accepts[0], accepts[2]]
    table.release("p2")
    table.pass_all()
    assert table.messages("p2") == ["one:p1#1"]
    table.run(100)
    assert table.messages("p2") == ["one:p1#1", "two:p1#1", "one:p1#2"]


def test_4_1_figure_1_messages_wait_on_the_hold_back_queue_and_then_for_the_application() -> None:
    table = joined(2)
    table.hold("p2")
    table.send("p1", "g")
    table.send("p1", "g")
    table.run(1)
    (link,) = [link for link in table.links if link.client == "p2"]
    first, second = [piece for piece in link.to_client if piece[1] == ACCEPT]
    link.to_client = [second]
    table.release("p2")
    table.pass_all()
    assert (table.engines["p2"].held("g"), table.messages("p2")) == (1, [])
    link.to_client = [first]
    table.pass_all()
    assert (table.engines["p2"].held("g"), table.messages("p2")) == (0, ["g:p1#1", "g:p1#2"])


def test_4_1_what_is_for_a_group_that_is_being_joined_holds_back_what_may_follow_it() -> None:
    """p2 has asked to join h, and the answer is slow: a message of g that carries a number of h waits for it."""
    table = joined(2, "g")
    table.join("p1", "h")
    table.run()
    table.hold("p2")
    table.join("p2", "h")
    table.run(1)
    table.send("p1", "h")
    table.send("p1", "g")
    table.run(1)
    (link,) = [link for link in table.links if link.client == "p2"]
    change, in_h, in_g = [piece for piece in link.to_client if piece[1] in (CHANGE, ACCEPT)]
    link.to_client = [in_g]
    table.release("p2")
    table.pass_all()
    assert table.messages("p2") == []
    link.to_client = [in_h, change]
    table.pass_all()
    assert table.messages("p2") == ["h:p1#1", "g:p1#1"]


def test_4_1_contexts_are_bounded_by_groups_not_by_processes() -> None:
    """Section 6 compares: per-process stamps grow with the members; these do not."""
    sizes = []
    for clients in (2, 20):
        table = ServiceTable(0)
        raw = [RawClient(table, f"c{number}") for number in range(clients)]
        for client in raw:
            client.join("a")
            client.join("b")
        for client in raw:
            client.heard()
        answers = raw[0].multicast(1, group=wire_id("a"))
        sizes.append(len(read_accept(answers[0][1]).context))
    assert sizes == [2, 2]


# ---- 7 -------------------------------------------------------------------------------------------------------------


def test_7_the_order_is_decided_while_other_members_are_silent() -> None:
    table = joined(3)
    for silent in ("p2", "p3"):
        table.hold(silent)
    table.send("p1", "g")
    table.pass_all()
    table.pass_all()
    assert table.messages("p1") == ["g:p1#1"]
    delivered = [event for event in table.events["p1"] if isinstance(event, Delivered)]
    assert len(delivered) == 1
