"""JSON values one after the other, with the line on which each begins: a JSON array of them, or one per line.

Memory: the whole text, at most BYTES_MAX of it, and one value at a time.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from antiphon.history.formats.errors import MalformedLogError

BYTES_MAX: Final = 1024 * 1024 * 1024
SPACE: Final = " \t\r\n"


def json_values(file: Path) -> Iterator[tuple[int, Any]]:
    """Line and value of each element of a top-level array, or of each value of the file."""
    scanner = _JsonScanner(file, _read(file))
    in_array = scanner.skip("[")
    if in_array and scanner.skip("]"):
        scanner.expect_end()
        return
    while not scanner.at_end():
        yield scanner.value()
        if in_array and not scanner.skip(","):
            if not scanner.skip("]"):
                raise scanner.error("expected ',' or ']' here; the array is not closed")
            scanner.expect_end()
            return
    if in_array:
        raise scanner.error("the file ends in the middle of its array")


def _read(file: Path) -> str:
    if file.is_dir():
        raise MalformedLogError(file, 0, "a JSON history is a file, and this is a directory")
    if file.stat().st_size > BYTES_MAX:
        raise MalformedLogError(file, 0, f"it is longer than {BYTES_MAX} bytes, which is the most that is read")
    data = file.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedLogError(file, 1 + data.count(b"\n", 0, error.start), "the text is not UTF-8") from None


class _JsonScanner:
    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self._text = text
        self._place = 0
        self._decoder = json.JSONDecoder(parse_constant=_refuse_constant)
        self._line = 1
        self._counted = 0

    def value(self) -> tuple[int, Any]:
        """The value that begins here, after any space."""
        self._skip_space()
        line = self._line_of(self._place)
        try:
            value, self._place = self._decoder.raw_decode(self._text, self._place)
        except json.JSONDecodeError as error:
            raise MalformedLogError(self._file, error.lineno, f"this is no JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise MalformedLogError(self._file, line, f"this is no JSON that can be read: {error}") from None
        return line, value

    def skip(self, sign: str) -> bool:
        """Pass over space and one sign, if that comes next."""
        self._skip_space()
        if self._text.startswith(sign, self._place):
            self._place += len(sign)
            return True
        return False

    def at_end(self) -> bool:
        self._skip_space()
        return self._place == len(self._text)

    def expect_end(self) -> None:
        if not self.at_end():
            raise self.error("there is more behind the end of the array")

    def error(self, reason: str) -> MalformedLogError:
        return MalformedLogError(self._file, self._line_of(self._place), reason)

    def _skip_space(self) -> None:
        while self._place < len(self._text) and self._text[self._place] in SPACE:
            self._place += 1

    def _line_of(self, place: int) -> int:
        self._line += self._text.count("\n", self._counted, place)
        self._counted = place
        return self._line


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
