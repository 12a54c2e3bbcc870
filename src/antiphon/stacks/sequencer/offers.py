"""What the stack `sequencer` offers: the sequencing service of 1995. Its order reaches over all groups.

One process, or several, take the role `peer` (`antiphon.kernel.inputs.Open`); groups live there, and members are
clients that join by naming the address of a peer. Changes of members have places in the order of the messages, so
every member sees the same views at the same places. A member that the service does not hear is excluded by the
service.

The option `replicas` says how many other peers hold what a peer has told its clients: with k, k peers may fail at once
and others go on in their place (seat_log.py). It takes 2k + 1 peers at least. With the option `durable` a peer keeps
its log on disk, and goes on with it when it is started again (seat_disk.py). With `retained_kib` it keeps so much of
each group after all members have it, so that whoever comes later, or comes back, can read it (replay.py).

At clients, the option `direct` has a member take bodies from other members, and send its own large ones to them by
itself: batches of `direct_kib` or more (bodies.py)."""

from typing import Final

from antiphon.kernel.options import Options
from antiphon.kernel.policies import PRIMARY
from antiphon.stacks.stack import ALL_GROUPS, GROUP, Capabilities, Promise

NUMBER: Final = 4
PEER: Final = "peer"
CLIENT: Final = "client"
_OF_GROUPS: Final = (
    "creation",
    "duplication",
    "content",
    "fifo",
    "total",
    "settled",
    "view_agreement",
    "view_synchrony",
)

OFFERS: Final = Capabilities(
    name="sequencer",
    number=NUMBER,
    levels=("fifo", "causal", "causal-total", "agreed"),
    policies=(PRIMARY,),
    packet_kinds=(),
    promised=(
        *[Promise(guarantee, GROUP, (PRIMARY,)) for guarantee in _OF_GROUPS],
        Promise("causal", ALL_GROUPS, (PRIMARY,)),
        Promise("total_pairwise", ALL_GROUPS, (PRIMARY,)),
        Promise("total_global", ALL_GROUPS, (PRIMARY,)),
    ),
    crosses_groups=True,
    barriers=False,
    service_role=PEER,
    client_role=CLIENT,
    situations=(
        "message accepted",
        "repeated message recognised",
        "missing messages fetched",
        "client resumed",
        "client excluded",
        "history full",
        "groups moved",
        "seat led",
        "seat given up",
        "request waited for a number",
        "group moved to its sender",
        "group moved for balance",
        "body sent by its sender",
    ),
    options={"balance_ms": 0, "direct": 0, "direct_kib": 64, "durable": 0, "replicas": 0, "retained_kib": 0},
)


def direct_bytes(options: Options) -> int:
    """From how many bytes on a client sends batches to other members by itself; 0: never."""
    if not options.of_stacks.get(f"{OFFERS.name}.direct", OFFERS.options["direct"]):
        return 0
    return max(1, options.of_stacks.get(f"{OFFERS.name}.direct_kib", OFFERS.options["direct_kib"]) * 1024)


def retained_bytes(options: Options) -> int:
    """Up to how many bytes of each group a peer keeps, of what all members have."""
    return options.of_stacks.get(f"{OFFERS.name}.retained_kib", OFFERS.options["retained_kib"]) * 1024
