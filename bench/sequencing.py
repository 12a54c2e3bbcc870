"""Several sequencers in simulation: how long joins and leaves take, what the order over all groups costs, and how many
bytes of context a message carries.

    python -m bench.sequencing [--json]

Every way from process to process takes one millisecond. A join is measured from the call to the first view, while all
groups are being sent to: at a sequencer to which the process has a link, at one that it has to be told of and dial, and
while the group is on its way between two sequencers. (The paper has joins that force a transfer; here none does, see
stamps.py, so the transfer is ordered in the moment of the join.)

Order: twelve processes in a ring of twelve groups, two each, so that nobody shares two groups with anybody else; from
the call to the delivery at another process, with the groups at one sequencer, and at two, where an agreed message waits
for clocks and a causal-total one does not: what the acyclic order adds to what the order of each group takes anyhow.
The same, with few messages, over long links, of 50 milliseconds each way: the paper doubts that they can sustain a
total order (section 7). A simulated link has one batch under way at a time, so a message may wait for as long as one
way takes before it leaves.

Contexts: twelve processes at two sequencers, each in one to six of twelve groups and sending to all of them; what is
carried, and what rule 3 of section 5 carries word for word (of senders' contexts, what is not stable).
"""

import argparse
import json
from random import Random
from typing import Any

from antiphon.faults import Delay
from antiphon.history.schema import LEAVES, LEFT
from antiphon.kernel.inputs import MAIN, Join, Leave
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import PRIMARY
from antiphon.simulator.actions import SEND, Action
from antiphon.simulator.incarnation import NO_VIEW
from antiphon.simulator.run import add_services
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.script_run import LogMaker, play
from antiphon.simulator.workloads.role_hooks import RoleHooks
from antiphon.simulator.world import World
from antiphon.stacks.sequencer.mesh import MeshPeer
from antiphon.stacks.sequencer.plan import PlaceGroups
from antiphon.stacks.sequencer.stack import SequencerStack

STACK = "sequencer"
ENTRY_BYTES = 16
DURATION_NS = 4_000 * MILLISECOND_NS
SPREAD_NS = 1_000 * MILLISECOND_NS
"""Groups are where they are to be from here on."""


def make_script(
    members: dict[str, list[str]],
    services: int,
    sends: int,
    seed: int,
    level: str = "agreed",
    delay_ns: int = MILLISECOND_NS,
) -> Script:
    """`members`: the groups, and who is in each from the beginning."""
    processes = sorted({name for own in members.values() for name in own})
    script = Script(
        run="bench",
        seed=seed,
        policy=PRIMARY,
        processes=processes,
        groups=[ScriptedGroup(group, own, own) for group, own in members.items()],
        layers=[Delay(delay_ns, 0)],
        options=Options(),
        domain=MAIN,
        heal_ns=DURATION_NS,
        stack=STACK,
    )
    add_services(script, services)
    random = Random(seed)
    for _ in range(sends):
        group = random.choice(list(members))
        at_ns = int(random.random() * DURATION_NS)
        script.add(Action(SEND, at_ns, random.choice(members[group]), group, level, (100,)))
    return script


def peer_at(world: World, host: int) -> MeshPeer | None:
    running = world.running[host]
    stack = None if running is None else running.engine._stacks_by_name.get(STACK)
    peer = stack._peer if isinstance(stack, SequencerStack) else None
    return peer if isinstance(peer, MeshPeer) else None


SHARES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
DELIVERIES = [
    (level, services, sends, delay_ms)
    for delay_ms, sends in ((1, 100), (1, 4_000), (50, 100))
    for level in ("agreed", "causal-total")
    for services in (1, 2)
]


class PlainWorkload:
    """What happens in a run beside its script, in plain Python."""

    def hooks(self) -> RoleHooks:
        """Return this as a workload, which a compiled simulator takes too."""
        return RoleHooks(
            begin=self.start,
            act=lambda host: self.act(self.world, host),
            started=lambda host: None,
            react=lambda host, told: None,
            may_lose=lambda host: True,
        )

    def start(self, world: World) -> None:
        self.world = world
        self.begin(world)

    def begin(self, world: World) -> None:
        """Plan what is to happen."""
        raise NotImplementedError

    def act(self, world: World, host: int) -> None:
        """Do what was planned for a host now."""
        raise NotImplementedError


class Joining(PlainWorkload):
    """Processes join one group each, and leave it again."""

    def __init__(self, kind: str, joins: dict[str, str]) -> None:
        self.kind = kind
        self.joins = joins
        self.asked: dict[tuple[str, str], int] = {}

    def begin(self, world: World) -> None:
        for place, name in enumerate(self.joins):
            at_ns = world.now_ns + (200 + 50 * place) * MILLISECOND_NS
            world.schedule(at_ns, world.names.index(name))
            world.schedule(at_ns + 1_000 * MILLISECOND_NS, world.names.index(name))

    def act(self, world: World, host: int) -> None:
        name = world.names[host]
        group = self.joins[name]
        incarnation = world.running[host]
        assert incarnation is not None
        if ("join", name) in self.asked:
            self.asked["leave", name] = world.now_ns
            incarnation.log.note(world.now_ns, LEAVES, group)
            world.request(host, Leave(group))
            return
        self.asked["join", name] = world.now_ns
        if self.kind == "while it moves":
            self._move(world, group)
        incarnation.views[group] = NO_VIEW
        contacts = ("service", "service2")
        world.request(
            host,
            Join(group=group, view=None, contacts=contacts, stack=STACK, policy=PRIMARY, address=name, domain=MAIN),
        )

    def _move(self, world: World, group: str) -> None:
        for host in range(len(world.names)):
            peer = peer_at(world, host)
            if peer is not None and any(one.name == group for one in peer._groups.values()):
                world.request(host, PlaceGroups((group,), next(one for one in peer._peers if one != peer._address)))
                return


def join_times(kind: str) -> dict[str, list[float]]:
    """Milliseconds."""
    names = [f"p{number}" for number in range(24)]
    members = {f"g{number}": [name] for number, name in enumerate(names)}
    # Groups of even number are at the first sequencer, as their members named it first.
    step = 2 if kind == "at a known sequencer" else 1
    joins = {name: f"g{(number + step) % len(names)}" for number, name in enumerate(names)}
    script = make_script(members, 2, 2_000, 1)
    workload = Joining(kind, joins)
    maker = LogMaker("bench")
    world = World(script, maker.make, workload.hooks())
    play(world, script)
    found: dict[str, list[float]] = {"join": [], "leave": []}
    for log in maker.logs:
        for row in log.rows():
            if row.group != joins.get(log.process):
                continue
            asked = ("join", log.process) if row.kind == "view" else ("leave", log.process)
            if asked in workload.asked and (row.kind == "view" or row.label == LEFT):
                found[asked[0]].append((row.time_ns - workload.asked.pop(asked)) / MILLISECOND_NS)
    return found


class Spreading(PlainWorkload):
    """Every second group goes to the second sequencer."""

    def begin(self, world: World) -> None:
        for name in ("service", "service2"):
            if name in world.names:
                world.schedule(world.now_ns + 50 * MILLISECOND_NS, world.names.index(name))

    def act(self, world: World, host: int) -> None:
        peer = peer_at(world, host)
        if peer is not None:
            for parity, address in enumerate(("service", "service2")):
                moved = [one.name for one in peer._groups.values() if int(one.name[1:]) % 2 == parity]
                if moved and address != peer._address:
                    world.request(host, PlaceGroups(tuple(moved), address))


def delivery_times(level: str, services: int, sends: int, delay_ns: int = MILLISECOND_NS) -> list[float]:
    """Milliseconds from the call to the delivery at another process, of messages in a ring of groups."""
    names = [f"p{number}" for number in range(12)]
    members = {f"g{place}": [name, names[(place + 1) % len(names)]] for place, name in enumerate(names)}
    script = make_script(members, services, sends, 5, level, delay_ns)
    maker = LogMaker("bench")
    play(World(script, maker.make, Spreading().hooks()), script)
    rows = [(log.process, row) for log in maker.logs for row in log.rows()]
    called = {
        (name, row.group, row.number): row.time_ns
        for name, row in rows
        if row.kind == "send" and row.time_ns > SPREAD_NS
    }
    found = [
        (row.time_ns - called[row.sender, row.group, row.number]) / MILLISECOND_NS
        for name, row in rows
        if row.kind == "deliver"
        and row.sender is not None
        and row.sender != name
        and (row.sender, row.group, row.number) in called
    ]
    return sorted(found)


def context_bytes(overlap: int) -> dict[str, float]:
    names = [f"p{number}" for number in range(12)]
    groups = [f"g{number}" for number in range(12)]
    random = Random(overlap)
    homes = {name: [groups[number], *random.sample(groups, overlap)][:overlap] for number, name in enumerate(names)}
    members = {group: [name for name in names if group in homes[name]] for group in groups}
    script = make_script({group: own for group, own in members.items() if own}, 2, 3_000, overlap)
    world = World(script, LogMaker("bench").make)
    play(world, script)
    sums: dict[str, int] = {}
    for host in range(len(world.names)):
        peer = peer_at(world, host)
        for name, value in (peer.statistics() if peer is not None else {}).items():
            sums[name] = sums.get(name, 0) + value
    return {
        "carried": ENTRY_BYTES * sums["context_entries"] / sums["places"],
        "literal": ENTRY_BYTES * sums["context_entries_literal"] / sums["places"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    for kind in ("at a known sequencer", "at another sequencer", "while it moves"):
        for what, times in join_times(kind).items():
            times.sort()
            for name, share in SHARES:
                value = times[min(int(len(times) * share), len(times) - 1)]
                results.append({"workload": f"{what} {kind}", "order": name, "value": round(value, 2), "unit": "ms"})
    for level, services, sends, delay_ms in DELIVERIES:
        delivered = delivery_times(level, services, sends, delay_ms * MILLISECOND_NS)
        workload = f"{level}, {services} sequencers, {sends // 4} messages a second, {delay_ms} ms each way"
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            value = delivered[int(len(delivered) * share)]
            results.append({"workload": workload, "order": name, "value": round(value, 2), "unit": "ms"})
    for overlap in range(1, 7):
        for name, value in context_bytes(overlap).items():
            workload = f"context, {overlap} groups a process"
            results.append({"workload": workload, "order": name, "value": round(value, 1), "unit": "bytes a message"})
    if arguments.json:
        print(json.dumps({"results": results}))
        return
    for result in results:
        print(f"{result['workload']:66} {result['order']:8} {result['value']:10} {result['unit']}")


if __name__ == "__main__":
    main()
