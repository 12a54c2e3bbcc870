"""The text of a transactional history as Plume and AWDIT read it: one operation per line.

    r(KEY,VALUE,SESSION,TRANSACTION)    a read that returned VALUE
    w(KEY,VALUE,SESSION,TRANSACTION)    a write

All four are whole numbers. A transaction belongs to one session; sessions and transactions are in the order in which
they first appear, and the operations of a transaction in that of their lines. Transaction -1 stands for those that
aborted. The value 0 is the initial one of each key. A value is written to a key once, else nobody could tell which
write a read saw.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from antiphon.history.formats.errors import MalformedLogError

LINE: Final = re.compile(rb"([rw])\((-?[0-9]{1,19}),(-?[0-9]{1,19}),([0-9]{1,9}),(-1|[0-9]{1,18})\)")
ABORTED: Final = -1
INITIAL: Final = 0
OPERATIONS_MAX: Final = 1_000_000
LINE_BYTES_MAX: Final = 200

Cell = tuple[int, int]
"""Key and value."""


@dataclass
class Transaction:
    """One committed transaction."""

    session: int
    line: int
    reads: list[Cell] = field(default_factory=list)
    """What it read of other transactions, first to last."""
    writes: dict[int, int] = field(default_factory=dict)
    """By key, the last value that it wrote."""


@dataclass
class PlumeHistory:
    """A history as it was read."""

    transactions: list[Transaction] = field(default_factory=list)
    """In the order of their first lines."""
    writers: dict[Cell, int] = field(default_factory=dict)
    """Which transaction, by its place, left a value behind."""
    operations: int = 0
    not_own: list[int] = field(default_factory=list)
    """Lines of reads that do not return what their own transaction had written to the key."""


def read_plume(file: Path) -> PlumeHistory:
    """Read a history; raises MalformedLogError at the first line that is wrong."""
    history = PlumeHistory()
    places: dict[int, int] = {}
    written: dict[Cell, int] = {}
    for line, kind, key, value, session, number in _operations(file):
        history.operations += 1
        if history.operations > OPERATIONS_MAX:
            raise MalformedLogError(file, line, f"it has more than {OPERATIONS_MAX} operations")
        if kind == b"w":
            other = written.setdefault((key, value), line)
            if other != line:
                raise MalformedLogError(file, line, f"value {value} of key {key} is written on line {other} already")
        if number == ABORTED:
            continue
        place = places.setdefault(number, len(history.transactions))
        if place == len(history.transactions):
            history.transactions.append(Transaction(session, line))
        transaction = history.transactions[place]
        if transaction.session != session:
            reason = f"transaction {number} is one of session {transaction.session} (line {transaction.line})"
            raise MalformedLogError(file, line, reason)
        if kind == b"w":
            transaction.writes[key] = value
        elif transaction.writes.get(key) != value:
            if key in transaction.writes:
                history.not_own.append(line)
            transaction.reads.append((key, value))
    for place, transaction in enumerate(history.transactions):
        history.writers.update(((key, value), place) for key, value in transaction.writes.items())
    if not history.transactions:
        raise MalformedLogError(file, 0, "it holds no committed transaction")
    return history


def _operations(file: Path) -> Iterator[tuple[int, bytes, int, int, int, int]]:
    if file.is_dir():
        raise MalformedLogError(file, 0, "a plume history is a file, and this is a directory")
    with file.open("rb") as stream:
        line = 0
        while text := stream.readline(LINE_BYTES_MAX):
            line += 1
            match = LINE.fullmatch(text.strip())
            if match is not None:
                kind, key, value, session, number = match.groups()
                yield line, kind, int(key), int(value), int(session), int(number)
            elif text.strip():
                told = text.strip()[:40].decode(errors="replace")
                raise MalformedLogError(file, line, f"expected r or w(KEY,VALUE,SESSION,TRANSACTION), not {told!r}")
