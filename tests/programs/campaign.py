"""Many seeds of whole programs in virtual time, each recorded and audited.

    python -m tests.programs.campaign --seeds 0:500 --jobs 2
    python -m tests.programs.campaign --seeds 7:8 --program counter      # one seed of one program
    python -m tests.programs.campaign --seeds 0:100000 --seconds 180     # as many as fit
    python -m tests.programs.campaign --seeds 0:500 --sealed             # with sealed packets and connections

With --program a seed plays that program. Without it the programs take turns, and each plays its own seeds 0, 1, 2, …:
what a program draws from its seed must not depend on how many programs there are.
"""

import argparse
import gc
import importlib
import json
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from antiphon._build import describe
from antiphon.testing import Result
from antiphon.testing.fault_plan import SECOND_NS, draw_plan
from antiphon.testing.shrink import find_failure
from antiphon.testing.simulate import ACTIVE_S, run_plan
from tests.programs.common import Play

PROGRAMS: Final = (
    "one_group", "batches", "node_reader", "two_groups_tasks", "two_groups_listeners", "counter", "dictionary",
    "requests", "clients", "client_services", "hierarchy", "rejoin", "static_group", "replicated_counter",
    "replicated_bank", "shared_whiteboard", "back_pressure", "flushing", "leavers", "listeners_fragments",
    "recorded", "sequencing", "partitions", "locks", "labelled", "resilient_counter", "chosen_members", "merging",
    "outside", "sites", "clusters", "conversations", "ledger", "durable_ledger", "merging_objects",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of one seed."""

    seed: int
    program: str
    problems: tuple[str, ...]
    events: int
    views: int
    wall_s: float


def play_of(program: str, seed: int) -> Play:
    """What this seed makes of a program."""
    play: Play = importlib.import_module(f"tests.programs.{program}").play(seed)
    return play


def turn_of(turn: int) -> tuple[str, int]:
    """The program whose turn it is, and the seed that it plays."""
    return PROGRAMS[turn % len(PROGRAMS)], turn // len(PROGRAMS)


def run_program(seed: int, program: str, sealed: bool = False) -> Result:
    """Simulate and audit one seed. Without seals a seed is the run that it was when it caught a mistake or a mutant."""
    play = play_of(program, seed)
    plan = draw_plan(play.faults, list(play.mains), int(ACTIVE_S * SECOND_NS), seed)
    return run_plan(lambda: play.mains, plan, seed, play.expected, sealed=sealed)


def run_seed(seed: int, program: str, sealed: bool = False) -> Outcome:
    """Play one seed. What is raised outside the simulated programs fails that seed, not the campaign."""
    started_s = time.perf_counter()
    try:
        result = run_program(seed, program, sealed)
    except Exception as error:
        return Outcome(seed, program, (f"{type(error).__name__}: {error}",), 0, 0, time.perf_counter() - started_s)
    judgement = result.judgement
    wall_s = time.perf_counter() - started_s
    return Outcome(seed, program, result.problems, judgement.events, judgement.views, wall_s)


def run_turn(turn: int, program: str | None, sealed: bool = False) -> Outcome:
    """Play a seed of this program, or of the one whose turn it is."""
    if program is not None:
        return run_seed(turn, program, sealed)
    program, seed = turn_of(turn)
    return run_seed(seed, program, sealed)


def run_seeds(seeds: Iterable[int], jobs: int, program: str | None, sealed: bool = False) -> Iterator[Outcome]:
    """The outcomes, in order of the seeds."""
    gc.freeze()
    run = partial(run_turn, program=program, sealed=sealed)
    if jobs == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(jobs, initializer=logging.disable) as pool:
        yield from pool.map(run, seeds, chunksize=4)


def explain(outcome: Outcome, sealed: bool = False) -> str:
    """The smallest run that fails as this one did, and how to repeat it."""
    play = play_of(outcome.program, outcome.seed)
    result = find_failure(
        lambda: play.mains, seed=outcome.seed, faults=play.faults, expected=play.expected, sealed=sealed
    )
    seeds = f"{outcome.seed}:{outcome.seed + 1}"
    command = f"python -m tests.programs.campaign --seeds {seeds} --program {outcome.program}"
    command += " --sealed" if sealed else ""
    return result.report(command)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:500", help="from:to, the last one excluded")
    parser.add_argument("--jobs", type=int, default=2, help="processes that share the work")
    parser.add_argument("--program", choices=PROGRAMS, help="play this one only")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="play no more seeds after so long")
    parser.add_argument("--sealed", action="store_true", help="with seals, which makes other runs of the same seeds")
    parser.add_argument("--brief", action="store_true", help="do not make failures smaller")
    arguments = parser.parse_args()
    first, last = (int(part) for part in arguments.seeds.split(":"))
    logging.disable()  # here and in the workers, never in a test that plays a seed: it holds for the whole process
    started_s = time.perf_counter()
    outcomes: list[Outcome] = []
    failed = 0
    for outcome in run_seeds(range(first, last), arguments.jobs, arguments.program, arguments.sealed):
        outcomes.append(outcome)
        if outcome.problems:
            failed += 1
            told = outcome.problems if arguments.brief else (explain(outcome, arguments.sealed),)
            print(f"seed {outcome.seed} {outcome.program}:", *told, sep="\n  ", flush=True)
        if len(outcomes) % 100 == 0:
            print(f"{len(outcomes)} seeds, {failed} failed", file=sys.stderr)
        if time.perf_counter() - started_s > arguments.seconds:
            break
    elapsed_s = time.perf_counter() - started_s
    print(
        json.dumps(
            {
                "build": describe(),
                "programs": len({outcome.program for outcome in outcomes}),
                "seeds": len(outcomes),
                "failed": failed,
                "events": sum(outcome.events for outcome in outcomes),
                "views": sum(outcome.views for outcome in outcomes),
                "seeds_per_minute": round(60 * len(outcomes) / elapsed_s),
            }
        )
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
