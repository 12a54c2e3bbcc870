"""Every crash at every effect, with sites of several processes: whoever carries out the chosen effect dies instead.

    python -m tests.stacks.label.site_sweep --sites 3 --processes 2 --scenes 1             # every single crash
    python -m tests.stacks.label.site_sweep --sites 4 --scenes 1 --double --stride 5       # then a second one
    python -m tests.stacks.label.site_sweep --random 0:500

An effect is a packet from one site to another, or frames from a process to its site or back: so processes die, and
sites with all their processes, after each destination of a fan-out and in each step of a change of view.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from random import Random

from antiphon.kernel.levels import ABCAST, AGREED, CAUSAL, RELIABLE, SAFE
from antiphon.kernel.options import MILLISECOND_NS
from tests.stacks.label.scene import rest
from tests.stacks.label.site_table import SiteTable, site_problems

SECOND_WITHIN = 60
Case = tuple[int, int, int, tuple[int, ...], int]
"""Seed, sites, processes at each, effects at which somebody dies, laziness."""


def play_at_sites(table: SiteTable, random: Random, sends: int = 12) -> None:
    """Messages of all kinds at random, over a network that loses and reorders; then quiet."""
    clock = 0
    for _ in range(sends):
        sender = random.randrange(table.count)
        kind = random.random()
        to = [] if random.random() < 0.6 else random.sample(range(table.count), random.randrange(1, table.count))
        size = random.choice((3, 3, 3, 3000))
        if kind < 0.08 and sender not in table.gone and table.views[sender]:
            table.barrier(sender)
        elif kind < 0.3:
            clock += random.randrange(2)
            table.tell(sender, RELIABLE, to, random.choice((f"clock={clock}", "none=x")), size=size)
        elif kind < 0.5:
            table.tell(sender, ABCAST, to, random.choice(("", "red", "blue=1")), size=size)
        else:
            table.tell(sender, random.choice((RELIABLE, CAUSAL, CAUSAL, AGREED, AGREED, SAFE)), to, size=size)
        shake_sites(table, random)
    rest(table)
    if any(table.site_of(process) in table.gone for process in table.survivors()):
        table.play(150)  # it died in the last moment
        rest(table)


def shake_sites(table: SiteTable, random: Random) -> None:
    """Some of what lies between sites arrives, or is lost; some of what lies on links arrives."""
    for link in list(table.links):
        if random.random() < 0.3:
            continue
        packets = table.take(*link)
        if random.random() < 0.2:
            random.shuffle(packets)
        for packet in packets:
            if random.random() < 0.93 and link[1] not in table.gone:
                table.arrive(link[1], packet)
    table.pass_links(random)
    table.wait(random.choice((0, 1, 2, 6)) * MILLISECOND_NS)


def run_at_sites(case: Case) -> tuple[list[str], int]:
    """What went wrong, and how many effects there were."""
    seed, sites, processes, crashes, lazy_us = case
    table = SiteTable(sites, processes, crashes, lazy_us)
    play_at_sites(table, Random(seed))
    return site_problems(table), table.effect


def crashes_of(seed: int, sites: int, processes: int, double: bool, stride: int) -> Iterator[Case]:
    effects = run_at_sites((seed, sites, processes, (), 0))[1]
    for first in range(1, effects + 1, stride):
        if not double:
            yield seed, sites, processes, (first,), 0
            continue
        for second in range(first + 1, first + 1 + SECOND_WITHIN, 1 + stride // 2):
            yield seed, sites, processes, (first, second), 0


def random_case(seed: int) -> Case:
    random = Random(f"sites {seed}")
    sites, processes = random.choice(((2, 2), (3, 1), (3, 2), (3, 2), (4, 2), (3, 3)))
    first = random.randrange(1, 400)
    crashes = random.choice(((), (first,), (first,), (first, first + random.randrange(1, 80))))
    return seed, sites, processes, crashes, random.choice((0, 0, 3000))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--scenes", type=int, default=1)
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--random", default="")
    arguments = parser.parse_args()
    started_s = time.process_time()
    runs = failed = 0
    cases: list[Case] = []
    if arguments.random:
        first, last = (int(part) for part in arguments.random.split(":"))
        cases = [random_case(seed) for seed in range(first, last)]
    else:
        for seed in range(arguments.scenes):
            cases += crashes_of(seed, arguments.sites, arguments.processes, arguments.double, arguments.stride)
    for case in cases:
        found = run_at_sites(case)[0]
        runs += 1
        if found:
            failed += 1
            print(f"{case}: {found[0][:300]}", flush=True)
    print(f"{runs} runs, {failed} failed, {time.process_time() - started_s:.0f} s of processor")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
