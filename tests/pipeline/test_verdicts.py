"""From counts to verdicts: what was never put to the test is not called kept, and who is blamed for differing."""

import io

from rich.console import Console

from antiphon.pipeline import reference
from antiphon.pipeline.guarantees import BY_ID, CHECKED
from antiphon.pipeline.result import BROKEN, KEPT, UNCHECKED, UNKNOWN, Audit
from antiphon.pipeline.verdicts import overall
from antiphon.report.meanings import headline
from antiphon.report.table import audit_table
from tests.pipeline.script import make_rows

NO_BARRIER = {"p": "s1 d:p1 quiet", "q": "d:p1 quiet"}


def verdicts(audit: Audit) -> dict[str, str]:
    return {finding.guarantee: finding.verdict for finding in audit.findings}


def printed(audit: Audit) -> str:
    console = Console(width=200, file=io.StringIO(), color_system=None)
    console.print(audit_table(audit))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_promise_that_nothing_put_to_the_test_is_unchecked() -> None:
    audit = reference.audit(make_rows(promises="creation group_broadcast safe", **NO_BARRIER))
    assert verdicts(audit) == {"creation": KEPT, "safe": UNCHECKED, "group_broadcast": UNCHECKED}
    assert audit.verdict == KEPT
    assert [f.reason for f in audit.findings if f.verdict == UNCHECKED] == [
        "no message was delivered as safe, so the promise was never put to the test",
        "no barrier was delivered beside other messages, so the promise was never put to the test",
    ]


def test_no_sentence_counts_it_as_kept() -> None:
    audit = reference.audit(make_rows(promises="creation group_broadcast", **NO_BARRIER))
    sentence = "1 of 2 promises were kept; unchecked, since nothing of the kind happened: group_broadcast"
    assert headline(audit) == sentence
    assert sentence in printed(audit)
    assert "Every promise was kept" not in printed(audit)


def test_asked_for_by_name_it_is_unknown_and_says_why() -> None:
    audit = reference.audit(make_rows(**NO_BARRIER), ["creation", "group_broadcast"])
    assert verdicts(audit) == {"creation": KEPT, "group_broadcast": UNKNOWN}
    assert audit.verdict == UNKNOWN
    found = audit.findings[1]
    assert (found.unknown, found.reason) == (
        0,
        "no barrier was delivered beside other messages, so what was asked for was never put to the test",
    )


def test_where_nothing_at_all_happened_nothing_is_kept() -> None:
    audit = reference.audit(make_rows(promises="creation safe", p="quiet"))
    assert audit.verdict == UNCHECKED
    assert headline(audit) == "Nothing happened that could have kept or broken a promise"


def test_the_verdict_of_all() -> None:
    assert overall([KEPT, BROKEN, UNKNOWN, UNCHECKED]) == BROKEN
    assert overall([KEPT, UNKNOWN, UNCHECKED]) == UNKNOWN
    assert overall([KEPT, UNCHECKED]) == KEPT
    assert overall([UNCHECKED, UNCHECKED]) == UNCHECKED


def test_each_guarantee_says_what_must_happen_to_put_it_to_the_test() -> None:
    assert all(BY_ID[guarantee].nothing for guarantee in CHECKED)


def test_whoever_differs_from_the_majority_is_blamed_for_a_view() -> None:
    """The first log by name is the odd one out."""
    lines = {"a": "v2:ab quiet", "b": "v2:abc quiet", "c": "v2:abc quiet"}
    rows = make_rows(promises="view_agreement", **lines)
    (found,) = reference.audit(rows).findings
    assert (found.violations, found.checked) == (1, 6)
    assert found.example is not None
    assert found.example.text.startswith("a has a, b in view 2 of g, but b has other members")
    assert found.roots == 1
