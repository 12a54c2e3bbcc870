"""What the stack `vector` offers: the ISIS protocols of 1991. Its causal order reaches over a causality domain."""

from typing import Final

from antiphon.kernel.levels import COMMON_LEVELS
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.packet_kinds import DATA, MEMBERSHIP, PRIVATE, PRIVATE_ACK, REQUEST, STATUS
from antiphon.kernel.policies import POLICIES
from antiphon.stacks.stack import CAUSALITY_DOMAIN, Capabilities, Promise, group_promises
from antiphon.stacks.vector.situations import SITUATIONS

NUMBER: Final = 1
HOLD_NS: Final = "hold_ns"
"""While a message to one group waits for what came before it in others to become stable, deliveries there are held back
for this long at a time."""
TIME_LIFE_NS: Final = "time_life_ns"
"""A group that shares members with others is flushed, if it was active, twice within this time, so that processes
elsewhere need not keep its old times."""

OFFERS: Final = Capabilities(
    name="vector",
    number=NUMBER,
    levels=COMMON_LEVELS,
    policies=POLICIES,
    packet_kinds=(DATA, STATUS, REQUEST, MEMBERSHIP, PRIVATE, PRIVATE_ACK),
    promised=group_promises(Promise("causal", CAUSALITY_DOMAIN, POLICIES)),
    private=True,
    crosses_groups=True,
    situations=SITUATIONS,
    options={HOLD_NS: 20 * MILLISECOND_NS, TIME_LIFE_NS: 60_000 * MILLISECOND_NS},
)
