"""What the stack `label` offers: the primitives of isis-1987. No promise reaches beyond a group.

Option `lazy_us`: how many microseconds a broadcast below `agreed` may wait at its sender for others to travel with it
(isis-1987, 3.5). 0: it leaves at once.
"""

from typing import Final

from antiphon.kernel.levels import COMMON_LEVELS
from antiphon.kernel.packet_kinds import DATA, KNOCK, MEMBERSHIP, REQUEST, STATUS
from antiphon.kernel.policies import POLICIES
from antiphon.stacks.label.comparison import check_label_at_call
from antiphon.stacks.stack import GROUP, Capabilities, Promise, group_promises

NUMBER: Final = 5

OFFERS: Final = Capabilities(
    name="label",
    number=NUMBER,
    levels=(*COMMON_LEVELS, "abcast"),
    policies=POLICIES,
    packet_kinds=(DATA, STATUS, REQUEST, MEMBERSHIP, KNOCK),
    private=True,
    subsets=True,
    labels=True,
    check_label=check_label_at_call,
    open_groups=True,
    promised=(*group_promises(Promise("causal", GROUP, POLICIES)), Promise("label_order", GROUP, POLICIES)),
    situations=(
        "broadcast carried by another than its sender",
        "broadcast came twice, by two ways",
        "transfer packet of several datagrams",
        "ordered broadcast placed at the end of a view",
        "ordered broadcast delivered because a later one tells its place",
        "labelled broadcast sent ahead of own ones that do not precede it",
        "abcast placed at the end of a view",
        "broadcast held back for an abcast that came before it",
    ),
    options={"lazy_us": 0},
)
