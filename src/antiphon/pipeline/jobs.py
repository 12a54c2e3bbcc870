"""How jobs are set up and shown: settings that last as long as a job, what the Spark UI calls it, and its progress."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread

from pyspark import SparkStageInfo, StatusTracker
from pyspark.sql import SparkSession

from antiphon.pipeline.passes import is_connected


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, int | str]) -> Iterator[None]:
    """Settings of the session, for as long as the context lasts."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, str(value))
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextmanager
def described(spark: SparkSession, words: str) -> Iterator[None]:
    """What the Spark UI shows of the jobs within."""
    if is_connected(spark):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(f"antiphon: {words}")
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)  # type: ignore[arg-type]


def tasks_of(stages: Iterable[SparkStageInfo | None]) -> tuple[int, int]:
    """How many tasks of some stages are done, and how many there are. Stages that have not begun have no say: Spark
    skips those whose results it has."""
    begun = [stage for stage in stages if stage is not None and (stage.numActiveTasks or stage.numCompletedTasks)]
    return sum(stage.numCompletedTasks for stage in begun), sum(stage.numTasks for stage in begun)


def _stages(tracker: StatusTracker) -> Iterator[SparkStageInfo | None]:
    """Of the jobs under way."""
    for job in tracker.getActiveJobsIds():
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            yield tracker.getStageInfo(stage)


@contextmanager
def task_progress(
    spark: SparkSession, tell: Callable[[str], None], every_s: float = 0.5
) -> Iterator[Callable[[str], None]]:
    """A `tell` that goes on to say how many tasks are done, as long as the context lasts."""
    if is_connected(spark):
        yield tell
        return
    tracker, over, last = spark.sparkContext.statusTracker(), Event(), [""]

    def begin(words: str) -> None:
        last[0] = words
        tell(words)

    def watch() -> None:
        while not over.wait(every_s):
            words, (done, total) = last[0], tasks_of(_stages(tracker))
            if words and total:
                tell(f"{words}: {done:,} of {total:,} tasks")

    watcher = Thread(target=watch, name="antiphon-progress", daemon=True)
    watcher.start()
    try:
        yield begin
    finally:
        over.set()
        watcher.join()
