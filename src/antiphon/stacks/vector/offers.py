"""What the stack `vector` offers: the ISIS protocols of 1991. Its causal order reaches over a causality domain."""

from typing import Final

from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.kernel.packet_kinds import DATA, MEMBERSHIP, PRIVATE, PRIVATE_ACK, REQUEST, STATUS
from antiphon.kernel.policies import POLICIES
from antiphon.stacks.stack import CAUSALITY_DOMAIN, Capabilities, Promise, group_promises
from antiphon.stacks.vector.situations import SITUATIONS

NUMBER: Final = 1

OFFERS: Final = Capabilities(
    name="vector",
    number=NUMBER,
    levels=LEVEL_NAMES,
    policies=POLICIES,
    packet_kinds=(DATA, STATUS, REQUEST, MEMBERSHIP, PRIVATE, PRIVATE_ACK),
    promised=group_promises(Promise("causal", CAUSALITY_DOMAIN, POLICIES)),
    private=True,
    crosses_groups=True,
    situations=SITUATIONS,
)
