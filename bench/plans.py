"""The plans of the jobs of an audit on Spark, and what each of them shuffles: for docs/audit.md.

    python -m bench.plans --events 200000 --runs 10

Makes a history, audits it with whole runs per task and then as long runs, and prints of every query its description,
its physical plan in short, and rows and bytes that it read, kept and shuffled, as Spark counted them.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from antiphon.pipeline.auditor import audit, judge_history
from antiphon.pipeline.reading import read_history
from antiphon.pipeline.session import make_session
from antiphon.pipeline.source import HistoryAddress
from bench.audit_scale import make
from bench.figures import table


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = argparse.ArgumentParser(description="The plans of the jobs of an audit on Spark.")
    made.add_argument("--events", type=int, default=200_000)
    made.add_argument("--runs", type=int, default=10)
    made.add_argument("--processes", type=int, default=8)
    made.add_argument("--groups", type=int, default=3)
    made.add_argument("--views", type=int, default=12)
    made.set_defaults(plant={})
    return made.parse_args(words)


def plan_of(frame: DataFrame) -> str:
    """The physical plan without the numbers of columns, and without what is below a cache."""
    text: str = frame._jdf.queryExecution().executedPlan().toString()
    lines = [re.sub(r"#\d+L?", "", line) for line in text.splitlines() if line.strip()]
    kept: list[str] = []
    for line in lines:
        kept.append(line if len(line) < 150 else line[:149] + "…")
        if "InMemoryRelation" in line:
            break
    return "\n".join(kept)


def shuffles(spark: SparkSession) -> list[list[object]]:
    """Stage by stage: what it is for, tasks, bytes and rows read and written by shuffles."""
    store = spark.sparkContext._jsc.sc().statusStore()
    stages = store.stageList(None)
    rows: list[list[object]] = []
    for place in range(stages.size()):
        stage = stages.apply(place)
        words = stage.description()
        words = words.get() if words.isDefined() else ""
        figures = [stage.inputBytes(), stage.shuffleWriteBytes(), stage.shuffleWriteRecords(), stage.shuffleReadBytes()]
        rows.append([stage.stageId(), words.removeprefix("antiphon: "), stage.numTasks(), *figures])
    return sorted(rows)


def main(words: Sequence[str] | None = None) -> int:
    arguments = parse(words)
    spark = make_session("local[2,3]")
    with tempfile.TemporaryDirectory(prefix="antiphon-plans-") as place:
        made = make(arguments, Path(place), arguments.events, arguments.runs)
        print(f"{made.events:,} events in {made.rows:,} rows, {arguments.runs} runs")
        with read_history(spark, HistoryAddress(place), print) as history:
            print("\n# read\n" + plan_of(history.place.files()))
            print("\n# judge whole runs\n" + plan_of(judge_history(history, None, listing=False, rows_max=2**62)))
        audit(place, spark)
        audit(place, spark, output=str(Path(place, "out")), whole_run_rows_max=0)
    head = ["stage", "job", "tasks", "bytes read", "bytes to shuffle", "rows to shuffle", "bytes from shuffle"]
    print("\n" + table(head, shuffles(spark)))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
