"""Causal order between groups broken on purpose; hunted in the adversarial seeds of tests/simulation."""

from antiphon.stacks.vector.inter_group_order import InterGroupOrder
from tests.mutants.mutants import Mutant

GROUP_MUTANTS = (
    Mutant(
        "times of other groups left out",
        ("causal",),
        ((InterGroupOrder, "times", lambda *_: []), (InterGroupOrder, "all_times", lambda *_: [])),
    ),
    Mutant("other groups not waited for", ("causal",), ((InterGroupOrder, "blocks", lambda *_: False),)),
    Mutant("crossing before it is stable", ("causal",), ((InterGroupOrder, "_is_settled", lambda *_: True),)),
)
