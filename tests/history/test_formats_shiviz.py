"""ShiViz: clocks are checked, messages are found by them, and an export is the same history when it comes back."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antiphon.history.formats.errors import MalformedLogError
from antiphon.history.formats.importing import Imported, ImportOptions
from antiphon.history.formats.shiviz_export import DELIMITER, PARSER, export_shiviz
from antiphon.history.formats.shiviz_import import import_shiviz
from antiphon.history.log import MemoryLog
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import SCHEMA
from antiphon.pipeline.reference import audit
from tests.history.histories import SAMPLES, exported, in_order, random_logs, summary, write_logs
from tests.pipeline.histories import rows_of
from tests.pipeline.script import make_logs

OPTIONS = ImportOptions(run="r")
BARE = ImportOptions(run="r", parser=r"(?<host>\w+) (?<event>\w+) (?<clock>{.*})")


def import_text(tmp_path: Path, text: str, options: ImportOptions = BARE) -> Path:
    (tmp_path / "x.log").write_text(text)
    import_shiviz(tmp_path / "x.log", tmp_path / "h", options)
    return tmp_path / "h"


def test_the_sample(tmp_path: Path) -> None:
    result = import_shiviz(SAMPLES / "shiviz.log", tmp_path, OPTIONS)
    assert result == Imported(runs=1, logs=3, events=7)
    view = "view execution client1/1,client2/1,server/1"
    assert summary(tmp_path) == [
        "client1/1 start", f"client1/1 {view}",
        "client1/1 note asks", "client1/1 send execution:client1/1#1-1 to server/1",
        "client1/1 note waits",
        "client1/1 note has the answer", "client1/1 deliver execution:server/1#1-1",
        "client1/1 stop the log ends here",
        "client2/1 start", f"client2/1 {view}",
        "client2/1 note asks", "client2/1 send execution:client2/1#1-1 to server/1",
        "client2/1 stop the log ends here",
        "server/1 start", f"server/1 {view}",
        "server/1 note has both questions",
        "server/1 deliver execution:client1/1#1-1", "server/1 deliver execution:client2/1#1-1",
        "server/1 note thinks",
        "server/1 note answers", "server/1 send execution:server/1#1-1 to client1/1",
        "server/1 stop the log ends here",
    ]  # fmt: skip
    assert audit(tmp_path).verdict == "kept"


def test_no_effect_is_before_its_cause(tmp_path: Path) -> None:
    import_shiviz(SAMPLES / "shiviz.log", tmp_path, OPTIONS)
    rows = HistoryFiles.open(tmp_path).read_rows()
    sent = {(row.sender, row.number): row.time_ns for row in rows if row.kind == "send"}
    delivered = [row for row in rows if row.kind == "deliver"]
    assert len(delivered) == 3
    assert all(sent[row.sender, row.number] < row.time_ns for row in delivered)


def test_the_default_parser_and_any_order_of_lines(tmp_path: Path) -> None:
    text = '\n\nlater\nb {"b":2,"a":1}\nfirst of b\nb {"b":1}\nof a\na {"a":1, "b":0}\n'
    assert [words for words in summary(import_text(tmp_path, text, OPTIONS)) if "note" in words or ":" in words] == [
        "a/1 note of a",
        "a/1 send execution:a/1#1-1 to b/1",
        "b/1 note first of b",
        "b/1 note later",
        "b/1 deliver execution:a/1#1-1",
    ]


def test_what_is_learned_through_another_is_no_message(tmp_path: Path) -> None:
    text = 'a x {"a":1}\nb y {"a":1,"b":1}\nc z {"a":1,"b":1,"c":1}\n'
    messages = [words for words in summary(import_text(tmp_path, text)) if ":" in words]
    assert messages == [
        "a/1 send execution:a/1#1-1 to b/1",
        "b/1 deliver execution:a/1#1-1",
        "b/1 send execution:b/1#1-1 to c/1",
        "c/1 deliver execution:b/1#1-1",
    ]


FACEBOOK = r"(?<ip>(\d{1,3}\.){3}\d{1,3}) (?<date>(\d{1,2}/){2}\d{4} (\d{2}:){2}\d{2} (AM|PM)) (?<event>.*)\n"
SHAPES = {
    "clock_first": (r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)", None, (1, 2, 5, 0)),
    "one_line": (
        r"\[\w+\] \[[^\]]+\] [^ ]+ \[akka://Relay/user/(?<host>\w+)\] (?<clock>.*\}) (?<event>.*)",
        None,
        (1, 2, 3, 0),
    ),
    "executions": (FACEBOOK + r"(?<host>\w*) (?<clock>.*)", "^======$", (3, 4, 4, 0)),
    "checker_output": (
        r"(?<event>[0-9]+: <\w*) .*>\n\/\\ Host = (?<host>.*)\n\/\\ Clock = \"(?<clock>.*)\"\n\/\\ token = (?<rest>.*)",
        "^=== (?<trace>.*) ===$",
        (1, 2, 3, 1),
    ),
    "threads": (
        r"\[(?<date>[^\]]*?) (?<path>\S*)\] (?<priority>(INFO|WARN)) (?<event>.*)\n(?<host>\S*) (?<clock>{.*})",
        None,
        (1, 3, 5, 2),
    ),
}
"""Shapes of logs that ShiViz takes: parser, delimiter; then runs, logs, events and remarks."""


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_that_shiviz_takes_comes_in(tmp_path: Path, shape: str) -> None:
    parser, delimiter, expected = SHAPES[shape]
    options = ImportOptions(run="r", parser=parser, delimiter=delimiter)
    bare = SAMPLES / "shiviz" / f"{shape}.log"
    result = import_shiviz(bare, tmp_path / "bare", options)
    assert (result.runs, result.logs, result.events, len(result.remarks)) == expected
    headed = f"{parser}\r\n{delimiter or ''}\r\n{bare.read_text()}".replace("\n", "\r\n").replace("\r\r", "\r")
    whole = import_text(tmp_path, headed, OPTIONS)
    assert in_order(HistoryFiles.open(whole).read_rows()) == in_order(HistoryFiles.open(tmp_path / "bare").read_rows())
    assert audit(whole).verdict in ("kept", "unknown")


def test_executions_without_a_name_are_numbered(tmp_path: Path) -> None:
    parser, delimiter, _ = SHAPES["executions"]
    options = ImportOptions(run="r", parser=parser, delimiter=delimiter)
    import_shiviz(SAMPLES / "shiviz" / "executions.log", tmp_path, options)
    found = {(row.run, row.process) for row in HistoryFiles.open(tmp_path).read_rows()}
    assert found == {("r", "ada"), ("r", "door"), ("r-2", "bob"), ("r-3", "cyd")}


def test_what_belongs_to_no_event_is_skipped_and_told(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text('a x {"a":1}\n\nwhat is this?\nb y {"b":1}\n\ntrailing words\n')
    result = import_shiviz(tmp_path / "x.log", tmp_path / "h", BARE)
    told = "2 lines hold text that the parser expression does not match, the first is line 3; it was skipped"
    assert (result.events, result.remarks) == (2, (told,))


@pytest.mark.parametrize(
    ("text", "line", "messages"),
    [
        # Component b of a falls from 1 to 0.
        (
            'a x {"a":1,"b":1}\nb y {"b":1}\na z {"a":2}\n',
            3,
            ["a/1 deliver execution:b/1#1-1", "b/1 send execution:b/1#1-1 to a/1"],
        ),
        # c knows the event of b, and not what that knew.
        (
            'a x {"a":1}\nb y {"a":1,"b":1}\nc z {"b":1,"c":1}\n',
            3,
            [
                "a/1 send execution:a/1#1-1 to b/1",
                "b/1 deliver execution:a/1#1-1",
                "b/1 send execution:b/1#1-1 to c/1",
                "c/1 deliver execution:b/1#1-1",
            ],
        ),
    ],
)
def test_clocks_that_say_too_little_are_completed_and_told(
    tmp_path: Path, text: str, line: int, messages: list[str]
) -> None:
    (tmp_path / "x.log").write_text(text)
    result = import_shiviz(tmp_path / "x.log", tmp_path / "h", BARE)
    told = f"1 clocks know less than the events that they know of, the first on line {line}; they were completed"
    assert result.remarks == (told,)
    assert [words for words in summary(tmp_path / "h") if ":" in words] == messages


def test_an_export_of_our_own_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    logs = make_logs(p="s1 d:q1 quiet", q="d:p1 s1 quiet")
    text, _ = exported(export_shiviz, write_logs(tmp_path / "original", logs))
    with pytest.raises(MalformedLogError, match="the parser expression does not match 'words'"):
        import_text(tmp_path, text + "words\n", OPTIONS)
    assert text.endswith('{"q/1":5,"p/1":3}\n')
    fallen = text.removesuffix(',"p/1":3}\n') + "}\n"
    with pytest.raises(MalformedLogError, match="the clock knows 0 events of 'p/1', but events that it knows know 3"):
        import_text(tmp_path, fallen, OPTIONS)


def test_an_event_text_never_means_that_a_process_left(tmp_path: Path) -> None:
    assert "a/1 note event: leaves" in summary(import_text(tmp_path, 'a leaves {"a":1}\n'))


def test_executions_are_runs(tmp_path: Path) -> None:
    parser = r"(?<host>\w) (?<event>\w+) (?<clock>{.*})"
    text = f'{parser}\n^-- (?<trace>\\w+)$\na x {{"a":1}}\n-- two\na y {{"a":1}}\nb z {{"b":1}}\n'
    directory = import_text(tmp_path, text, OPTIONS)
    found = {(row.run, row.process) for row in HistoryFiles.open(directory).read_rows()}
    assert found == {("r", "a"), ("two", "a"), ("two", "b")}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('a x {"a":1}\na y {"a":3}\n', 2, "the own component of host 'a' goes from 1 to 3, not up by 1"),
        ('a x {"a":2}\n', 1, "the first component of host 'a' is 2, not 1"),
        ('a x {"a":1}\na y {"a":1}\n', 2, "component 1 of host 'a' is used twice, here and on line 1"),
        ('a x {"a":1,"b":2}\nb y {"b":1}\n', 1, "the clock knows event 2 of 'b', which the log lacks"),
        ('a x {"a":1,"c":1}\n', 1, "the clock knows event 1 of 'c', which the log lacks"),
        ('a x {"a":1,"b":1}\nb y {"a":1,"b":1}\n', 1, "this event and the one on line 2 each know of the other"),
        ('a x {"b":1}\nb y {"b":1}\n', 1, "the clock has no component for its own host 'a'"),
        ('a x {"a":1}\nb y {b:1}\n', 2, "the clock is no JSON object"),
        ('a x {"a":1,"a":1}\n', 1, "the clock is no JSON object: a host is named twice"),
        ('a x {"a":-1}\n', 1, "component 'a' of the clock is -1"),
        ('a x {"a":1.5}\n', 1, "component 'a' of the clock is 1.5"),
        ('a x {"a":true}\n', 1, "component 'a' of the clock is True"),
        (
            'a w {"a":1,"c":1}\na x {"a":2}\nb y {"a":2,"b":1}\nc z {"b":1,"c":1}\n',
            1,
            "this event and the one on line 4 each know of the other",
        ),
        ("\n", 1, "the log holds no events"),
    ],
)
def test_clocks_that_cannot_be_true_are_refused(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(MalformedLogError) as caught:
        import_text(tmp_path, text)
    assert f"x.log, line {line}: {words}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('a x {"a":1}\n\nmore\n', 1, "the parser expression has no group event or host or clock"),
        ("(?<event>.*\n\n", 1, "is no regular expression"),
        ("\n(?<trace>\na {}", 2, "is no regular expression"),
        ("\nx*\nlog\n", 2, "the delimiter matches where there is no text"),
    ],
)
def test_expressions_that_do_not_work_are_refused(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(MalformedLogError) as caught:
        import_text(tmp_path, text, OPTIONS)
    assert f"x.log, line {line}: " in str(caught.value)
    assert words in str(caught.value)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"\n\nfine\na \xff\n")
    with pytest.raises(MalformedLogError, match="line 4: the text is not UTF-8"):
        import_shiviz(tmp_path / "x.log", tmp_path / "h", OPTIONS)


@pytest.mark.parametrize("seed", range(6))
def test_an_export_is_the_same_history_when_it_comes_back(tmp_path: Path, seed: int) -> None:
    logs = random_logs(seed, "first run") + (random_logs(seed + 100, "zweiter\nLauf") if seed % 2 else [])
    text, result = exported(export_shiviz, write_logs(tmp_path / "original", logs))
    assert (result.rows, result.logs, result.remarks) == (len(rows_of(logs)), len(logs), ())
    back = import_text(tmp_path, text, OPTIONS)
    assert in_order(HistoryFiles.open(back).read_rows()) == in_order(rows_of(logs))
    assert exported(export_shiviz, HistoryFiles.open(back))[0] == text


def test_names_and_notes_that_look_like_the_format(tmp_path: Path) -> None:
    log = MemoryLog(run="=== a ===", process="a b/{c}\n")
    log.start(0, "g {x} {y}", "s", "static", ["fifo"], ["creation"])
    log.note(1, '{"a":1} {"b":2}')
    log.note(2, "two\nlines\u2028three")
    log.send(3, "g {x} {y}", 1, 1, 1, "fifo", 0)
    log.stop(4)
    text, _ = exported(export_shiviz, write_logs(tmp_path / "original", [log]))
    assert in_order(HistoryFiles.open(import_text(tmp_path, text, OPTIONS)).read_rows()) == list(log.rows())


def clocks_of(text: str) -> list[tuple[str, dict[str, int]]]:
    lines = text.splitlines()
    assert lines[:2] == [PARSER, DELIMITER]
    expression = re.compile(PARSER.replace("(?<", "(?P<"))
    return [(match["event"], json.loads(match["clock"])) for match in expression.finditer("\n".join(lines[3:]))]


def test_the_clocks_of_an_export(tmp_path: Path) -> None:
    logs = make_logs(p="s1 d:q1 quiet", q="d:p1 s1 quiet", r="d:q1 d:p1 quiet")
    text, _ = exported(export_shiviz, write_logs(tmp_path, logs))
    clocks = dict(clocks_of(text))
    assert clocks["send p/1#1 in g (causal)"] == {"p/1": 3}
    assert clocks["send q/1#1 in g (causal)"] == {"p/1": 3, "q/1": 4}
    found = [clock for event, clock in clocks_of(text) if event == "deliver q/1#1 in g (causal)"]
    assert {"p/1": 4, "q/1": 4} in found
    assert {"p/1": 3, "q/1": 4, "r/1": 3} in found


def test_a_delivery_of_what_nobody_sent_brings_no_clock(tmp_path: Path) -> None:
    text, result = exported(export_shiviz, write_logs(tmp_path, make_logs(members="q", p="d:q1 quiet")))
    assert dict(clocks_of(text))["deliver q/1#1 in g (causal)"] == {"p/1": 3}
    assert result.remarks == ()


def test_a_cycle_is_cut_and_told(tmp_path: Path) -> None:
    logs = make_logs(p="d:q1 s1 quiet", q="d:p1 s1 quiet")
    text, result = exported(export_shiviz, write_logs(tmp_path, logs))
    assert result.remarks == ("1 deliveries come before their own sends; they are shown without arrows",)
    assert len(clocks_of(text)) == len(rows_of(logs))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"kind":"send"', '"kind":"sing"'), "its row makes no sense: kind 'sing'"),
        (('"kind":"send"', '"kin":"send"'), "no JSON object of our columns"),
        (('"number":1', '"number":"one"'), "a column is of another type"),
        (('"number":1', '"number":0'), "its row makes no sense: number is 0"),
        (('"time_ns":1', '"time_ns":null'), "its row lacks time_ns or kind"),
    ],
)
def test_rows_of_an_export_are_checked(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    text, _ = exported(export_shiviz, write_logs(tmp_path / "original", make_logs(p="s1 quiet")))
    assert change[0] in text
    with pytest.raises(MalformedLogError) as caught:
        import_text(tmp_path, text.replace(*change), OPTIONS)
    assert (caught.value.line, words in caught.value.reason) == (8, True)


def test_rows_that_share_a_file_are_taken_apart(tmp_path: Path) -> None:
    rows = rows_of(make_logs(p="s1 d:p1 quiet", q="d:p1 quiet"))
    mixed = sorted(rows, key=lambda row: (row.index % 2, row.process, -row.index))
    columns = {name: pa.array([getattr(row, name) for row in mixed], SCHEMA.field(name).type) for name in SCHEMA.names}
    (tmp_path / "original").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "original" / "all.parquet", row_group_size=4)
    text, result = exported(export_shiviz, HistoryFiles.open(tmp_path / "original"))
    assert result.rows == len(rows)
    assert in_order(HistoryFiles.open(import_text(tmp_path, text, OPTIONS)).read_rows()) == in_order(rows)
