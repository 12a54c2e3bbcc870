"""Draws the script of a churn from a seed: groups and their members, what they send, and everything that goes wrong.

Short runs with many faults in them find more in an hour than long ones. The fast options keep a change of view within
the time of the faults; a third of the seeds run with the defaults.
"""

from itertools import combinations
from random import Random
from typing import Final

from antiphon.kernel.causality_domain import CARRY, CONSERVATIVE, EPOCHS, CausalityDomain
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import PRIMARY
from antiphon.simulator.actions import (
    BARRIER,
    CRASH,
    CRASH_IF_SAFE,
    CRASH_ON_PACKET,
    LEAVE,
    PAUSE,
    PAUSE_APPLICATION,
    SEND,
    SEND_PRIVATE,
    START,
    Action,
)
from antiphon.simulator.fault_schedule import network_layers
from antiphon.simulator.script import Script, ScriptedGroup

PROCESSES_MIN: Final = 3
PROCESSES_MAX: Final = 12
GROUPS_MAX: Final = 8
LEVEL_MIXES: Final = (
    ("causal",),
    ("causal", "fifo", "reliable"),
    ("agreed",),
    ("agreed", "causal"),
    ("safe",),
    ("safe", "agreed", "causal"),
    ("safe", "agreed", "causal", "fifo", "reliable"),
)
"""A seed sends at the levels of one of these."""
TRIGGER_PACKETS: Final = ("flush", "state", "propose", "done", "install", "installed")
"""The packets whose sender may crash in the middle of a change of view."""
FAST: Final = Options(
    heartbeat_interval_ns=50 * MILLISECOND_NS,
    silence_ns_min=250 * MILLISECOND_NS,
    silence_ns_max=2_500 * MILLISECOND_NS,
    doubt_ns=75 * MILLISECOND_NS,
    retry_ns=20 * MILLISECOND_NS,
    gather_ns=20 * MILLISECOND_NS,
)
SLOW: Final = Options()


def draw_churn(seed: int) -> Script:
    """The script of this seed."""
    return _Draw(seed).draw()


def draw_domain(plans: list[ScriptedGroup], random: Random) -> CausalityDomain:
    """One domain for all groups, so that causal order is checked between all of them."""
    rule = random.choice((CARRY, CARRY, CONSERVATIVE, EPOCHS))
    overlaps: tuple[tuple[str, str], ...] = ()
    if rule == CARRY and random.random() < 0.3:
        pairs = combinations(plans, 2)
        overlaps = tuple((one.name, other.name) for one, other in pairs if set(one.members) & set(other.members))
    return CausalityDomain(rule=rule, resilience=random.choice((0, 0, 1, 2)), overlaps=overlaps)


class _Draw:
    """What one seed draws."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(f"{seed}/crowd")  # this text is part of what a seed means
        self.names = [f"p{number}" for number in range(1, self.random.randint(PROCESSES_MIN, PROCESSES_MAX) + 1)]
        fast = self.random.random() < 0.67
        self.silence_ns = (FAST if fast else SLOW).silence_ns_min
        self.duration_ns = self.random.randint(3, 12) * self.silence_ns
        self.heal_ns = self.duration_ns
        self.plans = self._draw_plans()
        self.options = self._draw_options(FAST if fast else SLOW)

    def draw(self) -> Script:
        layers = network_layers(
            self.random.choice(("none", "loss", "all", "all")), self.names, self.duration_ns, self.random
        )
        domain = draw_domain(self.plans, self.random)
        script = Script(
            run=f"seed-{self.seed}",
            seed=self.seed,
            policy=PRIMARY,
            processes=self.names,
            groups=self.plans,
            layers=layers,
            options=self.options,
            domain=domain,
        )
        self._draw_sends(script)
        self._draw_joins(script)
        self._draw_crashes(script)
        self._draw_pauses(script)
        script.heal_ns = self.heal_ns
        return script

    def _draw_options(self, pace: Options) -> Options:
        return Options(
            heartbeat_interval_ns=pace.heartbeat_interval_ns,
            silence_ns_min=pace.silence_ns_min,
            silence_ns_max=pace.silence_ns_max,
            doubt_ns=pace.doubt_ns,
            retry_ns=pace.retry_ns,
            gather_ns=pace.gather_ns,
            window_packets=self.random.choice((4, 64, 1024)),
            packet_bytes_max=self.random.choice((600, 1400)),
        )

    def _draw_plans(self) -> list[ScriptedGroup]:
        """Groups that overlap at random; some processes start late, and some of the others ask to join."""
        random = self.random
        hosts = list(range(len(self.names)))
        random.shuffle(hosts)
        early = hosts[: random.randint(max(3, len(hosts) // 2), len(hosts))]
        count = 1 if random.random() < 0.4 else random.randint(2, GROUPS_MAX)
        plans: list[ScriptedGroup] = []
        for number in range(count):
            size = len(early) if count == 1 else random.randint(2, len(early))
            founders = sorted(random.sample(early, size))
            others = [host for host in hosts if host not in founders and (count == 1 or random.random() < 0.3)]
            members = sorted(founders + others)
            plans.append(
                ScriptedGroup(
                    f"g{number + 1}", [self.names[host] for host in members], [self.names[host] for host in founders]
                )
            )
        for host in hosts:
            if not any(self.names[host] in plan.members for plan in plans):
                plans[0].members.append(self.names[host])
        return plans

    def _a_time(self) -> int:
        return int(self.random.random() * self.duration_ns)

    def _some(self, most: int) -> range:
        """None in a third of the seeds, so that each fault is also seen without the others."""
        return range(0 if self.random.random() < 0.33 else self.random.randint(1, most))

    def _a_membership(self) -> tuple[ScriptedGroup, str]:
        """A group, and a process that belongs to it."""
        plan = self.plans[self.random.randrange(len(self.plans))]
        return plan, self.random.choice(plan.members)

    def _a_process(self) -> str:
        return self.names[self.random.randrange(len(self.names))]

    def _draw_sends(self, script: Script) -> None:
        """Single messages and bursts; sometimes the sender crashes soon after a burst."""
        random = self.random
        levels = random.choice(LEVEL_MIXES)
        for _ in range(random.randint(5, 60)):
            plan, process = self._a_membership()
            group = plan.name
            at_ns = self._a_time()
            burst = 1 if random.random() < 0.8 else random.randint(2, 8)
            for _ in range(burst):
                size = int(2_000 * random.random() ** 4)
                script.add(Action(SEND, at_ns, process, group, random.choice(levels), (size,)))
            if random.random() < 0.15:
                script.add(Action(SEND_PRIVATE, at_ns, process, group, to=random.choice(plan.members)))
            if burst > 1 and random.random() < 0.2:
                script.add(Action(CRASH_IF_SAFE, at_ns + int(random.random() * 5 * MILLISECOND_NS), process))
                script.add(Action(START, self._until(at_ns + int(4 * random.random() * self.silence_ns)), process))
        for _ in self._some(3):
            plan, process = self._a_membership()
            script.add(Action(BARRIER, self._a_time(), process, plan.name))

    def _draw_joins(self, script: Script) -> None:
        together_ns = self._a_time()
        for name in self.names:
            if not any(name in plan.founders for plan in self.plans):
                at_ns = self._until(together_ns + self.random.randint(0, 100) * MILLISECOND_NS)
                script.add(Action(START, at_ns, name))
        for _ in self._some(3):
            plan, process = self._a_membership()
            at_ns = self._a_time()
            script.add(Action(LEAVE, at_ns, process, plan.name))
            if self.random.random() < 0.5:
                script.add(Action(START, self._until(at_ns + self.random.randint(1, 4) * self.silence_ns), process))

    def _draw_crashes(self, script: Script) -> None:
        random = self.random
        together_ns = self._a_time()
        for _ in self._some(5):
            process = self._a_process()
            at_ns = together_ns + random.randint(0, 100) * MILLISECOND_NS if random.random() < 0.4 else self._a_time()
            kind = CRASH_IF_SAFE if random.random() < 0.95 else CRASH
            script.add(Action(kind, self._until(at_ns), process))
            if random.random() < 0.8:
                script.add(Action(START, self._until(at_ns + int(random.random() * 4 * self.silence_ns)), process))
        for _ in self._some(4):
            plan, _ = self._a_membership()
            packet = random.choice(TRIGGER_PACKETS)
            both = random.random() < 0.3
            from_ns = self._a_time()
            countdown = random.randint(1, 8)
            script.add(Action(CRASH_ON_PACKET, from_ns, group=plan.name, packet=packet, countdown=countdown, both=both))

    def _draw_pauses(self, script: Script) -> None:
        random = self.random
        for _ in self._some(2):
            from_ns = self._a_time()
            until_ns = self._until(from_ns + int(4 * random.random() * self.silence_ns))
            script.add(Action(PAUSE, from_ns, self._a_process(), until_ns=until_ns))
        for _ in self._some(3):
            plan, process = self._a_membership()
            from_ns = self._a_time()
            until_ns = self._until(from_ns + int(3 * random.random() * self.silence_ns))
            script.add(Action(PAUSE_APPLICATION, from_ns, process, plan.name, until_ns=until_ns))

    def _until(self, at_ns: int) -> int:
        """The same time; the faults are not over before it."""
        self.heal_ns = max(self.heal_ns, at_ns)
        return at_ns
