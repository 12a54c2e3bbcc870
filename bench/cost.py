"""How many cores Spark needs to be ahead of the one-process engine, on the same history (McSherry's COST).

    python -m bench.cost                                            5 million events in one run; 300 runs of 4,500
    python -m bench.cost --events 1000000 --runs 60 --cores 1,2
    python -m bench.cost --share 8,64,256                           the driver's share by the number of processes

Each audit is a process of its own. The first audit of a session warms Java up and is told apart, as the start of the
session is; the second counts. Times are those of processors, of everything that the audit starts: on a machine that
does other work the clock says little. From them, with what the driver does alone, comes the time on n cores: what the
driver does alone, and 1/n of the rest. The COST is the least n that is ahead of `--quick`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.audit_scale import make
from bench.figures import IncompleteError, Report, Result, parser, progress, run, table

CORES_MAX: Final = 64
SIZE: Final = 64


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("How many cores Spark needs to be ahead of one process.")
    made.add_argument("--events", type=int, default=5_000_000, help="of the history with one run")
    made.add_argument("--runs", type=int, default=300, help="of the history with many runs")
    made.add_argument("--run-events", type=int, default=4_500, help="of each of these runs")
    made.add_argument("--cores", type=int, default=2, help="that Spark uses")
    made.add_argument("--share", default="", help="numbers of processes: the driver's share instead, of --events each")
    made.add_argument("--groups", type=int, default=3)
    made.add_argument("--views", type=int, default=12)
    return made.parse_args(words)


def ticks_of(pid: int) -> dict[int, int]:
    """Processor time of a process and all that it started, in ticks, by process; that of ended children counts."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path("/proc", name, "stat").read_text()
        except OSError:
            continue
        cells = text[text.rindex(")") + 2 :].split()
        children.setdefault(int(cells[1]), []).append(int(name))
        used[int(name)] = sum(map(int, cells[11:15]))
    found, todo = {}, [pid]
    while todo:
        one = todo.pop()
        found[one] = used.get(one, 0)
        todo += children.get(one, [])
    return found


def processor_s() -> float:
    return sum(ticks_of(os.getpid()).values()) / os.sysconf("SC_CLK_TCK")


def by_spark(directory: str, cores: int) -> dict[str, Any]:
    """Start, first audit and second audit."""
    from antiphon.pipeline.auditor import audit
    from antiphon.pipeline.session import make_session

    begun_s = time.perf_counter()
    spark = make_session(f"local[{cores},3]")
    spark.range(1).count()  # the first job starts what Spark starts late
    figures: dict[str, Any] = {"start_s": time.perf_counter() - begun_s, "start_processor_s": processor_s()}
    for name in ("first", "second"):
        begun_s, used_s, driver_s = time.perf_counter(), processor_s(), time.process_time()
        result = audit(directory, spark)
        figures |= {f"{name}_s": time.perf_counter() - begun_s, f"{name}_processor_s": processor_s() - used_s}
        figures[f"{name}_driver_s"] = time.process_time() - driver_s
    spark.stop()
    return figures | {"verdict": result.verdict, "events": result.events, "runs": result.runs}


def by_one_process(directory: str) -> dict[str, Any]:
    from antiphon.pipeline.quick import quick_audit

    begun_s, used_s = time.perf_counter(), time.process_time()
    result = quick_audit(directory)
    figures = {"second_s": time.perf_counter() - begun_s, "second_processor_s": time.process_time() - used_s}
    return figures | {"verdict": result.verdict, "events": result.events, "runs": result.runs}


def child(*words: str) -> dict[str, Any]:
    """One of the two, in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "bench.cost", *words], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise IncompleteError(f"the audit ended with code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in found.items()}


def cost_of(quick: dict[str, Any], spark: dict[str, Any]) -> int | None:
    """The least number of cores with which Spark is ahead, by processor times; None if no number is."""
    alone_s = spark["second_driver_s"]
    for cores in range(1, CORES_MAX + 1):
        if alone_s + (spark["second_processor_s"] - alone_s) / cores < quick["second_processor_s"]:
            return cores
    return None


def measured(arguments: argparse.Namespace, events: int, runs: int, processes: int = 8) -> Result:
    arguments.processes, arguments.plant = processes, {}
    with tempfile.TemporaryDirectory(prefix="antiphon-cost-") as place:
        made = make(arguments, Path(place), events, runs)
        progress(f"made {made.events:,} events in {made.rows:,} rows, {runs:,} runs, {processes} processes")
        quick = child("quick", place) if not arguments.share else {}
        spark = child("spark", place, str(arguments.cores))
    if spark["events"] != made.events or (quick and quick["events"] != made.events):
        raise IncompleteError(f"{made.events} events were made, the audits read {spark['events']}")
    share = round(spark["second_driver_s"] / spark["second_processor_s"], 3)
    cost = cost_of(quick, spark) if quick else None
    progress(f"quick {quick}; Spark {spark}; the driver's share {share}; COST {cost}")
    return Result(
        workload=f"{made.events:,} events in {runs:,} run{'' if runs == 1 else 's'}",
        order="all",
        size=SIZE,
        members=processes,
        value=share if arguments.share else float(cost or 0),
        unit="driver's share of processor time" if arguments.share else "cores (0: no number of them)",
        spread=0.0,
        more={"quick": quick, "spark": spark, "driver_share": share},
    )


async def measure(arguments: argparse.Namespace) -> Report:
    if arguments.share:
        counts = [int(part) for part in arguments.share.split(",")]
        results = [measured(arguments, arguments.events, 1, processes) for processes in counts]
    else:
        results = [
            measured(arguments, arguments.events, 1),
            measured(arguments, arguments.runs * arguments.run_events, arguments.runs),
        ]
    head = ["", "processes", "one process, s", "Spark, s", "its driver, s", "start, s", "value"]
    rows = [
        [
            *(found.workload, found.members, found.more["quick"].get("second_processor_s", "")),
            *(found.more["spark"][name] for name in ("second_processor_s", "second_driver_s", "start_processor_s")),
            found.value,
        ]
        for found in results
    ]
    return Report("cost", results, table(head, rows))


def main(words: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["quick"]:
        print(json.dumps(by_one_process(words[1])))
        return 0
    if words[:1] == ["spark"]:
        print(json.dumps(by_spark(words[1], int(words[2]))))
        return 0
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
