"""Quorums, acknowledgements and restarts, in tables."""

import pytest

from antiphon.toolkit import durability
from antiphon.toolkit.durability import FileContent, index_on_disks, missing

ABC = ["a", "b", "c"]


def content(index: int, *bases: str, epoch: int = 1, promised: int = 1, is_new: bool = False) -> FileContent:
    """A file with an operation for each index behind the first; each base is a word of one-letter names."""
    return FileContent(epoch, index, promised, max(0, index - 1), [list(base) for base in bases], is_new)


def new(*bases: str) -> FileContent:
    return content(0, *bases, epoch=0, promised=0, is_new=True)


@pytest.mark.parametrize(
    ("present", "view", "expected"),
    [
        ("a", "a", True),
        ("a", "ab", True),  # exactly half, with the oldest
        ("b", "ab", False),
        ("bc", "abc", True),
        ("c", "abc", False),
        ("ad", "abcd", True),
        ("cd", "abcd", False),
        ("bcd", "abcd", True),
        ("xyz", "abc", False),
        ("", "", False),
    ],
)
def test_a_quorum_is_more_than_half_or_half_with_the_oldest(present: str, view: str, expected: bool) -> None:
    assert durability.is_quorum(set(present), list(view)) is expected


def test_two_quorums_of_a_view_meet() -> None:
    for size in range(1, 7):
        view = list("abcdef"[:size])
        sets = [{name for place, name in enumerate(view) if bits >> place & 1} for bits in range(1 << size)]
        quorums = [each for each in sets if durability.is_quorum(each, view)]
        assert all(one & other for one in quorums for other in quorums)


def test_what_a_quorum_of_each_base_has_on_disk_is_acknowledged() -> None:
    assert index_on_disks({"a": 7, "b": 5, "c": 2}, [ABC]) == 5
    assert index_on_disks({"a": 7}, [ABC]) == 0
    assert index_on_disks({"d": 9, "e": 9, "f": 9, "a": 3}, [ABC, list("adef")]) == 0  # a quorum of the last view only
    assert index_on_disks({"d": 9, "e": 9, "a": 3, "b": 4}, [ABC, list("abde")]) == 3


def test_the_longest_file_wins_when_a_quorum_of_its_bases_is_there() -> None:
    decision = durability.decide({"a": content(5, "abc"), "c": content(8, "abc")}, ["a", "c"], False)
    assert decision is not None
    assert (decision.winner, decision.epoch, decision.bases) == ("c", 2, [ABC])
    assert durability.decide({"c": content(8, "abc")}, ["c"], False) is None
    assert missing({"c": content(8, "abc")}, [ABC]) == ["a", "b"]


def test_a_higher_epoch_wins_over_a_higher_index() -> None:
    known = {"a": content(50, "abc", epoch=1), "b": content(9, "abc", epoch=2, promised=3)}
    decision = durability.decide(known, ["a", "b"], False)
    assert decision is not None
    assert (decision.winner, decision.epoch) == ("b", 4)  # above all promises


def test_a_view_that_went_on_alone_is_waited_for() -> None:
    """The oldest went on alone, so the others, though they are a majority of the first view, know too little."""
    known = {"b": content(5, "ab"), "c": content(4, "abc")}
    assert durability.decide(known, ["b", "c"], False) is None
    assert missing(known, [ABC]) == ["a"]
    known["a"] = content(9, "ab", "a")
    decision = durability.decide(known, ["b", "c", "a"], False)
    assert decision is not None
    assert decision.winner == "a"


def test_every_base_needs_a_quorum() -> None:
    """A view that was not on enough disks is no more to be trusted than the one before it."""
    known = {name: content(6, "abc", "ade") for name in "de"}
    assert durability.decide(known, ["d", "e"], False) is None
    known["a"] = content(2, "abc")
    assert durability.decide(known, ["d", "e", "a"], False) is None
    known["b"] = content(1, "abc")
    assert durability.decide(known, ["d", "e", "a", "b"], False) is not None


def test_new_files_count_until_there_is_something_to_lose() -> None:
    everybody = {"a": new("abc"), "b": new("abc")}
    decision = durability.decide(everybody, ["a", "b"], False)
    assert decision is not None
    assert (decision.winner, decision.epoch, decision.bases) == ("a", 1, [ABC])
    begun = {"a": new("abc"), "b": content(1, "abc")}
    assert durability.decide(begun, ["a", "b"], False) is not None
    full = {"a": new("abc"), "b": content(7, "abc")}
    assert durability.counted(full, full["b"]) == {"b"}
    assert durability.decide(full, ["a", "b"], False) is None
    forced = durability.decide(full, ["a", "b"], True)
    assert forced is not None
    assert (forced.winner, forced.bases) == ("b", [])
