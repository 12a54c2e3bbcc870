"""What the stack `conversation` offers: Psync of 1989, for ordinary groups. No promise reaches beyond a group."""

from typing import Final

from antiphon.kernel.levels import COMMON_LEVELS
from antiphon.kernel.packet_kinds import ADD, ASK, ASK_PARTS, MEMBERSHIP, PART, REQUEST, RESTART, START, STATUS
from antiphon.kernel.policies import POLICIES
from antiphon.stacks.stack import GROUP, Capabilities, Promise, group_promises

NUMBER: Final = 2

OFFERS: Final = Capabilities(
    name="conversation",
    number=NUMBER,
    levels=COMMON_LEVELS,
    policies=POLICIES,
    packet_kinds=(ADD, STATUS, REQUEST, MEMBERSHIP, START, ASK, RESTART, PART, ASK_PARTS),
    private=True,
    subsets=True,
    unasked_kinds=(START,),
    promised=group_promises(Promise("causal", GROUP, POLICIES)),
    situations=("node resent", "acknowledgement without a node", "node with several predecessors"),
)
