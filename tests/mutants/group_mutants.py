"""Causal order between groups broken on purpose; hunted in the sieges of tests/simulation."""

from antiphon.stacks.vector.crossing import Crossing
from tests.mutants.mutants import Mutant

GROUP_MUTANTS = (
    Mutant(
        "times of other groups left out",
        ("causal",),
        ((Crossing, "times", lambda *_: []), (Crossing, "all_times", lambda *_: [])),
    ),
    Mutant("other groups not waited for", ("causal",), ((Crossing, "blocks", lambda *_: False),)),
    Mutant("crossing before it is stable", ("causal",), ((Crossing, "_is_settled", lambda *_: True),)),
)
