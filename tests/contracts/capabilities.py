"""What a contract may need of a stack beyond its levels, and why a stack of the registry may lack it.

A stack that lacks something is left out of the contracts that need it, and is held to another one in their place: to
say so, in words, when it is asked for it (test_capabilities.py). What a stack has is read from its offers; no stack is
named here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from antiphon.kernel.policies import STATIC
from antiphon.stacks.stack import CAUSALITY_DOMAIN, Capabilities


@dataclass(frozen=True)
class Need:
    """Something that contracts are about and not every stack has."""

    is_met: Callable[[Capabilities], bool]
    why_not: str
    """Why a stack may lack it, and what its callers get instead."""


NEEDS = {
    "private": Need(
        lambda offers: offers.private,
        "In its paper every message goes to the whole group: the order that all see is made of all messages.",
    ),
    "subsets": Need(
        lambda offers: offers.subsets,
        "Its order is made among all members, so that a message is for all of them, or for one, at level causal.",
    ),
    "crosses_groups": Need(
        lambda offers: offers.crosses_groups,
        "Its paper orders the messages of one group; what happens in another group is none of its concern.",
    ),
    "causality_domains": Need(
        lambda offers: offers.crosses_groups and offers.scope("causal") == CAUSALITY_DOMAIN,
        "It has no order between groups, or one over all groups, from which none can be taken out.",
    ),
    "barriers": Need(
        lambda offers: offers.barriers,
        "Views end without a flush, at a place in the order of the messages: an agreed message is a barrier.",
    ),
    "datagrams": Need(
        lambda offers: bool(offers.packet_kinds),
        "Its processes are joined by links, which lose only a suffix: no packet can be lost, doubled or overtaken. "
        "It is held to the same contracts over links that break.",
    ),
    "founding": Need(
        lambda offers: not offers.service_role,
        "Its groups live at a service, which says who is in the first view: members name the service and no view.",
    ),
    "static": Need(
        lambda offers: STATIC in offers.policies,
        "Changes of members have places in the order of the messages, so that there is no group without them.",
    ),
}
