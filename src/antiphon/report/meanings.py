"""What each guarantee and each verdict means, in one sentence, for those who have no design at hand."""

from typing import Final

from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN, Audit

GUARANTEES: Final = {
    "creation": "Every message that was delivered had been sent.",
    "duplication": "No process delivers a message twice.",
    "fifo": "The messages of one sender are delivered in the order in which it sent them, without gaps.",
    "causal": "Whoever delivers a message has already delivered everything that may have caused it.",
    "total": "All members deliver a group's agreed and safe messages in one common order.",
    "total_global": "All processes deliver the agreed and safe messages of all groups in one common order.",
    "safe": "A safe message that one member delivers is delivered by every member that does not crash.",
    "view_agreement": "Members that see the same view agree on who is in it, and views only move forward.",
    "view_synchrony": "Members that move on to the next view together delivered the same messages before it.",
    "view_sending": "A message is delivered in the view in which it was sent.",
    "primary": "Primary views form a single chain, each holding a majority of the one before.",
    "silence": "Once a process is out of the view, nothing of it is delivered any more.",
    "group_broadcast": "A barrier (group broadcast) stands at the same place among all other deliveries, everywhere.",
    "label_order": "Labelled messages respect the order of their labels wherever one may have caused the other.",
    "settled": "Once the run had healed and gone quiet, every survivor had everything it was owed.",
}

HEADLINES: Final = {
    KEPT: "Every promise was kept",
    BROKEN: "A promise was broken",
    UNKNOWN: "Nothing was found broken, but the records leave something open",
}


def headline(audit: Audit) -> str:
    """The verdict of the whole audit as a sentence."""
    broken = sum(finding.verdict == BROKEN for finding in audit.findings)
    if audit.verdict == BROKEN and broken > 1:
        return f"{broken} promises were broken"
    if audit.verdict == KEPT and not audit.findings:
        return "Nothing was promised, so nothing could be broken"
    return HEADLINES.get(audit.verdict, audit.verdict)
