"""How long messages took from the send row to the deliver row, as distributions: the second pass over a run.

Each latency falls into one of eight buckets per doubling, so that a figure read from a distribution is off by less than
a tenth. Single messages are counted, not rows, one's own deliveries among them, as the audit counts them. A latency
that two clocks make negative counts as zero. Where a run has more send rows than are kept, every second, fourth… of
them is followed and the rest is left out, which keeps the shape.

Distributions are kept per process, group and level. Where these are too many, processes are put together, then groups.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from antiphon.pipeline.explain import process_name
from antiphon.pipeline.intervals import Ints
from antiphon.report.rows import reading_order
from antiphon.report.scan import Numbering, RunScan, ints, of_kinds
from antiphon.report.survey import STREAM, Survey
from antiphon.report.words import clipped, printable

BUCKETS_PER_DOUBLING: Final = 8
BUCKETS: Final = 64 * BUCKETS_PER_DOUBLING
SERIES_MAX: Final = 400
NUMBER_BITS: Final = 40
DELIVERED: Final = ("process", "incarnation", "kind", "time_ns", "level", "number", "count", *STREAM)

SeriesKey = tuple[str | None, str | None, str | None]
"""Process, group and level; None where several are put together."""


def bucket_of(latencies_ns: Ints) -> Ints:
    """Bucket b holds the latencies from 2 ** (b / 8) nanoseconds on; bucket 0 also what is shorter."""
    found: Ints = np.floor(np.log2(np.maximum(latencies_ns, 1)) * BUCKETS_PER_DOUBLING + 1e-9).astype(np.int64)
    return found


class Distributions:
    """Counts per series and bucket."""

    def __init__(self, series_max: int = SERIES_MAX) -> None:
        self.counts: dict[SeriesKey, Ints] = {}
        self.negative = 0
        """Single messages whose delivery bears an earlier time than their send."""
        self._series_max = series_max
        self._whole = 3
        """How many parts of a key are still told apart, from the level on."""

    def add(self, key: SeriesKey, buckets: Ints, messages: Ints) -> None:
        """So many single messages in each of these buckets."""
        key = self._coarse(key)
        if key not in self.counts:
            while self._whole > 1 and len(self.counts) >= self._series_max:
                self._put_together()
                key = self._coarse(key)
            self.counts.setdefault(key, np.zeros(BUCKETS, np.int64))
        np.add.at(self.counts[key], buckets, messages)

    @property
    def put_together(self) -> list[str]:
        """What is no longer told apart."""
        return ["processes", "groups"][: 3 - self._whole]

    def _coarse(self, key: SeriesKey) -> SeriesKey:
        process, group, level = key
        return (process if self._whole > 2 else None, group if self._whole > 1 else None, level)

    def _put_together(self) -> None:
        self._whole -= 1
        before, self.counts = self.counts, {}
        for key, counts in before.items():
            coarse = self._coarse(key)
            self.counts[coarse] = self.counts.get(coarse, np.zeros(BUCKETS, np.int64)) + counts


def measure(scan: RunScan, survey: Survey) -> Distributions:
    """Pass over the run's deliveries."""
    result = Distributions()
    sends = survey.sends.rows()
    sends = sends[(sends[:, 1] > 0) & (sends[:, 2] < 1 << NUMBER_BITS)]
    sends = sends[np.lexsort((sends[:, 1], sends[:, 0]))]
    starts = (sends[:, 0] << NUMBER_BITS) + sends[:, 1]
    for table in scan.tables(*DELIVERED):
        deliveries = of_kinds(table, "deliver")
        if deliveries.num_rows and len(sends):
            _measure(deliveries, sends, starts, survey.streams, result)
    return result


def _measure(deliveries: pa.Table, sends: Ints, starts: Ints, streams: Numbering, result: Distributions) -> None:
    stream = streams.of(deliveries)
    number = np.minimum(ints(deliveries, "number"), (1 << NUMBER_BITS) - 1)
    last = np.minimum(number + ints(deliveries, "count") - 1, (1 << NUMBER_BITS) - 1)
    # A delivery overlaps the send row that begins at or before its first message, up to the one at or before its last.
    first_send = np.maximum(np.searchsorted(starts, (stream << NUMBER_BITS) + number, side="right") - 1, 0)
    end_send = np.searchsorted(starts, (stream << NUMBER_BITS) + last, side="right")
    pairs = np.maximum(end_send - first_send, 0)
    row = np.repeat(np.arange(len(stream)), pairs)
    send = np.arange(int(pairs.sum())) - np.repeat(np.cumsum(pairs) - pairs, pairs) + np.repeat(first_send, pairs)
    messages = np.minimum(last[row], sends[send, 2]) - np.maximum(number[row], sends[send, 1]) + 1
    real = (messages > 0) & (stream[row] == sends[send, 0])
    row, send, messages = row[real], send[real], messages[real]
    latency_ns = ints(deliveries, "time_ns")[row] - sends[send, 3]
    result.negative += int(messages[latency_ns < 0].sum())
    series = Numbering("process", "incarnation", "group", "level")
    own = series.of(deliveries)[row]
    combined, inverse = np.unique(own * BUCKETS + bucket_of(latency_ns), return_inverse=True)
    weights = np.zeros(len(combined), np.int64)
    np.add.at(weights, inverse.reshape(-1), messages)
    for (process, incarnation, group, level), place in series.known.items():
        mine = combined // BUCKETS == place
        if mine.any():
            result.add((f"{process}/{incarnation}", group, level), combined[mine] % BUCKETS, weights[mine])


def latency_data(distributions: Distributions, stride: int) -> dict[str, Any]:
    """The distributions as the page's script reads them: names by number, buckets and counts in pairs."""
    parts = [sorted({name for key in distributions.counts if (name := key[at]) is not None}) for at in range(3)]
    parts[0].sort(key=reading_order)
    places = [{name: number for number, name in enumerate(part)} for part in parts]

    def place(at: int, name: str | None) -> int:
        return -1 if name is None else places[at][name]

    series = []
    for key, counts in distributions.counts.items():
        pairs = [int(value) for bucket in np.flatnonzero(counts) for value in (bucket, counts[bucket])]
        series.append([*(place(at, key[at]) for at in range(3)), pairs])
    return {
        "processes": [printable(clipped(process_name(name), 40)) for name in parts[0]],
        "groups": [printable(clipped(name, 60)) for name in parts[1]],
        "levels": [printable(name) for name in parts[2]],
        "series": series,
        "per_doubling": BUCKETS_PER_DOUBLING,
        "stride": stride,
        "negative": distributions.negative,
        "put_together": distributions.put_together,
    }
