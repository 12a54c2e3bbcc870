"""Claims of kindberg-1995 that are about contexts and about groups at several sequencers, shown on the rules: contexts
(4.1), S1 and S2 and strongly intersecting groups (4.2)."""

from antiphon.stacks.sequencer.context import BOTTOM, component, merge, precedes, restrict, strictly_precedes
from antiphon.stacks.sequencer.delivery_rule import is_deliverable, missing
from antiphon.stacks.sequencer.placement import ACYCLIC, PAIRWISE, PlacementGraph
from tests.stacks.sequencer.ordering_model import STABLE, OrderingModel


def graph(setting: str, groups: dict[int, str]) -> PlacementGraph:
    made = PlacementGraph(setting)
    for group, processes in groups.items():
        made.create(group)
        for process in processes:
            made.join(process, group)
    return made


def test_4_1_a_context_has_components_and_a_group_without_one_has_the_least() -> None:
    assert component({1: 7}, 1) == 7
    assert component({1: 7}, 2) == BOTTOM
    assert BOTTOM < 0


def test_4_1_contexts_are_restricted_merged_and_ordered() -> None:
    assert restrict({1: 7, 2: 3}, {1}) == {1: 7}
    assert merge({1: 7, 2: 3}, {2: 5, 3: 0}) == {1: 7, 2: 5, 3: 0}
    assert precedes({1: 7}, {1: 7, 2: 0})
    assert strictly_precedes({1: 7}, {1: 7, 2: 0})
    assert not precedes({1: 7}, {1: 6, 2: 9})


def test_4_1_condition_t1_takes_the_next_number_of_the_group() -> None:
    assert is_deliverable({1: 47}, 1, {1: 46})
    assert not is_deliverable({1: 48}, 1, {1: 46})
    assert not is_deliverable({1: 46}, 1, {1: 46})
    assert missing({1: 49}, 1, {1: 46}) == [(1, 47, 48)]


def test_4_1_condition_t2_waits_for_the_other_groups_of_the_process_and_for_no_others() -> None:
    assert not is_deliverable({1: 47, 2: 157}, 1, {1: 46, 2: 156})
    assert is_deliverable({1: 47, 2: 157}, 1, {1: 46, 2: 157})
    assert is_deliverable({1: 47, 2: 157}, 1, {1: 46})


def test_4_2_groups_with_one_common_member_may_have_two_sequencers_so_s1_is_not_necessary() -> None:
    groups = {1: "pq", 2: "qr"}
    assert graph(PAIRWISE, groups).together() == [[1], [2]]
    model = OrderingModel(PAIRWISE, STABLE, groups)
    model.accept(1, 2, 1, 2)
    assert model.inversion() == ()


def test_4_2_s2_strongly_intersecting_groups_share_a_sequencer() -> None:
    assert graph(PAIRWISE, {1: "pq", 2: "pqr", 3: "rs"}).together() == [[1, 2], [3]]


def test_4_2_groups_become_strongly_intersecting_by_a_join_and_cease_to_be_after_a_leave() -> None:
    made = graph(PAIRWISE, {1: "pq", 2: "qr"})
    made.join("p", 2)
    assert made.together() == [[1, 2]]
    made.leave("p", 2)
    assert made.together() == [[1, 2]], "until the leave is stable"
    made.part("p", 2)
    assert made.together() == [[1], [2]]


def test_footnote_2_one_join_can_make_several_pairs_strongly_intersecting() -> None:
    made = graph(PAIRWISE, {1: "pq", 2: "pr", 3: "qr"})
    assert made.together() == [[1], [2], [3]]
    made.join("p", 3)
    assert made.together() == [[1, 2, 3]]


def test_4_2_strongly_intersecting_groups_move_together() -> None:
    """To bring one group to another's sequencer brings all that must stay with either."""
    made = graph(PAIRWISE, {1: "pq", 2: "pqr", 3: "st", 4: "stu"})
    assert made.together() == [[1, 2], [3, 4]]
    made.join("s", 2)
    made.join("t", 2)
    assert made.together() == [[1, 2, 3, 4]]


def test_4_2_groups_on_a_ring_need_one_sequencer_for_one_global_order() -> None:
    """Which S2 does not demand: see docs/papers/sequencer.md."""
    ring = {1: "pq", 2: "qr", 3: "rp"}
    assert graph(PAIRWISE, ring).together() == [[1], [2], [3]]
    assert graph(ACYCLIC, ring).together() == [[1, 2, 3]]
