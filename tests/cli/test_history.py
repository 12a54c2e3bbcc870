"""`antiphon history pack`: mistakes that are seen before Spark is started."""

from pathlib import Path

from tests.cli.conftest import Run


def test_too_few_rows_for_a_file_are_refused(run: Run, tmp_path: Path) -> None:
    outcome = run("history", "pack", str(tmp_path), str(tmp_path / "packed"), "--rows-per-file", "0")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("antiphon: --rows-per-file 0 is too few; allow 1 or more")
    assert list(tmp_path.iterdir()) == []
