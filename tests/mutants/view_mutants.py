"""Changes of view broken on purpose; each must be caught in the crowds of tests/simulation/crowds.py."""

from typing import Any

from antiphon.parts.incoming import IncomingStream
from antiphon.parts.ranges import Ranges
from antiphon.stacks.vector import membership
from antiphon.stacks.vector.messages import Proposal
from antiphon.stacks.vector.rounds import Round
from antiphon.stacks.vector.session import ViewSession
from tests.mutants.mutants import Mutant


def _cut_of_the_coordinator(self: Round, view: Any, leavers: Any, joiners: Any) -> Proposal:
    proposal = _make_proposal(self, view, leavers, joiners)
    first = self.states[min(self.states)]
    proposal.cut = [Ranges(list(held.pairs)) for held in first.holdings]
    return proposal


_make_proposal = Round.make_proposal


def _never_closed(self: IncomingStream, cut: Ranges, now_ns: int) -> None:
    """Asks for nothing that the cut names and that it does not know of."""
    self._cut = Ranges([(1, self.received)] if self.received else [])
    self.known = self.received


VIEW_MUTANTS = (
    Mutant("cut not waited for", ("view_synchrony",), ((ViewSession, "complete", lambda self: True),)),
    Mutant("members go on during the flush", ("view_synchrony",), ((ViewSession, "freeze", lambda self: None),)),
    Mutant("cut of the coordinator alone", ("view_synchrony",), ((Round, "make_proposal", _cut_of_the_coordinator),)),
    Mutant("cut not fetched", ("view_synchrony",), ((IncomingStream, "close_at", _never_closed),)),
    Mutant("any number is a majority", ("primary",), ((membership, "is_quorum", lambda ranks, members: True),)),
)
