"""What the stack `domain` offers: the broadcast domain of transis-1992. No promise reaches beyond a group."""

from typing import Final

from antiphon.kernel.levels import COMMON_LEVELS
from antiphon.kernel.packet_kinds import DATA, MEMBERSHIP, REQUEST, STATUS
from antiphon.kernel.policies import PARTITIONABLE, POLICIES
from antiphon.stacks.stack import GROUP, Capabilities, Promise, group_promises

NUMBER: Final = 3
OWN_COPIES: Final = "own_copies"
"""How many members must hold a fifo or causal message before its own sender is delivered it. 2: one other has it, as
footnote 2 of transis-1992 recommends, so that what a program has seen of its own was on the network. 1: at once."""
EARLY_ORDER: Final = "early_order"
"""1: agreed messages get their places as soon as the votes that are here decide them. 0: when all members have been
heard (all-ack), by rank; for measuring the difference."""

_NOT_APART: Final = ("view_sending", "primary", "group_broadcast")
"""What is not promised where components go on apart; the rest is, per component."""
_APART_ONLY: Final = ("transitional", "merged")


def _promises() -> tuple[Promise, ...]:
    result: list[Promise] = []
    for promise in group_promises(Promise("causal", GROUP, POLICIES)):
        apart = () if promise.guarantee in _NOT_APART else (PARTITIONABLE,)
        result.append(Promise(promise.guarantee, promise.scope, (*promise.policies, *apart)))
    return (*result, *[Promise(guarantee, GROUP, (PARTITIONABLE,)) for guarantee in _APART_ONLY])


OFFERS: Final = Capabilities(
    name="domain",
    number=NUMBER,
    levels=COMMON_LEVELS,
    policies=(*POLICIES, PARTITIONABLE),
    packet_kinds=(DATA, STATUS, REQUEST, MEMBERSHIP),
    private=True,
    subsets=True,
    promised=_promises(),
    options={OWN_COPIES: 1, EARLY_ORDER: 1},
    situations=(
        "node resent by its sender",
        "node resent by another holder",
        "resend suppressed, another was heard",
        "acknowledgement by a node of its own",
        "agreed message placed before all were heard",
    ),
)
