"""The OTLP export, held to the JSON mapping of the protocol and to the fields of its messages."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from antiphon.history.formats.otlp import SPANS_MAX, export_otlp
from antiphon.history.log import MemoryLog
from antiphon.kernel.errors import UsageError
from tests.history.histories import exported, random_logs, write_logs
from tests.pipeline.histories import rows_of
from tests.pipeline.script import make_logs

Span = dict[str, Any]

FIELDS = {
    "request": {"resourceSpans"},
    "resourceSpans": {"resource", "scopeSpans", "schemaUrl"},
    "scopeSpans": {"scope", "spans", "schemaUrl"},
    "span": {
        *("traceId", "spanId", "traceState", "parentSpanId", "flags", "name", "kind", "startTimeUnixNano"),
        *("endTimeUnixNano", "attributes", "droppedAttributesCount", "events", "droppedEventsCount", "links"),
        *("droppedLinksCount", "status"),
    },
    "link": {"traceId", "spanId", "traceState", "attributes", "droppedAttributesCount", "flags"},
}
VALUES = {"stringValue": str, "intValue": str, "arrayValue": dict}


def check_requests(text: str) -> list[Span]:
    """Every line is one request of the protocol; gives back all spans."""
    spans = []
    for line in text.splitlines():
        request = json.loads(line)
        assert set(request) == FIELDS["request"]
        for resource_spans in request["resourceSpans"]:
            assert set(resource_spans) <= FIELDS["resourceSpans"]
            check_attributes(resource_spans["resource"]["attributes"])
            for scope_spans in resource_spans["scopeSpans"]:
                assert set(scope_spans) <= FIELDS["scopeSpans"]
                assert 0 < len(scope_spans["spans"]) <= SPANS_MAX
                spans += scope_spans["spans"]
    for span in spans:
        check_span(span)
    ids = [(span["traceId"], span["spanId"]) for span in spans]
    assert len(set(ids)) == len(ids)
    for span in spans:
        if "parentSpanId" in span:
            assert (span["traceId"], span["parentSpanId"]) in set(ids)
        for link in span.get("links", []):
            assert set(link) <= FIELDS["link"]
            check_id(link["traceId"], 16)
            check_id(link["spanId"], 8)
    return spans


def check_span(span: Span) -> None:
    assert set(span) <= FIELDS["span"]
    check_id(span["traceId"], 16)
    check_id(span["spanId"], 8)
    check_id(span.get("parentSpanId", "01" * 8), 8)
    assert span["name"]
    assert type(span["kind"]) is int
    assert 1 <= span["kind"] <= 5
    for name in ("startTimeUnixNano", "endTimeUnixNano"):  # 64-bit numbers are strings
        assert re.fullmatch(r"0|[1-9]\d*", span[name])
    assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) < 2**64
    check_attributes(span["attributes"])


def check_id(text: str, size: int) -> None:
    """Ids are bytes in hexadecimal, not in base64, and not all zero."""
    assert len(bytes.fromhex(text)) == size
    assert int(text, 16)


def check_attributes(attributes: list[dict[str, Any]]) -> None:
    assert len({attribute["key"] for attribute in attributes}) == len(attributes)
    for attribute in attributes:
        assert set(attribute) == {"key", "value"}
        ((kind, value),) = attribute["value"].items()
        assert isinstance(value, VALUES[kind])
        if kind == "intValue":
            int(value)


@pytest.mark.parametrize("seed", range(3))
def test_any_history_makes_requests(tmp_path: Path, seed: int) -> None:
    logs = [*random_logs(seed, "one"), *random_logs(seed + 50, "two")]
    text, result = exported(export_otlp, write_logs(tmp_path, logs))
    assert len(check_requests(text)) == len(rows_of(logs)) == result.rows


def by_name(spans: list[Span], name: str) -> list[Span]:
    return [span for span in spans if span["name"] == name]


def ids(span: Span) -> dict[str, str]:
    return {"traceId": span["traceId"], "spanId": span["spanId"]}


def test_a_delivery_is_a_child_of_its_send(tmp_path: Path) -> None:
    logs = make_logs(p="s1-2 s3 quiet", q="d:p1 d:p2-3 quiet")
    spans = check_requests(exported(export_otlp, write_logs(tmp_path, logs))[0])
    first, second = by_name(spans, "send g")
    assert (first["kind"], "parentSpanId" in first) == (4, False)
    one, several = by_name(spans, "deliver g")
    assert (one["kind"], one["traceId"], one["parentSpanId"]) == (5, first["traceId"], first["spanId"])
    assert "links" not in one
    assert (several["traceId"], several["parentSpanId"]) == (first["traceId"], first["spanId"])
    assert several["links"] == [ids(second)]


def test_links_are_causes(tmp_path: Path) -> None:
    logs = make_logs(p="s1 s2 quiet", q="d:p1 d:p2 s1 quiet", r="d:q1 s1 d:p1 s2 quiet")
    spans = check_requests(exported(export_otlp, write_logs(tmp_path, logs))[0])
    sends = by_name(spans, "send g")
    p1, p2, q1, r1, _ = sends
    assert [span.get("links", []) for span in sends] == [
        [],
        [ids(p1)],  # what the process sent before
        [ids(p2)],  # of each sender the last message delivered
        [ids(q1)],
        [ids(r1), ids(p1)],  # since the send before
    ]


def test_what_is_not_on_record_has_no_parent(tmp_path: Path) -> None:
    spans = check_requests(exported(export_otlp, write_logs(tmp_path, make_logs(members="q", p="d:q4 quiet")))[0])
    (delivery,) = by_name(spans, "deliver g")
    assert "parentSpanId" not in delivery


def test_views_last_until_the_next(tmp_path: Path) -> None:
    spans = check_requests(exported(export_otlp, write_logs(tmp_path, make_logs(p="s1 v2:p d:p1 quiet")))[0])
    views = [span for span in spans if span["name"].startswith("view")]
    assert [(span["startTimeUnixNano"], span["endTimeUnixNano"]) for span in views] == [("0", "2"), ("2", "4")]
    assert len({span["traceId"] for span in views}) == 1


def test_long_logs_are_cut_into_requests(tmp_path: Path) -> None:
    log = MemoryLog(run="r", process="p")
    for time_ns in range(SPANS_MAX + 1):
        log.note(time_ns, "tick")
    text, _ = exported(export_otlp, write_logs(tmp_path, [log], 1000))
    assert len(text.splitlines()) == 2
    check_requests(text)


def test_times_before_1970_are_refused(tmp_path: Path) -> None:
    log = MemoryLog(run="r", process="p")
    log.note(-1, "tick")
    with pytest.raises(UsageError, match="row 0 of p/1 is of before 1970"):
        exported(export_otlp, write_logs(tmp_path, [log]))
