"""Every crash at every effect, with clusters of sites (isis-1987, 4.6): whoever carries out the chosen effect dies.

    python -m tests.stacks.label.cluster_sweep --clusters 3,1,1 --stride 1            # every single crash
    python -m tests.stacks.label.cluster_sweep --clusters 3,3 --double --stride 7     # then a second one
    python -m tests.stacks.label.cluster_sweep --random 0:200

Effects are packets within a cluster, and frames on links of processes and between clusters. A cluster keeps a majority
of its sites: the others stand still without it, which is not judged here.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from random import Random

from tests.stacks.label.cluster_table import ClusterTable, cluster_problems
from tests.stacks.label.site_sweep import play_at_sites

SECOND_WITHIN = 80
Case = tuple[int, tuple[int, ...], int, tuple[int, ...]]
"""Seed, sites of each cluster, processes at each, effects at which somebody dies."""


def run_in_clusters(case: Case) -> tuple[list[str], int]:
    """What went wrong, and how many effects there were."""
    seed, sizes, processes, crashes = case
    table = ClusterTable(sizes, processes, crashes)
    play_at_sites(table, Random(seed))
    return cluster_problems(table), table.effect


def crashes_of(seed: int, sizes: tuple[int, ...], processes: int, double: bool, stride: int) -> Iterator[Case]:
    effects = run_in_clusters((seed, sizes, processes, ()))[1]
    for first in range(1, effects + 1, stride):
        if not double:
            yield seed, sizes, processes, (first,)
            continue
        for second in range(first + 1, first + 1 + SECOND_WITHIN, 1 + stride):
            yield seed, sizes, processes, (first, second)


def random_case(seed: int) -> Case:
    random = Random(f"clusters {seed}")
    sizes, processes = random.choice((((1, 1, 1), 2), ((3, 1), 1), ((3, 1, 1), 1), ((3, 3), 1), ((2, 1, 1), 2)))
    first = random.randrange(1, 600)
    crashes = random.choice(((), (first,), (first,), (first, first + random.randrange(1, 100))))
    return seed, sizes, processes, crashes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", default="3,1,1")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--scenes", type=int, default=1)
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--random", default="")
    arguments = parser.parse_args()
    started_s = time.process_time()
    sizes = tuple(int(size) for size in arguments.clusters.split(","))
    cases: list[Case] = []
    if arguments.random:
        first, last = (int(part) for part in arguments.random.split(":"))
        cases = [random_case(seed) for seed in range(first, last)]
    else:
        for seed in range(arguments.scenes):
            cases += crashes_of(seed, sizes, arguments.processes, arguments.double, arguments.stride)
    failed = 0
    for case in cases:
        found = run_in_clusters(case)[0]
        if found:
            failed += 1
            print(f"{case}: {found[0][:300]}", flush=True)
    print(f"{len(cases)} runs, {failed} failed, {time.process_time() - started_s:.0f} s of processor")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
