"""Names, incarnations and ranks."""

from antiphon.kernel.identity import ProcessId, View, wire_id


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
