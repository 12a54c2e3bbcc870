"""Configurations that part and merge: many random runs, and the pieces of the agreement by themselves."""

import pytest

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId, View
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.message_graph import MessageGraph
from antiphon.stacks.domain.commitment import Commitment
from antiphon.stacks.domain.component_messages import (
    Attempt,
    Commit,
    Suggestion,
    Word,
    decode_attempt,
    decode_commit,
    encode_attempt,
    encode_commit,
)
from antiphon.stacks.domain.components import Components
from antiphon.stacks.domain.proposal import SuggestionDraft
from antiphon.stacks.domain.surroundings import GIVEN_UP_NS, Surroundings, readmission_ns
from tests.stacks.domain.islands import judge_seed
from tests.stacks.domain.slow_network import SlowIslands

A, B, C = ProcessId("a"), ProcessId("b", 7), ProcessId("c")


@pytest.mark.parametrize("seed", [133, 303, *range(1000, 1016), 30093, 30349])
def test_islands_part_and_merge(seed: int) -> None:
    problems, _ = judge_seed(seed)
    assert problems == []


def test_components_merge_on_a_slow_network() -> None:
    """A packet takes a quarter of a second, so that closing takes longer than the first tries allow for."""
    islands = SlowIslands(0, 250)
    islands.play(3_000)
    islands.island = [0, 0, 1, 1, 2]
    islands.play(7_000)
    assert [len(life.stays[-1].view.members) for life in islands.lives if life is not None] == [2, 2, 2, 2, 1]
    assert islands.merge(9_000) < 9_000
    islands.play(2_000)
    assert islands.judge() == []


@pytest.mark.parametrize(("times", "expected_ms"), [(0, 0), (2, 0), (3, 250), (4, 500), (8, 8_000), (50, 8_000)])
def test_whoever_is_dropped_again_and_again_waits_longer(times: int, expected_ms: int) -> None:
    assert readmission_ns(times) == expected_ms * MILLISECOND_NS


def test_messages_survive_the_wire() -> None:
    suggestion = Suggestion(5, B, [(A, "there"), (B, "here")], {A: 1, B: 9}, {(A, ProcessId("c"))})
    commit = decode_commit(encode_commit(Commit(A, "there", suggestion, {A: Word([1, 2], 3), B: Word([], 2)}, False)))
    assert (commit.sender, commit.installed) == (A, False)
    assert {who: (word.held, word.heard) for who, word in commit.words.items()} == {A: ([1, 2], 3), B: ([], 2)}
    assert (commit.suggestion.id, commit.suggestion.cuts) == (suggestion.id, suggestion.cuts)
    attempt = decode_attempt(encode_attempt(Attempt(B, "here", View(9, (A, B), ("there", "here")), True, True, True)))
    assert (attempt.sender, attempt.view.members, attempt.leaving, attempt.probe) == (B, (A, B), True, True)
    assert attempt.hears


def test_what_makes_no_sense_is_dropped() -> None:
    no_member = Suggestion(5, B, [(A, "there")], {A: 1}, set())
    with pytest.raises(MalformedError):
        decode_commit(encode_commit(Commit(A, "there", no_member, {B: Word([], 0)}, False)))
    with pytest.raises(MalformedError):  # a member of two that hears a third
        decode_commit(encode_commit(Commit(A, "there", no_member, {A: Word([], 2)}, False)))
    with pytest.raises(MalformedError):  # installed, though nobody has closed
        decode_commit(encode_commit(Commit(A, "there", no_member, {A: Word([], 1)}, True)))
    with pytest.raises(MalformedError):
        decode_attempt(encode_attempt(Attempt(B, "here", View(9, (A,), ("there",)), False)))
    late = Suggestion(5, B, [(A, "there")], {A: 1}, set())
    late.origins[A] = NUMBER_MAX
    with pytest.raises(MalformedError):
        decode_commit(encode_commit(Commit(A, "there", late, {A: Word([], 1)}, False)))
    for noise in (b"", b"\x93", bytes(50)):
        with pytest.raises(MalformedError):
            decode_commit(noise)


# ---- cut links that others name --------------------------------------------------------------------------------------

ALL = [(A, "a"), (B, "b"), (C, "c")]
ORIGINS = {A: 1, B: 2, C: 3}
WITHOUT_C = Suggestion(5, B, ALL[:2], {A: 1, B: 2}, {(A, C)})
"""What b repeats, of a time when a did not hear c."""


def drafted(process: ProcessId, around: Surroundings, others: list[Suggestion], now_ns: int) -> set[ProcessId]:
    """Whom a process puts into a suggestion that it makes of others."""
    view = View(ORIGINS[process], (process,), (process.name,))
    draft = SuggestionDraft(process, view, around, set(), now_ns)
    draft.add_view(View(3, (C,), ("c",)))
    draft.add_suggestions(others)
    return set(draft.members())


def test_a_process_takes_back_a_cut_when_it_hears_the_other_again() -> None:
    now_ns = 100_000 * MILLISECOND_NS
    around = Surroundings(A, Options())
    assert drafted(A, around, [WITHOUT_C], now_ns) == {A, B}
    around.give_up({(A, C)}, now_ns)
    around.hear(C, now_ns + 1)
    assert drafted(A, around, [WITHOUT_C], now_ns + 2) == {A, B, C}
    around.give_up({(A, C)}, now_ns + 3)  # it is heard, and is given up for another reason
    around.hear(C, now_ns + 4)
    assert drafted(A, around, [WITHOUT_C], now_ns + 5) == {A, B}
    now_ns += 5
    memory_ns = 2 * Options().silence_ns_min
    for _ in range(6):  # given up again and again, though it is heard: remembered for twice as long each time
        for later_ns in range(0, memory_ns, 100 * MILLISECOND_NS):
            around.hear(C, now_ns + later_ns)
            assert drafted(A, around, [WITHOUT_C], now_ns + later_ns - 5) == {A, B}
        now_ns += memory_ns
        assert drafted(A, around, [WITHOUT_C], now_ns) == {A, B, C}
        around.give_up({(A, C)}, now_ns)
        memory_ns = min(2 * memory_ns, GIVEN_UP_NS)
    assert memory_ns == GIVEN_UP_NS


def test_the_other_end_of_a_link_takes_a_cut_back_when_it_is_told() -> None:
    """Else, where both ends had given each other up, neither could make a suggestion with both."""
    second = 1_000 * MILLISECOND_NS
    around = Surroundings(C, Options())
    around.hear(A, 2 * second)
    assert drafted(C, around, [WITHOUT_C], 2 * second) == {B, C}
    around.is_told(A, True, 2 * second)
    assert drafted(C, around, [WITHOUT_C], 2 * second) == {A, B, C}
    assert drafted(C, around, [WITHOUT_C], 4 * second) == {B, C}
    around.is_told(A, True, 5 * second)
    around.is_told(A, False, 5 * second)
    assert drafted(C, around, [WITHOUT_C], 5 * second) == {B, C}


def test_whoever_hears_another_and_has_not_given_it_up_says_so() -> None:
    second = 1_000 * MILLISECOND_NS
    around = Surroundings(A, Options())
    around.know(C, "c")
    assert not around.hears_at("c", 2 * second)
    around.hear(C, 2 * second)
    assert around.hears_at("c", 2 * second)
    assert not around.hears_at("b", 2 * second)
    around.give_up({(A, C)}, 2 * second)
    assert not around.hears_at("c", 2 * second)


def test_others_believe_whoever_takes_a_cut_back() -> None:
    around = Surroundings(B, Options())
    assert drafted(B, around, [WITHOUT_C], 0) in ({A, B}, {B, C})
    with_c = Suggestion(6, A, ALL, ORIGINS, set())
    assert drafted(B, around, [WITHOUT_C, with_c], 0) == {A, B, C}
    assert drafted(B, around, [WITHOUT_C, Suggestion(4, A, ALL, ORIGINS, set())], 0) != {A, B, C}  # it came before
    assert drafted(B, around, [WITHOUT_C, Suggestion(6, C, ALL, ORIGINS, set())], 0) != {A, B, C}  # not c's to say


# ---- closing: once for a suggestion, and no further back than K ------------------------------------------------------


class Scene:
    """a, in a configuration with b, when c is heard of."""

    def __init__(self) -> None:
        self.graph = MessageGraph(2)
        self.components = Components(A, "a", Options(), 100)
        view = View(1, (A, B), ("a", "b"))
        self.components.begin(view, GraphViewEnd(self.graph, 0, Options()), (), 0)
        members = [(A, "a"), (B, "b"), (C, "c")]
        self.joined = Suggestion(5, B, members, {A: 1, B: 1, C: 3}, set())

    def hear_b(self, words: dict[ProcessId, Word], installed: bool = False) -> None:
        self.components.receive_commit(Commit(B, "b", self.joined, words, installed), MILLISECOND_NS)

    def close(self) -> Commitment:
        """All have committed and hear each other, so a closes its configuration."""
        self.hear_b({A: Word([], 7), B: Word([], 7), C: Word([], 7)})
        current = self.components.current
        assert current is not None
        current.words[A].heard = 7
        self.hear_b({B: Word([], 7), C: Word([], 7)})
        assert current.closed
        assert self.components.bounds() == [0, NUMBER_MAX]
        return current

    def lose_c(self) -> None:
        """c goes elsewhere, so nothing but the present configuration is left, and a goes on in it."""
        without = Suggestion(6, C, [(C, "c")], {C: 3}, set())
        self.components.receive_commit(Commit(C, "c", without, {C: Word([], 1)}, False), MILLISECOND_NS)
        assert self.components.current is None
        assert self.components.bounds() is None


def test_a_process_closes_its_configuration_once_for_a_suggestion() -> None:
    """Else it would say twice, and differently, how much it holds, and the others would not agree on K."""
    scene = Scene()
    scene.close()
    scene.lose_c()
    scene.graph.attach(1, 1, [], b"")
    scene.hear_b({A: Word([0, 0], 7), B: Word([0, 0], 7), C: Word([], 7)})
    assert scene.components.current is None


def test_a_process_goes_back_to_an_installed_suggestion_if_it_has_nothing_more_than_k() -> None:
    words = {A: Word([0, 0], 7), B: Word([0, 0], 7), C: Word([9], 7)}
    scene = Scene()
    scene.close()
    scene.lose_c()
    scene.hear_b(words, installed=True)
    assert scene.components.is_decided()


def test_a_process_that_has_gone_on_does_not_go_back() -> None:
    words = {A: Word([0, 0], 7), B: Word([0, 0], 7), C: Word([9], 7)}
    scene = Scene()
    scene.close()
    scene.lose_c()
    scene.graph.attach(1, 1, [], b"")
    scene.hear_b(words, installed=True)
    assert not scene.components.is_decided()


def test_a_suggestion_is_given_up_if_k_lacks_something_that_is_here() -> None:
    """b has given the suggestion up and sent something more, which came before its word."""
    scene = Scene()
    current = scene.close()
    scene.graph.attach(1, 1, [], b"")
    scene.hear_b({B: Word([0, 0], 7), C: Word([9], 7)})
    assert not scene.components.is_decided()
    assert scene.components.current is not current
