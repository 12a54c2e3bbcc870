"""The guarantees that the auditor knows: id, meaning, what makes one *unchecked*, and what its violations come down to.

To add one: a line in `GUARANTEES` here, a file in `antiphon.pipeline.audit` with a line in the table of its kind
(`judge.CHECKS` for what is judged delivery by delivery, `views.OF_GROUPS` for what is judged view by view or group by
group), and the same rule in plain Python in the reference auditor; docs/audit.md walks through it.
"""

from dataclasses import dataclass
from typing import Final

CREATION: Final = "creation"
DUPLICATION: Final = "duplication"
FIFO: Final = "fifo"
CAUSAL: Final = "causal"
TOTAL: Final = "total"
TOTAL_PAIRWISE: Final = "total_pairwise"
TOTAL_GLOBAL: Final = "total_global"
SAFE: Final = "safe"
CONTENT: Final = "content"
VIEW_AGREEMENT: Final = "view_agreement"
VIEW_SYNCHRONY: Final = "view_synchrony"
VIEW_SENDING: Final = "view_sending"
PRIMARY: Final = "primary"
SILENCE: Final = "silence"
GROUP_BROADCAST: Final = "group_broadcast"
LABEL_ORDER: Final = "label_order"
TRANSITIONAL: Final = "transitional"
MERGED: Final = "merged"
SETTLED: Final = "settled"


@dataclass(frozen=True)
class Guarantee:
    """One guarantee."""

    id: str
    meaning: str
    """In one sentence, for readers of the report."""
    nothing: str = ""
    """What did not happen where the guarantee is unchecked; empty if this version cannot check it yet."""


TABLE: Final = (
    Guarantee(CREATION, "Every message that was delivered had been sent.", "no message was delivered"),
    Guarantee(DUPLICATION, "No process delivers a message twice.", "no message was delivered"),
    Guarantee(
        FIFO,
        "The messages of one sender are delivered in the order in which it sent them, without gaps.",
        "no message was delivered at level fifo or above",
    ),
    Guarantee(
        CAUSAL,
        "Whoever delivers a message has already delivered everything that may have caused it.",
        "no message was delivered at level causal or above",
    ),
    Guarantee(
        TOTAL,
        "All members deliver a group's agreed, safe and causal-total messages in one common order, and abcast ones in "
        "one for each label.",
        "no message was delivered as agreed, safe, causal-total or abcast in a view that was completed",
    ),
    Guarantee(
        TOTAL_PAIRWISE,
        "Two processes that both deliver two agreed or safe messages, of whichever groups, do so in the same order.",
        "no message was delivered as agreed or safe in a view that was completed",
    ),
    Guarantee(
        TOTAL_GLOBAL,
        "All processes deliver the agreed and safe messages of all groups in one common order.",
        "no message was delivered as agreed or safe in a view that was completed",
    ),
    Guarantee(
        CONTENT,
        "A message is delivered with the level, the size and, where recorded, the digest with which it was sent.",
        "no message was delivered",
    ),
    Guarantee(
        SAFE,
        "A safe message that one member delivers is delivered by every member that does not crash.",
        "no message was delivered as safe",
    ),
    Guarantee(
        VIEW_AGREEMENT,
        "Members that see the same view agree on who is in it, and views only move forward.",
        "no view was installed",
    ),
    Guarantee(
        VIEW_SYNCHRONY,
        "Members that move on to the next view together delivered the same messages before it.",
        "no two processes went on together from a view in which something was delivered",
    ),
    Guarantee(
        VIEW_SENDING,
        "A message is delivered in the view in which it was sent.",
        "no message to all members was delivered",
    ),
    Guarantee(
        PRIMARY,
        "Primary views form a single chain, each holding a majority of the one before.",
        "no view was installed",
    ),
    Guarantee(
        SILENCE,
        "Once a process is out of the view, nothing of it is delivered, until a view takes it in again.",
        "nothing was delivered after a view that dropped a member",
    ),
    Guarantee(
        GROUP_BROADCAST,
        "A barrier (group broadcast) stands at the same place among all other deliveries, everywhere.",
        "no barrier was delivered beside other messages",
    ),
    Guarantee(
        LABEL_ORDER,
        "Labelled messages respect the order of their labels wherever one may have caused the other.",
        "no message was delivered whose label is compared",
    ),
    Guarantee(
        TRANSITIONAL,
        "Processes that come together out of a view deliver the same messages in it, and the same behind its end.",
        "no two views of a group that parts followed each other",
    ),
    Guarantee(
        MERGED,
        "Once the run had healed and gone quiet, all that still ran were together in one view.",
        "nobody stayed to the end in a group whose views part and merge",
    ),
    Guarantee(
        SETTLED,
        "Once the run had healed and gone quiet, every survivor had everything it was owed.",
        "no message was owed to a process that stayed to the end",
    ),
)

BY_ID: Final = {guarantee.id: guarantee for guarantee in TABLE}
MEANINGS: Final = {guarantee.id: guarantee.meaning for guarantee in TABLE}
GUARANTEES: Final = tuple(BY_ID)
OF_OWED: Final = (FIFO, CAUSAL, LABEL_ORDER, SETTLED)
"""Those that ask for whom a message was."""
OVER_GROUPS: Final = (CAUSAL, TOTAL_PAIRWISE, TOTAL_GLOBAL)
"""Those that reach over groups, as far as a process reads them together."""
LEFT_OPEN: Final = (*OF_OWED, SAFE, TOTAL)
"""Those of which an operator's word, to go on without a majority, leaves something open."""
OF_PARTING: Final = (TRANSITIONAL, MERGED)
"""Those that are promised only where the views of a group part and merge."""
CHECKED: Final = tuple(guarantee.id for guarantee in TABLE if guarantee.nothing)
