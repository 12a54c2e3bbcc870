"""What the verdict of a whole audit means, in one sentence."""

from collections import Counter
from typing import Final

from antiphon.pipeline.result import BROKEN, KEPT, UNCHECKED, UNKNOWN, Audit

HEADLINES: Final = {
    KEPT: "Every promise was kept",
    BROKEN: "A promise was broken",
    UNKNOWN: "Nothing was found broken, but the records leave something open",
    UNCHECKED: "Nothing happened that could have kept or broken a promise",
}


def headline(audit: Audit) -> str:
    """The verdict of the whole audit as a sentence. What is unchecked is named, and never counted as kept."""
    if not audit.findings:
        return "Nothing was promised, so nothing could be broken"
    found = Counter(finding.verdict for finding in audit.findings)
    sentence = HEADLINES[audit.verdict]
    if found[BROKEN] > 1:
        sentence = f"{found[BROKEN]} promises were broken"
    unchecked = [finding.guarantee for finding in audit.findings if finding.verdict == UNCHECKED]
    if not unchecked or audit.verdict == UNCHECKED:
        return sentence
    if audit.verdict == KEPT:
        sentence = f"{found[KEPT]} of {len(audit.findings)} promises were kept"
    return f"{sentence}; unchecked, since nothing of the kind happened: {', '.join(unchecked)}"
