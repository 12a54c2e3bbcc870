"""Seeds of changing membership: crashes, restarts, joins, leaves, pauses, partitions, and a bad network.

python -m tests.simulation.crowds --seeds 0:500
"""

import argparse
import json
import sys
import time
from random import Random

from antiphon._build import describe
from antiphon.history.log import MemoryLog
from antiphon.kernel.levels import LEVELS
from antiphon.kernel.options import Options
from antiphon.pipeline import reference
from antiphon.pipeline.result import KEPT
from antiphon.simulator.crowd import Crowd
from antiphon.simulator.weather import network_layers
from antiphon.stacks.vector.stack import PRIMARY, promises
from tests.simulation.campaign import explain
from tests.simulation.views import view_violations

MILLISECOND_NS = 1_000_000


def make_crowd(seed: int) -> tuple[Crowd, int, list[str]]:
    """The crowd of this seed, with its plans, the time at which it heals, and the guarantees to hold it to."""
    random = Random(f"{seed}/crowd")
    founders = random.randint(3, 7)
    names = [f"p{number}" for number in range(1, founders + random.randint(0, 5) + 1)]
    duration_ns = random.randint(2_000, 12_000) * MILLISECOND_NS
    layers = network_layers(random.choice(("none", "loss", "all", "all")), names, duration_ns, random)
    options = Options(window_packets=random.choice((4, 64, 1024)), packet_bytes_max=random.choice((600, 1400)))

    def make_log(process: str, incarnation: int) -> MemoryLog:
        return MemoryLog(run=f"seed-{seed}", process=process, incarnation=incarnation)

    crowd = Crowd("g", names, founders, seed, layers, options, make_log)
    levels = random.choice((("causal",), ("causal", "fifo"), ("causal", "fifo", "reliable")))
    for _ in range(random.randint(20, 300)):
        size = int(2_000 * random.random() ** 4)
        at_ns = int(random.random() * duration_ns)
        crowd.plan_say(at_ns, random.randrange(len(names)), LEVELS[random.choice(levels)], bytes(size))
    for _ in range(random.randint(0, 4)):
        place = random.randrange(len(names))
        at_ns = int(random.random() * duration_ns)
        crowd.plan_crash(at_ns, place)
        crowd.plan_start(at_ns + random.randint(50, 3_000) * MILLISECOND_NS, place)
    storm_ns = int(random.random() * duration_ns)
    for place in range(founders, len(names)):
        crowd.plan_start(storm_ns + random.randint(0, 200) * MILLISECOND_NS, place)
    for place in random.sample(range(len(names)), random.randint(0, 2)):
        crowd.plan_leave(int(random.random() * duration_ns), place)
    for _ in range(random.randint(0, 2)):
        from_ns = int(random.random() * duration_ns)
        crowd.pause(random.randrange(len(names)), from_ns, from_ns + random.randint(100, 4_000) * MILLISECOND_NS)
    # A weaker message may be delivered ahead of its past, and that past be lost with the members that had it: then what
    # is sent after it has a past that nobody can have (docs/papers/vector.md).
    held_to = [promise for promise in promises(PRIMARY) if promise != "causal" or levels == ("causal",)]
    return crowd, duration_ns + 4_000 * MILLISECOND_NS, held_to


def run_crowd(seed: int) -> tuple[list[str], Crowd]:
    """What went wrong in this seed's run."""
    crowd, heal_ns, held_to = make_crowd(seed)
    crowd.run_through(heal_ns)
    crowd.run(heal_ns + 60_000 * MILLISECOND_NS)
    problems = [] if crowd.is_quiet() or crowd.has_lost_majority() else ["the group never came to rest"]
    majority_lost = crowd.has_lost_majority()
    crowd.end()
    logs = [log for log in crowd.logs if isinstance(log, MemoryLog) and next(log.rows(), None) is not None]
    rows = [list(log.rows()) for log in logs]
    problems += view_violations(rows)
    audit = reference.audit(logs, held_to)
    # Without a majority the messages of the last view stay undelivered: nothing else is to be expected.
    if audit.verdict != KEPT and not majority_lost:
        problems.append(explain(audit))
    return problems, crowd


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:500", help="from:to, the last one excluded")
    first, last = (int(part) for part in parser.parse_args().seeds.split(":"))
    failed = views = delivered = stalls = 0
    started_s = time.perf_counter()
    for seed in range(first, last):
        problems, crowd = run_crowd(seed)
        views += crowd.views
        delivered += crowd.delivered
        stalls += crowd.stalls
        if problems:
            failed += 1
            print(f"seed {seed}: {'; '.join(problems)[:600]}", flush=True)
    elapsed_s = time.perf_counter() - started_s
    figures = {
        "build": describe(),
        "seeds": last - first,
        "failed": failed,
        "views": views,
        "delivered": delivered,
        "stalls": stalls,
        "seeds_per_minute": round(60 * (last - first) / elapsed_s),
    }
    print(json.dumps(figures))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
