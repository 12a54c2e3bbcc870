"""Many seeds of conversations with all faults (conversation_world.py), each held to what conversations promise.

    python -m tests.simulation.free_conversations --seeds 0:500 --jobs 2

Checked are: the causal order of all receipts; one order of waves at all participants, in all lives; after healing,
everybody has the same graph and has taken all of it; a program that comes back, from a checkpoint or from the
beginning, passes through the states that it was in before, and those that anybody reaches by the same messages are the
same; and the recorded history of the run is audited.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from antiphon.pipeline.reference import audit
from tests.simulation.conversation_world import ConversationRun, draw_plan


@dataclass(frozen=True)
class Outcome:
    """What became of one seed."""

    seed: int
    problems: tuple[str, ...]
    messages: int
    committed: int
    restarts: int
    removed: int
    situations: dict[str, int]


def run_seed(seed: int) -> Outcome:
    """One conversation."""
    run = ConversationRun(draw_plan(seed))
    try:
        run.run()
    except Exception as error:
        run.problems.append(f"{type(error).__name__}: {error}")
    problems = run.problems or end_problems(run) or history_problems(run)
    graphs = [process.conversation.replica.graph for process in run.processes if process.conversation is not None]
    messages = max([sum(graph.last) for graph in graphs], default=0)
    restarts = sum(process.life - 1 for process in run.processes)
    removed = run.situations.get("removed", 0) + run.situations.get("diverged", 0)
    situations = run.situations | run.world.coverage.counts
    return Outcome(seed, tuple(problems[:3]), messages, len(run.order), restarts, removed, situations)


def history_problems(run: ConversationRun) -> list[str]:
    """Promises that the audit of the run's history does not find kept."""
    findings = audit(run.logs).findings
    return [
        f"the audit says {finding.guarantee} {finding.verdict}: {finding.example or finding.reason}"
        for finding in findings
        if finding.verdict != "kept"
    ]


def end_problems(world: ConversationRun) -> list[str]:
    """What is wrong after everything has healed."""
    if not world.is_settled():
        return [f"not settled: {'; '.join(describe(world, rank) for rank in range(len(world.processes)))}"]
    problems: list[str] = []
    for process in world.processes:
        conversation = process.conversation
        assert conversation is not None
        if len(process.app.committed) != len(world.order):
            problems.append(f"{process.name} has {len(process.app.committed)} of {len(world.order)} in their places")
        if conversation.replica.held() or conversation.has_diverged():
            problems.append(
                f"{process.name} holds {conversation.replica.held()} messages; {conversation.replica.counts}"
            )
        own = sum(committed.mid[0] == process.rank for committed in process.app.committed)
        if own != process.app.said:
            problems.append(f"{process.name} had {process.app.said} things to say, but has said {own}")
        if process.app.state != world.processes[0].app.state:
            problems.append(f"{process.name} is in another state than {world.processes[0].name}")
    return problems


def describe(world: ConversationRun, rank: int) -> str:
    process = world.processes[rank]
    conversation = process.conversation
    if conversation is None:
        return f"{process.name} down"
    recovery = conversation.recovery
    state = "" if recovery is None or recovery.done else f" recovering, awaiting {recovery.awaiting}"
    graph = conversation.replica.graph
    return (
        f"{process.name}{state} last {graph.last} stable {graph.stable_to} to say {len(process.app.to_say)} "
        f"committed {len(process.app.committed)} held {conversation.replica.held()}"
    )


def run_seeds(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    """The outcomes, in order of the seeds."""
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_seed, seeds, chunksize=8)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:500", help="from:to, the last one excluded")
    parser.add_argument("--jobs", type=int, default=2, help="processes that share the work")
    parser.add_argument("--situations", action="store_true", help="also tell how often what has happened")
    arguments = parser.parse_args()
    first, last = (int(part) for part in arguments.seeds.split(":"))
    started_s = time.perf_counter()
    totals = dict.fromkeys(("seeds", "failed", "messages", "committed", "restarts", "removed"), 0)
    situations: Counter[str] = Counter()
    for outcome in run_seeds(range(first, last), arguments.jobs):
        totals["seeds"] += 1
        totals["failed"] += bool(outcome.problems)
        for name in ("messages", "committed", "restarts", "removed"):
            totals[name] += getattr(outcome, name)
        situations.update(outcome.situations)
        if outcome.problems:
            print(f"seed {outcome.seed}: {'; '.join(outcome.problems)}", flush=True)
        if totals["seeds"] % 100 == 0:
            print(f"{totals['seeds']} seeds, {totals['failed']} failed", file=sys.stderr)
    elapsed_s = time.perf_counter() - started_s
    if arguments.situations:
        for name, times in sorted(situations.items()):
            print(f"{times:>9} {name}")
    print(json.dumps(totals | {"seeds_per_minute": round(60 * totals["seeds"] / elapsed_s)}))
    return 1 if totals["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
