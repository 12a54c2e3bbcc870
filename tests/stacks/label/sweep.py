"""Every crash at every effect: one scene again and again, in which one process, or two, die at chosen transmissions.

    python -m tests.stacks.label.sweep --members 3 --scenes 2            # every single crash
    python -m tests.stacks.label.sweep --members 4 --scenes 1 --double   # every pair, the second within 40 effects
    python -m tests.stacks.label.sweep --random 0:2000                   # scenes, members and crashes at random

Whoever carries out the chosen transmission dies in its place, so a fan-out ends after each of its destinations. The
change of view has effects too: with --double the process that leads it dies, and then its successor.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from random import Random

from tests.stacks.label.scene import LabelTable, play_scene, problems

SECOND_WITHIN = 40


def run_scene(seed: int, members: int, crashes: tuple[int, ...], lazy_us: int = 0) -> tuple[list[str], int]:
    """What went wrong, and how many effects there were."""
    table = LabelTable(members, crashes, lazy_us=lazy_us)
    play_scene(table, Random(seed))
    return problems(table), table.effect


def single_crashes(seed: int, members: int) -> Iterator[tuple[int, ...]]:
    effects = run_scene(seed, members, ())[1]
    yield ()
    for effect in range(1, effects + 1):
        yield (effect,)


def double_crashes(seed: int, members: int, stride: int) -> Iterator[tuple[int, ...]]:
    effects = run_scene(seed, members, ())[1]
    for first in range(1, effects + 1, stride):
        for second in range(first + 1, first + 1 + SECOND_WITHIN):
            yield first, second


def random_scene(seed: int) -> tuple[int, tuple[int, ...], int]:
    """Members, crashes and laziness, drawn from the seed."""
    random = Random(f"scene {seed}")
    members = random.choice((2, 3, 3, 4, 5))
    first = random.randrange(1, 250)
    crashes = random.choice(((), (first,), (first, first + random.randrange(1, 60))))
    return members, crashes, random.choice((0, 0, 3000))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--scenes", type=int, default=1)
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--random", default="")
    arguments = parser.parse_args()
    started_s = time.perf_counter()
    runs = failed = 0
    if arguments.random:
        first, last = (int(part) for part in arguments.random.split(":"))
        cases = [(seed, *random_scene(seed)) for seed in range(first, last)]
    else:
        cases = []
        for seed in range(arguments.scenes):
            crashes = (
                double_crashes(seed, arguments.members, arguments.stride)
                if arguments.double
                else single_crashes(seed, arguments.members)
            )
            cases += [(seed, arguments.members, each, 0) for each in crashes]
    for seed, members, chosen, lazy_us in cases:
        found = run_scene(seed, members, chosen, lazy_us)[0]
        runs += 1
        if found:
            failed += 1
            print(f"scene {seed}, {members} members, crashes {chosen}: {found[0][:300]}", flush=True)
        if runs % 1000 == 0:
            print(f"{runs} runs, {failed} failed", flush=True)
    print(f"{runs} runs, {failed} failed, {time.perf_counter() - started_s:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
