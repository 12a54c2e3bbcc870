"""What the stack `domain` offers: the broadcast domain of transis-1992. No promise reaches beyond a group."""

from typing import Final

from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.kernel.packet_kinds import DATA, MEMBERSHIP, REQUEST, STATUS
from antiphon.kernel.policies import POLICIES
from antiphon.stacks.stack import GROUP, Capabilities, Promise, group_promises

NUMBER: Final = 3

OFFERS: Final = Capabilities(
    name="domain",
    number=NUMBER,
    levels=LEVEL_NAMES,
    policies=POLICIES,
    packet_kinds=(DATA, STATUS, REQUEST, MEMBERSHIP),
    promised=group_promises(Promise("causal", GROUP, POLICIES)),
    situations=(
        "node resent by its sender",
        "node resent by another holder",
        "resend suppressed, another was heard",
        "acknowledgement by a node of its own",
        "agreed message placed before all were heard",
    ),
)
