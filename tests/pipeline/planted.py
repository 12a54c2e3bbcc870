"""Histories with planted violations through both auditors: each is found, nothing else is, and both count the same.

    python -m tests.pipeline.planted --histories 10000 --jobs 2
    python -m tests.pipeline.planted --histories 500 --spark 250

Each history has 0 to 5 violations of every guarantee; every tenth has none at all. What must be counted is known from
the planting. The reference auditor counts it, and so do the functions of the Spark auditor, called in this process.
With `--spark`, so many histories at a time also go through Spark, as the runs of one directory.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np

from antiphon.history.reader import History
from antiphon.pipeline import reference
from antiphon.pipeline.promises import CHECKED
from bench.histories import Made, Shape, generate
from bench.planting import NoRoomError
from tests.pipeline.inprocess import count

EACH_MAX = 5
EVENTS = (1500, 3000, 6000)
"""How long a history is; a longer one where there is no room for all that is planted."""
PIECE_ROWS = (300, 1000, 100_000)


def plant(seed: int, directory: Path) -> Made:
    """The history of a seed."""
    random = np.random.default_rng(seed)
    wanted = {guarantee: int(random.integers(0, EACH_MAX + 1)) for guarantee in CHECKED} if seed % 10 else {}
    processes, groups = int(random.integers(5, 8)), int(random.integers(1, 4))
    for events in EVENTS:
        shape = Shape(
            events=events,
            processes=processes,
            groups=groups,
            views=13,
            single=0.3,
            burst_max=3,
            levels=(0.1, 0.3, 0.3, 0.2, 0.1),
        )
        with suppress(NoRoomError):
            return generate(directory, shape, run=f"seed-{seed}", seed=seed, plant=wanted)
        shutil.rmtree(directory)
    raise AssertionError(f"there is no room for the violations of seed {seed}")


def check(seed: int) -> tuple[int, Counter[str], str | None]:
    """The events of a seed's history, what was planted, and what is wrong with what was counted."""
    with tempfile.TemporaryDirectory(prefix="antiphon-planted-") as place:
        made = plant(seed, Path(place) / "history")
        rows = History.open(place).read_rows()
    found = {
        finding.guarantee: (finding.violations, finding.unknown, finding.checked)
        for finding in reference.audit(rows).findings
    }
    planted = {guarantee: made.planted[guarantee] for guarantee in CHECKED}
    if {guarantee: violations for guarantee, (violations, _, _) in found.items()} != planted:
        return made.events, made.planted, f"seed {seed}: {planted} was planted, the reference counts {found}"
    if any(unknown for _, unknown, _ in found.values()):
        return made.events, made.planted, f"seed {seed}: nothing is left open, the reference counts {found}"
    counted = count(rows, piece_rows=PIECE_ROWS[seed % len(PIECE_ROWS)])
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
            wrong += [problem] if problem is not None else []
            if done % 500 == 0:
                print(f"{done} histories, {len(wrong)} wrong", file=sys.stderr, flush=True)
    if options.spark:
        wrong += check_on_spark(seeds, options.spark)
    for problem in wrong[:20]:
        print(problem, file=sys.stderr)
    elapsed_s = round(time.perf_counter() - started_s, 1)
    summary = {"histories": len(seeds), "events": events, "violations": dict(planted), "wrong": len(wrong)}
    print(json.dumps(summary | {"elapsed_s": elapsed_s}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
