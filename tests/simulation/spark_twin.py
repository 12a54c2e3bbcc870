"""Seeds through all three auditors: the reference and the quick one in this process, and Spark, whole runs per task and
as long runs by turns. Verdicts and counts must be equal.

python -m tests.simulation.spark_twin --seeds 0:50

Even seeds are worlds whose members stay; odd ones are churn in overlapping groups, whose members come and go. A churn
that has lost a majority may leave something unknown; then nothing may be broken.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from antiphon.history.recorder import Recorder
from antiphon.history.segments import segment_file
from antiphon.pipeline import auditor, reference
from antiphon.pipeline.by_run import ROWS_MAX
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import KEPT, UNKNOWN, Audit
from antiphon.pipeline.session import make_session
from antiphon.simulator.draw import draw
from antiphon.simulator.run import simulate
from antiphon.simulator.script_run import run_script
from antiphon.simulator.seeds import draw_churn_workload

Counts = dict[str, tuple[str, int, int, int]]


def record_seed(seed: int, directory: Path) -> None:
    """Simulate a seed into files."""
    if seed % 2:
        record_churn(seed, directory)
        return
    options = draw(seed)
    logs = [Recorder(directory, run=f"seed-{seed}", process=name) for name in options.process_names()]
    simulate(options, logs)
    for log in logs:
        log.close()


def record_churn(seed: int, directory: Path) -> None:
    """Simulate a churn into files."""
    for log in run_script(draw_churn_workload(seed)).logs:
        if next(log.rows(), None) is not None:
            pq.write_table(log.table(), segment_file(directory, log.process, log.incarnation, 0))


def counts(audit: Audit) -> Counts:
    """What must be equal."""
    return {
        finding.guarantee: (finding.verdict, finding.violations, finding.unknown, finding.checked)
        for finding in audit.findings
    }


def compare(seed: int, spark: SparkSession, directory: Path) -> tuple[str, int, Counts, Counts]:
    """The verdict and the number of events by Spark, and the counts of Spark and the reference."""
    record_seed(seed, directory)
    by_spark = auditor.audit(directory, spark, whole_run_rows_max=ROWS_MAX if seed // 2 % 2 else 0)
    by_reference = reference.audit(directory)
    assert by_spark.events == by_reference.events
    assert by_spark == quick_audit(directory), "to the examples and the words"
    return by_spark.verdict, by_spark.events, counts(by_spark), counts(by_reference)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:50", help="from:to, the last one excluded")
    first, last = (int(part) for part in parser.parse_args().seeds.split(":"))
    spark = make_session()
    started_s = time.perf_counter()
    kept = equal = total_events = 0
    for seed in range(first, last):
        with tempfile.TemporaryDirectory() as directory:
            verdict, events, by_spark, by_reference = compare(seed, spark, Path(directory))
        kept += verdict == KEPT or (seed % 2 == 1 and verdict == UNKNOWN)
        equal += by_spark == by_reference
        total_events += events
        if by_spark != by_reference:
            print(f"seed {seed}: Spark says {by_spark}, the reference {by_reference}")
    spark.stop()
    seeds = last - first
    elapsed_s = round(time.perf_counter() - started_s, 1)
    print(json.dumps({"seeds": seeds, "kept": kept, "equal": equal, "events": total_events, "elapsed_s": elapsed_s}))
    return 0 if kept == equal == seeds else 1


if __name__ == "__main__":
    sys.exit(main())
