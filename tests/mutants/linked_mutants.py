"""Linked domains broken on purpose, as whole programs: relays that are killed and cut off, judged by the audit.

ANTIPHON_PURE=1 python -m tests.mutants.hunt linked
"""

from collections.abc import Sequence

from antiphon.domain.communication import CommunicationDomain
from antiphon.domain.relay import Relay
from antiphon.runtime.events import Excluded
from antiphon.stacks.domain.export import DomainExports
from tests.domain.relays import faults_of, play
from tests.domain.test_communication import test_a_relay_that_is_cut_off_from_its_own_domain_swallows_nothing
from tests.mutants.export_mutants import _as_they_come, _no_maximum
from tests.mutants.mutants import Mutant

AUDIT = "audit"

_write = Relay._write


def _keep_state(self: CommunicationDomain, excluded: Excluded) -> None:
    self._put(excluded)


def _by_the_same_link(self: Relay, domain: str, data: bytes, again: bool = False) -> bool:
    return _write(self, domain, data)


LINKED_MUTANTS = (
    Mutant(
        "whoever comes back to its domain keeps its state", (AUDIT,), ((CommunicationDomain, "_lapse", _keep_state),)
    ),
    Mutant("what comes again takes the same link", (AUDIT,), ((Relay, "_write", _by_the_same_link),)),
    Mutant("audit: no places", (AUDIT,), ((DomainExports, "_import_message", _as_they_come),)),
    Mutant("audit: counters of others are forgotten", (AUDIT,), ((DomainExports, "import_frame", _no_maximum),)),
)


def linked_symptoms(seed: int, breaks: Sequence[str]) -> str | None:
    """What the audit says of this seed's linked domains; -1 is a staged claim."""
    if seed < 0:
        try:
            test_a_relay_that_is_cut_off_from_its_own_domain_swallows_nothing()
        except AssertionError as error:
            return str(error) or type(error).__name__
        return None
    _, result = play(seed, 8, faults_of(seed))
    return str(result.problems[0]) if result.problems else None
