"""Configurations that part and merge: many random runs, and the pieces of the agreement by themselves."""

import pytest

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId, View
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.message_graph import MessageGraph
from antiphon.stacks.domain.commitment import Commitment
from antiphon.stacks.domain.component_messages import (
    ATTEMPT,
    Attempt,
    Commit,
    CutRow,
    Suggestion,
    Word,
    decode_attempt,
    decode_commit,
    encode_attempt,
    encode_commit,
)
from antiphon.stacks.domain.components import Components
from antiphon.stacks.domain.proposal import SuggestionDraft
from antiphon.stacks.domain.surroundings import Surroundings, readmission_ns
from tests.stacks.domain.islands import judge_seed
from tests.stacks.domain.slow_network import SlowIslands

A, B, C, D = ProcessId("a"), ProcessId("b", 7), ProcessId("c"), ProcessId("d")


@pytest.mark.parametrize("seed", [133, 303, *range(1000, 1016), 30093, 30349, 32020])
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
    suggestion = Suggestion(5, B, [(A, "there"), (B, "here")], {A: 1, B: 9}, {A: CutRow(4, frozenset({C}))})
    commit = decode_commit(encode_commit(Commit(A, "there", suggestion, {A: Word([1, 2], 3), B: Word([], 2)}, False)))
    assert (commit.sender, commit.installed) == (A, False)
    assert {who: (word.held, word.heard) for who, word in commit.words.items()} == {A: ([1, 2], 3), B: ([], 2)}
    assert commit.suggestion.id == suggestion.id
    assert {who: (row.number, row.others) for who, row in commit.suggestion.rows.items()} == {A: (4, frozenset({C}))}
    sent = Attempt(B, "here", View(9, (A, B), ("there", "here")), True, True, CutRow(6, frozenset({A, C})))
    attempt = decode_attempt(encode_attempt(sent))
    assert (attempt.sender, attempt.view.members, attempt.leaving, attempt.probe) == (B, (A, B), True, True)
    assert (attempt.row.number, attempt.row.others) == (6, frozenset({A, C}))


def test_what_makes_no_sense_is_dropped() -> None:
    no_member = Suggestion(5, B, [(A, "there")], {A: 1}, {})
    with pytest.raises(MalformedError):
        decode_commit(encode_commit(Commit(A, "there", no_member, {B: Word([], 0)}, False)))
    with pytest.raises(MalformedError):  # a member of two that hears a third
        decode_commit(encode_commit(Commit(A, "there", no_member, {A: Word([], 2)}, False)))
    with pytest.raises(MalformedError):  # installed, though nobody has closed
        decode_commit(encode_commit(Commit(A, "there", no_member, {A: Word([], 1)}, True)))
    with pytest.raises(MalformedError):
        decode_attempt(encode_attempt(Attempt(B, "here", View(9, (A,), ("there",)), False)))
    late = Suggestion(5, B, [(A, "there")], {A: 1}, {})
    late.origins[A] = NUMBER_MAX
    with pytest.raises(MalformedError):
        decode_commit(encode_commit(Commit(A, "there", late, {A: Word([], 1)}, False)))
    for noise in (b"", b"\x93", bytes(50)):
        with pytest.raises(MalformedError):
            decode_commit(noise)


# ---- cut links -------------------------------------------------------------------------------------------------------

ALL = [(A, "a"), (B, "b"), (C, "c")]
ORIGINS = {A: 1, B: 2, C: 3, D: 4}


def row(number: int, *others: ProcessId) -> CutRow:
    return CutRow(number, frozenset(others))


def drafted(process: ProcessId, around: Surroundings, own: CutRow, silent: set[ProcessId]) -> set[ProcessId]:
    """Whom a process puts into a suggestion, of a, b and c, each from a configuration of its own."""
    draft = SuggestionDraft(process, View(ORIGINS[process], (process,), (process.name,)), around, own, 0)
    for other, address in ALL:
        draft.add_view(View(ORIGINS[other], (other,), (address,)))
    return set(draft.members(silent))


def test_a_cut_counts_until_the_process_that_named_it_takes_it_back() -> None:
    """Whoever else repeats an earlier row of that process changes nothing."""
    around = Surroundings(B, Options())
    around.learn_row(A, row(5, C))
    assert drafted(B, around, row(0), set()) in ({A, B}, {B, C})
    around.learn_row(A, row(7))
    assert drafted(B, around, row(0), set()) == {A, B, C}
    around.learn_row(A, row(5, C))
    assert drafted(B, around, row(0), set()) == {A, B, C}
    around.learn_row(B, row(9, C))
    assert drafted(B, around, row(0), set()) == {A, B, C}, "nobody else speaks for b"
    assert drafted(B, around, row(1, A), set()) == {B, C}


def test_whoever_is_not_heard_gives_way_to_whoever_says_that_the_link_to_it_is_cut() -> None:
    """a has died, which c has seen and b not yet: b goes on with c, though a is the older one."""
    around = Surroundings(B, Options())
    around.learn_row(C, row(5, A))
    assert drafted(B, around, row(0), {A}) == {B, C}
    assert drafted(B, around, row(0), set()) == {A, B}
    around.learn_row(C, row(6))
    assert drafted(B, around, row(0), {A}) == {A, B, C}


class Outsider:
    """a, in a configuration of its own, that b and c know of."""

    def __init__(self) -> None:
        self.components = Components(A, "a", Options(), 100)
        self.components.begin(View(1, (A,), ("a",)), GraphViewEnd(MessageGraph(1), 0, Options()), (), 0)
        self.now_ns = MILLISECOND_NS

    def hear(self, sender: ProcessId, suggestion: Suggestion) -> None:
        """A commit comes."""
        words = {sender: Word([], 1 << suggestion.view.rank(sender))}
        self.components.receive_commit(Commit(sender, sender.name, suggestion, words, False), self.now_ns)

    def attempt(self, sender: ProcessId, cuts: CutRow) -> None:
        view = View(ORIGINS[sender], (sender,), (sender.name,))
        self.components.receive_attempt(Attempt(sender, sender.name, view, False, False, cuts), self.now_ns)

    def committed(self) -> Suggestion:
        assert self.components.current is not None
        return self.components.current.suggestion

    def own_row(self) -> CutRow:
        """What a says of its links, in the next attempt."""
        self.components.attempt_soon(self.now_ns)
        letters = [body for _, kind, body in self.components.sender.take() if kind == ATTEMPT]
        return decode_attempt(letters[-1]).row


def suggested(number: int, proposer: ProcessId, *members: ProcessId) -> Suggestion:
    named = [(member, member.name) for member in members]
    return Suggestion(number, proposer, named, {member: ORIGINS[member] for member in members}, {})


def test_whoever_was_given_up_for_its_silence_is_taken_back_when_it_is_heard() -> None:
    scene = Outsider()
    scene.attempt(B, row(0))
    scene.hear(B, suggested(5, B, A, B, C))
    scene.now_ns += 600 * MILLISECOND_NS
    scene.attempt(B, row(0))
    scene.now_ns += 600 * MILLISECOND_NS
    scene.components.tick(scene.now_ns)  # c has been asked for more than a second, and is silent
    assert not scene.committed().has(C)
    given_up = scene.own_row()
    assert given_up.others == {C}
    scene.attempt(C, row(0))
    taken_back = scene.own_row()
    assert taken_back.others == set()
    assert taken_back.number > given_up.number


def test_5_2_a_suggestion_that_contains_the_own_one_is_taken_whatever_its_number() -> None:
    """Those who are committed to it see no reason to leave it: both sides would wait for each other for a second."""
    scene = Outsider()
    scene.hear(B, suggested(50, B, A, B))
    assert scene.committed().id == suggested(50, B, A, B).id
    scene.hear(B, suggested(20, C, A, B, C))
    assert scene.committed().id == suggested(20, C, A, B, C).id


def test_whoever_stays_with_a_suggestion_as_large_suggests_it_again() -> None:
    """a cannot go with c, which has given it up; b is committed to a suggestion with c and without d."""
    scene = Outsider()
    scene.attempt(C, row(5, A))
    scene.hear(B, suggested(20, B, A, B, D))
    other = suggested(30, B, A, B, C)
    scene.hear(B, other)
    assert set(scene.committed().origins) == {A, B, D}
    assert scene.committed().number > 30


def test_a_suggestion_as_large_with_a_higher_number_is_taken() -> None:
    """Of sets as large everybody has to take the same, whichever it would have chosen itself."""
    scene = Outsider()
    scene.attempt(C, row(5, D))
    scene.attempt(D, row(0))
    scene.hear(B, suggested(20, B, A, B, C))
    assert set(scene.committed().origins) == {A, B, C}
    scene.hear(B, suggested(30, B, A, B, D))
    assert scene.committed().id == suggested(30, B, A, B, D).id


def test_to_refuse_what_others_suggest_is_no_reason_to_wait() -> None:
    """c has given b up, and a is with b: what c suggests comes to nothing, again and again."""
    components = Components(A, "a", Options(), 100)
    components.begin(View(1, (A, B), ("a", "b")), GraphViewEnd(MessageGraph(2), 0, Options()), (), 0)
    without_b = Suggestion(5, C, [(A, "a"), (C, "c")], {A: 1, C: 3}, {C: row(4, B)})
    for _ in range(20):
        components.receive_commit(Commit(C, "c", without_b, {C: Word([], 2)}, False), MILLISECOND_NS)
    assert components.current is None
    joined = Attempt(C, "c", View(3, (C,), ("c",)), False, False, row(6))
    components.receive_attempt(joined, MILLISECOND_NS)
    components.tick(200 * MILLISECOND_NS)
    assert components.current is not None
    assert set(components.current.suggestion.origins) == {A, B, C}


def test_a_process_is_suggested_from_where_it_says_it_is() -> None:
    """Others say that c is in a configuration in which it never was."""
    scene = Outsider()
    wrong = Suggestion(5, B, ALL, {A: 1, B: 2, C: 9}, {})
    scene.hear(B, wrong)
    assert scene.committed().origins[C] == 9
    scene.attempt(C, row(0))
    assert scene.committed().origins[C] == ORIGINS[C]


# ---- closing: once for a suggestion, and no further back than K ------------------------------------------------------


class Scene:
    """a, in a configuration with b, when c is heard of."""

    def __init__(self) -> None:
        self.graph = MessageGraph(2)
        self.components = Components(A, "a", Options(), 100)
        view = View(1, (A, B), ("a", "b"))
        self.components.begin(view, GraphViewEnd(self.graph, 0, Options()), (), 0)
        members = [(A, "a"), (B, "b"), (C, "c")]
        self.joined = Suggestion(5, B, members, {A: 1, B: 1, C: 3}, {})

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
        without = Suggestion(6, C, [(C, "c")], {C: 3}, {C: row(5, A, B)})
        self.components.receive_commit(Commit(C, "c", without, {C: Word([], 1)}, False), MILLISECOND_NS)
        assert self.components.current is None
        assert self.components.bounds() is None


def test_a_process_closes_its_configuration_once_for_a_suggestion() -> None:
    """Else it would say twice, and differently, how much it holds, and the others would not agree on K."""
    scene = Scene()
    scene.close()
    scene.lose_c()
    scene.graph.attach(1, 1, [], b"")
    back = Attempt(C, "c", View(3, (C,), ("c",)), False, False, row(7))
    scene.components.receive_attempt(back, MILLISECOND_NS)
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
