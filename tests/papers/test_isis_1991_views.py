"""isis-1991, claim by claim: views, flush and atomicity (sections 4.2, 5.5, 7.4), each as a small scene."""

from antiphon.faults import Delay, Fault, Partition
from antiphon.history.log import MemoryLog
from antiphon.history.schema import Row
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import PRIMARY
from antiphon.simulator.actions import CRASH, LEAVE, PAUSE, SEND, START, Action
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.world import World
from tests.simulation.views import view_violations

SECOND_NS = 1_000 * MILLISECOND_NS


class Scene:
    """A few processes on a network without faults, but for the cuts of the scene."""

    def __init__(self, processes: int, founders: int, *cuts: Fault) -> None:
        names = [f"p{number}" for number in range(1, processes + 1)]
        script = Script(
            run="scene",
            seed=0,
            policy=PRIMARY,
            processes=names,
            groups=[ScriptedGroup("g", names, names[:founders])],
            layers=[Delay(MILLISECOND_NS, 0), *cuts],
            options=Options(),
            domain=CausalityDomain(),
        )
        self.world = World(script, self._make_log)
        self.world.begin()

    @staticmethod
    def _make_log(process: str, incarnation: int) -> MemoryLog:
        return MemoryLog(run="scene", process=process, incarnation=incarnation)

    def send(self, at_s: float, process: str) -> None:
        self.world.plan(Action(SEND, int(at_s * SECOND_NS), process, "g", "causal", (7,)))

    def start(self, at_ns: int, process: str) -> None:
        self.world.plan(Action(START, at_ns, process))

    def crash(self, at_ns: int, process: str) -> None:
        self.world.plan(Action(CRASH, at_ns, process))

    def pause(self, process: str, from_ns: int, until_ns: int) -> None:
        self.world.plan(Action(PAUSE, from_ns, process, until_ns=until_ns))

    def play(self, seconds: float) -> None:
        self.world.run_through(int(seconds * SECOND_NS))
        self.world.end()
        assert view_violations([self.rows(log.process, log.incarnation) for log in self.world.logs]) == []

    def rows(self, process: str, incarnation: int = 1) -> list[Row]:
        for log in self.world.logs:
            if (log.process, log.incarnation) == (process, incarnation):
                assert isinstance(log, MemoryLog)
                return list(log.rows())
        raise AssertionError(f"{process}/{incarnation} never lived")

    def story(self, process: str, incarnation: int = 1) -> list[str]:
        """What a process saw: views as "2: p1 p3", deliveries as "p1#4"."""
        result: list[str] = []
        for row in self.rows(process, incarnation):
            if row.kind == "view":
                assert row.members is not None
                members = [name.removesuffix("/1") for name in row.members]
                result.append(f"{row.view}: {' '.join(members)}")
            elif row.kind == "deliver":
                assert row.number is not None
                assert row.count is not None
                result += [f"{row.sender}#{row.number + i}" for i in range(row.count)]
        return result


def cut(source: str, *destinations: str, from_s: float = 0, until_s: float = 1_000) -> Partition:
    return Partition(
        frozenset({source}), frozenset(destinations), int(from_s * SECOND_NS), int(until_s * SECOND_NS)
    )  # fmt: skip


def test_4_2_all_members_see_the_same_views_in_the_same_order() -> None:
    scene = Scene(4, 3)
    scene.start(SECOND_NS, "p4")
    scene.crash(3 * SECOND_NS, "p2")
    scene.play(8)
    assert scene.story("p1") == ["1: p1 p2 p3", "2: p1 p2 p3 p4", "3: p1 p3 p4"]
    assert scene.story("p3") == scene.story("p1")
    assert scene.story("p4") == ["2: p1 p2 p3 p4", "3: p1 p3 p4"]


def test_5_5_figure_3_a_multicast_that_its_sender_did_not_finish_reaches_all_or_none() -> None:
    """p1's message reaches p2 alone, then p1 fails: the flush brings it to p3 before the view that drops p1."""
    scene = Scene(3, 3, cut("p1", "p3", from_s=1))
    scene.send(1.001, "p1")
    scene.crash(int(1.01 * SECOND_NS), "p1")
    scene.play(8)
    assert scene.story("p2") == scene.story("p3") == ["1: p1 p2 p3", "p1#1", "2: p2 p3"]


def test_5_5_an_orphan_of_lost_messages_is_discarded() -> None:
    """m1 reaches p2 alone, its answer m2 p3 alone; p1 and p2 fail. Without m1 nobody can deliver m2."""
    cuts = [cut("p1", "p3", "p4", "p5", from_s=1), cut("p2", "p4", "p5", from_s=1)]
    scene = Scene(5, 5, *cuts)
    scene.send(1.001, "p1")
    scene.send(1.005, "p2")
    scene.crash(int(1.003 * SECOND_NS), "p1")
    scene.crash(int(1.0065 * SECOND_NS), "p2")
    scene.send(6, "p3")
    scene.play(9)
    assert scene.story("p2")[1:] == ["p1#1", "p2#1"]
    for survivor in ("p3", "p4", "p5"):
        assert scene.story(survivor) == ["1: p1 p2 p3 p4 p5", "2: p3 p4 p5", "p3#1"]


def test_5_5_no_message_of_a_failed_process_comes_after_the_view_that_drops_it() -> None:
    scene = Scene(3, 3)
    for tenth in range(30):
        scene.send(tenth / 10, "p3")
    scene.pause("p3", SECOND_NS, 5 * SECOND_NS)
    scene.play(12)
    rows = scene.rows("p1")
    heard = [row.index for row in rows if row.kind == "deliver" and (row.sender, row.sender_incarnation) == ("p3", 1)]
    dropped = next(row.index for row in rows if row.kind == "view" and row.members == ("p1/1", "p2/1"))
    assert len(heard) > 5
    assert max(heard) < dropped


def test_5_5_the_coordinator_of_a_flush_may_fail_at_any_step() -> None:
    """p1 drops p5, and fails itself at various times during that flush: p2 takes over."""
    for milliseconds in range(12):
        scene = Scene(5, 5)
        scene.send(0.5, "p5")
        scene.crash(SECOND_NS, "p5")
        suspected_s = 2.31
        scene.crash(int((suspected_s - 0.006) * SECOND_NS) + milliseconds * MILLISECOND_NS, "p1")
        scene.play(14)
        for survivor in ("p2", "p3", "p4"):
            story = scene.story(survivor)
            assert story[-1].split(": ")[1] == "p2 p3 p4", (milliseconds, story)
            assert story == scene.story("p2")


def test_5_5_a_view_that_somebody_may_have_installed_is_not_skipped() -> None:
    """p1 lets p6 in; of the members only p2 hears of it, and both fail. The others first install that very view."""
    cuts = [cut(name, "p3", "p4", "p5", "p6", from_s=1.0545) for name in ("p1", "p2")]
    scene = Scene(6, 5, *cuts)
    scene.start(SECOND_NS, "p6")
    scene.crash(int(1.0555 * SECOND_NS), "p1")
    scene.crash(int(1.0565 * SECOND_NS), "p2")
    scene.play(9)
    assert scene.story("p2") == ["1: p1 p2 p3 p4 p5", "2: p1 p2 p3 p4 p5 p6"]
    for survivor in ("p3", "p4", "p5"):
        assert scene.story(survivor)[:2] == scene.story("p2")
        assert set(scene.story(survivor)[-1].split()[1:]) >= {"p3", "p4", "p5"}


def test_5_5_who_leaves_takes_part_until_the_flush_is_over() -> None:
    """Only p2 has p1's last message when p1 fails and p2 leaves: p3 and p4 still get it."""
    scene = Scene(4, 4, cut("p1", "p3", "p4", from_s=1))
    scene.send(1.001, "p1")
    scene.crash(int(1.01 * SECOND_NS), "p1")
    scene.world.plan(Action(LEAVE, int(1.02 * SECOND_NS), "p2", "g"))
    scene.play(9)
    assert "p1#1" in scene.story("p3")
    assert scene.story("p3") == scene.story("p4")
    assert scene.story("p3")[-1].endswith(": p3 p4")
    assert scene.rows("p2")[-1].label == "left"


def test_5_5_sends_wait_for_the_flush_and_go_out_in_the_next_view() -> None:
    scene = Scene(4, 3)
    scene.start(SECOND_NS, "p4")
    for millisecond in range(1_000, 1_200, 5):
        scene.send(millisecond / 1_000, "p2")
    scene.play(4)
    assert scene.story("p1") == scene.story("p2") == scene.story("p3")
    assert len([event for event in scene.story("p1") if "#" in event]) == 40


def test_7_4_many_joins_at_once_make_few_views() -> None:
    scene = Scene(13, 3)
    for number in range(4, 14):
        scene.start(SECOND_NS + (number - 1) * MILLISECOND_NS, f"p{number}")
    scene.play(5)
    views = [event for event in scene.story("p1") if ":" in event]
    assert len(views[-1].split()) == 14
    assert len(views) <= 4


def test_the_minority_stalls_says_so_and_comes_back_when_the_network_heals() -> None:
    away = [cut(name, "p1", "p2", "p3", from_s=1, until_s=8) for name in ("p4", "p5")]
    back = [cut(name, "p4", "p5", from_s=1, until_s=8) for name in ("p1", "p2", "p3")]
    scene = Scene(5, 5, *away, *back)
    for tenth in range(20, 70):
        scene.send(tenth / 10, "p1")
        scene.send(tenth / 10, "p4")
    scene.play(20)
    stalled = [row.label for row in scene.rows("p4") if row.kind == "note"]
    assert any(label is not None and "no majority" in label for label in stalled)
    assert scene.rows("p4")[-1].label == scene.rows("p5")[-1].label == "excluded"
    assert "2: p1 p2 p3" in scene.story("p1")
    last = [event for event in scene.story("p1") if ":" in event][-1]
    assert set(last.split()[1:]) == {"p1", "p2", "p3", "p4/2", "p5/2"}


def test_a_process_that_stood_still_does_nothing_more_in_the_view_that_went_on_without_it() -> None:
    scene = Scene(3, 3)
    for tenth in range(100):
        for process in ("p1", "p2", "p3"):
            scene.send(tenth / 10, process)
    wakes_ns = 6 * SECOND_NS
    scene.pause("p3", SECOND_NS, wakes_ns)
    scene.play(14)
    late = [row for row in scene.rows("p3") if row.time_ns >= wakes_ns and row.kind in ("depart", "deliver")]
    assert late == []
    assert scene.rows("p3")[-1].label == "excluded"
    assert scene.story("p3", 2)
