"""Where the messages of a run were sent: which send rows a delivery row draws from.

Memory: 16 bytes per send row, in arrays of numpy.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from antiphon.history.logs import LogFiles
from antiphon.history.schema import Row

Ints = npt.NDArray[np.int64]
Stream = tuple[str, str]
"""Group and sender ("name/incarnation")."""


def stream_of(row: Row) -> Stream:
    """To which stream the messages of a row belong."""
    return row.group or "", f"{row.sender}/{row.sender_incarnation}"


class SendRows:
    """All send rows of the logs of one run, by stream and first number."""

    def __init__(self, logs: Sequence[LogFiles]) -> None:
        self._first: dict[Stream, Ints] = {}
        self._end: dict[Stream, Ints] = {}
        for log in logs:
            self._gather(log)

    def drawn_from(self, row: Row) -> Iterator[int]:
        """The first numbers of the send rows of which a delivery row holds messages, rising."""
        stream = stream_of(row)
        if stream not in self._first:
            return
        first, end = self._first[stream], self._end[stream]
        number = row.number or 0
        place = int(np.searchsorted(end, number, side="right"))
        while place < len(first) and first[place] < number + (row.count or 1):
            yield int(first[place])
            place += 1

    def _gather(self, log: LogFiles) -> None:
        parts: dict[str, list[tuple[Ints, Ints]]] = {}
        for table in log.tables():
            sends = table.filter(pc.equal(table["kind"], "send"))
            for group in pc.unique(sends["group"]).to_pylist():
                own = sends.filter(pc.equal(sends["group"], group))
                parts.setdefault(group, []).append((own["number"].to_numpy(), own["count"].to_numpy()))
        for group, found in parts.items():
            first = np.concatenate([numbers for numbers, _ in found])
            count = np.concatenate([counts for _, counts in found])
            order = np.argsort(first, kind="stable")
            self._first[group, log.key.name] = first[order]
            self._end[group, log.key.name] = (first + count)[order]
