"""The rows of a log in memory, and the run of messages that the next call may still lengthen.

Consecutive sends, or deliveries, of one sender, group, view and level whose numbers follow each other become one row
(`merge`): count and size add up, the time is the first one's. A row never stands for more than MERGE_SPAN_NS of time,
so that a latency computed from rows is off by no more than that. What has a label stays a row of its own.

A send is recorded at the call, and may leave later. As long as nothing else was recorded since, the open run of sends
has two parts: messages that have left, all in one view, and a tail that was called and has not left. When the run ends
they become two rows, the second without a view; what leaves later than that gets a depart row. So a message that leaves
at once costs no row of its own.

This is the part of recording that every message pays for; so it is compiled.
"""

from typing import Final, final

from antiphon.history.schema import DIGEST_DIGITS

MERGE_SPAN_NS: Final = 200_000

Cells = tuple[
    int,  # time_ns
    str,  # kind
    str | None,  # group
    int | None,  # view
    tuple[str, ...] | None,  # members
    str | None,  # sender
    int | None,  # sender_incarnation
    int | None,  # number
    int | None,  # count
    str | None,  # level
    str | None,  # label
    tuple[str, ...] | None,  # destinations
    int | None,  # size
    str | None,  # digest
]
"""A row without the columns that its place in the log already gives: run, process, incarnation, index."""


@final
class RowBuffer:
    """Rows that are complete, in `cells`, and the open run behind them, if there is one."""

    __slots__ = (
        "_count",
        "_destinations",
        "_digests",
        "_group",
        "_label",
        "_level",
        "_number",
        "_sender",
        "_sender_incarnation",
        "_size",
        "_tail",
        "_tail_size",
        "_time_ns",
        "_view",
        "cells",
        "kind",
        "merge",
    )

    def __init__(self, merge: bool) -> None:
        self.merge = merge
        self.cells: list[Cells] = []
        self.kind = ""
        """Of the open run; empty: there is none."""
        self._time_ns = 0
        self._group = ""
        self._view: int | None = 0
        self._sender = ""
        self._sender_incarnation = 0
        self._number = 0
        self._count = 0
        self._level: str | None = ""
        self._label: str | None = None
        self._destinations: tuple[str, ...] | None = None
        self._size = 0
        self._tail = 0
        """How many messages of an open run of sends were called and have not left, behind those that have."""
        self._tail_size = 0
        self._digests: list[str] | None = None

    def add(
        self,
        kind: str,
        time_ns: int,
        group: str,
        view: int | None,
        sender: str,
        sender_incarnation: int,
        number: int,
        count: int,
        level: str | None,
        label: str | None,
        destinations: tuple[str, ...] | None,
        size: int,
        digest: str | None,
    ) -> bool:
        """Lengthen the open run by these messages and return true. Or end it, make another ready, which `begin` opens,
        and return false."""
        if (
            self.merge
            and number == self._number + self._count + self._tail
            and kind == self.kind
            and sender == self._sender
            and group == self._group
            and level == self._level
            and (view is None or (view == self._view and not self._tail))
            and sender_incarnation == self._sender_incarnation
            and destinations == self._destinations
            and label is None
            and self._label is None
            and (digest is None) == (self._digests is None)
            and time_ns - self._time_ns <= MERGE_SPAN_NS
        ):
            if self._digests is not None and digest is not None:
                self._digests.append(digest)
            if view is None:
                self._tail += count
                self._tail_size += size
            else:
                self._count += count
                self._size += size
            return True
        self.end_run()
        self._time_ns = time_ns
        self._group = group
        self._view = view
        self._sender = sender
        self._sender_incarnation = sender_incarnation
        self._number = number
        self._level = level
        self._label = label
        self._destinations = destinations
        self._digests = None if digest is None else [digest]
        self._count = 0 if view is None else count
        self._size = 0 if view is None else size
        self._tail = count if view is None else 0
        self._tail_size = size if view is None else 0
        return False

    def begin(self, kind: str) -> None:
        """Open the run that `add` has made ready."""
        self.kind = kind

    def leave_at_once(self, group: str, view: int, number: int, count: int, size: int) -> bool:
        """Whether these are the next messages of the open run of sends, which then have left."""
        if (
            self.kind == "send"
            and group == self._group
            and number == self._number + self._count
            and count <= self._tail
            and (self._count == 0 or view == self._view)
        ):
            self._view = view
            self._count += count
            self._size += size
            self._tail -= count
            self._tail_size -= size
            return True
        return False

    def end_run(self) -> None:
        """The open run, if there is one, becomes a row, or two: what has left, and what has not."""
        if not self.kind:
            return
        digest = None if self._digests is None else "".join(self._digests)
        if self._count:
            self.cells.append(
                (
                    self._time_ns,
                    self.kind,
                    self._group,
                    self._view,
                    None,
                    self._sender,
                    self._sender_incarnation,
                    self._number,
                    self._count,
                    self._level,
                    self._label,
                    self._destinations,
                    None if self.kind == "depart" else self._size,
                    None if digest is None else digest[: self._count * DIGEST_DIGITS],
                )
            )
        if self._tail:
            self.cells.append(
                (
                    self._time_ns,
                    self.kind,
                    self._group,
                    None,
                    None,
                    self._sender,
                    self._sender_incarnation,
                    self._number + self._count,
                    self._tail,
                    self._level,
                    self._label,
                    self._destinations,
                    self._tail_size,
                    None if digest is None else digest[self._count * DIGEST_DIGITS :],
                )
            )
        self.kind = ""

    def take(self) -> list[Cells]:
        """The complete rows, which are the caller's from here on."""
        cells = self.cells
        self.cells = []
        return cells
