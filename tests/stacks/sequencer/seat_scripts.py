"""Scripts of replicated sequencers: groups that come together and part, while peers crash, come back and are cut off.

    python -m tests.stacks.sequencer.seat_scripts --seeds 0:100

Prints a line for each seed that fails, and the situations that all of them reached; exit code 1 if any failed."""

import argparse
import json
import sys
from collections import Counter
from dataclasses import replace
from random import Random

from antiphon.kernel.options import MILLISECOND_NS
from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.actions import CRASH, START, Action
from antiphon.simulator.script import Script
from antiphon.simulator.script_run import ScriptRun, run_script
from tests.stacks.sequencer.test_mesh import HEAL_NS, sparse_script

RECOVERY_NS = 1200 * MILLISECOND_NS
"""A peer that has started has its copies again after so long, unless the network is bad."""


def seat_script(seed: int, replicas: int = 0, services: int = 0, faults: str = "") -> Script:
    """Up to k peers are down at a time, and each that comes back is given time to recover before another crashes. Where
    peers are cut off nobody can say how long that takes, so up to k crash in all."""
    random = Random(f"{seed}/seats")
    replicas = replicas or random.choice((1, 1, 2))
    services = services or random.randint(2 * replicas + 1, max(6, 2 * replicas + 1))
    faults = faults or random.choice(("none", "loss", "all"))
    script = sparse_script(seed, services, faults)
    script.run = f"seats-{seed}"
    script.options = replace(script.options, of_stacks={"sequencer.replicas": replicas})
    at_ns = int((0.5 + random.random()) * HEAL_NS / 4)
    while at_ns < HEAL_NS:
        crashed = random.sample(script.services, random.randint(1, replicas))
        back_ns = at_ns
        for service in crashed:
            crash_ns = at_ns + int(random.random() * 100 * MILLISECOND_NS)
            start_ns = crash_ns + int((0.05 + random.random()) * 500 * MILLISECOND_NS)
            script.add(Action(CRASH, crash_ns, service))
            script.add(Action(START, start_ns, service))
            back_ns = max(back_ns, start_ns)
        at_ns = HEAL_NS if faults == "all" else back_ns + RECOVERY_NS
    return script


def problems_of(run: ScriptRun) -> list[str]:
    """What is wrong with a run."""
    found = [run.mistake] if run.mistake else []
    return [*found, *[f"{problem.guarantee} {problem.verdict}: {problem.text}" for problem in judge(run).problems]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:20", help="from:to")
    first, last = [int(part) for part in parser.parse_args().seeds.split(":")]
    failed = 0
    situations: Counter[str] = Counter()
    for seed in range(first, last):
        run = run_script(seat_script(seed))
        situations.update(run.coverage)
        problems = problems_of(run)
        if problems:
            failed += 1
            print(json.dumps({"seed": seed, "problems": problems[:3]}), flush=True)
    named = ("seat led", "seat given up", "groups moved", "client resumed", "client excluded", "message accepted")
    reached = {name: situations.get(name, 0) for name in named}
    print(json.dumps({"seeds": last - first, "failed": failed, **reached}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
