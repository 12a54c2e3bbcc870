"""The watch over a running group, free of Spark: each rule kept, and broken once, in whatever pieces it comes."""

from random import Random

import pytest

from antiphon.pipeline.streaming import watch as watch_module
from antiphon.pipeline.streaming.watch import LiveFinding, Watch, WatchedRow

ALL = ("a/1", "b/1", "c/1", "x/1", "y/1")


class Journal:
    """Rows of one listener, by short calls."""

    def __init__(self, listener: str) -> None:
        self.listener = listener
        self.rows: list[WatchedRow] = []
        self.at = 0

    def view(self, view: int, members: tuple[str, ...] = ALL) -> "Journal":
        self.at = view
        self.rows.append(WatchedRow(self.listener, len(self.rows), "view", view, members))
        return self

    def barrier(self, message: str) -> "Journal":
        self.heard(message, level="safe")
        self.rows[-1] = self.rows[-1]._replace(kind="barrier")
        return self

    def heard(self, *messages: str, level: str = "agreed", private: bool = False, content: int = 7) -> "Journal":
        for message in messages:
            sender, number = message[0], int(message[1:])
            self.rows.append(
                WatchedRow(
                    self.listener,
                    len(self.rows),
                    "message",
                    self.at,
                    None,
                    f"{sender}/1",
                    number,
                    level,
                    private,
                    content,
                    len(self.rows) * 1000,
                )
            )
        return self


def findings(*journals: Journal, pieces: int = 1) -> list[LiveFinding]:
    """Each journal in as many pieces, in turn; the state goes through bytes between any two."""
    found: list[LiveFinding] = []
    state: bytes | None = None
    for piece in range(pieces):
        for journal in journals:
            size = -(-len(journal.rows) // pieces)
            watch = Watch(len(journals), state)
            found += watch.feed(journal.rows[piece * size : (piece + 1) * size])
            state = watch.save()
    return found


def said(found: list[LiveFinding]) -> list[tuple[str, str]]:
    return [(finding.guarantee, finding.verdict) for finding in found]


@pytest.mark.parametrize("pieces", [1, 3, 100])
def test_nothing_is_said_about_a_sound_group(pieces: int) -> None:
    x = Journal("x/1").view(1).heard("a1", "b1", "a2").heard("b2", level="safe").heard("c1", "c2", level="causal")
    y = Journal("y/1").view(1).heard("a1", level="agreed").heard("b1", "a2").heard("c1", level="causal")
    y.heard("b2", level="safe").heard("c2", level="causal").heard("a3", private=True, level="causal")
    for journal in (x, y):
        journal.view(2).heard("a4").heard("b4", "b3", level="reliable").heard("c9", level="causal")
        journal.view(3)
    assert findings(x, y, pieces=pieces) == []


def test_a_message_twice() -> None:
    x = Journal("x/1").view(1).heard("a1", "a2", "a1", level="causal")
    assert said(findings(x)) == [("duplication", "broken")]
    assert findings(x)[0].text == "x/1 delivered a/1#1 twice"
    assert findings(x)[0].offset == 3


def test_a_message_after_a_later_one() -> None:
    x = Journal("x/1").view(1).heard("a1", "a3", "a2", level="fifo")
    assert said(findings(x)) == [("fifo", "broken")]
    mixed = Journal("x/1").view(1).heard("a2", level="reliable").heard("a1", level="fifo")
    assert findings(mixed) == []


@pytest.mark.parametrize("pieces", [1, 4])
def test_safe_messages_in_another_order_are_broken_at_once(pieces: int) -> None:
    x = Journal("x/1").view(1).heard("a1", "b1", level="safe")
    y = Journal("y/1").view(1).heard("b1", "a1", level="safe")
    assert said(findings(x, y, pieces=pieces)) == [("total", "broken")]


def test_agreed_messages_in_another_order_are_broken_when_both_complete_the_view() -> None:
    x = Journal("x/1").view(1).heard("a1", "b1")
    y = Journal("y/1").view(1).heard("b1", "a1")
    assert said(findings(x, y)) == [("total", "unknown")]
    assert said(findings(x, Journal("y/1").view(1).heard("b1", "a1").view(2))) == [("total", "unknown")]
    x.view(2)
    y.view(2)
    for order in ((x, y), (y, x)):
        found = said(findings(*order, pieces=5))
        assert found in ([("total", "unknown"), ("total", "broken")], [("total", "broken")])
    assert "where x/1 delivered a/1#1" in findings(x, y)[0].text


def test_different_messages_in_a_view_that_both_complete() -> None:
    x = Journal("x/1").view(1).heard("a1", "a2", level="causal").view(2)
    y = Journal("y/1").view(1).heard("a1", level="causal").view(2)
    assert said(findings(x, y)) == [("view_synchrony", "broken")]
    elsewhere = Journal("y/1").view(1).heard("a1", level="causal").view(3)
    assert findings(x, elsewhere) == []


def test_a_view_that_a_barrier_ends_is_followed_by_one_that_is_not_told_of() -> None:
    x, y = Journal("x/1").view(1).heard("a1"), Journal("y/1").view(1).heard("a1")
    x.at = y.at = 2
    x.heard("a2", "b1", level="safe")
    y.heard("b1", "a2", level="safe")
    (found,) = findings(x, y)
    assert (found.guarantee, found.verdict, found.view) == ("total", "broken", 2)


def test_views_that_do_not_agree() -> None:
    x = Journal("x/1").view(1)
    other = findings(x, Journal("y/1").view(1, ("y/1", "x/1")))
    assert said(other) == [("view_agreement", "broken"), ("primary", "broken")]
    assert said(findings(x, Journal("y/1").view(1, ALL[::-1]))) == [("view_agreement", "broken")]
    assert said(findings(Journal("x/1").view(2).view(1))) == [("view_agreement", "broken")]
    assert said(findings(Journal("x/1").view(1, ("a/1",)))) == [("view_agreement", "broken")]


def test_who_is_too_far_behind_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "ORDER_MAX", 10)
    monkeypatch.setattr(watch_module, "FORGET_PLACES", 4)
    x = Journal("x/1").view(1).heard(*(f"a{number}" for number in range(1, 50)))
    y = Journal("y/1").view(1).heard(*(f"a{number}" for number in range(1, 50)))
    assert said(findings(x, y)) == [("total", "unknown")]


def test_what_all_have_been_through_is_forgotten_and_what_one_has_not_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "FORGET_PLACES", 4)
    x = Journal("x/1").view(1).heard(*(f"a{number}" for number in range(1, 50)))
    y = Journal("y/1").view(1).heard(*(f"a{number}" for number in range(1, 40)))
    watch = Watch(2)
    assert list(watch.feed(x.rows)) == []
    assert len(watch.state.views[1].order) == 49  # y may come from far behind
    assert list(watch.feed(y.rows)) == []
    assert len(watch.state.views[1].order) < 49 - 39 + 4


def test_a_process_that_is_not_in_the_view() -> None:
    x = Journal("x/1").view(1).heard("a1").view(2, ("b/1", "c/1", "x/1")).heard("b1").heard("a2")
    assert said(findings(x)) == [("silence", "broken")]


def test_a_listener_that_comes_back_is_another_and_the_former_is_forgotten() -> None:
    watch = Watch(1)
    assert list(watch.feed(Journal("x/1").view(1).heard("a1", "a2").rows)) == []
    assert list(watch.feed(Journal("x/2").view(3, ("a/1", "x/2")).heard("a7").rows)) == []
    assert set(watch.state.listeners) == {"x/2"}


def test_random_groups_sound_and_with_one_swap() -> None:
    for seed in range(60):
        random = Random(seed)
        order = [f"{sender}{number}" for number in range(1, 40) for sender in "abc"]
        x, y = Journal("x/1").view(1).heard(*order), Journal("y/1").view(1)
        other = order.copy()
        is_broken = seed % 2 == 1
        if is_broken:
            place = random.randrange(len(other) - 1)  # neighbours are of different senders
            other[place], other[place + 1] = other[place + 1], other[place]
        y.heard(*other)
        x.view(2)
        y.view(2)
        found = set(said(findings(x, y, pieces=random.randrange(1, 9))))
        assert (("total", "broken") in found) == is_broken
        assert {guarantee for guarantee, _ in found} <= {"total"}


def test_private_messages_to_others_leave_gaps_that_are_forgotten_in_time() -> None:
    numbers = [f"a{number}" for number in range(1, 1000, 2)]
    x = Journal("x/1").view(1).heard(*numbers, level="causal")
    watch = Watch(1)
    assert list(watch.feed(x.rows)) == []
    assert len(watch.state.listeners["x/1"].heard["a/1"].missing) == watch_module.MISSING_MAX
    assert said(list(watch.feed(Journal("x/1").view(1).heard("a1", level="reliable").rows[1:]))) == [
        ("duplication", "unknown")
    ]


def test_safe_messages_that_one_of_two_lacks() -> None:
    x = Journal("x/1").view(1).heard("a1", "a2", level="safe").view(2)
    y = Journal("y/1").view(1).heard("a1", level="safe").view(2)
    assert said(findings(x, y)) == [("view_synchrony", "broken"), ("safe", "broken")]
    assert findings(x, y)[1].text == "y/1 and x/1 completed view 1 with different safe messages (1 and 2)"
    elsewhere = Journal("y/1").view(1).heard("a1", level="safe").view(3)
    assert said(findings(x, elsewhere)) == [("safe", "broken")]


@pytest.mark.parametrize("pieces", [1, 4])
def test_messages_on_the_other_side_of_a_barrier(pieces: int) -> None:
    x = Journal("x/1").view(1).heard("a1", "b1", level="causal").barrier("c1")
    y = Journal("y/1").view(1).heard("a1", level="causal").barrier("c1").heard("b1", level="causal")
    (found,) = findings(x, y, pieces=pieces)
    assert (found.guarantee, found.verdict) == ("group_broadcast", "broken")
    assert found.text.startswith("before the barrier c/1#1, ")
    sound = Journal("y/1").view(1).heard("b1", "a1", level="causal").barrier("c1")
    assert findings(x, sound, pieces=pieces) == []


def test_one_message_with_two_contents() -> None:
    x = Journal("x/1").view(1).heard("a1", "a2", level="causal").view(2)
    y = Journal("y/1").view(1).heard("a1", level="causal").heard("a2", level="causal", content=8).view(2)
    assert said(findings(x, y)) == [("content", "broken")]
    level = Journal("y/1").view(1).heard("a1", level="causal").heard("a2", level="fifo").view(2)
    assert said(findings(x, level)) == [("content", "broken")]


def test_one_message_in_two_views() -> None:
    x = Journal("x/1").view(1).heard("a1", "a2", "a3", level="causal").view(2).heard("a4", level="causal")
    y = Journal("y/1").view(1).heard("a1", "a2", level="causal").view(2).heard("a3", "a4", level="causal")
    found = findings(x, y)
    assert said(found) == [("view_synchrony", "broken"), ("view_sending", "broken")]
    assert found[1].text == "y/1 delivered a/1#3 in view 2, another listener in view 1"


def test_views_that_are_no_chain() -> None:
    x = Journal("x/1").view(1).view(2, ("a/1", "x/1"))
    y = Journal("y/1").view(1).view(2, ("b/1", "c/1", "y/1"))
    assert said(findings(y)) == []
    assert said(findings(x)) == [("primary", "unknown")]
    assert said(findings(x, y)) == [("primary", "unknown"), ("view_agreement", "broken"), ("primary", "broken")]
    half = Journal("a/1").view(1, ("a/1", "b/1", "c/1", "d/1")).view(2, ("a/1", "b/1"))
    assert findings(half) == []
    younger = Journal("c/1").view(1, ("a/1", "b/1", "c/1", "d/1")).view(2, ("c/1", "d/1"))
    assert said(findings(younger)) == [("primary", "unknown")]


def test_how_far_listeners_are_followed() -> None:
    x = Journal("x/1").view(1).heard("a1", "a2", level="causal").view(2, ("a/1", "x/1", "y/1"))
    watch = Watch(2)
    assert list(watch.feed(x.rows)) == []
    (status,) = Watch(2, watch.save()).status()
    assert status == ("x/1", 3, 2, ("a/1", "x/1", "y/1"), 2, 0)
