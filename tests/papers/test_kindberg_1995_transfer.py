"""Claims of kindberg-1995 about several sequencers at work (4.2) and about transfers between them (4.3)."""

from antiphon.engine import Engine
from antiphon.kernel.identity import ProcessId
from antiphon.simulator.script_run import LogMaker, play
from antiphon.simulator.world import World
from antiphon.stacks.sequencer.peer import SequencerPeer
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.stack import SequencerStack
from antiphon.stacks.sequencer.transfer import read_group, write_group
from antiphon.stacks.sequencer.wire import FrameReader, messages_bytes
from tests.stacks.sequencer.test_mesh import sparse_script

P, Q = ProcessId("p"), ProcessId("q")


def group_with_history() -> SequencedGroup:
    group = SequencedGroup("g", 7, 40, 64)
    for process in (P, Q):
        group.admit(process)
        group.join(process, {7: group.number + 1, 9: 3})
    group.accept(P, 5, messages_bytes(4, 3, [b"four", b"five" * 100_000]), {7: 43, 9: 3})
    group.report(P, 42)
    group.leave(Q, False, {7: 44})
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


def peers_of(world: World) -> list[SequencerPeer]:
    found = []
    for running in world.running:
        if running is not None and running.process.name.startswith("service"):
            stack = running.engine._stacks_by_name["sequencer"]
            assert isinstance(stack, SequencerStack)
            assert isinstance(stack._peer, SequencerPeer)
            found.append(stack._peer)
    return found


def test_4_2_every_component_is_at_one_sequencer_and_several_are_at_work() -> None:
    """Looked at ten times in each of six runs."""
    busy = 0
    for seed in range(6):
        script = sparse_script(seed, 3)
        world = World(script, LogMaker("r").make)
        world.begin()
        for part in range(1, 11):
            world.run_through(script.heal_ns * part // 10)
            peers = peers_of(world)
            settled = [{id for id, group in peer._groups.items() if not group.is_moving} for peer in peers]
            assert sum(map(len, settled)) == len(set().union(*settled))
            for peer, here in zip(peers, settled, strict=True):
                for id in here:
                    owed = peer._groups[id].reported
                    assert all(set(peer._clients[process].groups) <= here for process in owed)
            busy += sum(map(bool, settled)) > 1
    assert busy > 20


def test_4_3_clients_of_other_groups_notice_nothing_of_a_transfer() -> None:
    """Who is alone with its own group keeps its link through all transfers of others."""
    script = sparse_script(3, 3)
    touched = {name for group in script.groups if len(group.members) > 2 for name in group.members}
    world = World(script, LogMaker("r").make)
    play(world, script)
    assert sum(peer.counts[6] for peer in peers_of(world)) > 0
    for running in world.running:
        if running is not None and running.process.name not in touched and running.process.name[0] in "ab":
            assert link_count(running.engine) <= 2, "the first contact, and the peer that had the group"


def link_count(engine: Engine) -> int:
    """How many links a process has dialled."""
    return engine._stacks_by_name["sequencer"]._tokens
