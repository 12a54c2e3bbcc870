"""The Perfetto export, held to the rules of the Trace Event Format."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from antiphon.history.formats.perfetto import export_perfetto
from tests.history.histories import exported, random_logs, write_logs
from tests.pipeline.histories import rows_of
from tests.pipeline.script import make_logs

Event = dict[str, Any]
NUMBER = (int, float)


def check_trace(trace: dict[str, Any]) -> list[Event]:
    """Rules from the definition of the format; gives back the events."""
    assert set(trace) <= {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events: list[Event] = trace["traceEvents"]
    named = {event["tid"] for event in events if event["name"] == "thread_name"}
    for event in events:
        check_event(event)
        assert event["tid"] in named
    processes = defaultdict(set)
    for event in events:
        processes[event["tid"]].add(event["pid"])
    assert all(len(owners) == 1 for owners in processes.values())
    check_nesting(events)
    check_flows(events)
    return events


def check_event(event: Event) -> None:
    assert isinstance(event["name"], str)
    assert isinstance(event["pid"], int)
    assert isinstance(event["tid"], int)
    assert isinstance(event["ts"], NUMBER)
    assert event["ts"] >= 0
    match event["ph"]:
        case "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
        case "X":
            assert isinstance(event["dur"], NUMBER)
            assert event["dur"] >= 0
        case "i":
            assert event["s"] in ("g", "p", "t")
        case "s" | "f":
            int(event["id"], 16)
            assert event["ph"] == "s" or event["bp"] == "e"
        case _:
            raise AssertionError(event)
    assert event["ph"] == "M" or isinstance(event["cat"], str)


def check_nesting(events: list[Event]) -> None:
    """Slices of a thread do not overlap in part: here they do not overlap at all."""
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[event["tid"]].append((event["ts"], event["dur"]))
    for own in slices.values():
        for (start, length), (following, _) in zip(sorted(own), sorted(own)[1:], strict=False):
            assert start + length <= following + 1e-6


def check_flows(events: list[Event]) -> None:
    """An arrow has one start; each start and end stands right behind an instant of its thread, to which it binds."""
    starts = [event["id"] for event in events if event["ph"] == "s"]
    assert len(starts) == len(set(starts))
    assert {event["id"] for event in events if event["ph"] == "f"} <= set(starts)
    bound: Event | None = None
    for event in events:
        if event["ph"] in "sf":
            assert bound is not None
            assert (bound["tid"], bound["ts"]) == (event["tid"], event["ts"])
            assert bound["name"].startswith("send" if event["ph"] == "s" else "deliver")
        elif event["ph"] == "i":
            bound = event


@pytest.mark.parametrize("seed", range(3))
def test_any_history_makes_a_trace(tmp_path: Path, seed: int) -> None:
    logs = [*random_logs(seed, "one"), *random_logs(seed + 50, "two")]
    text, result = exported(export_perfetto, write_logs(tmp_path, logs))
    events = check_trace(json.loads(text))
    rows = rows_of(logs)
    assert (result.rows, result.logs, result.runs) == (len(rows), len(logs), 2)
    assert sum(event["ph"] in "iX" for event in events) == len(rows)
    assert sum(event["ph"] == "s" for event in events) == sum(row.kind == "send" for row in rows)


def test_every_line_but_the_frame_is_one_event(tmp_path: Path) -> None:
    text, _ = exported(export_perfetto, write_logs(tmp_path, make_logs(p="s1 d:p1 quiet")))
    first, *events, last = text.splitlines()
    assert (first, last[:2]) == ('{"traceEvents":[', "],")
    assert all(json.loads(line.rstrip(",")) for line in events)


def test_views_messages_and_arrows(tmp_path: Path) -> None:
    logs = make_logs(p="s1-2 s3 v2:pq quiet", q="d:p2-3 v2:pq stop")
    text, _ = exported(export_perfetto, write_logs(tmp_path, logs))
    events = check_trace(json.loads(text))
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == ["p/1", "q/1"]
    assert sorted(tracks.values()) == ["g: messages", "g: messages", "g: views", "g: views", "process", "process"]
    told = [(event["ph"], tracks[event["tid"]], event["name"], event["ts"]) for event in events if event["ph"] != "M"]
    assert told == [
        ("i", "g: views", "start in g", 0),
        ("i", "g: messages", "send p/1#1..2", 0.001), ("s", "g: messages", "message", 0.001),
        ("i", "g: messages", "send p/1#3", 0.002), ("s", "g: messages", "message", 0.002),
        ("X", "g: views", "view 1", 0),
        ("i", "process", "stop: quiet", 0.004),
        ("X", "g: views", "view 2", 0.003),
        ("i", "g: views", "start in g", 0),
        ("i", "g: messages", "deliver p/1#2..3", 0.001),
        ("f", "g: messages", "message", 0.001), ("f", "g: messages", "message", 0.001),
        ("X", "g: views", "view 1", 0),
        ("i", "process", "stop: bored", 0.003),
        ("X", "g: views", "view 2", 0.002),
    ]  # fmt: skip
