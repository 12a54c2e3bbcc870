"""transis-1992, section 5.2: to which suggestion a process is committed, and when it moves, claim by claim."""

from antiphon.kernel.effects import Installed
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.message_graph import MessageGraph
from antiphon.stacks.domain.component_messages import Attempt, Commit, Suggestion, Word
from antiphon.stacks.domain.components import Components
from tests.table import GROUP, Table

A, B, C, D = (ProcessId(name) for name in "abcd")
ORIGINS = {A: 1, B: 1, C: 3, D: 4}


def suggested(number: int, proposer: ProcessId, *members: ProcessId) -> Suggestion:
    named = [(member, member.name) for member in members]
    return Suggestion(number, proposer, named, {member: ORIGINS[member] for member in members}, {})


def hear(components: Components, sender: ProcessId, suggestion: Suggestion, at_ms: int = 1) -> None:
    """A process is committed to a suggestion, as far as it says."""
    commit = Commit(sender, sender.name, suggestion, {sender: Word([], 0)}, False)
    components.receive_commit(commit, at_ms * MILLISECOND_NS)


def new_components() -> Components:
    """a, in a configuration with b."""
    components = Components(A, "a", Options(), 100)
    view = View(1, (A, B), ("a", "b"))
    components.begin(view, GraphViewEnd(MessageGraph(2), 0, Options()), (), 0)
    return components


def chosen(components: Components) -> Suggestion:
    assert components.current is not None
    return components.current.suggestion


def test_5_2_whoever_is_committed_ignores_foreign_suggestions() -> None:
    """d is no member of the suggestion, nor of the configuration: one thing at a time."""
    components = new_components()
    first = suggested(5, B, A, B, C)
    hear(components, B, first)
    assert chosen(components) is first
    hear(components, D, suggested(9, D, A, B, D))
    assert chosen(components) is first


def test_5_2_whoever_is_committed_moves_for_a_required_member_to_the_combination() -> None:
    """c, which must confirm the suggestion, has suggested otherwise before."""
    components = new_components()
    hear(components, B, suggested(5, B, A, B, C))
    hear(components, C, suggested(9, C, A, B, C, D))
    assert set(chosen(components).view.members) == {A, B, C, D}
    components = new_components()
    hear(components, B, suggested(5, B, A, B, C))
    hear(components, B, suggested(9, B, A, B, D))
    combined = chosen(components)
    assert set(combined.view.members) == {A, B, C, D}
    assert (combined.proposer, combined.number) == (A, 10)


def test_5_2_identical_suggestions_count_as_one() -> None:
    """Two that say the same are not merged into a third: whoever has both is committed to the higher one."""
    components = new_components()
    hear(components, B, suggested(5, B, A, B, C))
    again = suggested(6, C, A, B, C)
    hear(components, C, again)
    assert chosen(components) is again


def test_5_2_a_suggestion_that_contains_ones_own_is_acknowledged_and_not_repeated() -> None:
    """a has heard c's attempt and is about to suggest the merge when b's suggestion comes, which has all of that."""
    components = new_components()
    components.receive_attempt(Attempt(C, "c", View(3, (C,), ("c",)), False), MILLISECOND_NS)
    theirs = suggested(5, B, A, B, C)
    hear(components, B, theirs, at_ms=2)
    components.tick(500 * MILLISECOND_NS)
    assert chosen(components) is theirs


def test_5_2_a_suggestion_that_lacks_somebody_is_extended() -> None:
    """a has heard the attempts of c and d when b suggests to merge with c alone."""
    components = new_components()
    for place, foreign in ((3, C), (4, D)):
        components.receive_attempt(Attempt(foreign, foreign.name, View(place, (foreign,), (foreign.name,)), False), 1)
    hear(components, B, suggested(5, B, A, B, C))
    assert set(chosen(components).view.members) == {A, B, C, D}


def test_5_2_a_delay_collects_several_sets() -> None:
    """Five that come up by themselves at once: each makes two steps at most, from itself to all."""
    table = Table(5, policy="partitionable", stack="domain", groups={GROUP: (0,)})
    for member in range(1, 5):
        table.come(member, GROUP, 0)
    table.play(1_500)
    assert all(len(table.views[member][GROUP].members) == 5 for member in range(5))
    counts = [sum(isinstance(event, Installed) for event in events) for events in table.events]
    assert max(counts) <= 3
    assert sum(counts) <= 12
