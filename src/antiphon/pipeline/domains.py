"""Among which groups of a run causal order holds, from what its start rows say.

A group belongs to the causality domain that its start rows name, to the domain of all groups where they say so (or say
nothing), or to a domain of its own. If they contradict each other, no order between it and other groups was promised by
all, and it has a domain of its own. The steps of a causal chain count within one domain only: nothing is carried from
one domain to another.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from antiphon.history.schema import ALL_GROUPS, DOMAIN_SCOPE
from antiphon.history.start import StartFacts

EVERY_GROUP: Final = "all groups"


def domains_of(starts: Iterable[tuple[str, StartFacts]]) -> dict[str, str]:
    """The domain of each group of a run that has start rows (group and what they say), by a name of its own."""
    domains: dict[str, str] = {}
    for group, facts in starts:
        own = f"group {group}"
        named = {ALL_GROUPS: EVERY_GROUP, DOMAIN_SCOPE: f"domain {facts.domain}"}.get(facts.scope, own)
        domains[group] = named if domains.setdefault(group, named) == named else own
    return domains


def domain_of(domains: Mapping[str, str], group: str) -> str:
    """The domain of a group; of one without start rows nothing is said."""
    return domains.get(group, EVERY_GROUP)
