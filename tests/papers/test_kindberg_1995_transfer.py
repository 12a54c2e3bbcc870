"""Claims of kindberg-1995 about several sequencers at work (4.2) and about transfers between them (4.3)."""

from collections import Counter

from antiphon.engine import Engine
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.simulator.script_run import LogMaker, play
from antiphon.simulator.workloads.role_hooks import RoleHooks
from antiphon.simulator.world import World
from antiphon.stacks.sequencer.plan import PlaceGroups
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.transfer import read_group, write_group
from antiphon.stacks.sequencer.wire import FrameReader
from tests.simulation.sequencers import peers_of, run_seed
from tests.stacks.sequencer.service_table import messages_bytes
from tests.stacks.sequencer.test_mesh import sparse_script

P, Q = ProcessId("p"), ProcessId("q")


def group_with_history() -> SequencedGroup:
    group = SequencedGroup("g", 7, 40, 64)
    for process in (P, Q):
        group.admit(process)
        group.join(process, {7: group.number + 1, 9: 3}, 1)
    group.accept(P, 5, messages_bytes(4, 3, [b"four", b"five" * 100_000]), 0, {7: 43, 9: 3}, 2)
    group.report(P, 42)
    group.leave(Q, False, {7: 44}, 3)
    return group


def test_4_3_a_transfer_carries_members_numbers_what_is_owed_and_the_history() -> None:
    group = group_with_history()
    again = read_group(FrameReader(write_group(group)), 7, 64)
    for name in ("name", "number", "members", "reported", "leave_places", "last_numbers", "history", "history_bytes"):
        assert getattr(again, name) == getattr(group, name), name
    assert (again.stable, again.number) == (group.stable, 44)


def test_4_3_repeats_are_recognised_and_missed_messages_fetched_after_a_transfer() -> None:
    again = read_group(FrameReader(write_group(group_with_history())), 7, 64)
    assert again.last_numbers[P] == 5
    assert {43, 44} <= set(again.history)
    again.report(Q, 44)
    again.end_owing(Q)
    assert (again.stable, sorted(again.history)) == (42, [43, 44])


def test_4_2_every_group_is_at_one_sequencer_and_several_are_at_work_while_groups_move() -> None:
    """Looked at every 10 ms of six runs (`Shifting.look`)."""
    seen: Counter[str] = Counter()
    for seed in (2, 7, 12, 13, 22, 31):
        outcome = run_seed(seed)
        assert outcome.problems == []
        seen.update(outcome.seen)
    assert seen["transfers"] > 20
    assert seen["looks with two or more sequencers at work"] > 20
    assert seen["joins that raced with a transfer"] > 2


def test_4_3_clients_of_other_groups_notice_nothing_of_a_transfer() -> None:
    """A group with members of its own moves to and fro; the others dial nothing."""
    script = sparse_script(3, 3)
    workload = Moving("g0")
    world = World(script, LogMaker("r").make, workload.hooks())
    play(world, script)
    assert workload.moves > 5
    touched = {
        name for group in script.groups if len(group.members) > 2 or group.name == "g0" for name in group.members
    }
    for running in world.running:
        if running is not None and running.process.name not in touched and running.process.name[0] in "ab":
            assert link_count(running.engine) <= 2, "the first contact, and the peer that had the group"


class Moving:
    """One group moves from sequencer to sequencer."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.moves = 0

    def hooks(self) -> RoleHooks:
        """This as a workload, beside a compiled simulator too."""
        return RoleHooks(
            begin=self.begin,
            act=lambda host: self.act(self.world, host),
            started=lambda host: None,
            react=lambda host, told: None,
            may_lose=lambda host: True,
        )

    def begin(self, world: World) -> None:
        self.world = world
        for host, name in enumerate(world.names):
            if name.startswith("service"):
                for at_ms in range(300, 3_000, 100):
                    world.schedule(at_ms * MILLISECOND_NS, host)

    def act(self, world: World, host: int) -> None:
        others = [name for name in peers_of(world) if name != world.names[host]]
        plan = PlaceGroups((self.group,), others[self.moves % len(others)])
        world.request(host, plan)
        self.moves += plan.moved


def link_count(engine: Engine) -> int:
    """How many links a process has dialled."""
    return engine._stacks_by_name["sequencer"]._tokens
