"""Distributions of latency, against a plain count over single messages."""

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow.parquet as pq
import pytest

from antiphon.history.log import MemoryLog
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import LEVELS, Row
from antiphon.history.segments import segment_file
from antiphon.report import survey as surveying
from antiphon.report.latencies import Distributions, bucket_of, latency_data, measure
from antiphon.report.scan import RunScan
from antiphon.report.survey import survey

Counts = Counter[tuple[str | None, str | None, str | None, int]]


def random_logs(random: Random) -> list[MemoryLog]:
    """Sends and deliveries in runs that are cut at different places, some delivered twice or never sent."""
    names = ["a", "b", "c"]
    logs = {name: MemoryLog(run="r", process=name, merge=False) for name in names}
    numbers = {(name, group): 1 for name in names for group in ("g", "h")}
    for _ in range(60):
        name, group = random.choice(names), random.choice(("g", "h"))
        number, count = numbers[name, group], random.randint(1, 9)
        numbers[name, group] += count
        level, now_ns = random.choice(LEVELS), random.randint(0, 10**9)
        logs[name].send(now_ns, group, 1, number, count, level, count)
        for other in names:
            first = number + random.randint(-2, count - 1)
            if first > 0:
                later_ns = now_ns + random.choice((-5, 0, 1, 700, 10**6, 10**10))
                logs[other].deliver(later_ns, group, 1, name, 1, first, random.randint(1, 12), level, 1)
    return list(logs.values())


def counted_one_by_one(rows: list[Row]) -> Counts:
    sent = {
        (row.group, row.process, number): row.time_ns
        for row in rows
        if row.kind == "send"
        for number in range(row.number or 0, (row.number or 0) + (row.count or 0))
    }
    counts: Counts = Counter()
    for row in rows:
        for number in range(row.number or 0, (row.number or 0) + (row.count or 0)) if row.kind == "deliver" else ():
            sent_ns = sent.get((row.group, row.sender or "", number))
            if sent_ns is not None:
                bucket = int(bucket_of(np.array([row.time_ns - sent_ns], np.int64))[0])
                counts[f"{row.process}/1", row.group, row.level, bucket] += 1
    return counts


def write(logs: list[MemoryLog], directory: Path, row_group_size: int = 11) -> RunScan:
    for log in logs:
        pq.write_table(log.table(), segment_file(directory, log.process, 1, 0), row_group_size=row_group_size)
    return RunScan(HistoryFiles.open(directory), "r")


@pytest.mark.parametrize("seed", range(5))
def test_runs_are_counted_message_by_message(seed: int, tmp_path: Path) -> None:
    logs = random_logs(Random(seed))
    scan = write(logs, tmp_path)
    found = measure(scan, survey(scan))
    counts: Counts = Counter()
    for key, buckets in found.counts.items():
        counts.update({(*key, int(bucket)): int(buckets[bucket]) for bucket in np.flatnonzero(buckets)})
    rows = [row for log in logs for row in log.rows()]
    assert counts == counted_one_by_one(rows)
    assert found.negative > 0


def test_of_too_many_sends_a_part_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog(run="r", process="a", merge=False)
    for number in range(1, 1_001):
        log.send(number * 1_000, "g", 1, number, 1, "fifo", 1)
        log.deliver(number * 1_000 + 512, "g", 1, "a", 1, number, 1, "fifo", 1)
    monkeypatch.setattr(surveying, "SENDS_MAX", 100)
    scan = write([log], tmp_path, row_group_size=300)
    seen = survey(scan)
    assert seen.sends.stride == 16
    found = measure(scan, seen)
    [counts] = found.counts.values()
    assert list(np.flatnonzero(counts)) == [9 * 8], "512 ns is nine doublings"
    assert 1_000 // 16 <= int(counts.sum()) <= 100


def test_a_bucket_begins_where_it_says() -> None:
    times = np.array([-7, 0, 1, 2, 1_023, 1_024, 1_117, 1_116, 2**62], np.int64)
    assert bucket_of(times).tolist() == [0, 0, 0, 8, 79, 80, 81, 80, 62 * 8]


def test_too_many_series_are_put_together() -> None:
    found = Distributions(series_max=10)
    one, many = np.array([3], np.int64), np.array([5], np.int64)
    for process in range(8):
        for group in range(8):
            found.add((f"p{process}/1", f"g{group}", "fifo"), one, many)
    assert found.put_together == ["processes"]
    assert len(found.counts) == 8
    assert all(counts[3] == 8 * 5 for counts in found.counts.values())
    data = latency_data(found, 1)
    assert (data["processes"], len(data["groups"])) == ([], 8)
    for group in range(20):
        found.add(("p/1", f"h{group}", "fifo"), one, many)
    assert found.put_together == ["processes", "groups"]
    assert [counts[3] for counts in found.counts.values()] == [8 * 8 * 5 + 20 * 5]
