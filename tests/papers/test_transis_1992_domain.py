"""transis-1992, sections 3.2 and 3.3: the services and the Lansis protocol, claim by claim, on engines on a table."""

from antiphon.kernel.codec import packet_kind, unseal
from antiphon.kernel.inputs import Pause, Resume
from antiphon.kernel.levels import AGREED, CAUSAL, FIFO, RELIABLE, SAFE
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import DATA, REQUEST
from antiphon.stacks.domain.node import DomainNode, decode_node
from tests.table import GROUP, Table

STACK = "domain"


def node_of(packet: bytes, members: int) -> DomainNode:
    _, _, _, sender, flags, _ = unseal(packet)
    return decode_node(packet, sender, flags, members)


def nodes(table: Table, source: int, destination: int) -> list[DomainNode]:
    """Take all nodes off a link."""
    return [node_of(packet, len(table.engines)) for packet in table.take_data(source, destination)]


def names(packets: list[bytes], members: int) -> list[tuple[int, int]]:
    found = [node_of(packet, members) for packet in packets if packet_kind(packet) == DATA]
    return [(node.sender, node.number) for node in found]


def sent_everywhere(table: Table) -> list[tuple[int, int]]:
    """The nodes that lie on the table, each once, whoever they are for."""
    members = len(table.engines)
    return sorted({name for packets in table.links.values() for name in names(packets, members)})


def test_3_3_an_ack_is_sent_once_and_the_rest_follows_from_the_chain() -> None:
    """A1, A2, a2 B1, B2, B3, b3 C1: B acknowledges A2 once, C acknowledges B3 and with it A."""
    table = Table(3, stack=STACK)
    table.send(0, b"A1")
    table.send(0, b"A2")
    packets = table.take_data(0, 1)
    table.take(0, 2)
    table.arrive(1, *packets)
    for payload in (b"B1", b"B2", b"B3"):
        table.send(1, payload)
    to_c = table.take_data(1, 2)
    assert [node_of(packet, 3).predecessors for packet in to_c] == [[(0, 2)], [(1, 1)], [(1, 2)]]
    table.arrive(2, *packets, *to_c)
    table.send(2, b"C1")
    (c1,) = nodes(table, 2, 0)
    assert c1.predecessors == [(1, 3)]


def test_3_3_a_loss_is_recognised_from_the_chain_and_asked_for_by_a_negative_ack() -> None:
    """A1, A2, a2 B1, B2, b3 C1: whoever has this has lost B3."""
    table = Table(3, stack=STACK)
    for payload in (b"B1", b"B2", b"B3"):
        table.send(1, payload)
    packets = table.take_data(1, 2)
    table.arrive(2, *packets)
    table.arrive(0, *packets[:2])
    table.drop_all()
    table.send(2, b"C1")
    table.pass_on(2, 0)
    table.wait(2 * Options().gap_delay_ns)
    requests = [packet for packet in table.links[0, 1] if packet_kind(packet) == REQUEST]
    assert len(requests) == 1
    assert requests[0] in table.links[0, 2]  # all hear it


def test_3_3_a_last_message_that_is_lost_is_found_by_what_others_tell() -> None:
    """No chain shows that the last message is missing. Its sender, who waits for acknowledgement, tells what it has;
    with one message and with two concurrent ones, one at each level."""
    for level in (RELIABLE, CAUSAL, AGREED, SAFE):
        table = Table(3, stack=STACK)
        table.send(0, b"last", level=level)
        table.send(1, b"last", level=level)
        table.drop_all()
        table.play(100)
        assert [sorted(log) for log in table.log] == [["p1#1", "p2#1"]] * 3


def test_3_3_any_holder_resends() -> None:
    """The sender of the lost message is gone; whoever has it sends it again."""
    table = Table(3, stack=STACK)
    table.send(1, b"lost", level=CAUSAL)
    table.pass_on(1, 2)
    table.crash(1)
    table.drop_all()
    table.send(2, b"after")
    table.play(40)
    assert table.log[0] == ["p2#1", "p3#1"]
    assert table.statistics(2)["resends"] == 1


def test_3_3_no_storm_of_copies() -> None:
    """Seven hold what one lacks and its sender is gone: about one of them resends it, not seven."""
    table = Table(9, stack=STACK)
    for number in range(20):
        table.send(8, b"%d" % number)
    for member in range(1, 8):
        table.pass_on(8, member)
    table.crash(8)
    table.drop_all()
    table.send(1, b"after")
    table.play(60)
    assert len(table.log[0]) == 21
    copies = sum(table.statistics(member)["resends"] for member in range(1, 8))
    assert 20 <= copies <= 40


def test_3_3_acks_acknowledge_that_a_message_can_be_delivered() -> None:
    """A message that came before its predecessor is not acknowledged, though it was received."""
    table = Table(3, stack=STACK)
    table.send(0, b"A1")
    table.send(0, b"A2")
    first, second = table.take_data(0, 1)
    table.arrive(1, second)
    table.send(1, b"B1")
    assert [node.predecessors for node in nodes(table, 1, 2)] == [[]]
    table.arrive(1, first)
    table.send(1, b"B2")
    assert [sorted(node.predecessors) for node in nodes(table, 1, 2)] == [[(0, 2), (1, 1)]]
    assert table.log[1] == ["p2#1", "p1#1", "p1#2", "p2#2"]


def test_3_3_the_processors_see_the_same_graph() -> None:
    """The very same packets go to all, and any copy has the same bytes."""
    table = Table(3, stack=STACK)
    table.send(0, b"x")
    assert table.take_data(0, 1) == table.take_data(0, 2)


def test_3_2_figure_3_atomic_and_causal_need_nobody_else() -> None:
    table = Table(5, stack=STACK)
    for level in (RELIABLE, CAUSAL):
        table.send(0, b"m", level=level)
        table.pass_on(0, 4)
    assert table.log[0] == table.log[4] == ["p1#1", "p1#2"]


def test_3_2_a_causal_message_does_not_wait_for_an_agreed_one_that_its_sender_had_not_delivered() -> None:
    table = Table(4, stack=STACK)
    table.send(3, b"agreed", level=AGREED)
    table.pass_on(3, 1)
    table.send(1, b"causal", level=CAUSAL)
    packets = table.take_data(3, 2) + table.take_data(1, 2)
    table.arrive(2, *packets)
    assert table.log[2] == ["p2#1"]
    table.settle()
    assert all(sorted(log) == ["p2#1", "p4#1"] for log in table.log)


def test_3_2_a_causal_message_follows_the_agreed_one_that_its_sender_had_delivered() -> None:
    """p5 has delivered the agreed message by the votes of p1 and p2. Whoever gets its next message gets those before
    it, and delivers in the same order, paused or not."""
    table = Table(5, stack=STACK)
    table.step(2, Pause(GROUP))
    table.send(4, b"agreed", level=AGREED)
    votes: list[bytes] = []
    for member in (0, 1):
        table.pass_on(4, member)
        table.wait(MILLISECOND_NS)
        votes += table.take_data(member, 4)
    table.arrive(4, *votes)
    assert table.log[4] == ["p5#1"]
    table.send(0, b"concurrent", level=CAUSAL)
    table.send(4, b"causal", level=CAUSAL)
    packets = table.take_data(4, 3)
    for member in (2, 3):
        table.arrive(member, *packets)
        assert table.log[member] == []
        table.arrive(member, *votes)
    assert table.log[2:4] == [[], ["p5#1", "p5#2"]]
    table.step(2, Resume(GROUP))
    assert table.log[2] == ["p5#1", "p5#2"]


def test_3_2_figure_3_agreed_is_delivered_at_a_majority() -> None:
    """Five members, two are silent: the message is delivered when three have been heard."""
    table = Table(5, stack=STACK)
    table.crash(3, 4)
    table.send(2, b"m", level=AGREED)
    table.pass_on(2, 0)
    assert table.log[2] == []
    table.wait(MILLISECOND_NS)
    table.pass_on(0, 2)
    assert table.log[2] == []
    table.pass_on(2, 1)
    table.wait(MILLISECOND_NS)
    table.pass_on(1, 2)
    assert table.log[2] == ["p3#1"]


def test_3_2_figure_3_safe_needs_all() -> None:
    table = Table(5, stack=STACK)
    table.crash(4)
    table.send(0, b"m", level=SAFE)
    table.play(500)
    assert table.log == [[], [], [], [], []]


def test_3_2_safe_waits_until_all_hold_the_votes_that_decided_its_place() -> None:
    """All acknowledge the message, but one has not seen the votes: were it cut off now, it might order otherwise."""
    table = Table(3, stack=STACK)
    table.send(0, b"m", level=SAFE)
    for member in (1, 2):
        table.pass_on(0, member)
    table.wait(MILLISECOND_NS)
    packets = table.take_data(1, 0) + table.take_data(2, 0)
    assert [node_of(packet, 3).predecessors for packet in packets] == [[(0, 1)], [(0, 1)]]
    table.drop_all()
    table.arrive(0, *packets)
    assert table.log[0] == []
    table.settle()
    assert table.log == [["p1#1"], ["p1#1"], ["p1#1"]]


def test_3_3_the_window_holds_messages_of_all_senders() -> None:
    """One member does not acknowledge: the others together fill the window, then all of them are blocked."""
    table = Table(4, Options(window_packets=12), stack=STACK)
    table.step(3, Pause(GROUP))
    for _ in range(30):
        for member in range(3):
            table.send(member, b"m")
        table.play(2)
    sent = sum(len(log) for log in table.log[:3]) // 3
    assert 12 <= sent <= 24


def test_3_3_copies_are_let_go_when_all_have_acknowledged() -> None:
    table = Table(3, stack=STACK)
    for number in range(50):
        table.send(number % 3, b"m" * 100)
        table.play(2)
    table.settle()
    table.play(300)
    assert all(table.statistics(member)["packets_held"] == 0 for member in range(3))
    assert all(table.statistics(member)["copies_held"] <= 6 for member in range(3))  # the last acknowledgements


def test_3_2_footnote_2_a_sender_waits_until_another_holds_its_causal_message() -> None:
    """On request. What was sent later does not overtake it, whatever its level."""
    table = Table(3, Options(of_stacks={"domain.own_copies": 2}), stack=STACK)
    table.send(0, b"m", level=CAUSAL)
    table.send(0, b"m", level=FIFO)
    assert table.log[0] == []
    table.pass_on(0, 1)
    assert table.log[1] == ["p1#1", "p1#2"]
    assert table.log[0] == []
    table.play(20)
    assert table.log[0] == table.log[2] == ["p1#1", "p1#2"]
    alone = Table(1, Options(of_stacks={"domain.own_copies": 2}), stack=STACK)
    alone.send(0, b"m", level=CAUSAL)
    assert alone.log[0] == ["p1#1"]


def test_3_a_message_goes_to_a_chosen_subset_at_any_level() -> None:
    """The service is chosen for each message, and so are its destinations."""
    table = Table(4, stack=STACK)
    for level in (RELIABLE, FIFO, CAUSAL, AGREED, SAFE):
        table.send(0, b"m", level=level, to=(1, 3))
    table.settle()
    assert table.log[0] == table.log[2] == []
    assert sorted(table.log[1]) == sorted(table.log[3]) == [f"private p1#{number}" for number in range(1, 6)]


def test_3_3_a_message_for_some_is_in_the_graph_of_all() -> None:
    """Whoever it is not for has it, acknowledges it and resends it, when its sender is gone."""
    table = Table(4, stack=STACK)
    table.send(0, b"m", level=CAUSAL, to=(1,))
    table.pass_on(0, 2)
    table.crash(0)
    table.drop_all()
    table.send(2, b"after", level=CAUSAL, to=(3,))
    assert [node.predecessors for node in nodes(table, 2, 0)] == [[(0, 1)]]
    table.play(40)
    assert table.log[1:] == [["private p1#1"], [], ["private p3#1"]]
    assert table.statistics(2)["resends"] >= 1


def test_3_2_causal_order_at_the_destinations_of_both() -> None:
    """p4 is told of m1 and m2, p3 of m2 alone; m1 is agreed, so p4 delivers m2 only when m1 has its place."""
    table = Table(4, stack=STACK)
    table.send(0, b"m1", level=AGREED, to=(1, 3))
    table.send(0, b"m2", level=CAUSAL, to=(2, 3))
    table.pass_on(0, 3)
    assert table.log[3] == []
    table.settle()
    assert table.log == [[], ["private p1#1"], ["private p1#2"], ["private p1#1", "private p1#2"]]


def test_3_2_agreed_messages_are_in_one_order_at_overlapping_sites() -> None:
    """Three messages that know nothing of each other, each to two of three: every pair of sites shares one message with
    each other site, and in the end no circle of orders is left: all three have places in one order."""
    table = Table(3, stack=STACK)
    for sender in range(3):
        table.send(sender, b"m", level=AGREED, to=tuple({0, 1, 2} - {sender}))
    table.settle()
    order: dict[str, set[str]] = {f"p{number}#1": set() for number in (1, 2, 3)}
    for log in table.log:
        first, second = [name.split()[-1] for name in log]
        order[first].add(second)
    assert sorted(map(len, order.values())) == [0, 1, 2]


def test_3_2_safe_to_a_subset_is_delivered_when_all_of_the_configuration_have_it() -> None:
    """Also those that it is not for: so every destination delivers it, whoever is cut off."""
    table = Table(3, stack=STACK)
    table.send(0, b"m", level=SAFE, to=(0, 1))
    for _ in range(20):
        table.pass_on(0, 1)
        table.pass_on(1, 0)
        table.wait(MILLISECOND_NS)
    assert table.log == [[], [], []]
    table.settle()
    assert table.log == [["private p1#1"], ["private p1#1"], []]
