"""The table for the terminal."""

import io

from rich.console import Console

from antiphon.pipeline.result import KEPT, UNKNOWN, Audit, Finding
from antiphon.report.table import audit_table
from tests.report.sample import broken, causal_violation, kept


def printed(audit: Audit) -> str:
    console = Console(width=200, file=io.StringIO(), color_system="standard", force_terminal=True)
    console.print(audit_table(audit))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def plain(audit: Audit) -> list[list[str]]:
    console = Console(width=200, file=io.StringIO(), color_system=None)
    console.print(audit_table(audit))
    assert isinstance(console.file, io.StringIO)
    return [line.split() for line in console.file.getvalue().splitlines()]


def test_each_guarantee_is_a_line_with_its_verdict_and_counts() -> None:
    sample, finding = causal_violation()
    lines = plain(sample.audit(kept("fifo"), finding))
    assert ["guarantee", "verdict", "checked", "violations", "roots", "unknown"] in lines
    assert ["fifo", "kept", "1,234", "0", "0", "0"] in lines
    assert ["causal", "broken", "1,234", "1", "1", "0"] in lines


def test_what_was_broken_and_what_stays_open_is_said_in_words() -> None:
    sample, finding = causal_violation()
    reason = "the log of b is cut short"
    unknown = Finding(guarantee="settled", verdict=UNKNOWN, violations=0, unknown=7, checked=9, reason=reason)
    text = "\n".join(" ".join(words) for words in plain(sample.audit(finding, unknown)))
    assert "c delivered b#1 before a#1, although b sent #1 after delivering a#1 (run run-1, group quotes)" in text
    assert reason in text
    assert "broken A promise was broken" in text


def test_the_verdict_has_its_colour_and_its_word() -> None:
    sample, finding = causal_violation()
    text = printed(sample.audit(kept("fifo"), finding))
    assert "\x1b[1;32mkept" in text
    assert "\x1b[1;31mbroken" in text


def test_names_are_no_markup_and_cannot_reach_the_terminal() -> None:
    sample, _ = causal_violation()
    text = printed(sample.audit(broken("causal", "[bold]p[/bold] \x1b]0;owned\x07 delivered")))
    assert "[bold]p[/bold] �]0;owned� delivered" in text


def test_nothing_promised_is_not_called_kept_promises() -> None:
    audit = Audit(verdict=KEPT, events=0, rows=0, runs=0, findings=())
    assert "Nothing was promised" in printed(audit)
