"""Where in a TOML file each key stands, by line: the parser of the standard library does not say.

This reads only what begins a line: headers of tables, and keys with their `=`. Values that go over several lines
(arrays, texts in triple quotes) are skipped by counting brackets and quotes. The parser has found the file sound
before, so anything that this does not understand costs a line number and nothing else.
"""

import re
from typing import Final

Path = tuple[str | int, ...]
"""Keys from the outermost table inwards; a number for one table of an array."""

_HEADER: Final = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART: Final = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")
_TEXTS: Final = re.compile(r'"""|\'\'\'|"(?:[^"\\]|\\.)*"|\'[^\']*\'|#.*|[\[\]{}]')


def locate(text: str) -> dict[Path, int]:
    """The line of each table and key, counted from 1."""
    found: dict[Path, int] = {}
    arrays: dict[str, int] = {}
    table: Path = ()
    value = _OpenValue()
    for number, line in enumerate(text.splitlines(), 1):
        if value.is_open:
            value.read(line)
            continue
        header = _HEADER.match(line)
        key = _KEY.match(line)
        if header is not None:
            table = _table(header, arrays)
            found.setdefault(table, number)
        elif key is not None:
            path = table + _parts(key.group(1))
            found.setdefault(path, number)
            value.read(line[key.end() :])
    return found


def _table(header: re.Match[str], arrays: dict[str, int]) -> Path:
    names = _parts(header.group(2))
    first = str(names[0])
    if header.group(1) == "[[":
        arrays[first] = arrays.get(first, -1) + 1
    return (first, arrays[first], *names[1:]) if first in arrays else names


def _parts(dotted: str) -> Path:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


class _OpenValue:
    """A value that may go on in the next line."""

    def __init__(self) -> None:
        self._depth = 0
        self._quotes = ""

    @property
    def is_open(self) -> bool:
        return bool(self._depth > 0 or self._quotes)

    def read(self, line: str) -> None:
        if self._quotes:
            end = line.find(self._quotes)
            if end < 0:
                return
            line = line[end + 3 :]
            self._quotes = ""
        at = 0
        while (token := _TEXTS.search(line, at)) is not None:
            at = token.end()
            mark = token.group()
            if mark in ('"""', "'''"):
                end = line.find(mark, at)
                if end < 0:
                    self._quotes = mark
                    return
                at = end + 3
            elif mark in "[{":
                self._depth += 1
            elif mark in "]}":
                self._depth -= 1
