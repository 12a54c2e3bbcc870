"""Histories with planted violations through both auditors: each is found, nothing else is, and both count the same.

    python -m tests.pipeline.planted --histories 10000 --jobs 2
    python -m tests.pipeline.planted --histories 500 --spark 250

Each history has 0 to 5 violations of every guarantee; every tenth has none at all. What must be counted is known from
the planting. The reference auditor counts it, and so do the functions of the Spark auditor, called in this process.
With `--spark`, so many histories at a time also go through Spark, as the runs of one directory.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from antiphon.history.reader import LOG_COLUMNS, HistoryFiles, rows_of_table
from antiphon.history.schema import SCHEMA
from antiphon.pipeline import reference
from antiphon.pipeline.audit.pieces import Piece
from bench.histories import Made, Shape, generate_segments
from bench.history_rows import Segment, write_to
from bench.planting import PLANTED, NoRoomError
from tests.pipeline.inprocess import BY_FRAMES, count_pieces

"""Of these histories no group parts; test_reference_components.py has some."""
EACH_MAX = 5
EVENTS = (1800, 3600, 7200)
"""How long a history is; a longer one where there is no room for all that is planted."""
PIECE_ROWS = (300, 1000, 100_000)
THROUGH_FILES = 10
"""Of so many histories, one goes through files before it is audited; on Spark all do."""


def make(seed: int) -> tuple[Made, list[Segment]]:
    """The history of a seed."""
    random = np.random.default_rng(seed)
    wanted = {guarantee: int(random.integers(0, EACH_MAX + 1)) for guarantee in PLANTED} if seed % 10 else {}
    processes, groups = int(random.integers(4, 7)), int(random.integers(1, 4))
    for events in EVENTS:
        shape = Shape(
            events=events,
            processes=processes,
            groups=groups,
            views=8,
            single=0.4,
            burst_max=3,
            lag_max=2,
            levels=(0.1, 0.25, 0.3, 0.25, 0.1),
        )
        with suppress(NoRoomError):
            return generate_segments(shape, run=f"seed-{seed}", seed=seed, plant=wanted)
    raise AssertionError(f"there is no room for the violations of seed {seed}")


def plant(seed: int, directory: Path) -> Made:
    """The same, written into a directory."""
    made, segments = make(seed)
    write = write_to(directory)
    for segment in segments:
        write(segment)
    return made


def logs_of(seed: int) -> tuple[Made, list[pa.Table]]:
    """The same as tables, one a log, as a reader finds them."""
    if seed % THROUGH_FILES == 1:
        with tempfile.TemporaryDirectory(prefix="antiphon-planted-") as place:
            return plant(seed, Path(place)), list(HistoryFiles.open(place).tables())
    made, segments = make(seed)
    return made, [segment.table.cast(SCHEMA) for segment in segments]


def cut(logs: Iterable[pa.Table], piece_rows: int) -> list[Piece]:
    """Each log in pieces of so many rows."""
    pieces = []
    for log in logs:
        run, process, incarnation = (log[name][0].as_py() for name in LOG_COLUMNS)
        for first in range(0, len(log), piece_rows):
            pieces.append(Piece(run, f"{process}/{incarnation}", log.slice(first, piece_rows)))
    return pieces


def check(seed: int) -> tuple[int, Counter[str], str | None]:
    """The events of a seed's history, what was planted, and what is wrong with what was counted."""
    made, logs = logs_of(seed)
    found = {
        finding.guarantee: (finding.violations, finding.unknown, finding.checked, finding.roots)
        for finding in reference.audit([row for log in logs for row in rows_of_table(log)]).findings
    }
    planted = {guarantee: made.planted[guarantee] for guarantee in PLANTED}
    if {guarantee: violations for guarantee, (violations, *_) in found.items()} != planted:
        return made.events, made.planted, f"seed {seed}: {planted} was planted, the reference counts {found}"
    if any(not bool(violations) <= roots <= violations for violations, _, _, roots in found.values()):
        return made.events, made.planted, f"seed {seed}: root causes that cannot be, the reference counts {found}"
    if any(unknown for _, unknown, *_ in found.values()):
        return made.events, made.planted, f"seed {seed}: nothing is left open, the reference counts {found}"
    counted = count_pieces(cut(logs, PIECE_ROWS[seed % len(PIECE_ROWS)]))
    found = {guarantee: counts for guarantee, counts in found.items() if guarantee not in BY_FRAMES}
    if counted != found:
        return made.events, made.planted, f"seed {seed}: the reference counts {found}, the vectorised one {counted}"
    return made.events, made.planted, None


def check_on_spark(seeds: range, batch: int) -> Iterator[str]:
    """What is wrong with what Spark counts, batch by batch."""
    from antiphon.pipeline.auditor import audit
    from antiphon.pipeline.session import make_session

    spark = make_session()
    for first in range(seeds.start, seeds.stop, batch):
        with tempfile.TemporaryDirectory(prefix="antiphon-planted-") as place:
            planted: Counter[str] = Counter()
            for seed in range(first, min(first + batch, seeds.stop)):
                planted += plant(seed, Path(place) / f"{seed}").planted
            found = audit(place, spark)
        counted = Counter({finding.guarantee: finding.violations for finding in found.findings})
        if +counted != +planted or any(finding.unknown for finding in found.findings):
            yield f"seeds from {first} on: {dict(planted)} was planted, Spark counts {found.findings}"
        print(f"Spark: {found.runs} runs, {found.events:,} events", file=sys.stderr, flush=True)
    spark.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--spark", type=int, default=0, metavar="N", help="through Spark as well, N at a time")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.histories)
    started_s = time.perf_counter()
    wrong: list[str] = []
    events, planted = 0, Counter[str]()
    with ProcessPoolExecutor(options.jobs) as pool:
        for done, (own_events, own_planted, problem) in enumerate(pool.map(check, seeds, chunksize=10), start=1):
            events, planted = events + own_events, planted + own_planted
            if problem is not None:
                wrong.append(problem)
                print(problem, file=sys.stderr, flush=True)
            if done % 100 == 0:
                print(f"{done} histories, {len(wrong)} wrong", file=sys.stderr, flush=True)
    if options.spark:
        for problem in check_on_spark(seeds, options.spark):
            wrong.append(problem)
            print(problem, file=sys.stderr, flush=True)
    elapsed_s = round(time.perf_counter() - started_s, 1)
    summary = {"histories": len(seeds), "events": events, "violations": dict(planted), "wrong": len(wrong)}
    print(json.dumps(summary | {"elapsed_s": elapsed_s}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
