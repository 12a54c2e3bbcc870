"""Several sequencers under fire: processes in groups whose overlap shifts, groups that move, sequencers that crash.

    python -m tests.simulation.sequencers --seeds 0:200 --jobs 2 [--seconds 240] [--replicated] [--json]

Each seed draws a service of up to six sequencers, up to forty processes and sixty groups, and a way in which groups
overlap (from pairs that never meet to a tangle). Processes join and leave while groups move, links break, processes
pause and crash; in some seeds sequencers crash. In every second seed processes join a group, or leave it, in the
very moment in which it begins to move, and one of the two sequencers may crash before the move is over. In every fifth
seed members send their messages to each other themselves, and the sequencers only the order (bodies.py). In one
seed of sixteen the sequencers are replicated with k = 1, and in one with k = 2 (seat_log.py): at most k are down at a
time. `--replicated` takes only those. Everything is judged by the reference auditor, also the order over all groups
(total_global); every group must be at one sequencer. Counted is how often what was to be tried has happened. The exit
code is 1 if any seed failed.
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from antiphon.history.schema import LEAVES
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import MAIN, Join, Leave
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.policies import PRIMARY
from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.actions import CRASH, CUT_LINKS, PAUSE, SEND, START, Action
from antiphon.simulator.churn_draw import FAST
from antiphon.simulator.fault_schedule import network_layers
from antiphon.simulator.incarnation import NO_VIEW
from antiphon.simulator.run import add_services
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.script_run import QUIET_NS_MAX, LogMaker, ScriptRun, run_until_quiet
from antiphon.simulator.workloads.role_hooks import RoleHooks
from antiphon.simulator.world import World
from antiphon.stacks.registry import offer
from antiphon.stacks.sequencer.mesh import MeshPeer
from antiphon.stacks.sequencer.plan import PlaceGroups
from antiphon.stacks.sequencer.seat_host import SeatHost
from antiphon.stacks.sequencer.stack import SequencerStack
from tests.bounded import run_seeds

STACK = "sequencer"
STEP_NS = 10 * MILLISECOND_NS
CRASHES_MAX = 2
"""Of sequencers, for the sake of races, in one run."""
DIRECT = 4
"""Seeds with this rest, divided by five, have bodies sent by their senders."""
REPLICAS = {3: 1, 11: 2}
"""How many replicas seeds have, by their rest divided by sixteen."""
RECOVERY_NS = 1200 * MILLISECOND_NS
"""A replicated sequencer that has started has its copies again after so long."""
OVERLAPS = ("apart", "chain", "ring", "tree", "some", "tangle")


@dataclass
class Drawn:
    """What a seed draws."""

    script: Script
    homes: dict[str, list[str]]
    """The groups that each process moves between."""
    random: Random
    moves: int
    actions: list[Action]
    """What happens, at times from the moment on when all have entered."""
    duration_ns: int
    races: Random | None
    """Draws who joins and who crashes while a group moves; None if nobody does for the move's sake."""


def homes_of(overlap: str, processes: list[str], groups: list[str], random: Random) -> dict[str, list[str]]:
    """Which groups each process may be in."""
    found: dict[str, list[str]] = {}
    for place, process in enumerate(processes):
        at = place * len(groups) // len(processes)
        if overlap == "apart":
            found[process] = [groups[at]]
        elif overlap in ("chain", "ring"):
            last = (at + 1) % len(groups) if overlap == "ring" else min(at + 1, len(groups) - 1)
            found[process] = list(dict.fromkeys([groups[at], groups[last]]))
        elif overlap == "tree":
            found[process] = list(dict.fromkeys([groups[at], groups[at // 2]]))
        else:
            found[process] = random.sample(groups, min(len(groups), 2 if overlap == "some" else 5))
        if overlap != "apart" and random.random() < 0.5:  # and where it may go later
            others = random.sample(groups, min(len(groups), 2))
            found[process] = list(dict.fromkeys([*found[process], *others]))
    return found


def draw(seed: int) -> Drawn:
    random = Random(f"{seed}/sequencers")  # this text is part of what a seed means
    heal_ns = random.choice((800, 1_500, 2_500)) * MILLISECOND_NS
    processes = [f"p{number}" for number in range(1, random.choice((4, 8, 12, 16, 40)) + 1)]
    groups = [f"g{number}" for number in range(1, random.choice((2, 3, 5, 8, 20, 60)) + 1)]
    groups = groups[: 2 * len(processes)]
    homes = homes_of(random.choice(OVERLAPS), processes, groups, random)
    actions: list[Action] = []
    late = random.sample(processes, len(processes) // 3)
    plans = []
    for group in groups:
        members = [process for process in processes if group in homes[process][:2]]
        plans.append(ScriptedGroup(group, members, tuple(member for member in members if member not in late)))
    plans = [plan for plan in plans if plan.members]
    planned = [plan.name for plan in plans]  # the world waits for no others to come to rest
    homes = {process: [group for group in own if group in planned] for process, own in homes.items()}
    script = Script(
        run=f"sequencers-{seed}",
        seed=seed,
        policy=PRIMARY,
        processes=processes,
        groups=plans,
        layers=network_layers(random.choice(("none", "loss", "all")), processes, heal_ns, random),
        options=FAST,
        domain=MAIN,
        heal_ns=heal_ns,
        stack=STACK,
    )
    if seed % 5 == DIRECT:
        script.options = replace(FAST, of_stacks={"sequencer.direct": 1, "sequencer.direct_kib": 0})
    replicas = REPLICAS.get(seed % 16, 0)
    if replicas:
        script.options = replace(FAST, of_stacks={"sequencer.replicas": replicas})
    add_services(script, max(2 * replicas + 1, random.choice((2, 2, 3, 4, 6))))
    duration_ns = heal_ns
    for process in late:
        actions.append(Action(START, int(random.random() * duration_ns), process))
    levels = random.choice((("agreed",), ("causal", "causal-total"), offer(STACK).levels))
    for _ in range(random.choice((60, 150, 300))):
        process = random.choice(processes)
        group = random.choice(homes[process])
        sizes = (20,) * random.choice((1, 1, 1, 5))
        actions.append(Action(SEND, int(random.random() * duration_ns), process, group, random.choice(levels), sizes))
    for _ in range(random.choice((0, 4, 12))):
        actions.append(Action(CUT_LINKS, int(random.random() * duration_ns), random.choice(script.processes)))
    for _ in range(random.choice((0, 0, 3))):
        at_ns = int(random.random() * duration_ns)
        until_ns = min(duration_ns, at_ns + int(random.random() * 2 * FAST.silence_ns_min))
        actions.append(Action(PAUSE, at_ns, random.choice(script.processes), until_ns=until_ns))
    for _ in range(random.choice((0, 0, 2))):
        at_ns = int(random.random() * duration_ns)
        process = random.choice(processes)
        actions.append(Action(CRASH, at_ns, process))
        actions.append(Action(START, at_ns + int(random.random() * (duration_ns - at_ns)), process))
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        at_ns = int(random.random() * duration_ns)
        service = random.choice(script.services)
        back_ns = at_ns + int(random.random() * 2 * FAST.silence_ns_min)
        if not replicas:
            actions += [Action(CRASH, at_ns, service), Action(START, back_ns, service)]
    races = Random(f"{seed}/races") if seed % 2 else None
    return Drawn(script, homes, random, random.choice((0, 5, 20, 60)), actions, duration_ns, races)


class Shifting:
    """Processes join and leave groups, sequencers are asked to move groups, and what happens is counted."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn
        self.random = drawn.random
        self.seen: Counter[str] = Counter()
        self.problems: list[str] = []
        self._accepted: dict[str, int] = {}
        self._moving: set[str] = set()
        self._joined: set[tuple[ProcessId, str]] = set()
        self._doomed: set[int] = set()
        """Hosts of sequencers that end when they are woken next."""
        self.crashes = 0
        self.replicas = REPLICAS.get(drawn.script.seed % 16, 0)
        self._whole_ns = 0
        """When all replicated sequencers have their copies again."""
        self._overlaps: set[tuple[int, int]] = set()

    def hooks(self) -> RoleHooks:
        """This as a workload, beside a compiled simulator too."""
        return RoleHooks(
            begin=self.begin,
            act=lambda host: self.act(self.world, host),
            started=lambda host: None,
            react=lambda host, told: None,
            may_lose=lambda host: True,
        )

    def begin(self, world: World) -> None:
        self.world = world
        start_ns, duration_ns = world.now_ns, self.drawn.duration_ns
        for action in self.drawn.actions:
            action.at_ns += start_ns
            action.until_ns += start_ns
            world.plan(action)
        hosts = {name: host for host, name in enumerate(world.names)}
        for _ in range(self.drawn.moves):
            at_ns = start_ns + int(self.random.random() * duration_ns)
            world.schedule(at_ns, hosts[self.random.choice(self.drawn.script.services)])
        for process in self.drawn.homes:
            for _ in range(self.random.choice((0, 1, 4))):
                world.schedule(start_ns + int(self.random.random() * duration_ns), hosts[process])
        for at_ns in range(0, duration_ns, STEP_NS):
            world.schedule(start_ns + at_ns, 0)

    def act(self, world: World, host: int) -> None:
        self.look(world)
        name = world.names[host]
        if host in self._doomed:
            self._crash(world, host, name)
        elif name in self.drawn.homes:
            if host or self.random.random() < 0.02:  # host 0 is also woken to look
                self._shift(world, host, name, self.random.choice(self.drawn.homes[name]))
        else:
            self._move(world, host)

    def _shift(self, world: World, host: int, name: str, group: str) -> None:
        """Join a group, or leave it."""
        incarnation = world.running[host]
        if incarnation is None:
            return
        if group in incarnation.views:
            if incarnation.views[group] is not NO_VIEW and len(incarnation.views) > 1:
                incarnation.log.note(world.now_ns, LEAVES, group)
                world.request(host, Leave(group))
                self.seen["leaves"] += 1
            return
        if (incarnation.process, group) in self._joined or group in self._first_groups(name):
            return  # the audit does not tell two stays of one incarnation apart
        self._joined.add((incarnation.process, group))
        if any(view is NO_VIEW for view in incarnation.views.values()):
            self.seen["joins at once"] += 1
        incarnation.views[group] = NO_VIEW
        services = self.drawn.script.services
        contacts = (*services[host % len(services) :], *services[: host % len(services)])
        world.request(
            host,
            Join(group=group, view=None, contacts=contacts, stack=STACK, policy=PRIMARY, address=name, domain=MAIN),
        )
        self.seen["joins"] += 1
        if any(peer._transfers for peer in peers_of(world).values()):
            self.seen["joins that raced with a transfer"] += 1

    def _first_groups(self, name: str) -> list[str]:
        return [plan.name for plan in self.drawn.script.groups if name in plan.members]

    def _move(self, world: World, host: int) -> None:
        peer = peers_of(world).get(world.names[host])
        if peer is None or not peer._groups:
            return
        group = self.random.choice(list(peer._groups.values())).name
        address = self.random.choice(peer._peers)
        if address != peer._address:
            world.request(host, PlaceGroups((group,), address))
            if self.drawn.races is not None and peer._transfers:
                self._race(world, self.drawn.races, group, (world.names[host], address))

    def _race(self, world: World, races: Random, group: str, sequencers: tuple[str, str]) -> None:
        """A group has begun to move: let processes join it or leave it, and sometimes one of its sequencers crash."""
        hosts = [host for host, name in enumerate(world.names) if name in self.drawn.homes]
        for host in races.sample(hosts, min(len(hosts), races.choice((1, 2, 4)))):
            self._shift(world, host, world.names[host], group)
        if not self._may_crash(world.now_ns) or races.random() >= (0.5 if self.replicas else 0.2):
            return
        for name in sequencers if self.replicas > 1 and races.random() < 0.5 else (races.choice(sequencers),):
            doomed = world.names.index(name)
            self._doomed.add(doomed)
            world.schedule(world.now_ns + int(races.random() * 2 * MILLISECOND_NS), doomed)

    def _may_crash(self, now_ns: int) -> bool:
        """Of replicated sequencers at most k are without their copies at a time; where the network has faults nobody
        can say how long that takes, so at most k crash in all."""
        if not self.replicas:
            return self.crashes + len(self._doomed) < CRASHES_MAX
        if self._doomed or now_ns < self._whole_ns:
            return False
        return not self.crashes or all(layer["kind"] in ("delay", "loss") for layer in self.drawn.script.layers)

    def _crash(self, world: World, host: int, name: str) -> None:
        """End a sequencer, and have it come back."""
        self._doomed.discard(host)
        if world.running[host] is None or self.drawn.races is None:
            return
        self.crashes += 1
        self.seen["sequencers crashed"] += 1
        self.seen["sequencers crashed in a transfer"] += name in self._moving
        self._accepted.pop(name, None)
        world.crash(host)
        back_ns = world.now_ns + int(self.drawn.races.random() * 2 * FAST.silence_ns_min)
        self._whole_ns = max(self._whole_ns, back_ns + RECOVERY_NS)
        world.plan(Action(START, back_ns, name))

    def look(self, world: World) -> None:
        """Count what is going on."""
        peers = peers_of(world)
        at: dict[int, str] = {}
        for name, peer in peers.items():
            for id, group in peer._groups.items():
                if not group.is_moving and id in at and peers[at[id]]._groups[id].moves == group.moves:
                    self.problems.append(f"group {group.name} is at {at[id]} and at {name}")
                if not group.is_moving:
                    at[id] = name
        working = [name for name, peer in peers.items() if peer.counts[0] > self._accepted.get(name, 0)]
        for name in sorted(self._accepted.keys() - peers.keys()) if not self.replicas else ():
            self.seen["sequencers crashed"] += 1
            self.seen["sequencers crashed in a transfer"] += name in self._moving
        self._moving = {name for name, peer in peers.items() if peer._transfers}
        for peer in peers.values():
            self._moving.update(transfer.address for transfer in peer._transfers.values())
        self._accepted = {name: peer.counts[0] for name, peer in peers.items()}
        overlaps = overlaps_of(peers)
        self.seen["partings"] += len(self._overlaps - overlaps)
        self._overlaps = overlaps
        self.seen["looks"] += 1
        self.seen["looks with two or more sequencers at work"] += len(working) > 1
        self.seen["looks with transfers under way"] += any(peer._transfers for peer in peers.values())
        self.seen["transfers"] = max(self.seen["transfers"], sum(peer.counts[6] for peer in peers.values()))
        spread = 0
        for running in world.running:
            if running is not None and running.process.name in self.drawn.homes:
                stack = running.engine._stacks_by_name.get(STACK)
                assert stack is None or isinstance(stack, SequencerStack)
                spread += stack is not None and len(set(stack._client._where.values())) > 1
        self.seen["looks with processes at two or more sequencers"] += spread > 0


def peers_of(world: World) -> dict[str, MeshPeer]:
    """The sequencers that run, by name; of replicated ones, those that lead in the highest term."""
    found: dict[str, MeshPeer] = {}
    terms: dict[str, int] = {}
    for running in world.running:
        stack = None if running is None else running.engine._stacks_by_name.get(STACK)
        if running is None or not isinstance(stack, SequencerStack):
            continue
        if isinstance(stack._peer, MeshPeer):
            found[running.process.name] = stack._peer
        elif isinstance(stack._peer, SeatHost):
            for seat, sequencer in stack._peer._seats.items():
                term = stack._peer._logs[seat].term
                if term > terms.get(seat, -1):
                    found[seat], terms[seat] = sequencer, term
    return found


def overlaps_of(peers: dict[str, MeshPeer]) -> set[tuple[int, int]]:
    """The pairs of groups at one sequencer that a process is in, or has left and still reads."""
    groups = [group for peer in peers.values() for group in peer._groups.values()]
    return {(group.id, other) for group in groups for other in group.intersecting if group.id < other}


@dataclass
class Outcome:
    """What became of a seed."""

    seed: int
    problems: list[str]
    seen: Counter[str] = field(default_factory=Counter)


def run_replicated(number: int) -> Outcome:
    """The so many-eth seed with replicas."""
    rests = list(REPLICAS)
    return run_seed(number // len(rests) * 16 + rests[number % len(rests)])


def run_seed(seed: int) -> Outcome:
    drawn = draw(seed)
    workload = Shifting(drawn)
    run = run_drawn(drawn, workload)
    problems = [str(problem) for problem in judge(run).problems] + workload.problems[:3]
    seen = workload.seen
    for name in ("client excluded", "request waited for a number", "missing messages fetched", "message accepted",
                 "body sent by its sender", "seat led"):  # fmt: skip
        seen[name] = run.coverage.get(name, 0)
    return Outcome(seed, problems, seen)


def run_drawn(drawn: Drawn, workload: Shifting) -> ScriptRun:
    """Run it. That members are given up late is no fault where a sequencer crashes, or where faults held up the first
    joins so long that what was planned happens when the network has healed."""
    script = drawn.script
    run = ScriptRun()
    maker = LogMaker(script.run)
    run.logs, run.groups = maker.logs, [group.name for group in script.groups]
    world = World(script, maker.make, workload.hooks())
    try:
        world.begin()
        end_ns = world.now_ns + drawn.duration_ns
        is_late = end_ns > script.heal_ns + script.options.silence_ns_min
        is_late |= any(action.kind == CRASH and action.process in script.services for action in drawn.actions)
        world.run_through(end_ns)
        is_late |= workload.crashes > 0
        run_until_quiet(world, 4 * script.options.silence_ns_min, end_ns + QUIET_NS_MAX)
        for group in run.groups:
            if not world.progress.is_quiet(group) or (world.progress.is_wrongful(group) and not is_late):
                run.restless.append(group)
        world.end()
    except Exception as error:  # whatever it was: no input may make the engine raise
        run.mistake = f"{type(error).__name__}: {error}"
    run.time_ns = world.now_ns
    run.coverage = world.coverage.counts
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:100", help="from:to, the last one excluded")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    parser.add_argument("--seconds", type=float, help="begin no further seed after so long")
    parser.add_argument("--replicated", action="store_true", help="count only the seeds with replicas")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    first, last = (int(part) for part in arguments.seeds.split(":"))
    seen: Counter[str] = Counter()
    failed = done = 0
    for outcome in run_seeds(
        run_replicated if arguments.replicated else run_seed, first, last, arguments.jobs, arguments.seconds
    ):
        done += 1
        seen.update(outcome.seen)
        if outcome.problems:
            failed += 1
            print(f"seed {outcome.seed}: " + "; ".join(outcome.problems)[:600], file=sys.stderr)
        if done % 100 == 0:
            print(f"{done} seeds, {failed} failed", file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps({"seeds": done, "failed": failed, "seen": dict(sorted(seen.items()))}))
    else:
        print(f"{done} seeds, {failed} failed")
        for name, count in sorted(seen.items()):
            print(f"{count:10} {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
