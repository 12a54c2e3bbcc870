"""What the stack `label` offers: the primitives of isis-1987. No promise reaches beyond a group.

Policy `sites`: members are attached to sites (site.py), of which a majority goes on. So a view of processes need not
have a majority of the one before: the promise `primary` is not given. Nor is `view_sending`: the site sends in the
place of the process, which may have died before it could note in which view.

Option `lazy_us`: how many microseconds a broadcast below `agreed` may wait at its sender for others to travel with it
(isis-1987, 3.5). 0: it leaves at once.
"""

from typing import Final

from antiphon.kernel.levels import COMMON_LEVELS
from antiphon.kernel.packet_kinds import DATA, KNOCK, MEMBERSHIP, REQUEST, STATUS
from antiphon.kernel.policies import POLICIES, SITES
from antiphon.stacks.label.comparison import check_label_at_call
from antiphon.stacks.stack import GROUP, Capabilities, Promise, group_promises

NUMBER: Final = 5

SITE: Final = "site"
"""The role of a process that others are attached to."""

_NOT_AT_SITES: Final = ("primary", "view_sending")


def _promises() -> tuple[Promise, ...]:
    result: list[Promise] = []
    for promise in (*group_promises(Promise("causal", GROUP, POLICIES)), Promise("label_order", GROUP, POLICIES)):
        sited = () if promise.guarantee in _NOT_AT_SITES else (SITES,)
        result.append(Promise(promise.guarantee, promise.scope, (*promise.policies, *sited)))
    return tuple(result)


OFFERS: Final = Capabilities(
    name="label",
    number=NUMBER,
    levels=(*COMMON_LEVELS, "abcast"),
    policies=(*POLICIES, SITES),
    packet_kinds=(DATA, STATUS, REQUEST, MEMBERSHIP, KNOCK),
    private=True,
    subsets=True,
    labels=True,
    check_label=check_label_at_call,
    open_groups=True,
    promised=_promises(),
    site_role=SITE,
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
