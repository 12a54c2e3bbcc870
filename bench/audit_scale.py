"""Time and memory of the audit on Spark by the number of events, and of the plain-Python auditor for comparison.

    python -m bench.audit_scale                                                  from the project's root
    python -m bench.audit_scale --events 1000000,10000000,100000000 --out bench/results
    python -m bench.audit_scale --events 10000000 --plant causal=1               one violation, found and explained

`bench.histories` generates the histories, which are deleted afterwards. Each audit is a process of its own, with two
cores; its memory, including that of its children, is measured. Events are single messages; a row may stand for several,
so the number of rows is given as well. The plain-Python auditor keeps a set of messages per message, so its time grows
with the square of the length of a run: it is compared on a history that is divided into many runs (`--runs`), which
both audit. Every verdict is checked.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from antiphon.pipeline.result import BROKEN, KEPT
from bench.figures import IncompleteError, Report, Result, parser, progress, run, table
from bench.histories import Made, Shape, generate, parse_plant
from bench.memory import MemoryWatch

ORDER: Final = "all"
SIZE: Final = 64
GIGABYTE: Final = 10**9


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("Time and memory of the audit by the number of events.")
    made.add_argument("--events", default="1000000,10000000", help="how many, several with commas between them")
    made.add_argument("--processes", type=int, default=8)
    made.add_argument("--groups", type=int, default=3)
    made.add_argument("--views", type=int, default=24, help="how many times views change")
    made.add_argument("--runs", type=int, default=50, help="runs of the history that both auditors take")
    made.add_argument("--compare", type=int, default=0, help="events of that history; 0: no comparison")
    made.add_argument("--plant", type=parse_plant, default={}, metavar="A=N,B=M")
    return made.parse_args(words)


def make(arguments: argparse.Namespace, directory: Path, events: int, runs: int) -> Made:
    """A history of so many runs."""
    shape = Shape(events=events // runs, processes=arguments.processes, groups=arguments.groups, views=arguments.views)
    together = Made()
    for number in range(runs):
        made = generate(directory / f"{number}", shape, run=f"run-{number}", seed=number, plant=arguments.plant)
        together.rows += made.rows
        together.events += made.events
        together.planted += made.planted
    return together


def audited(directory: Path, made: Made, *words: str) -> dict[str, Any]:
    """One audit in a process of its own, checked against what was made."""
    command = [sys.executable, "-m", "bench.audit_run", str(directory), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, MemoryWatch(process.pid) as memory:
        printed, _ = process.communicate()
    if process.returncode:
        raise IncompleteError(f"the audit of {made.events:,} events ended with code {process.returncode}")
    found: dict[str, Any] = json.loads(printed)
    counted = {name: facts["violations"] for name, facts in found["guarantees"].items() if facts["violations"]}
    if counted != dict(+made.planted) or found["verdict"] != (BROKEN if counted else KEPT):
        raise IncompleteError(f"the audit counts {counted}, and {dict(made.planted)} was planted")
    if found["events"] != made.events or found["rows"] != made.rows:
        raise IncompleteError(f"the audit read {found['events']} events in {found['rows']} rows of {made}")
    found["resident_gb"] = round(memory.resident_bytes / GIGABYTE, 2)
    found["proportional_gb"] = round(memory.proportional_bytes / GIGABYTE, 2)
    found["processor_s"] = round(memory.processor_s, 1)
    return found


def result(system: str, arguments: argparse.Namespace, found: Mapping[str, Any]) -> Result:
    more = {name: found[name] for name in ("events", "rows", "runs", "start_s", "audit_s", "steps_s")}
    more |= {name: found[name] for name in ("resident_gb", "proportional_gb", "processor_s", "verdict")}
    examples = {name: facts["example"] for name, facts in found["guarantees"].items() if facts["example"]}
    return Result(
        system=system,
        workload=f"{found['events']:,} events in {found['runs']:,} run{'' if found['runs'] == 1 else 's'}",
        order=ORDER,
        size=SIZE,
        members=arguments.processes,
        value=round(found["events"] / found["audit_s"]),
        unit="audited events per second",
        spread=0.0,
        more=more | ({"examples": examples} if examples else {}),
    )


def audit_made(arguments: argparse.Namespace, events: int, runs: int, *, compare: bool) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="antiphon-scale-") as place:
        made = make(arguments, Path(place), events, runs)
        progress(f"made {made.events:,} events in {made.rows:,} rows")
        results = [result("antiphon on Spark", arguments, audited(Path(place), made))]
        progress(line(results[-1]))
        if compare:
            results.append(result("plain Python", arguments, audited(Path(place), made, "--reference")))
            progress(line(results[-1]))
            results[0].more["times_plain"] = round(results[0].value / results[1].value, 1)
    return results


def line(found: Result) -> str:
    more = found.more
    return (
        f"{found.system}: {found.workload} in {more['audit_s']} s, {found.value:,.0f} events per second, "
        f"{more['proportional_gb']} GB, {more['processor_s']} s of processors; {more['steps_s']}"
    )


async def measure(arguments: argparse.Namespace) -> Report:
    results = []
    for events in (int(part) for part in arguments.events.split(",") if part):
        results += audit_made(arguments, events, 1, compare=False)
    if arguments.compare:
        results += audit_made(arguments, arguments.compare, arguments.runs, compare=True)
    rows = [
        [
            f"{found.system}, {found.workload}",
            *(found.more[name] for name in ("rows", "audit_s", "processor_s")),
            found.value,
            *(found.more[name] for name in ("resident_gb", "proportional_gb")),
        ]
        for found in results
    ]
    head = ["", "rows", "seconds", "of processors", "events/s", "GB resident", "GB, shared counted once"]
    told = [f"{name}: {text}" for found in results for name, text in found.more.get("examples", {}).items()]
    told += [
        f"{found.workload}: {found.more['times_plain']} times as fast as plain Python"
        for found in results
        if "times_plain" in found.more
    ]
    return Report("audit_scale", results, "\n".join([table(head, rows), *told]))


def main(words: Sequence[str] | None = None) -> int:
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
