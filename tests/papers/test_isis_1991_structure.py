"""isis-1991, claim by claim: what the structure of the groups saves (6.6), the conservative rule and epochs (6.7)."""

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.codec import unseal
from antiphon.kernel.errors import UsageError
from antiphon.kernel.inputs import Leave, Pause, Resume
from antiphon.kernel.levels import FIFO
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.packet_kinds import DATA
from tests.papers.wire import times_in
from tests.table import Groups, Table

ACK_NS = 6 * MILLISECOND_NS
CHAIN = {"a": (0, 1, 3), "b": (1, 2), "c": (2, 3)}
"""A ring of three groups: p2 joins a and b, p3 b and c, p4 c and a."""
LINE = {"a": (0, 1), "b": (1, 2), "c": (2, 3)}
NAMES = ["a", "b", "c"]
RING = (("a", "b"), ("b", "c"), ("c", "a"))
EPOCHS = CausalityDomain(rule="epochs", resilience=1)


def arranged(groups: Groups, domain: CausalityDomain, policy: str = "static", places: int = 4) -> Table:
    """A table on which everybody knows that everybody is there."""
    table = Table(places, None, policy, groups, dict.fromkeys(groups, domain))
    table.play(260)
    table.drop_all()
    return table


def walk(table: Table) -> list[bytes]:
    """m1 by p1 in a, to p2; m2 by p2 in b, to p3; m3 by p3 in c. The packets of m3 on their way to p4."""
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.pass_on(1, 2)
    table.send(2, b"m3", group="c")
    return table.take_data(2, 3, "c")


# ---- 6.6 -----------------------------------------------------------------------------------------------------------


def test_6_6_without_a_declared_structure_all_times_travel() -> None:
    packets = walk(arranged(LINE, CausalityDomain(resilience=1)))
    assert [times_in(packet, 2, NAMES) for packet in packets] == [{"a": [(0, 1)], "b": [(0, 1)]}]


def test_6_6_lemma_3_where_groups_form_a_tree_only_times_of_the_senders_groups_travel() -> None:
    packets = walk(arranged(LINE, CausalityDomain(resilience=1, overlaps=(("a", "b"), ("b", "c")))))
    assert [times_in(packet, 2, NAMES) for packet in packets] == [{"b": [(0, 1)]}]


def test_6_6_theorem_1_within_a_biconnected_component_all_times_travel() -> None:
    """In a ring m3 carries the time of a, of which its sender has only heard: p4 waits for m1."""
    table = arranged(CHAIN, CausalityDomain(resilience=1, overlaps=(("a", "b"), ("b", "c"), ("c", "a"))))
    packets = walk(table)
    assert [times_in(packet, 2, NAMES) for packet in packets] == [{"a": [(0, 1)], "b": [(0, 1)]}]
    table.arrive(3, *packets)
    assert table.log[3] == []
    table.pass_on(0, 3)
    assert table.log[3] == ["a:p1#1", "c:p3#1"]


def test_6_6_theorem_2_they_are_necessary_there() -> None:
    """The same ring, declared as if it were a line, would let p4 deliver m3 without m1: so p4, which is in a and c,
    is refused."""
    with pytest.raises(UsageError, match="no overlap of the groups 'c' and 'a'"):
        arranged(CHAIN, CausalityDomain(resilience=1, overlaps=(("a", "b"), ("b", "c"))))


def test_6_6_a_time_leaves_its_component_with_nobody() -> None:
    """A ring a, b, c with a tail d: what is sent in d carries no time of a or b."""
    overlaps = (("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"))
    groups = {**CHAIN, "c": (2, 3, 5), "d": (5, 4)}
    table = arranged(groups, CausalityDomain(resilience=1, overlaps=overlaps), places=6)
    walk(table)
    table.pass_on(2, 5)
    assert table.log[5] == ["c:p3#1"]
    table.send(5, b"m4", group="d")
    assert [times_in(packet, 2, [*NAMES, "d"]) for packet in table.take_data(5, 4, "d")] == [{"c": [(0, 1)]}]


def test_6_6_figure_5_a_chain_that_reverses_finds_its_past_again() -> None:
    """m1 in a; then m2 in b by p2, m3 in b by p3, who is not in a; then p4, in both, sends m4 in a. m3 said nothing of
    a, but p4 could deliver it after m2 only, and that after m1: p5 gets m4 after m1."""
    groups = {"a": (0, 1, 3, 4), "b": (1, 2, 3)}
    table = arranged(groups, CausalityDomain(resilience=1, overlaps=(("a", "b"),)), places=5)
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.pass_on(1, 2)
    table.send(2, b"m3", group="b")
    third = table.take_data(2, 3)
    assert [times_in(packet, 3, NAMES) for packet in third] == [{}]
    table.arrive(3, *third)
    table.pass_on(1, 3)
    assert table.log[3] == []
    table.pass_on(0, 3)
    assert table.log[3] == ["a:p1#1", "b:p2#1", "b:p3#1"]
    table.send(3, b"m4", group="a")
    table.pass_on(3, 4)
    assert table.log[4] == []
    table.pass_on(0, 4)
    assert table.log[4] == ["a:p1#1", "a:p4#1"]


@pytest.mark.parametrize("rule", ["structure", "epochs"])
def test_6_6_a_point_to_point_message_opens_no_way_around_the_structure(rule: str) -> None:
    """Groups b, a, c in a line. m1 in b; then p1 writes to p2 alone inside a; p2 sends m3 in c, p4 answers in a. Of the
    members of a only p2 could have been told of b, and m3 could not pass it on. So the message to p2 leaves when m1 is
    delivered everywhere: p5 gets the answer after m1."""
    domain = CausalityDomain(resilience=1, overlaps=(("a", "b"), ("a", "c"))) if rule == "structure" else EPOCHS
    table = arranged({"a": (0, 1, 3, 4), "b": (0, 4), "c": (1, 3)}, domain, "primary", places=5)
    table.step(4, Pause("b"))
    table.send(0, b"m1", group="b")
    table.play(50)
    table.send(0, b"m2", group="a", to=1)
    table.play(100)
    assert table.log[1] == []
    table.step(4, Resume("b"))
    table.play(100)
    assert table.log[1] == ["a:private p1#1"]
    table.send(1, b"m3", group="c")
    table.play(200)
    table.send(3, b"m4", group="a")
    table.play(300)
    assert table.log[4] == ["b:p1#1", "a:p4#1"]


# ---- 6.7, the conservative rule ------------------------------------------------------------------------------------

CONSERVATIVE = CausalityDomain(rule="conservative")
PAIR = {"a": (0, 1, 2), "b": (1, 2, 3)}


def test_6_7_conservative_a_message_waits_until_other_groups_are_inactive() -> None:
    """p2 has m1 of a, which p3 has received and not delivered: m2 does not leave for b before it is."""
    table = arranged(PAIR, CONSERVATIVE)
    table.step(2, Pause("a"))
    table.send(0, b"m1", group="a")
    table.play(10)
    table.send(1, b"m2", group="b")
    table.play(100)
    assert table.log[3] == []
    table.step(2, Resume("a"))
    table.play(100)
    assert table.log[3] == ["b:p2#1"]
    assert table.log[2] == ["a:p1#1", "b:p2#1"]


def test_6_7_conservative_only_the_time_of_the_own_group_travels() -> None:
    table = arranged(PAIR, CONSERVATIVE)
    carried: list[dict[str, list[tuple[int, int]]]] = []
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    for _ in range(100):
        for packet in table.take_data(1, 3, "b"):
            carried.append(times_in(packet, 3, NAMES))
            table.arrive(3, packet)
        table.play(1)
    assert table.log[3] == ["b:p2#1"]
    assert carried
    assert all(not times for times in carried)


def test_6_7_conservative_nothing_waits_within_one_group() -> None:
    table = arranged(PAIR, CONSERVATIVE)
    for _ in range(3):
        table.send(1, b"m", group="b")
    assert len(table.take_data(1, 3)) == 3


def test_6_7_conservative_incoming_messages_are_not_delivered_meanwhile() -> None:
    table = arranged(PAIR, CONSERVATIVE)
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.send(0, b"m3", group="a")
    table.pass_on(0, 1)
    assert table.log[1] == ["a:p1#1"]
    table.play(200)
    assert table.log[1] == ["a:p1#1", "b:p2#1", "a:p1#2"]


def test_6_7_conservative_weaker_levels_wait_too() -> None:
    """Who delivers them would know nothing of a, and could not tell."""
    table = arranged(PAIR, CONSERVATIVE)
    table.step(2, Pause("a"))
    table.send(0, b"m1", group="a")
    table.play(10)
    table.send(1, b"m2", group="b", level=FIFO)
    table.play(100)
    assert table.log[3] == []
    table.step(2, Resume("a"))
    table.play(100)
    assert table.log[3] == ["b:p2#1"]


def test_6_7_conservative_keeps_order_over_a_ring_of_groups() -> None:
    """Where times of one group alone travel, m1 must be everywhere before m2 leaves."""
    table = arranged(CHAIN, CONSERVATIVE)
    table.cut(0, 3, "a")
    table.cut(1, 3, "a")
    table.send(0, b"m1", group="a")
    table.play(20)
    table.send(1, b"m2", group="b")
    table.play(200)
    assert table.log[2] == []
    table.mend()
    table.play(400)
    assert table.log[2] == ["b:p2#1"]
    table.send(2, b"m3", group="c")
    table.play(400)
    assert table.log[3] == ["a:p1#1", "c:p3#1"]


# ---- 6.7, epochs ---------------------------------------------------------------------------------------------------


def views(table: Table, member: int, group: str) -> int:
    return table.views[member][group].id


def test_6_7_epochs_a_process_that_turns_from_group_to_group_has_the_new_one_flushed() -> None:
    """p2's last message came from a: it is not safe in b, which goes into a new epoch before m2 leaves."""
    table = arranged(PAIR, EPOCHS, "primary")
    table.send(0, b"m1", group="a")
    table.play(20)
    table.send(1, b"m2", group="b")
    table.play(200)
    assert table.story[3] == ["b:1: p2 p3 p4", "b:2: p2 p3 p4", "b:p2#1"]


def test_6_7_epochs_the_other_groups_of_its_members_follow_before_anything_is_delivered_there() -> None:
    """p3 is in a and b, and lacks m1: the flush of a, into the epoch of b, brings it before m2."""
    table = arranged(PAIR, EPOCHS, "primary")
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.drop_all()
    table.send(1, b"m2", group="b")
    table.play(300)
    story = table.story[2]
    assert story.index("a:p1#1") < story.index("a:2: p1 p2 p3") < story.index("b:p2#1")
    assert story.index("b:2: p2 p3 p4") < story.index("b:p2#1")


def test_6_7_epochs_a_process_that_stays_in_its_group_flushes_nothing() -> None:
    table = arranged(PAIR, EPOCHS, "primary")
    for _ in range(3):
        table.send(0, b"m", group="a")
        table.play(20)
        table.send(1, b"m", group="a")
        table.play(20)
    assert len(table.log[2]) == 6
    assert {views(table, member, "a") for member in (0, 1, 2)} == {1}


def test_6_7_epochs_only_excluded_groups_need_them() -> None:
    """With c excluded, going from a to b costs no flush; going from b to c does."""
    domain = CausalityDomain(rule="epochs", resilience=1, groups=("a", "b", "c"), overlaps=RING, excluded=("c",))
    table = arranged(CHAIN, domain, "primary")
    table.send(0, b"m1", group="a")
    table.play(50)
    table.send(1, b"m2", group="b")
    table.play(50)
    assert table.log[2] == ["b:p2#1"]
    assert views(table, 2, "b") == 1
    table.send(2, b"m3", group="c")
    table.play(200)
    assert views(table, 2, "c") == 2
    assert table.log[3] == ["a:p1#1", "c:p3#1"]


def test_6_7_theorem_3_epochs_keep_order_over_a_ring_of_groups() -> None:
    """m3 carries no time of a, and m1 is not at p4; but p4 has a flushed before it delivers in c's new epoch."""
    table = arranged(CHAIN, EPOCHS, "primary")
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.take_data(0, 3)
    table.send(1, b"m2", group="b")
    table.play(30)
    table.send(2, b"m3", group="c")
    table.play(400)
    assert table.log[2] == ["b:p2#1", "c:p3#1"]
    assert table.log[3] == ["a:p1#1", "c:p3#1"]


def test_6_7_epochs_it_is_not_the_last_message_alone_that_counts() -> None:
    """m1 in c, m2 in d, m3 in a, a ring; but before p3 sends m3 it receives another message of a. By the paper's words,
    its last message being from a, it would be safe there: and p2, in a and c, would deliver m3 before m1."""
    table = arranged({"a": (1, 2, 3), "c": (0, 1), "d": (0, 2)}, EPOCHS, "primary")
    table.step(1, Pause("c"))
    table.send(0, b"m1", group="c")
    table.play(30)
    table.send(0, b"m2", group="d")
    table.play(30)
    table.send(3, b"m", group="a")
    table.play(30)
    assert table.log[2] == ["d:p1#1", "a:p4#1"]
    table.send(2, b"m3", group="a")
    table.play(300)
    table.step(1, Resume("c"))
    table.play(300)
    log = table.log[1]
    assert log.index("c:p1#1") < log.index("a:p3#1")


def test_6_7_epochs_a_barrier_counts_as_a_message() -> None:
    """m1 in c, then a barrier in d, then m3 in a, a ring: p2, in a and c, delivers m3 after m1."""
    table = arranged({"a": (1, 2, 3), "c": (0, 1), "d": (0, 2)}, EPOCHS, "primary")
    table.step(1, Pause("c"))
    table.send(0, b"m1", group="c")
    table.play(30)
    table.barrier(0, group="d")
    table.play(60)
    assert table.log[2] == ["d:barrier p1#1"]
    table.send(2, b"m3", group="a")
    table.play(300)
    table.step(1, Resume("c"))
    table.play(300)
    log = table.log[1]
    assert log.index("c:p1#1") < log.index("a:p3#1")


def test_6_7_epochs_messages_carry_times_of_their_senders_groups_only() -> None:
    table = arranged(CHAIN, EPOCHS, "primary")
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.play(30)
    table.send(2, b"m3", group="c")
    carried: list[dict[str, list[tuple[int, int]]]] = []
    for _ in range(300):
        for packet in table.take(2, 3, "c"):
            if unseal(packet)[0] == DATA:
                carried.append(times_in(packet, 2, NAMES))
            table.arrive(3, packet)
        table.play(1)
    assert "c:p3#1" in table.log[3]
    assert carried
    assert all("a" not in times for times in carried)


def test_6_7_epochs_after_leaving_a_group_its_past_is_kept_by_a_new_epoch() -> None:
    """p2 leaves a, and its last message came from b: it would be safe there, but for what it knows of a."""
    table = arranged({"a": (0, 1, 2), "b": (1, 2, 3)}, EPOCHS, "primary")
    table.send(2, b"m", group="b")
    table.play(50)
    table.send(1, b"m", group="b")
    table.play(50)
    assert views(table, 1, "b") == 1
    table.step(1, Leave("a"))
    table.play(300)
    assert views(table, 0, "a") == 2
    table.send(1, b"m", group="b")
    table.play(300)
    assert views(table, 1, "b") > 1
    assert table.log[3][-1] == "b:p2#2"
    before = views(table, 1, "b")
    table.send(1, b"m", group="b")
    table.play(300)
    assert views(table, 1, "b") == before


def test_6_7_epochs_order_passes_through_messages_of_weaker_levels() -> None:
    """p1 sends m1 in b, then a weaker message in a, with which p3 does not wait. p2, who is not in b, answers in a: p3,
    in both groups, delivers the answer after m1."""
    table = arranged({"a": (0, 1, 2), "b": (0, 2)}, EPOCHS, "primary")
    table.step(2, Pause("b"))
    table.send(0, b"m1", group="b")
    table.play(50)
    table.send(0, b"m2", group="a", level=FIFO)
    table.play(50)
    assert table.log[1] == table.log[2] == ["a:p1#1"]
    table.send(1, b"m3", group="a")
    table.play(300)
    assert table.log[2] == ["a:p1#1"]
    table.step(2, Resume("b"))
    table.play(300)
    assert table.log[2] == ["a:p1#1", "b:p1#1", "a:p2#1"]


def test_6_7_epochs_own_messages_that_wait_are_not_overtaken_by_those_to_another_group() -> None:
    """a and b are in a new epoch, z is not: p2 delivers nothing in a, and its own m2 waits behind a message to it.
    m3, to b, comes after m2 at p2 too."""
    table = arranged({"a": (0, 1, 2), "b": (1, 3), "y": (0, 3), "z": (1, 4)}, EPOCHS, "primary", places=5)
    table.cut(1, 4, "z")
    table.send(3, b"m", group="y")
    table.play(20)
    table.send(0, b"m1", group="a")
    table.play(100)
    assert (views(table, 1, "a"), views(table, 1, "b"), views(table, 1, "z")) == (2, 2, 1)
    table.send(2, b"to p2", group="a", to=1)
    table.play(5)
    table.send(1, b"m2", group="a")
    table.play(20)
    table.send(1, b"m3", group="b")
    table.play(20)
    table.mend()
    table.play(400)
    log = table.log[1]
    assert log.index("a:p2#1") < log.index("b:p2#1")
