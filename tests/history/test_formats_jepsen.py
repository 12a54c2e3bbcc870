"""Jepsen: operations become multicasts, anomalies stay visible, and an export comes back with the same orders."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from antiphon.history.formats.errors import MalformedLogError
from antiphon.history.formats.importing import Imported, ImportOptions
from antiphon.history.formats.jepsen_export import export_jepsen
from antiphon.history.formats.jepsen_import import import_jepsen
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import Row
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.reference import audit
from tests.history.histories import SAMPLES, exported, random_logs, summary, write_logs
from tests.pipeline.histories import rows_of
from tests.pipeline.script import make_logs

OPTIONS = ImportOptions(run="r")


def import_text(tmp_path: Path, text: str) -> tuple[Path, Imported]:
    (tmp_path / "x.json").write_text(text)
    return tmp_path / "h", import_jepsen(tmp_path / "x.json", tmp_path / "h", OPTIONS)


def lines(*operations: tuple[str, int, str, Any]) -> str:
    """Operations as JSON lines: type, process, f, value."""
    keys = ("type", "process", "f", "value")
    return "".join(json.dumps(dict(zip(keys, operation, strict=True))) + "\n" for operation in operations)


def transaction(process: int, *steps: list[Any]) -> list[tuple[str, int, str, Any]]:
    """A transaction that goes well."""
    invoked = [[f, key, None if f == "r" else value] for f, key, value in steps]
    return [("invoke", process, "txn", invoked), ("ok", process, "txn", list(steps))]


def verdicts(history: Path) -> dict[str, str]:
    return {finding.guarantee: finding.verdict for finding in audit(history).findings}


def test_the_broadcast_sample(tmp_path: Path) -> None:
    result = import_jepsen(SAMPLES / "jepsen_broadcast.json", tmp_path, OPTIONS)
    assert result == Imported(runs=1, logs=3, events=5)
    view = "view broadcast p0/1,p1/1,p2/1"
    assert summary(tmp_path) == [
        "p0/1 start", f"p0/1 {view}", "p0/1 send broadcast:p0/1#1-1",
        "p0/1 deliver broadcast:p1/1#1-1", "p0/1 deliver broadcast:p0/1#1-1", "p0/1 stop left",
        "p1/1 start", f"p1/1 {view}", "p1/1 send broadcast:p1/1#1-1",
        "p1/1 crash the outcome of its last operation is unknown",
        "p2/1 start", f"p2/1 {view}", "p2/1 deliver broadcast:p0/1#1-1", "p2/1 deliver broadcast:p1/1#1-1",
        "p2/1 stop left",
    ]  # fmt: skip
    assert verdicts(tmp_path) == {"creation": "kept", "duplication": "kept"}
    times = [row.time_ns for row in HistoryFiles.open(tmp_path).read_rows() if row.kind in ("send", "deliver")]
    assert times == [1000, 4000, 4000, 1500, 8000, 8000]


def test_the_append_sample(tmp_path: Path) -> None:
    result = import_jepsen(SAMPLES / "jepsen_append.jsonl", tmp_path, OPTIONS)
    assert (result.logs, result.events, result.remarks) == (3, 3, ())
    assert [words for words in summary(tmp_path) if ":" in words] == [
        "p0/1 send x:p0/1#1-1", "p0/1 send y:p0/1#1-1",
        "p1/1 deliver x:p0/1#1-1", "p1/1 send x:p1/1#1-1",
        "p2/1 deliver x:p0/1#1-1", "p2/1 deliver x:p1/1#1-1", "p2/1 deliver y:p0/1#1-1",
    ]  # fmt: skip
    assert verdicts(tmp_path) == {"creation": "kept", "duplication": "kept", "fifo": "kept", "total": "kept"}


def test_a_read_delivers_only_what_is_new(tmp_path: Path) -> None:
    operations = [*transaction(0, ["append", 1, 5]), *transaction(0, ["append", 1, 6])]
    operations += [*transaction(1, ["r", 1, [5]]), *transaction(1, ["r", 1, [5, 6]])]
    history, _ = import_text(tmp_path, lines(*operations))
    assert [words for words in summary(history) if words.startswith("p1") and ":" in words] == [
        "p1/1 deliver 1:p0/1#1-2"
    ]


def test_two_orders_of_one_list_are_found(tmp_path: Path) -> None:
    appends = [*transaction(0, ["append", "x", 1]), *transaction(1, ["append", "x", 2])]
    reads = [*transaction(2, ["r", "x", [1, 2]]), *transaction(3, ["r", "x", [2, 1]])]
    history, result = import_text(tmp_path, lines(*appends, *reads))
    assert result.remarks == ()
    assert verdicts(history)["total"] == "broken"


def test_a_read_that_does_not_extend_the_last_begins_an_incarnation(tmp_path: Path) -> None:
    appends = [*transaction(0, ["append", "x", 1]), *transaction(1, ["append", "x", 2])]
    reads = [*transaction(2, ["r", "x", [1, 2]]), *transaction(2, ["r", "x", [2, 1]])]
    history, result = import_text(tmp_path, lines(*appends, *reads))
    assert result.remarks == ("1 reads do not extend what their process had read; each began an incarnation",)
    assert [words for words in summary(history) if words.startswith("p2") and ":" in words] == [
        "p2/1 deliver x:p0/1#1-1", "p2/1 deliver x:p1/1#1-1", "p2/2 deliver x:p1/1#1-1", "p2/2 deliver x:p0/1#1-1",
    ]  # fmt: skip
    assert verdicts(history)["total"] == "broken"


def test_a_lost_append_breaks_fifo(tmp_path: Path) -> None:
    appends = [*transaction(0, ["append", "x", 1]), *transaction(0, ["append", "x", 2])]
    history, _ = import_text(tmp_path, lines(*appends, *transaction(1, ["r", "x", [2]])))
    assert verdicts(history)["fifo"] == "broken"


def test_an_element_twice_breaks_duplication(tmp_path: Path) -> None:
    sent = [("invoke", 0, "broadcast", 7), ("ok", 0, "broadcast", None)]
    read = [("invoke", 1, "read", None), ("ok", 1, "read", [7, 7])]
    history, _ = import_text(tmp_path, lines(*sent, *read))
    assert verdicts(history) == {"creation": "kept", "duplication": "broken"}


@pytest.mark.parametrize("completion", ["fail", "never invoked"])
def test_what_nobody_sent_breaks_creation(tmp_path: Path, completion: str) -> None:
    sent = [("invoke", 0, "broadcast", 7), ("fail", 0, "broadcast", 7)] if completion == "fail" else []
    history, result = import_text(tmp_path, lines(*sent, ("invoke", 1, "read", None), ("ok", 1, "read", [7])))
    assert result.remarks == (
        "1 values were read that were never appended, first 7 in broadcast; they are messages of 'nobody'",
    )
    assert verdicts(history)["creation"] == "broken"


def test_an_append_without_an_end_may_have_happened(tmp_path: Path) -> None:
    operations = [("invoke", 0, "broadcast", 7), ("invoke", 1, "read", None), ("ok", 1, "read", [7])]
    history, _ = import_text(tmp_path, lines(*operations))
    assert verdicts(history)["creation"] == "kept"
    assert "p0/1 crash the outcome of its last operation is unknown" in summary(history)


INVOKE = '{"type":"invoke","process":0,"f":"broadcast","value":1}\n'
OK = '{"type":"ok","process":0,"f":"broadcast","value":1}\n'


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (INVOKE + "{broken\n", 2, "this is no JSON: Expecting property name"),
        ("[" + INVOKE, 2, "the array is not closed"),
        ("[" + INVOKE + ",", 2, "the file ends in the middle of its array"),
        ("[" + INVOKE + "] 1", 2, "there is more behind the end of the array"),
        ("[" + INVOKE + OK + "]", 2, "expected ',' or ']' here"),
        (INVOKE + "NaN", 2, "NaN is no number of JSON"),
        (INVOKE + "[1]\n", 2, "an operation must be a JSON object"),
        (INVOKE + '{"type":"done","process":0}', 2, "type 'done' is none of invoke, ok, fail, info"),
        (INVOKE + '{"type":"ok","process":null}', 2, "process None is no number"),
        (INVOKE + '{"type":"ok","process":0,"f":"cas"}', 2, "f 'cas' is none of broadcast, read, txn"),
        (
            INVOKE + '{"type":"invoke","process":1,"f":"txn","value":[["r",1,null]]}',
            2,
            "f 'txn' belongs to a workload append",
        ),
        (INVOKE + INVOKE, 2, "process 0 invokes while its operation of line 1 is open"),
        (OK, 1, "process 0 completes an operation that it never invoked"),
        (
            INVOKE + '{"type":"ok","process":0,"f":"read","value":[]}',
            2,
            "process 0 invoked broadcast on line 1, not read",
        ),
        (INVOKE + OK.replace("1}", "2}"), 2, "what completes is not what was invoked on line 1"),
        (INVOKE + OK + INVOKE, 3, "value 1 was used on line 1 already"),
        (INVOKE + OK.replace('"ok"', '"info"') + INVOKE, 3, "process 0 goes on after the info on line 2"),
        ('{"type":"invoke","process":0,"f":"broadcast","value":[1]}', 1, "value [1] is neither a whole number nor"),
        ('{"type":"invoke","process":0,"f":"txn","value":[["w","x",1]]}', 1, '["w", "x", 1] is neither ["append"'),
        ('{"type":"invoke","process":0,"f":"txn","value":[["r",null,null]]}', 1, "key None is neither"),
        ('{"type":"invoke","process":0,"f":"txn","value":[["r",1,null],["r","1",null]]}', 1, "key 1 is a number here"),
        ('{"type":"invoke","process":0,"f":"txn","value":7}', 1, "the value of a txn must be a list"),
        (
            '{"type":"invoke","process":0,"f":"read"}\n{"type":"ok","process":0,"f":"read","value":3}',
            2,
            "a read must give a list, not 3",
        ),
        (INVOKE.replace("}", ',"index":5}') + OK.replace("}", ',"index":5}'), 2, "index 5 does not follow 5"),
        (INVOKE.replace("}", ',"time":9}') + OK.replace("}", ',"time":8}'), 2, "time 8 does not follow 9"),
    ],
)
def test_what_is_no_history_is_refused(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(MalformedLogError) as caught:
        import_text(tmp_path, text)
    assert f"x.json, line {line}: " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", '{"type":"info","process":"nemesis","f":"start"}'])
def test_a_history_without_operations(tmp_path: Path, text: str) -> None:
    with pytest.raises(MalformedLogError, match="holds no operations"):
        import_text(tmp_path, text)


def orders(rows: list[Row]) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """What each process delivered in each group, message by message."""
    result: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for row in rows:
        if row.kind == "deliver":
            sender, first = f"{row.sender}/{row.sender_incarnation}", row.number or 0
            messages = [(sender, number) for number in range(first, first + (row.count or 1))]
            result[f"{row.process}/{row.incarnation}", row.group or ""] += messages
    return result


@pytest.mark.parametrize("seed", range(3))
def test_an_export_has_the_same_orders_when_it_comes_back(tmp_path: Path, seed: int) -> None:
    logs = random_logs(seed)
    text, result = exported(export_jepsen, write_logs(tmp_path / "original", logs))
    assert result.rows == len(rows_of(logs))
    check_form(json.loads(text))
    back, _ = import_text(tmp_path, text)
    names = {f"p{rank}/1": name for rank, name in enumerate(sorted(f"{log.process}/1" for log in logs))}
    returned = orders(HistoryFiles.open(back).read_rows())
    assert {
        (names[process], group): [(names[sender], number) for sender, number in messages]
        for (process, group), messages in returned.items()
    } == orders(rows_of(logs))


def check_form(operations: list[dict[str, Any]]) -> None:
    """Jepsen's own rules: indices count, times do not fall, a process has one operation open, values are unique."""
    assert [operation["index"] for operation in operations] == list(range(len(operations)))
    times = [operation["time"] for operation in operations]
    assert times == sorted(times)
    assert times[0] == 0
    invoked: dict[int, list[Any]] = {}
    appended = set()
    for operation in operations:
        assert operation["f"] == "txn"
        if operation["type"] == "invoke":
            assert operation["process"] not in invoked
            invoked[operation["process"]] = operation["value"]
            for function, key, value in operation["value"]:
                assert function in ("append", "r")
                assert (value is None) == (function == "r")
                assert function == "r" or (key, value) not in appended
                appended.add((key, value))
        else:
            assert operation["type"] == "ok"
            before = invoked.pop(operation["process"])
            assert [step[:2] for step in before] == [step[:2] for step in operation["value"]]
    assert invoked == {}


def test_a_message_of_an_unknown_sender_is_a_text(tmp_path: Path) -> None:
    text, result = exported(export_jepsen, write_logs(tmp_path, make_logs(members="q", p="s1 d:q7 d:p1 quiet")))
    assert json.loads(text)[-1]["value"] == [["r", "g", ["q/1#7", 1]]]
    told = "1 messages are of a level that promises no single order; readers may differ in them"
    assert result.remarks == (told,)


def test_a_jepsen_history_is_of_one_run(tmp_path: Path) -> None:
    history = write_logs(tmp_path, [*make_logs("one", p="s1 quiet"), *make_logs("two", p="s1 s2 quiet")])
    with pytest.raises(UsageError, match="holds 2 runs, and a Jepsen file one; choose by --run, of: one, two"):
        exported(export_jepsen, history)
    text, _ = exported(export_jepsen, history, "two")
    assert len(json.loads(text)) == 6
