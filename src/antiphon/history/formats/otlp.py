"""Export to OpenTelemetry: OTLP/JSON, one ExportTraceServiceRequest per line, all its spans of one log.

    log                       a resource: service.name is the process, service.instance.id name/incarnation
    send row                  a span of kind producer, the root of a trace of its own
    deliver row               a span of kind consumer, the child of the send row that it draws from; where it draws from
                              several, of the first, with links to the others
    view                      a span of kind internal, until the next view of the group or the end of the log
    any other row             a span of kind internal without length, in the trace of its log, as views are

The links of a send span are its causes: the send span before it in the same log, and of each sender from which the
process delivered anything since, that of the last message; what came before those, they link to in their turn.

Ids are hashes of what they name, so the same history always gives the same ids. Times are as recorded: nanoseconds
since 1970 for real runs, since the start for simulated ones. A row with a time before 1970 is refused.

Memory: one row group, SPANS_MAX spans, and 16 bytes per send row of a run.
"""

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, TextIO

from antiphon.history.formats.exporting import Exported, logs_by_run
from antiphon.history.formats.sends import SendRows, Stream, stream_of
from antiphon.history.formats.words import words
from antiphon.history.logs import LogFiles
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import Row
from antiphon.kernel.errors import UsageError

SPANS_MAX: Final = 256
"""Per request; the protocol advises to stay below a few megabytes."""
INTERNAL: Final = 1
PRODUCER: Final = 4
CONSUMER: Final = 5

Span = dict[str, Any]
Link = dict[str, str]


def export_otlp(history: HistoryFiles, out: TextIO, run: str | None) -> Exported:
    """Write a history, or one of its runs, as trace requests."""
    runs = logs_by_run(history, run)
    rows = 0
    for logs in runs.values():
        sends = SendRows(logs)
        for log in logs:
            spans = _Spans(log, sends)
            batch: list[Span] = []
            for span in spans.all():
                batch.append(span)
                if len(batch) == SPANS_MAX:
                    _write(out, log, batch)
                    batch = []
            if batch:
                _write(out, log, batch)
            rows += spans.rows
    return Exported(runs=len(runs), logs=sum(len(logs) for logs in runs.values()), rows=rows)


def _write(out: TextIO, log: LogFiles, spans: list[Span]) -> None:
    resource = {
        "service.name": log.key.process,
        "service.instance.id": log.key.name,
        "antiphon.run": log.key.run,
    }
    request = {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"scope": {"name": "antiphon"}, "spans": spans}],
            }
        ]
    }
    out.write(json.dumps(request, separators=(",", ":")) + "\n")


class _Spans:
    """The spans of one log."""

    def __init__(self, log: LogFiles, sends: SendRows) -> None:
        self._log = log
        self._sends = sends
        self._views: dict[str, Row] = {}
        self._last_send: Link | None = None
        self._delivered: dict[Stream, Row] = {}
        """Since the last send, the row with the highest number of each stream."""
        self.rows = 0

    def all(self) -> Iterator[Span]:
        last_ns = 0
        for row in self._log.rows():
            self.rows += 1
            if row.time_ns < 0:
                raise UsageError(
                    f"row {row.index} of {self._log.key.name} is of before 1970, which OTLP has no time for"
                )
            last_ns = row.time_ns
            match row.kind:
                case "send":
                    yield self._send(row)
                case "deliver":
                    yield self._deliver(row)
                case "view":
                    yield from self._end_view(row.group or "", row.time_ns)
                    self._views[row.group or ""] = row
                case _:
                    yield self._internal(row, row.time_ns)
        for group in list(self._views):
            yield from self._end_view(group, last_ns)

    def _send(self, row: Row) -> Span:
        link = self._message(row, row.number or 0)
        causes = [] if self._last_send is None else [self._last_send]
        for delivered in self._delivered.values():
            causes.append(self._message(delivered, self._origins(delivered)[-1]))
        self._last_send = link
        self._delivered.clear()
        return {**link, **self._content(row, f"send {row.group}", PRODUCER, row.time_ns), **_links(causes)}

    def _deliver(self, row: Row) -> Span:
        stream = stream_of(row)
        known = self._delivered.get(stream)
        if known is None or (row.number or 0) >= (known.number or 0):
            self._delivered[stream] = row
        first, *others = (self._message(row, origin) for origin in self._origins(row))
        parent = {"parentSpanId": first["spanId"]} if any(self._sends.drawn_from(row)) else {}
        return {
            "traceId": first["traceId"],
            "spanId": self._row_id(row),
            **parent,
            **self._content(row, f"deliver {row.group}", CONSUMER, row.time_ns),
            **_links(others),
        }

    def _origins(self, row: Row) -> list[int]:
        """The first numbers of the send rows that a delivery draws from; its own where none is on record."""
        return list(self._sends.drawn_from(row)) or [row.number or 0]

    def _end_view(self, group: str, end_ns: int) -> Iterator[Span]:
        row = self._views.pop(group, None)
        if row is not None:
            yield self._internal(row, max(end_ns, row.time_ns))

    def _internal(self, row: Row, end_ns: int) -> Span:
        trace = _hash(16, self._log.key.run, self._log.key.name)
        return {"traceId": trace, "spanId": self._row_id(row), **self._content(row, words(row), INTERNAL, end_ns)}

    def _content(self, row: Row, name: str, kind: int, end_ns: int) -> Span:
        return {
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(row.time_ns),
            "endTimeUnixNano": str(end_ns),
            "attributes": _attributes(_facts(row)),
        }

    def _message(self, row: Row, first: int) -> Link:
        """Trace and span of a send row."""
        name = (self._log.key.run, *stream_of(row), first)
        return {"traceId": _hash(16, *name), "spanId": _hash(8, *name)}

    def _row_id(self, row: Row) -> str:
        return _hash(8, self._log.key.run, self._log.key.name, row.index)


def _links(links: list[Link]) -> dict[str, list[Link]]:
    return {"links": links} if links else {}


def _facts(row: Row) -> dict[str, Any]:
    facts = {
        "antiphon.kind": row.kind,
        "antiphon.index": row.index,
        "antiphon.group": row.group,
        "antiphon.view": row.view,
        "antiphon.members": row.members,
        "antiphon.sender": None if row.sender is None else f"{row.sender}/{row.sender_incarnation}",
        "antiphon.number": row.number,
        "antiphon.level": row.level,
        "antiphon.label": row.label,
        "antiphon.destinations": row.destinations,
        "messaging.batch.message_count": row.count,
        "messaging.message.body.size": row.size,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _attributes(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in facts.items()]


def _value(value: str | int | tuple[str, ...]) -> dict[str, Any]:
    """An AnyValue; 64-bit integers are strings in the JSON mapping of Protobuf."""
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}


def _hash(size: int, *parts: object) -> str:
    return blake2b(json.dumps(parts).encode(), digest_size=size).hexdigest()
