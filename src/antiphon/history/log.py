"""The log of one process incarnation, as it is being recorded.

`Log` turns calls into rows and numbers them; where the rows go is the subclass's affair: `MemoryLog` keeps them,
`antiphon.history.recorder.Recorder` writes them to Parquet. Both make the same rows from the same calls.

Consecutive sends, or deliveries, of one sender, group, view and level whose numbers follow each other become one row
(`merge`): count and size add up, the time is the first one's. A row never stands for more than MERGE_SPAN_NS of time,
so that a latency computed from rows is off by no more than that. What has a label stays a row of its own.

A send is recorded at the call, and may leave later. As long as nothing else was recorded since, the open run of sends
has two parts: messages that have left, all in one view, and a tail that was called and has not left. When the run ends
they become two rows, the second without a view; what leaves later than that gets a depart row. So a message that leaves
at once costs no row of its own.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final, final

import pyarrow as pa

from antiphon.history.schema import ALL_GROUPS, DIGEST_DIGITS, QUIET, SCHEMA, SCHEMA_VERSION, Row

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


class Log:
    """One call per event, in the process's own order; `time_ns` may stand still but is expected not to go back."""

    def __init__(self, *, run: str, process: str, incarnation: int = 1, merge: bool = True) -> None:
        self.run = run
        self.process = process
        self.incarnation = incarnation
        self._merge = merge
        self._cells: list[Cells] = []
        # The open run: the last send or deliver row, as long as the next call may still extend it.
        self._kind = ""
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

    def start(
        self,
        time_ns: int,
        group: str,
        stack: str,
        policy: str,
        levels: Sequence[str],
        promises: Sequence[str],
        scope: str = ALL_GROUPS,
        domain: str | None = None,
    ) -> None:
        """The process joins `group`; `promises` are the ids of the guarantees that the audit shall hold it to. `scope`
        says among which messages causal order holds, and where it is a causality domain, `domain` names that."""
        facts: dict[str, object] = {
            "schema": SCHEMA_VERSION,
            "stack": stack,
            "policy": policy,
            "levels": list(levels),
            "promises": list(promises),
            "scope": scope,
        }
        if domain is not None:
            facts["domain"] = domain
        label = json.dumps(facts, separators=(",", ":"), ensure_ascii=False)
        self._append((time_ns, "start", group, None, None, None, None, None, None, None, label, None, None, None))

    def view(self, time_ns: int, group: str, view: int, members: Sequence[str]) -> None:
        """The group is in `view` from here on; `members` are "name/incarnation", ranked by age."""
        self._append(
            (time_ns, "view", group, view, tuple(members), None, None, None, None, None, None, None, None, None)
        )

    def send(
        self,
        time_ns: int,
        group: str,
        view: int | None,
        number: int,
        count: int,
        level: str,
        size: int,
        destinations: tuple[str, ...] | None = None,
        label: str | None = None,
        digest: str | None = None,
    ) -> None:
        """The application called for `count` messages, numbered from `number` on, with `size` payload bytes together.

        `view`: they leave at once, in this view; None: `depart` will tell, if they leave at all.
        """
        self._extend(
            "send",
            time_ns,
            group,
            view,
            self.process,
            self.incarnation,
            number,
            count,
            level,
            label,
            destinations,
            size,
            digest,
        )

    def depart(self, time_ns: int, group: str, view: int, number: int, count: int, size: int) -> None:
        """Messages of earlier calls leave in `view`."""
        if not self._leave_at_once(group, view, number, count, size):
            self._extend(
                "depart", time_ns, group, view, self.process, self.incarnation, number, count, None, None, None, 0, None
            )

    def _leave_at_once(self, group: str, view: int, number: int, count: int, size: int) -> bool:
        """Whether these are the next messages of the open run of sends, which then have left."""
        if (
            self._kind == "send"
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

    def receive(
        self,
        time_ns: int,
        group: str,
        view: int,
        sender: str,
        sender_incarnation: int,
        number: int,
        count: int,
        level: str,
        size: int,
    ) -> None:
        """A packet with these messages came in for the first time."""
        self._extend(
            "receive", time_ns, group, view, sender, sender_incarnation, number, count, level, None, None, size, None
        )

    def deliver(
        self,
        time_ns: int,
        group: str,
        view: int,
        sender: str,
        sender_incarnation: int,
        number: int,
        count: int,
        level: str,
        size: int,
        label: str | None = None,
        destinations: tuple[str, ...] | None = None,
        digest: str | None = None,
    ) -> None:
        """The application is handed these messages, in this order; `destinations` as far as it can know them."""
        self._extend(
            "deliver",
            time_ns,
            group,
            view,
            sender,
            sender_incarnation,
            number,
            count,
            level,
            label,
            destinations,
            size,
            digest,
        )

    def suspect(self, time_ns: int, group: str, view: int, suspected: str) -> None:
        """`suspected` ("name/incarnation") is thought to have failed."""
        self._append((time_ns, "suspect", group, view, None, None, None, None, None, None, suspected, None, None, None))

    def note(self, time_ns: int, text: str, group: str | None = None) -> None:
        """Anything worth knowing; LEAVES and LEFT have a meaning for the audit, for `group` where it is named."""
        self._append((time_ns, "note", group, None, None, None, None, None, None, None, text, None, None, None))

    def crash(self, time_ns: int, why: str) -> None:
        """The process dies here: the last row of its log, written by whoever killed it."""
        self._append((time_ns, "crash", None, None, None, None, None, None, None, None, why, None, None, None))

    def stop(self, time_ns: int, why: str = QUIET) -> None:
        """The last row of the log. "quiet": the run had healed and was given the time to go quiet."""
        self._append((time_ns, "stop", None, None, None, None, None, None, None, None, why, None, None, None))

    def add(self, cells: Cells) -> None:
        """A row as it is, for what was recorded elsewhere; it is merged with nothing."""
        self._append(cells)

    def _extend(
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
    ) -> None:
        """Lengthen the open run, or end it and open another."""
        if (
            self._merge
            and number == self._number + self._count + self._tail
            and kind == self._kind
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
            return
        if self._kind:
            self._end_run()
        self._before_row(time_ns)
        self._kind = kind
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
        if view is None:
            self._count, self._size, self._tail, self._tail_size = 0, 0, count, size
        else:
            self._count, self._size, self._tail, self._tail_size = count, size, 0, 0

    def _append(self, cells: Cells) -> None:
        if self._kind:
            self._end_run()
        self._before_row(cells[0])
        self._cells.append(cells)

    def _end_run(self) -> None:
        """The open run becomes a row, or two: what has left, and what has not."""
        digest = None if self._digests is None else "".join(self._digests)
        if self._count:
            self._cells.append(
                (
                    self._time_ns,
                    self._kind,
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
                    None if self._kind == "depart" else self._size,
                    None if digest is None else digest[: self._count * DIGEST_DIGITS],
                )
            )
        if self._tail:
            self._cells.append(
                (
                    self._time_ns,
                    self._kind,
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
        self._kind = ""

    def _before_row(self, time_ns: int) -> None:
        """A new row comes after everything in `_cells`: the moment to put those away."""


@final
class MemoryLog(Log):
    """Keeps its rows in memory, for runs that are audited where they were made."""

    def rows(self) -> Iterator[Row]:
        """All rows so far; more may be recorded after it."""
        if self._kind:
            self._end_run()
        for index, cells in enumerate(self._cells):
            yield Row(self.run, self.process, self.incarnation, index, *cells)

    def table(self) -> pa.Table:
        """All rows so far, as they would lie in a file."""
        if self._kind:
            self._end_run()
        return to_table(self, 0, self._cells)


def to_table(log: Log, first_index: int, rows: list[Cells]) -> pa.Table:
    """The rows of `log` from `first_index` on as an Arrow table of SCHEMA."""
    count = len(rows)
    arrays: list[pa.Array] = [
        pa.repeat(pa.scalar(log.run, pa.string()), count),
        pa.repeat(pa.scalar(log.process, pa.string()), count),
        pa.repeat(pa.scalar(log.incarnation, pa.int64()), count),
        pa.array(range(first_index, first_index + count), pa.int64()),
    ]
    columns = zip(*rows, strict=True) if rows else [()] * (len(SCHEMA) - len(arrays))
    for column, field in zip(columns, list(SCHEMA)[len(arrays) :], strict=True):
        # Most columns of most segments hold nothing: to find that out is quicker than to convert it.
        empty = column.count(None) == count
        arrays.append(pa.nulls(count, field.type) if empty else pa.array(column, field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)
