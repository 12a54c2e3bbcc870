"""The one sequence of messages to all leaves: places, copies, what is kept and for whom."""

from antiphon import ProcessId
from antiphon.toolkit.hierarchy_log import Crossing, CrossingLog
from antiphon.toolkit.hierarchy_root import LeafState


def message(origin: str, number: int) -> Crossing:
    return Crossing((origin, 1), number, f"{origin}{number}".encode())


def told(leaf: str, down: int) -> LeafState:
    return LeafState(leaf, [f"{leaf}:1"], [(f"{leaf}-leader", 1)], down)


def places(log: CrossingLog, after: int = 0) -> list[int]:
    return [place for place, _ in log.after(after)]


def test_each_message_has_one_place_and_copies_have_none() -> None:
    log = CrossingLog("north")
    assert [log.add(message("a", 1)), log.add(message("b", 1)), log.add(message("a", 2))] == [1, 2, 3]
    assert [log.add(message("a", 1)), log.add(message("b", 1))] == [0, 0]
    assert [kept.payload for _, kept in log.after(1)] == [b"b1", b"a2"]
    assert log.place_of(message("b", 1)) == 2
    assert log.place_of(message("b", 2)) == 0


def test_a_message_is_kept_until_all_leaves_have_it() -> None:
    log = CrossingLog("north")
    for number in range(1, 5):
        log.add(message("a", number))
    log.learn(told("north", 3))
    assert places(log) == [4]
    log.learn(told("south", 1))  # it joins the hierarchy and has nothing of what is gone: no matter
    log.learn(told("north", 4))
    assert places(log) == [4]
    log.learn(told("south", 4))
    assert len(log) == 0
    assert log.start == 4


def test_a_leaf_without_representatives_is_not_waited_for_but_the_own_one_is() -> None:
    log = CrossingLog("north")
    log.learn(told("north", 0))
    log.learn(told("south", 0))
    log.add(message("a", 1))
    log.learn(told("north", 1))
    assert places(log) == [1]
    log.keep((ProcessId("north-leader"),))
    assert places(log) == []
    log.add(message("a", 2))
    log.keep(())
    assert places(log, log.start) == [2]


def test_who_joins_goes_on_where_the_others_are() -> None:
    log = CrossingLog("north")
    for number in range(1, 4):
        log.add(message("a", number))
    log.learn(told("north", 1))
    log.learn(told("south", 2))
    second = CrossingLog.load("south", log.save())
    assert second.start == 2
    assert places(second, second.start) == [3]
    assert second.add(message("a", 3)) == 0
    assert second.add(message("b", 1)) == log.add(message("b", 1)) == 4
    assert second.directory.leaves == log.directory.leaves
    stranger = CrossingLog.load("west", log.save())  # a leaf that is new begins with what comes
    assert places(stranger, stranger.start) == []
    assert stranger.add(message("c", 1)) == 5
    assert places(stranger, stranger.start) == [5]
