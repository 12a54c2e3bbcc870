"""One test per claim of isis-1987, section 4.6, about clusters of sites; hole (e) first as the paper has it."""

from random import Random
from unittest.mock import patch

import pytest

from antiphon import _build
from antiphon.engine import Engine
from antiphon.kernel.effects import Installed
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Leave, Open
from antiphon.kernel.levels import ABCAST, AGREED, CAUSAL, SAFE
from antiphon.kernel.options import Options
from antiphon.stacks.label.cluster_frames import CAST, read_body, read_carried
from antiphon.stacks.label.clusters import SiteCluster
from antiphon.stacks.label.site_frames import SiteReader
from tests.stacks.label.cluster_sweep import random_case, run_in_clusters
from tests.stacks.label.cluster_table import ClusterTable, cluster_problems
from tests.stacks.label.scene import rest
from tests.table import GROUP

P1, P2, P3, P4, P5 = range(5)


def names(table: ClusterTable, process: int) -> list[str]:
    return sorted(member.name for member in table.views[process][GROUP].members)


def triangle() -> ClusterTable:
    """p1, p2 and p3 in three clusters. p1 tells p3, by a slow link, then p2, which then tells p3."""
    table = ClusterTable((1, 1, 1), 1)
    table.play(20)
    table.slow = {(0, 2)}
    table.tell(P1, CAUSAL, [P3])
    table.tell(P1, CAUSAL, [P2])
    table.play(20)
    table.tell(P2, CAUSAL, [P3])
    table.play(20)
    return table


@pytest.mark.skipif(_build.is_compiled(), reason="patches the plain-Python core")
def test_4_6_hole_e_three_clusters_in_a_triangle_break_causality() -> None:
    """As the paper has it: broadcasts go directly to other clusters and are not carried, and nobody waits."""
    with patch.object(SiteCluster, "_is_due", return_value=True):
        table = triangle()
        assert table.log[P3] == ["private p2#1"]
        table.slow = set()
        table.play(20)
        assert table.log[P3] == ["private p2#1", "private p1#1"]


def test_4_6_hole_e_is_mended_by_counting_what_went_between_clusters() -> None:
    table = triangle()
    assert table.log[P3] == []
    table.slow = set()
    table.play(20)
    assert table.log[P3] == ["private p1#1", "private p2#1"]
    assert cluster_problems(table) == []


def test_4_6_copies_of_one_broadcast_tell_of_each_other() -> None:
    """p2 answers a broadcast of p1 to all. The answer overtakes the broadcast on the way to p3, and waits for it."""
    table = ClusterTable((1, 1, 1), 1)
    table.play(20)
    table.slow = {(0, 2)}
    table.tell(P1, CAUSAL)
    table.play(20)
    table.tell(P2, CAUSAL)
    table.play(20)
    assert table.log[P3] == []
    table.slow = set()
    table.play(20)
    assert table.log[P3] == ["p1#1", "p2#1"]


def test_4_6_a_site_view_is_of_one_cluster() -> None:
    table = ClusterTable((3, 2), 1)
    sizes = [len(table.site(site).view.members) for site in table.living_sites()]
    assert sizes == [3, 3, 3, 2, 2]
    assert names(table, P1) == names(table, P5) == ["p1", "p2", "p3", "p4", "p5"]


def test_4_6_hello_messages_stay_within_a_cluster() -> None:
    table = ClusterTable((2, 2), 1)
    seen: set[tuple[int, int]] = set()
    for _ in range(200):
        seen |= {link for link, packets in table.links.items() if packets}
        table.play(1)
    assert seen
    assert all(table.cluster_place(source) == table.cluster_place(to) for source, to in seen)


def test_4_6_broadcasts_are_not_carried_to_other_clusters_by_others() -> None:
    """What the second cluster sends to the third is its own broadcast alone, though it depends on another."""
    table = triangle()
    frames = table.cluster(table.site_of(P2)).out[2]
    sent = [read_body(read_carried(SiteReader(frame, 1), 3).body) for frame in frames]
    assert not [body for body in sent if body.kind == CAST and b"p1" in body.message[:40]]


def test_4_6_local_sites_have_a_broadcast_before_it_leaves_their_cluster() -> None:
    """The sender's site fails before anything has left; the others have the broadcast, and the next oldest sends it."""
    table = ClusterTable((3, 1), 1)
    table.play(20)
    oldest = table.cluster(table.site_of(P1)).sites[0]
    sender = next(process for process in (P1, P2, P3) if table.names[table.site_of(process)] == oldest.name)
    table.slow = {(0, 1)}
    table.tell(sender, CAUSAL, [P4])
    table.play(20)
    for site in table.living_sites()[:3]:
        assert len(table.cluster(site).out[1]) == 1
    table.crash(table.site_of(sender))
    table.slow = set()
    table.play(400)
    assert table.log[P4] == [f"private p{sender + 1}#1"]
    rest(table)
    assert cluster_problems(table) == []


def test_4_6_a_failed_process_is_told_of_by_the_monitor_of_its_own_cluster() -> None:
    """The others learn it without a time-out, after all its messages."""
    table = ClusterTable((1, 1), 2)
    before_ns = table.now_ns
    table.tell(P1, CAUSAL)
    table.tell(P1, AGREED)
    table.crash(P1)
    table.play(40)
    assert table.now_ns - before_ns < table.options.silence_ns_min
    assert table.story[P3][1:] == ["p1#1", "p1#2", table.story[P3][-1]]
    assert names(table, P3) == ["p2", "p3", "p4"]
    assert cluster_problems(table) == []


def test_4_6_the_failure_of_a_site_changes_the_site_view_of_its_cluster_only() -> None:
    table = ClusterTable((3, 2), 1)
    away = table.site_of(P4)
    before = table.site(away).view.id
    table.crash(table.site_of(P1))
    table.play(600)
    assert names(table, P5) == ["p2", "p3", "p4", "p5"]
    told = [event.failed for event in table.events[P5] if isinstance(event, Installed) and event.failed]
    assert [[member.name for member in failed] for failed in told] == [["p1"]]
    assert table.site(away).view.id == before
    assert len(table.site(table.site_of(P2)).view.members) == 2


def test_4_6_ordered_broadcasts_have_one_order_over_clusters() -> None:
    table = ClusterTable((2, 1, 1), 1)
    for number in range(4):
        for process in (P1, P2, P3, P4):
            table.tell(process, (AGREED, SAFE, ABCAST)[number % 3], [], "red" if number % 3 == 2 else "")
        table.play(2)
    rest(table)
    assert len({tuple(log) for log in table.log[:4]}) == 1
    assert len(table.log[P1]) == 16


def test_4_6_gbcasts_have_one_place_over_clusters() -> None:
    table = ClusterTable((1, 1, 1), 1)
    for process in (P1, P2, P3):
        table.tell(process, CAUSAL)
        table.barrier(process)
        table.tell(process, CAUSAL)
    rest(table)
    for log in table.log[:3]:
        places = [place for place, line in enumerate(log) if line.startswith("barrier")]
        assert len(places) == 3
        assert {line.split("#")[1] for line in log[: places[0]]} <= {"1", "3"}
    assert cluster_problems(table) == []


def test_4_6_collection_stays_within_a_cluster() -> None:
    """When another cluster has done a message, the sites of its own let go of it; nothing is left anywhere."""
    table = ClusterTable((2, 2), 1)
    for _ in range(40):
        table.tell(P1, CAUSAL, size=500)
        table.play(1)
    rest(table)
    table.play(60)
    for site in table.living_sites():
        assert not table.site_session(site).pool.copies
        assert not any(table.cluster(site).out)
    assert table.cluster(table.site_of(P1)).acked[1] >= 40


def test_4_6_a_site_that_joins_learns_the_state_of_its_cluster() -> None:
    table = ClusterTable((3, 1), 1)
    lost = table.site_of(P3)
    table.restart(lost)
    table.play(600)
    states = {table.cluster(site).encode() for site in table.living_sites() if table.cluster_place(site) == 0}
    assert len(states) == 1
    table.restart(P3)
    table.play(100)
    table.tell(P4, AGREED)
    rest(table)
    assert table.log[P3][-1] == "p4#1"


def test_4_6_a_process_withdraws_and_all_clusters_learn_it() -> None:
    table = ClusterTable((1, 1), 2)
    table.tell(P1, CAUSAL)
    table.step(P1, Leave(GROUP))
    table.play(60)
    assert names(table, P4) == ["p2", "p3", "p4"]
    assert table.log[P4] == ["p1#1"]


def test_4_6_flush_waits_for_other_clusters() -> None:
    table = ClusterTable((1, 1), 1)
    table.play(20)
    table.slow = {(0, 1)}
    table.tell(P1, CAUSAL)
    table.play(30)
    assert table.log[P1] == ["p1#1"]
    assert table.outstanding(P1) == 1
    table.slow = set()
    table.play(30)
    assert table.outstanding(P1) == 0


def test_4_6_a_cluster_that_lost_its_state_is_not_taken_for_its_former_life() -> None:
    """Its only site is restarted: the others take nothing of it, and no view is installed without its word."""
    table = ClusterTable((1, 1), 1)
    table.play(20)
    views = [dict(views) for views in table.views[:2]]
    other = table.site_of(P1)
    executed = list(table.cluster(other).executed)
    table.restart(table.site_of(P2))
    table.play(600)
    table.restart(P2)
    table.play(200)
    assert table.cluster(other).executed == executed
    assert table.views[P1] == views[P1]


def test_4_6_each_site_is_in_one_cluster() -> None:
    engine = Engine(ProcessId("a"), Random(0), Options())
    for others, text in (((("b", "c"),), "one cluster"), (((),), "has sites"), ((("x",),) * 20, "one cluster")):
        with pytest.raises(UsageError, match=text):
            engine.step(Open(stack="label", role="site", address="a", contacts=("b",), clusters=others), 0)
    many = tuple((f"x{number}",) for number in range(16))
    with pytest.raises(UsageError, match="16 clusters"):
        engine.step(Open(stack="label", role="site", address="a", contacts=("b",), clusters=many), 0)


def check_scene(seed: int) -> None:
    assert run_in_clusters(random_case(seed))[0] == []


@pytest.mark.parametrize("seed", range(12))
def test_promises_hold_over_clusters_in_random_scenes_with_crashes(seed: int) -> None:
    check_scene(seed)
