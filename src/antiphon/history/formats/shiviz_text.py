"""The text of a ShiViz log: its parser expression, its executions, its events.

A file that ShiViz takes begins with two lines: the parser expression, and the delimiter between executions; either may
be empty. The parser expression is a regular expression of JavaScript with the named groups `event`, `host` and `clock`,
matched over and over against the text. A delimiter may have a group `trace`, which names the execution behind it.

As in ShiViz, text between matches is skipped, so that headings and a tool's own messages do no harm; how many lines,
and which was the first, is told. In an export of our own nothing is skipped. A clock may stand in the text as
JSON, or as the inside of a quoted string, as TLC prints it. Executions without a name are numbered by the import.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from antiphon.history.formats.errors import MalformedLogError
from antiphon.kernel.identity import NAME_BYTES_MAX

DEFAULT_PARSER: Final = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
GROUPS: Final = ("event", "host", "clock")
ROW: Final = "row"
"""A group of our own exports: the row, as JSON."""
BYTES_MAX: Final = 256 * 1024 * 1024
EVENTS_MAX: Final = 1_000_000

Clock = dict[str, int]


@dataclass(frozen=True)
class Event:
    """One event as the log has it."""

    line: int
    host: str
    text: str
    clock: Clock
    row: str | None

    @property
    def own(self) -> int:
        """The component of the event's own host."""
        return self.clock[self.host]


@dataclass(frozen=True)
class Execution:
    """One execution: its name, empty if it has none, and its events in the order of the text."""

    name: str
    line: int
    events: list[Event]
    skipped: list[int]
    """Lines of text that belong to no event."""


def read_executions(file: Path, parser: str | None, separator: str | None = None) -> Iterator[Execution]:
    """The executions of a log; with `parser` or `separator` the file is a bare log, else it begins with both."""
    text = _read(file)
    if parser is not None or separator is not None:
        expression, delimiter, start = _compile(file, 0, parser or DEFAULT_PARSER), separator or "", 0
    else:
        first_end = _line_end(text, 0)
        start = _line_end(text, first_end)
        expression = _compile(file, 1, text[:first_end].strip() or DEFAULT_PARSER)
        delimiter = text[first_end:start].strip()
    missing = [name for name in GROUPS if name not in expression.groupindex]
    if missing:
        reason = f"the parser expression has no group {' or '.join(missing)}; that of a bare log is named by --parser"
        raise MalformedLogError(file, 1 if start else 0, reason)
    scanner = _ShivizScanner(file, text, expression)
    for name, first, end in _parts(file, text, start, delimiter):
        yield scanner.execution(name, first, end)


def _read(file: Path) -> str:
    if file.is_dir():
        raise MalformedLogError(file, 0, "a ShiViz log is a file, and this is a directory")
    if file.stat().st_size > BYTES_MAX:
        raise MalformedLogError(file, 0, f"it is longer than {BYTES_MAX} bytes; cut it into executions")
    data = file.read_bytes()
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise MalformedLogError(file, 1 + data.count(b"\n", 0, error.start), "the text is not UTF-8") from None


def _line_end(text: str, start: int) -> int:
    """Behind the end of the line that begins at `start`."""
    return text.find("\n", start) + 1 or len(text)


def _compile(file: Path, line: int, expression: str) -> re.Pattern[str]:
    """JavaScript writes named groups `(?<name>…)`; look-behinds begin alike."""
    try:
        return re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", expression), re.MULTILINE)
    except re.error as error:
        raise MalformedLogError(file, line, f"{expression!r} is no regular expression: {error}") from None


def _parts(file: Path, text: str, start: int, delimiter: str) -> Iterator[tuple[str, int, int]]:
    """Name, start and end of each execution that holds any text."""
    name = ""
    seen: set[str] = set()
    if delimiter:
        expression = _compile(file, 2, delimiter)
        for match in expression.finditer(text, start):
            if match.end() == match.start():
                raise MalformedLogError(file, 2, "the delimiter matches where there is no text")
            if text[start : match.start()].strip():
                yield name, start, match.start()
            start = match.end()
            name = match.groupdict().get("trace") or ""
            if name and name in seen:
                line = 1 + text.count("\n", 0, match.start())
                raise MalformedLogError(file, line, f"there is an execution {name!r} already")
            seen.add(name)
    if text[start:].strip() or not seen:
        yield name, start, len(text)


class _ShivizScanner:
    """Matches the events of a text, counting lines as it goes."""

    def __init__(self, file: Path, text: str, expression: re.Pattern[str]) -> None:
        self._file = file
        self._text = text
        self._expression = expression
        self._counted = 0
        self._line = 1
        self._events = 0

    def execution(self, name: str, start: int, end: int) -> Execution:
        first_line = self._line_of(start)
        events: list[Event] = []
        skipped: list[int] = []
        behind = start
        for match in self._expression.finditer(self._text, start, end):
            skipped += self._skipped(behind, match.start())
            if match.end() == match.start():
                raise self._error(match.start(), "the parser expression matches where there is no text")
            events.append(self._event(match))
            behind = match.end()
            self._events += 1
            if self._events > EVENTS_MAX:
                raise self._error(match.start(), f"more than {EVENTS_MAX} events; cut the log into executions")
        skipped += self._skipped(behind, end)
        if not events:
            raise MalformedLogError(self._file, first_line, "the log holds no events")
        return Execution(name, first_line, events, skipped)

    def _event(self, match: re.Match[str]) -> Event:
        fields = match.groupdict()
        host, text, clock = (fields[name] or "" for name in ("host", "event", "clock"))
        if not host or len(host.encode()) > NAME_BYTES_MAX:
            raise self._error(match.start(), f"the host must have a name, of at most {NAME_BYTES_MAX} bytes")
        line = self._line_of(match.start())
        return Event(line, host, text, self._clock(match.start(), host, clock), fields.get(ROW))

    def _clock(self, place: int, host: str, text: str) -> Clock:
        try:
            clock = json.loads(json.loads(f'"{text}"') if '\\"' in text else text, object_pairs_hook=_unique)
        except ValueError as error:
            raise self._error(place, f"the clock is no JSON object: {error}") from None
        if not isinstance(clock, dict):
            raise self._error(place, "the clock is no JSON object")
        for name, value in clock.items():
            if type(value) is not int or not 0 <= value <= EVENTS_MAX:
                raise self._error(place, f"component {name!r} of the clock is {value!r}, no number of events")
        clock = {name: value for name, value in clock.items() if value}
        if host not in clock:
            raise self._error(place, f"the clock has no component for its own host {host!r}")
        return clock

    def _skipped(self, start: int, end: int) -> list[int]:
        """The lines, blank ones left out, of the text between two events."""
        between = self._text[start:end]
        if not between.strip():
            return []
        first = self._line_of(start)
        lines = [first + place for place, line in enumerate(between.split("\n")) if line.strip()]
        if ROW in self._expression.groupindex:
            told = between.strip().split("\n")[0][:80]
            raise MalformedLogError(self._file, lines[0], f"the parser expression does not match {told!r}")
        return lines

    def _error(self, place: int, reason: str) -> MalformedLogError:
        return MalformedLogError(self._file, self._line_of(place), reason)

    def _line_of(self, place: int) -> int:
        """The line of a place; places must not go back."""
        if place >= self._counted:
            self._line += self._text.count("\n", self._counted, place)
            self._counted = place
        return self._line


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a host is named twice")
    return result
