"""A campaign on Spark: its seeds over the executors, chunk by chunk, then its failing seeds.

Each chunk is one task, which writes the chunk's outcomes to the campaign's directory. The driver reads each file when
it appears and adds it up; so a campaign that was killed goes on where it was, and its progress is what is on disk. The
failing seeds that shall be kept are a second job, one task each.

Memory: a task holds one run; the driver the tally and one chunk's outcomes.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from antiphon.pipeline.campaign.chunks import FAILING, Campaign, missing_chunks, open_directory, read_chunk
from antiphon.pipeline.campaign.contract import Simulator
from antiphon.pipeline.campaign.failing import FailingSeed, Kept, choose, keep_failing, read_kept
from antiphon.pipeline.campaign.seeds import run_chunk
from antiphon.pipeline.campaign.tally import CampaignTally

LOOK_S: Final = 0.5
"""How often the driver looks for finished chunks."""
TASKS_MAX: Final = 10_000
"""Beyond that a task has several items: Spark's driver keeps something for each task."""

Progress = Callable[[CampaignTally, int], None]
"""Told the tally so far, and how many of its seeds were run before this time."""


def run_campaign(
    campaign: Campaign, directory: Path, simulator: Simulator, spark: SparkSession, progress: Progress
) -> tuple[CampaignTally, int]:
    """Run what is still to be run; the tally of the whole campaign, and how many seeds of it were run now."""
    open_directory(directory, campaign)
    missing = missing_chunks(directory, campaign)
    tally = CampaignTally()
    for chunk in sorted(set(range(campaign.chunks)) - set(missing)):
        _add(tally, directory, chunk)
    before = tally.seeds
    progress(tally, before)
    job = _Job(spark, missing, lambda chunk: run_chunk(simulator, campaign, directory, chunk))
    left = missing
    while left:
        ended = job.wait(LOOK_S)
        still = set(missing_chunks(directory, campaign))
        for chunk in [chunk for chunk in left if chunk not in still]:
            _add(tally, directory, chunk)
        left = [chunk for chunk in left if chunk in still]
        progress(tally, before)
        assert not (ended and left), "every task leaves its file"
    tally.failing.sort(key=lambda failing: failing.seed)
    return tally, tally.seeds - before


def keep(
    tally: CampaignTally, directory: Path, simulator: Simulator, spark: SparkSession, most: int, runs_max: int
) -> list[Kept]:
    """Keep and shrink the failing seeds that say the most."""
    chosen = choose(tally.failing, most)
    job = _Job(spark, chosen, lambda failing: keep_failing(simulator, directory, failing, runs_max))
    while not job.wait(LOOK_S):
        pass
    return [read_kept(directory / FAILING / failing.name) for failing in chosen]


def _add(tally: CampaignTally, directory: Path, chunk: int) -> None:
    for outcome in read_chunk(directory, chunk):
        tally.add(outcome)


class _Job:
    """About one Spark task per item, in the background, so that the driver can watch what they leave on disk."""

    def __init__(self, spark: SparkSession, items: list[int] | list[FailingSeed], do: Callable[..., object]) -> None:
        self._spark = spark
        self._items = items
        self._do = do
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="campaign", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait a while; whether the job has ended. Raises what it failed with."""
        try:
            self._thread.join(timeout_s)
        except KeyboardInterrupt:
            self._spark.sparkContext.cancelAllJobs()
            raise
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def _run(self) -> None:
        items, do = self._items, self._do

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for place in batch.column(0).to_pylist():
                    do(items[place])
                yield batch

        try:
            if items:
                tasks = min(len(items), TASKS_MAX)
                self._spark.range(0, len(items), 1, tasks).mapInArrow(work, "id long").count()
        except BaseException as error:  # for the driver's thread to raise
            self._error = error
