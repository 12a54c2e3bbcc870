"""Scripts of replicated sequencers: groups that come together and part, while peers crash, come back and are cut off.

    python -m tests.stacks.sequencer.seat_scripts --seeds 0:100 [--durable]

With `--durable` peers keep their logs on disk, too, and all of them end at once, some by a power loss.

Prints a line for each seed that fails, and the situations that all of them reached; exit code 1 if any failed."""

import argparse
import json
import sys
from collections import Counter
from dataclasses import replace
from random import Random

from antiphon.kernel.options import MILLISECOND_NS
from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.actions import CRASH, POWER_LOSS, START, Action
from antiphon.simulator.script import Script
from antiphon.simulator.script_run import ScriptRun, run_script
from antiphon.simulator.workloads.role_hooks import RoleHooks
from antiphon.simulator.world import World
from antiphon.stacks.sequencer.plan import PlaceGroups
from tests.stacks.sequencer.test_mesh import HEAL_NS, sparse_script

DIRECT = 3
"""Seeds with this rest, divided by four, have bodies sent by their senders (bodies.py)."""
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
    settings = {"sequencer.replicas": replicas}
    if seed % 4 == DIRECT:
        settings |= {"sequencer.direct": 1, "sequencer.direct_kib": 0}
    script.options = replace(script.options, of_stacks=settings)
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


def durable_script(seed: int) -> Script:
    """Replicated peers with disks. Once or twice all of them end within some milliseconds, each by a crash or by a
    power loss, and come back before their clients are given up."""
    random = Random(f"{seed}/durable seats")
    replicas = random.choice((1, 1, 2))
    services = random.randint(2 * replicas + 1, 2 * replicas + 2)
    script = sparse_script(seed, services, random.choice(("none", "loss")))
    script.run = f"durable-seats-{seed}"
    script.options = replace(script.options, of_stacks={"sequencer.replicas": replicas, "sequencer.durable": 1})
    for share in random.choice(((0.4,), (0.3, 0.75))):
        at_ns = int((share + 0.1 * random.random()) * HEAL_NS)
        for service in script.services:
            end_ns = at_ns + int(random.random() * 20 * MILLISECOND_NS)
            script.add(Action(random.choice((CRASH, POWER_LOSS)), end_ns, service))
            script.add(Action(START, end_ns + int((0.05 + random.random()) * 300 * MILLISECOND_NS), service))
    return script


class MovingSeats:
    """Asks peers to move groups between seats, while they crash and come back. What a script says happens from
    the moment on when all have entered: where that took long, more than k peers would crash at once."""

    def __init__(self, script: Script, moves: int) -> None:
        self.script = script
        self.moves = moves
        self.actions, script.actions = script.actions, []
        self.random = Random(f"{script.seed}/moves")

    def hooks(self) -> RoleHooks:
        """This as a workload, beside a compiled simulator too."""
        return RoleHooks(
            begin=self.begin,
            act=self.act,
            started=lambda host: None,
            react=lambda host, told: None,
            may_lose=lambda host: True,
        )

    def begin(self, world: World) -> None:
        self.world = world
        start_ns = world.now_ns
        for action in self.actions:
            action.at_ns += start_ns
            action.until_ns += start_ns
            world.plan(action)
        for _ in range(self.moves):
            host = world.names.index(self.random.choice(self.script.services))
            world.schedule(start_ns + int((0.2 + 0.8 * self.random.random()) * HEAL_NS), host)

    def act(self, host: int) -> None:
        if self.world.running[host] is not None:
            group = self.random.choice(self.script.groups).name
            self.world.request(host, PlaceGroups((group,), self.random.choice(self.script.services)))


def run_moving(script: Script, moves: int = 40) -> ScriptRun:
    """Run a script while groups move between seats."""
    return run_script(script, MovingSeats(script, moves).hooks())


def problems_of(run: ScriptRun) -> list[str]:
    """What is wrong with a run."""
    found = [run.mistake] if run.mistake else []
    return [*found, *[f"{problem.guarantee} {problem.verdict}: {problem.text}" for problem in judge(run).problems]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:20", help="from:to")
    parser.add_argument("--durable", action="store_true")
    arguments = parser.parse_args()
    first, last = [int(part) for part in arguments.seeds.split(":")]
    failed = 0
    situations: Counter[str] = Counter()
    for seed in range(first, last):
        run = run_moving(durable_script(seed) if arguments.durable else seat_script(seed))
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
