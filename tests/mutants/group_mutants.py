"""Causal order between groups broken on purpose; hunted in the adversarial seeds of tests/simulation, or on a staged
scene."""

from collections.abc import Callable

from antiphon.stacks.vector.inter_group_order import InterGroupOrder
from tests.mutants.mutants import Mutant
from tests.stacks.vector.doors import at_the_doors

DOORS = "a view entered that packets had named"

GROUP_MUTANTS = (
    Mutant(
        "times of other groups left out",
        ("causal",),
        ((InterGroupOrder, "times", lambda *_: []), (InterGroupOrder, "all_times", lambda *_: [])),
    ),
    Mutant("other groups not waited for", ("causal",), ((InterGroupOrder, "blocks", lambda *_: False),)),
    Mutant(
        DOORS,
        ("causal",),
        ((InterGroupOrder, "note_arrival", lambda *_: None), (InterGroupOrder, "may_enter", lambda *_: True)),
    ),
    Mutant("crossing before it is stable", ("causal",), ((InterGroupOrder, "_is_settled", lambda *_: True),)),
)


def doors_problem() -> str | None:
    """What goes wrong for a process that gets an answer before it knows that it is owed the question."""
    table = at_the_doors("a")
    table.mend()
    table.play(500)
    return None if table.log[2] == ["a:p1#1", "b:p2#1"] else f"delivered: {table.log[2]}"


GROUP_STAGED: dict[str, Callable[[], str | None]] = {DOORS: doors_problem}
