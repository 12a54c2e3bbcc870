"""A process that was in views of which its application was not told: nobody is blamed for what its log does not say."""

import pytest

from antiphon.pipeline import reference
from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN
from tests.pipeline.inprocess import count, counts_of
from tests.pipeline.script import make_rows


@pytest.mark.parametrize(
    ("untold", "verdict"), [("untold@g", UNKNOWN), ("", BROKEN), ("untold@h", BROKEN)], ids=["said", "not said", "of h"]
)
def test_a_view_that_nobody_was_told_of_breaks_no_chain(untold: str, verdict: str) -> None:
    """b and c alone were in view 2, and left it unread; a came back into view 3."""
    rows = make_rows(promises="primary", a="crash", b=f"{untold} left", c=f"{untold} left", d="joins v3:d quiet")
    (found,) = reference.audit(rows).findings
    assert found.verdict == verdict
    assert ("b/1 was in views of g of which its application was not told" in (found.reason or "")) == (
        verdict == UNKNOWN
    )
    for piece_rows in (1, 2, 100):
        assert count(rows, piece_rows=piece_rows) == counts_of(reference.audit(rows))


def test_it_may_have_been_among_those_who_went_on() -> None:
    rows = make_rows(promises="primary", a="crash", b="untold@g left", c="v2:bc v3:c quiet")
    (found,) = reference.audit(rows).findings
    assert found.verdict == KEPT
    rows = make_rows(promises="primary", a="crash", b="untold@g stop", c="v2:bc v3:c quiet")
    (found,) = reference.audit(rows).findings
    assert found.verdict == UNKNOWN
    assert count(rows, piece_rows=1) == counts_of(reference.audit(rows))
