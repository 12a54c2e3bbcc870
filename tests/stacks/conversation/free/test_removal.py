"""Removing and adding participants: all mask alike, at the same place, and who is removed learns it."""

from random import Random

import pytest

from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.stacks.conversation.free.removal import IN, OUT, decode_change, encode_change
from tests.stacks.conversation.table import Table


def test_all_that_run_remove_whom_one_suspects() -> None:
    table = Table(4)
    table.isolate(3)
    table.talk(0).remove(3)
    table.flush()
    assert table.out(0, 1, 2) == [[3], [3], [3]]
    assert all(table.talk(rank).replica.graph.is_masked(3) for rank in range(3))
    assert table.out(3) == [[]]


def test_without_the_removed_messages_become_stable() -> None:
    table = Table(3)
    table.isolate(2)
    node = table.talk(0).send(b"news")
    table.flush()
    table.receive_all()
    table.talk(1).send(b"seen")
    table.flush()
    assert not table.talk(0).replica.graph.is_stable(node)
    table.talk(0).remove(2)
    table.flush()
    assert table.talk(0).replica.graph.is_stable(node)


def test_what_any_voter_has_of_the_removed_counts_and_nothing_else() -> None:
    table = Table(4)
    table.cut = {frozenset((3, 0)), frozenset((3, 1))}
    table.talk(3).send(b"to c alone")
    table.flush()
    table.isolate(3)
    table.talk(3).send(b"to nobody")
    table.flush()
    table.talk(0).remove(3)
    table.flush()
    assert table.out(0, 1) == [[], []], "not before all that counts of it is here"
    table.wait()
    assert table.out(0, 1, 2) == [[3], [3], [3]]
    assert [table.talk(rank).replica.graph.last[3] for rank in range(4)] == [2, 2, 2, 3]
    table.cut = set()
    table.wait()
    assert [table.talk(rank).replica.graph.last[3] for rank in range(3)] == [2, 2, 2]


def test_who_was_removed_wrongly_learns_it() -> None:
    table = Table(3)
    table.isolate(2)
    table.talk(1).remove(2)
    table.flush()
    assert not table.talk(2).removal.is_out
    table.cut = set()
    table.wait()
    assert table.talk(2).removal.is_out
    assert not table.talk(2).may_send()
    with pytest.raises(UsageError, match="removed this participant"):
        table.talk(2).send(b"but")


def test_a_minority_that_removed_the_others_learns_that_it_was_removed() -> None:
    """It does not listen to them any more, but they answer its questions."""
    table = Table(5)
    for one in (3, 4):
        table.cut |= {frozenset((one, other)) for other in range(3)}
    table.talk(3).remove(0)
    table.talk(3).remove(1)
    table.talk(3).remove(2)
    table.talk(0).remove(3)
    table.talk(1).remove(4)
    table.wait()
    assert table.out(0, 1, 2) == [[3, 4]] * 3
    assert table.out(3, 4) == [[], []], "two of five decide nothing"
    table.cut = set()
    table.wait(6)
    assert table.talk(3).removal.is_out
    assert table.talk(4).removal.is_out


def test_two_who_suspect_each_other_are_both_removed_or_one_is() -> None:
    table = Table(5)
    table.talk(3).remove(4)
    table.talk(4).remove(3)
    table.wait()
    removed = table.out(0, 1, 2)
    assert removed[0] in ([3], [4], [3, 4])
    assert removed == [removed[0]] * 3


def test_half_decides_only_with_the_first() -> None:
    table = Table(2)
    table.isolate(1)
    table.talk(1).remove(0)
    table.talk(0).remove(1)
    table.wait()
    assert table.out(0, 1) == [[1], []]


def test_who_was_removed_comes_back_and_is_added() -> None:
    table = Table(3)
    table.isolate(2)
    table.talk(0).remove(2)
    table.flush()
    table.talk(0).send(b"meanwhile")
    table.flush()
    table.receive_all()
    table.cut = set()
    talk = table.restart(2, 2)
    table.wait()
    assert not talk.is_recovering()
    assert talk.removal.outside
    received = table.receive_all()[2]
    assert received[-1] == b"meanwhile"
    assert talk.send(b"here").mid() == (2, 1), "said again, in silence"
    assert not talk.may_note(), "it is not in yet"
    assert table.talk(1).restarted == [2]
    table.talk(1).add(2)
    table.flush()
    table.receive_all()
    assert table.out(0, 1) == [[], []]
    assert not any(table.talk(rank).replica.graph.is_masked(2) for rank in range(2))
    assert talk.may_note()
    talk.note(b"thanks")
    table.flush()
    assert [b"thanks" in got for got in table.receive_all()] == [True, True, False]


def test_what_the_added_says_comes_after_all_that_was_stable_without_it() -> None:
    table = Table(3)
    table.isolate(2)
    table.talk(0).remove(2)
    table.flush()
    for _ in range(3):
        for rank in (0, 1):
            table.receive_all()
            table.talk(rank).send(b"on")
            table.flush()
    stable_wave = table.talk(0).replica.graph.stable_wave
    assert stable_wave > 3
    table.cut = set()
    talk = table.restart(2, 2)
    table.wait()
    table.talk(0).add(2)
    table.flush()
    assert talk.send(b"here").mid() == (2, 1)
    assert not talk.may_note(), "it has received nothing"
    table.receive_all()
    assert talk.note(b"back").wave > stable_wave


def test_only_who_was_removed_and_is_back_can_be_added() -> None:
    table = Table(3)
    with pytest.raises(UsageError, match="only who was removed"):
        table.talk(0).add(2)
    table.isolate(2)
    table.talk(0).remove(2)
    table.flush()
    with pytest.raises(UsageError, match="only who was removed"):
        table.talk(0).add(2)
    with pytest.raises(UsageError, match="cannot remove itself"):
        table.talk(0).remove(0)


@pytest.mark.parametrize("seed", range(200))
def test_changes_are_read_as_they_were_written(seed: int) -> None:
    random = Random(seed)
    entries = [
        (random.randrange(7), random.randrange(9), random.randrange(1 << 40)) for _ in range(random.randrange(6))
    ]
    kind = random.choice((OUT, IN))
    encoded = encode_change(kind, entries)
    assert decode_change(encoded, 7) == (kind, entries)
    cut = encoded[: random.randrange(len(encoded))]
    with pytest.raises(MalformedError):
        decode_change(cut, 7)


def test_ranks_that_nobody_has_are_refused() -> None:
    with pytest.raises(MalformedError):
        decode_change(encode_change(OUT, [(3, 1, 0)]), 3)
