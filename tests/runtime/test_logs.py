"""Logged events: the table names all of them, the page is the table, lines can be read back, payloads stay out."""

import ast
import asyncio
import json
import logging
from pathlib import Path

import pytest

import antiphon
from antiphon.deployment.log_format import JsonFormatter, TextFormatter
from antiphon.kernel.identity import ProcessId
from antiphon.runtime.logs import EVENTS, as_markdown, log_event

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "antiphon"
SECRET = b"a payload that nobody may read in a log"


def logged_calls() -> list[tuple[str, int, str, set[str]]]:
    """File, line, event and fields of each call of `log_event` in the package."""
    found = []
    for file in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "log_event":
                event = node.args[1]
                assert isinstance(event, ast.Constant), f"{file}: {node.lineno}: the name of an event is a literal"
                fields = {keyword.arg or "" for keyword in node.keywords} - {"exc_info"}
                found.append((file.name, node.lineno, str(event.value), fields))
    return found


def test_all_events_and_fields_are_in_the_table_and_none_else() -> None:
    calls = logged_calls()
    for file, line, event, fields in calls:
        assert event in EVENTS, f"{file}:{line}: {event} is not in the table of events"
        assert fields == set(EVENTS[event].fields), f"{file}:{line}: the fields of {event} are {EVENTS[event].fields}"
    assert set(EVENTS) == {event for _, _, event, _ in calls}


def test_nothing_is_logged_beside_events() -> None:
    for file in SOURCES.rglob("*.py"):
        if file.name == "logs.py":
            continue
        for method in ("debug", "info", "warning", "error", "exception"):
            assert f"log.{method}(" not in file.read_text(), file


def test_the_page_has_the_table() -> None:
    assert as_markdown() in (ROOT / "docs" / "logging.md").read_text()


def test_a_line_and_its_formats(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "antiphon")
    process = ProcessId("alice", 3)
    log_event(logging.INFO, "view_installed", 'a "word"', process=process, members=(process,), left=(), view=3)
    (record,) = caplog.records
    line = 'event=view_installed process=alice/3 members=alice/3 view=3 text="a \\"word\\""'
    assert record.getMessage() == line
    assert TextFormatter().format(record).endswith(f"Z INFO {line}")
    document = json.loads(JsonFormatter().format(record))
    assert document | {"time": ""} == {
        "time": "", "level": "info", "event": "view_installed", "process": "alice/3", "members": "alice/3", "view": 3,
        "text": 'a "word"',
    }  # fmt: skip


def test_records_of_others_have_an_event_too() -> None:
    record = logging.LogRecord("other", logging.WARNING, "file", 1, "it %s", ("rains",), None)
    assert 'WARNING event=log logger=other text="it rains"' in TextFormatter().format(record)
    assert json.loads(JsonFormatter().format(record))["text"] == "it rains"


def test_no_payload_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "antiphon")

    async def play() -> None:
        async with antiphon.Node("alice", address="127.0.0.1:0") as node:
            group = await node.join("quotes", members={"alice": node.address}, policy="primary")
            await group.send(SECRET)
            with pytest.raises(antiphon.MessageTooLargeError):
                await group.barrier(SECRET * 10_000)

    asyncio.run(play())
    assert "event=view_installed" in caplog.text
    assert SECRET.decode() not in caplog.text
