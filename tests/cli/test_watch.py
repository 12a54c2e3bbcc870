"""`antiphon watch`: mistakes that are seen before Spark is started."""

from pathlib import Path

import pytest

from antiphon.history.journal_writer import JournalWriter
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("journal", "page", "sentence"),
    [("nowhere", "page.html", "nowhere"), ("journal", "no/page.html", "the page cannot be written to")],
)
def test_what_cannot_be_watched_is_refused(run: Run, tmp_path: Path, journal: str, page: str, sentence: str) -> None:
    with JournalWriter(tmp_path / "journal", group="g", listener="l"):
        pass
    words = ("watch", str(tmp_path / journal), "--page", str(tmp_path / page), "--checkpoint", str(tmp_path / "c"))
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["journal"]
