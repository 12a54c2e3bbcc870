"""Where groups are, and when nobody knows. tests/simulation/test_sequencers.py has whole runs."""

from antiphon.stacks.sequencer.location_table import LocationTable


def test_a_location_with_fewer_moves_is_not_taken() -> None:
    table = LocationTable()
    table.note(7, 3, "b")
    table.note(7, 2, "a")
    assert table.find(7) == (3, "b")


def test_a_group_that_a_peer_does_not_name_any_more_is_in_doubt_until_all_others_have_answered() -> None:
    table = LocationTable()
    table.note(7, 3, "b")
    table.note(8, 3, "b")
    assert table.drop_others("b", {8: 3}, ["c", "d"]) == [7]
    assert table.find(8) == (3, "b")
    assert table.find(7) is None
    assert (table.questions_for("c"), table.questions_for("b")) == ([7], [])
    table.unknown_to(7, "c")
    assert table.is_doubted(7)
    table.unknown_to(7, "d")
    assert not table.is_doubted(7)


def test_a_doubt_ends_where_the_group_is_found() -> None:
    table = LocationTable()
    table.note(7, 3, "b")
    table.drop_others("b", {}, ["c", "d"])
    table.note(7, 4, "d")
    assert not table.is_doubted(7)
    assert table.find(7) == (4, "d")
    table.unknown_to(7, "c")


def test_where_nobody_else_can_know_there_is_no_doubt() -> None:
    table = LocationTable()
    table.note(7, 3, "b")
    assert table.drop_others("b", {}, []) == []
    assert not table.is_doubted(7)
