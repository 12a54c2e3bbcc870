"""Names, incarnations and ranks."""

from antiphon.kernel.identity import NUMBER_MAX, ProcessId, View, wire_id
from antiphon.runtime.naming import parse_process


def test_another_incarnation_is_another_process() -> None:
    assert ProcessId("a", 1) == ProcessId("a", 1)
    assert ProcessId("a", 1) != ProcessId("a", 2)
    assert len({ProcessId("a", 1), ProcessId("a", 2), ProcessId("a", 1)}) == 2
    assert sorted([ProcessId("b", 1), ProcessId("a", 2), ProcessId("a", 1)]) == [
        ProcessId("a", 1),
        ProcessId("a", 2),
        ProcessId("b", 1),
    ]


def test_rank_is_the_place_among_the_members() -> None:
    view = View(3, (ProcessId("b"), ProcessId("a")))
    assert view.rank(ProcessId("a")) == 1
    assert view.rank(ProcessId("a", 2)) == -1


def test_group_names_have_stable_wire_ids() -> None:
    assert wire_id("quotes") == wire_id("quotes") != wire_id("quote")
    assert 0 <= wire_id("quotes") < 2**64


def test_incarnations_from_the_clock_are_shown_short_and_kept_in_full() -> None:
    shown = {}
    for incarnation in (1, 2, 999_999, 36**7 - 1, 36**7, 1_794_926_400_123, 1_794_926_400_124, 36**8 - 1, NUMBER_MAX):
        process = ProcessId("alice", incarnation)
        assert process.full == f"alice/{incarnation}"
        assert parse_process(process.full) == process
        if incarnation < 36**8:
            assert parse_process(repr(process)) == process, "what is shown can be typed"
        shown[repr(process)] = incarnation
    assert len(shown) == 9
    assert repr(ProcessId("alice", 1_794_926_400_123)) == "alice~mwksu263"
    assert repr(ProcessId("alice", 2)) == "alice/2"
