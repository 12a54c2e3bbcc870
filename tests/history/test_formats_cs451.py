"""Import of cs451 logs: which lines become which rows, what is refused, and what the audit makes of it."""

from pathlib import Path

import pytest

from antiphon.history.formats.cs451 import import_cs451
from antiphon.history.formats.errors import MalformedLogError
from antiphon.history.formats.importing import Imported, ImportOptions
from antiphon.history.reader import HistoryFiles
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.reference import audit
from tests.history.histories import SAMPLES, summary

OPTIONS = ImportOptions(run="r", level="fifo", complete=True)


def make_folder(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "outputs"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name.removeprefix('n')}.output").write_text(text)
    return folder


def import_files(tmp_path: Path, level: str = "fifo", complete: bool = True, **files: str) -> tuple[Path, Imported]:
    history = tmp_path / "history"
    history.mkdir()
    options = ImportOptions(run="r", level=level, complete=complete)
    return history, import_cs451(make_folder(tmp_path, **files), history, options)


def verdicts(history: Path, *promise: str) -> dict[str, str]:
    return {finding.guarantee: finding.verdict for finding in audit(history, promise or None).findings}


def test_the_sample(tmp_path: Path) -> None:
    result = import_cs451(SAMPLES / "cs451", tmp_path, OPTIONS)
    assert result == Imported(runs=1, logs=3, events=12)
    view = "view broadcast 1/1,2/1,3/1"
    assert summary(tmp_path) == [
        "1/1 start", f"1/1 {view}", "1/1 send broadcast:1/1#1-2", "1/1 deliver broadcast:1/1#1-1",
        "1/1 deliver broadcast:2/1#1-1", "1/1 deliver broadcast:1/1#2-2", "1/1 stop the log ends here",
        "2/1 start", f"2/1 {view}", "2/1 send broadcast:2/1#1-1", "2/1 deliver broadcast:1/1#1-1",
        "2/1 deliver broadcast:2/1#1-1", "2/1 deliver broadcast:1/1#2-2", "2/1 stop the log ends here",
        "3/1 start", f"3/1 {view}", "3/1 deliver broadcast:1/1#1-2", "3/1 deliver broadcast:2/1#1-1",
        "3/1 stop the log ends here",
    ]  # fmt: skip
    assert verdicts(tmp_path) == {"creation": "kept", "duplication": "kept", "fifo": "kept"}


@pytest.mark.parametrize(
    ("guarantee", "second"),
    [("creation", "d 1 1\nd 1 2\nd 1 3\n"), ("duplication", "d 1 1\nd 1 1\n"), ("fifo", "d 1 2\nd 1 1\n")],
)
def test_what_a_broken_program_logs_is_found(tmp_path: Path, guarantee: str, second: str) -> None:
    history, _ = import_files(tmp_path, n1="b 1\nb 2\nd 1 1\nd 1 2\n", n2=second)
    broken = {name for name, verdict in verdicts(history).items() if verdict == "broken"}
    assert broken == {guarantee}


def test_causal_order_is_judged_where_the_program_claims_it(tmp_path: Path) -> None:
    files = {"n1": "b 1\nd 1 1\n", "n2": "d 1 1\nb 1\nd 2 1\n", "n3": "d 2 1\nd 1 1\n"}
    history, _ = import_files(tmp_path, "causal", True, **files)
    assert verdicts(history) == {"creation": "kept", "duplication": "kept", "fifo": "kept", "causal": "broken"}


def test_one_order_is_judged_where_the_program_claims_it(tmp_path: Path) -> None:
    history, _ = import_files(tmp_path, level="safe", n1="b 1\nd 1 1\nd 2 1\n", n2="b 1\nd 2 1\nd 1 1\n")
    assert verdicts(history)["total"] == "broken"


def test_a_real_folder_with_other_files(tmp_path: Path) -> None:
    result = import_cs451(SAMPLES / "cs451_stress", tmp_path, ImportOptions(run="r"))
    assert (result.logs, result.events) == (3, 11)
    assert [remark.split(",")[0] for remark in result.remarks] == [
        "no level was named",
        "the format has no mark for the end of a log",
    ]
    assert "held to level fifo (creation, duplication, fifo)" in result.remarks[0]
    assert {row.process for row in HistoryFiles.open(tmp_path).read_rows()} == {"1", "2", "3"}
    assert verdicts(tmp_path) == {"creation": "unknown", "duplication": "unknown", "fifo": "unknown"}


def test_a_log_proves_nothing_beyond_its_last_line(tmp_path: Path) -> None:
    files = {"n1": "b 1\nd 1 1\n", "n2": "d 1 1\nd 1 2\n"}
    history, _ = import_files(tmp_path, "fifo", False, **files)
    assert verdicts(history) == {"creation": "unknown", "duplication": "unknown", "fifo": "unknown"}
    (tmp_path / "again").mkdir()
    whole, result = import_files(tmp_path / "again", "fifo", True, **files)
    assert result.remarks == ()
    assert verdicts(whole) == {"creation": "broken", "duplication": "kept", "fifo": "kept"}


def test_what_an_open_log_shows_is_broken_all_the_same(tmp_path: Path) -> None:
    history, _ = import_files(tmp_path, complete=False, n1="b 1\nb 2\n", n2="d 1 2\nd 1 1\nd 1 1\n")
    assert verdicts(history) == {"creation": "unknown", "duplication": "broken", "fifo": "broken"}


def test_what_nothing_could_check_is_unknown(tmp_path: Path) -> None:
    history, _ = import_files(tmp_path, level="causal", n1="b 1\nb 2\n", n2="")
    assert set(verdicts(history).values()) == {"unknown"}
    reason = next(finding.reason for finding in audit(history).findings if finding.guarantee == "causal")
    assert reason == (
        "no message was delivered at level causal or above, so what was asked for was never put to the test"
    )


def test_one_process_with_two_logs_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, n1="b 1\n")
    (folder / "proc01.output").write_text("b 1\n")
    with pytest.raises(MalformedLogError, match=r"proc01\.output: 1\.output is a log of process 1 already"):
        import_cs451(folder, tmp_path / "h", OPTIONS)


def test_the_end_of_a_log_says_nothing_of_quiet(tmp_path: Path) -> None:
    history, _ = import_files(tmp_path, n1="b 1\nd 1 1\n", n2="")
    assert verdicts(history, "settled") == {"settled": "unknown"}


def test_a_file_cut_in_a_line_is_a_log_cut_short(tmp_path: Path) -> None:
    history, result = import_files(tmp_path, n1="b 1\nb 2\nd 1 1", n2="d 1 1\nd 1 2\n")
    assert result.remarks == ("1.output ends in the middle of a line: its log counts as cut short",)
    assert [row.kind for row in HistoryFiles.open(history).read_rows() if row.process == "1"] == [
        "start",
        "view",
        "send",
    ]
    assert verdicts(history)["creation"] == "unknown"


def test_an_empty_file_is_a_process_that_did_nothing(tmp_path: Path) -> None:
    history, result = import_files(tmp_path, n1="b 1\nd 1 1\n", n2="")
    assert result.logs == 2
    assert verdicts(history)["creation"] == "kept"


def test_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    _, result = import_files(tmp_path, n1="b 1\r\nd 1 1\r\n")
    assert (result.events, result.remarks) == (2, ())


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("b 1\nb 3\n", 2, "broadcast 3 follows 1; SEQ must count 1, 2, 3…"),
        ("b 2\n", 1, "broadcast 2 follows 0"),
        ("b 1\nb 1\n", 2, "broadcast 1 follows 1"),
        ("b 0\n", 1, "'0' is no positive whole number"),
        ("b -1\n", 1, "'-1' is no positive whole number"),
        ("b 1.5\n", 1, "'1.5' is no positive whole number"),
        ("b 1\nd 1 x\n", 2, "'x' is no positive whole number"),
        ("d 9 1\n", 1, "sender 9 is unknown: there is no 9.output"),
        ("b 1\n\nd 1 1\n", 2, "expected 'b SEQ' or 'd SENDER SEQ', not ''"),
        ("b 1\nx 1 1\n", 2, "expected 'b SEQ' or 'd SENDER SEQ', not 'x 1 1'"),
        ("b 1 2\n", 1, "expected 'b SEQ' or 'd SENDER SEQ', not 'b 1 2'"),
        ("d 1\n", 1, "expected 'b SEQ' or 'd SENDER SEQ', not 'd 1'"),
        ("b 1\nd 1 " + "1" * 200 + "\n", 2, "the line is longer than 100 bytes"),
    ],
)
def test_a_line_that_is_wrong_is_refused(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(MalformedLogError) as caught:
        import_files(tmp_path, n1=text)
    assert caught.value.line == line
    assert f"1.output, line {line}: {words}" in str(caught.value)


def test_folders_that_are_no_log(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MalformedLogError, match=r"empty: the folder holds no file N\.output"):
        import_cs451(tmp_path / "empty", tmp_path / "h", OPTIONS)
    (tmp_path / "empty" / "first.output").touch()
    (tmp_path / "empty" / "1.output").mkdir()
    with pytest.raises(MalformedLogError, match=r"empty: the folder holds no file N\.output"):
        import_cs451(tmp_path / "empty", tmp_path / "h", OPTIONS)
    with pytest.raises(MalformedLogError, match="this is no folder"):
        import_cs451(tmp_path / "empty" / "first.output", tmp_path / "h", OPTIONS)


def test_a_level_that_cannot_be_imported() -> None:
    with pytest.raises(UsageError, match="level 'agreed' is none"):
        ImportOptions(run="r", level="agreed")
