"""A process that reads each group by itself: the audit says to whom no order between groups was promised."""

from pathlib import Path

import pytest

from antiphon.pipeline import reference
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import BROKEN, KEPT
from antiphon.report.html import write_report
from tests.pipeline.script import make_rows
from tests.pipeline.test_auditor import write_history
from tests.pipeline.test_domains import MAIN, make_logs
from tests.report.test_table import plain

DOMAIN = {"g": MAIN, "h": MAIN}
ASKED = {"p": "s:g d:p:g d:q:h", "q": "d:p:g s:h d:q:h"}
"""q answers in h what p asked in g."""


def test_causal_is_kept_and_the_reason_names_who_was_promised_less(tmp_path: Path) -> None:
    """r reads the answer before the question: both auditors say from which row it reads apart, table and page too."""
    path = write_history(tmp_path, make_logs(DOMAIN, **ASKED, r="apart d:q:h d:p:g"))
    words = "no order between groups was promised to r, which reads its groups apart from row 4 on"
    (found,) = reference.audit(path).findings
    assert (found.guarantee, found.verdict, found.reason) == ("causal", KEPT, words)
    audit = quick_audit(path)
    assert audit.findings == (found,)
    assert words in "\n".join(" ".join(line) for line in plain(audit))
    write_report(audit, path, tmp_path / "report.html")
    assert words in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(("line", "verdict"), [("d:q:h d:p:g", BROKEN), ("d:p:g d:q:h", KEPT)])
def test_whoever_reads_the_node_is_promised_the_order(line: str, verdict: str, tmp_path: Path) -> None:
    path = write_history(tmp_path, make_logs(DOMAIN, **ASKED, r=line))
    for audit in (reference.audit(path), quick_audit(path)):
        assert [(found.verdict, found.reason) for found in audit.findings] == [(verdict, None)]


def test_what_came_before_the_note_is_held_to_the_order(tmp_path: Path) -> None:
    path = write_history(tmp_path, make_logs(DOMAIN, **ASKED, r="d:q:h d:p:g apart"))
    for audit in (reference.audit(path), quick_audit(path)):
        (found,) = audit.findings
        assert (found.verdict, found.violations) == (BROKEN, 1)
        assert found.reason == "no order between groups was promised to r, which reads its groups apart from row 6 on"


def test_at_most_five_are_named(tmp_path: Path) -> None:
    readers = dict.fromkeys("rstuvw", "apart d:q:h d:p:g")
    path = write_history(tmp_path, make_logs(DOMAIN, **ASKED, **readers))
    for audit in (reference.audit(path), quick_audit(path)):
        reason = audit.findings[0].reason or ""
        assert reason.count("reads its groups apart") == 5
        assert reason.endswith("and 1 more")


def test_no_word_of_it_where_causal_is_not_promised(tmp_path: Path) -> None:
    path = write_history(tmp_path, make_rows(promises="fifo", p="s1 d:p1 apart quiet", q="d:p1 quiet"))
    for audit in (reference.audit(path), quick_audit(path)):
        assert [found.reason for found in audit.findings] == [None]
