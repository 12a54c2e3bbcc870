"""Draws adversarial scripts: few processes, up to three groups, and every fault in the middle of a change of view.

What a churn meets in one seed of a thousand happens here in one of ten: senders that crash over a burst of which others
have only parts, coordinators that crash with the only process that knows their decision, leavers that are the only ones
to know it, a joiner that is let in while it receives nothing, and a member that receives everything and whose own
packets are all lost.
"""

from dataclasses import replace
from random import Random
from typing import Final

from antiphon.faults import Delay, Fault, Loss, Partition
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.policies import PRIMARY
from antiphon.simulator.actions import (
    BARRIER,
    CRASH_IF_SAFE,
    CRASH_ON_PACKET,
    LEAVE,
    PAUSE_APPLICATION,
    SEND,
    SEND_PRIVATE,
    START,
    Action,
)
from antiphon.simulator.churn_draw import FAST, LEVEL_MIXES, draw_domain
from antiphon.simulator.fault_schedule import Until
from antiphon.simulator.script import Script, ScriptedGroup

GROUPS: Final = (1, 1, 2, 3)
TRIGGER_PACKETS: Final = ("flush", "state", "propose", "done", "install", "install", "install")
"""The packets whose sender may crash; those after which some know the next view are drawn most often."""


def draw_adversarial(seed: int) -> Script:
    """The script of this seed."""
    return _Adversary(seed).draw()


class _Adversary:
    """What one seed draws. The first group has all processes as members, the others some of its founders."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(f"{seed}/siege")  # this text is part of what a seed means
        self.founders = random.randint(3, 6)
        self.names = [f"p{number}" for number in range(1, self.founders + random.randint(1, 2) + 1)]
        self.duration_ns = random.randint(4, 10) * FAST.silence_ns_min
        self.attack_ns = int(random.random() * self.duration_ns / 2)
        self.mute = random.randrange(self.founders)
        founders = self.names[: self.founders]
        self.plans = [ScriptedGroup("g1", self.names, founders)]
        for number in range(2, random.choice(GROUPS) + 1):
            some = sorted(random.sample(founders, random.randint(2, self.founders)))  # at most 6: p1 to p6
            self.plans.append(ScriptedGroup(f"g{number}", some, some))

    def draw(self) -> Script:
        random = self.random
        domain = draw_domain(self.plans, random)
        options = replace(FAST, packet_bytes_max=random.choice((600, 1400)), window_packets=self._draw_window())
        script = Script(
            run=f"adversarial-{self.seed}",
            seed=self.seed,
            policy=PRIMARY,
            processes=self.names,
            groups=self.plans,
            layers=self._draw_layers(),
            options=options,
            domain=domain,
            heal_ns=self.duration_ns + 4 * FAST.silence_ns_min,
        )
        for late in self.names[self.founders :]:
            script.add(Action(START, self.attack_ns, late))
        if random.random() < 0.5:
            self._draw_leave(script)
        if random.random() < 0.3:
            plan, process = self._a_membership()
            from_ns = self._a_time()
            script.add(
                Action(PAUSE_APPLICATION, from_ns, process, plan.name, until_ns=from_ns + 2 * FAST.silence_ns_min)
            )
        self._draw_sends(script)
        for _ in range(random.randint(1, 3)):
            from_ns = self.attack_ns if random.random() < 0.5 else self._a_time()
            plan, _ = self._a_membership()
            countdown = random.randint(1, self.founders)
            packet, both = random.choice(TRIGGER_PACKETS), random.random() < 0.6
            script.add(Action(CRASH_ON_PACKET, from_ns, group=plan.name, packet=packet, countdown=countdown, both=both))
        return script

    def _draw_leave(self, script: Script) -> None:
        plan, process = self._a_membership()
        if self.random.random() < 0.5:  # the leaver is told of the view without it first, and perhaps nobody else is
            process = plan.founders[1]
            script.add(Action(CRASH_ON_PACKET, self.attack_ns, group=plan.name, packet="install", countdown=1))
        script.add(Action(LEAVE, self.attack_ns, process, plan.name))

    def _draw_window(self) -> int:
        """Often so few packets that the holder of the token has to wait before it can tell the order."""
        return Random(f"{self.seed}/window").choice((1, 2, 4, FAST.window_packets))

    def _a_time(self) -> int:
        return int(self.random.random() * self.duration_ns)

    def _a_membership(self) -> tuple[ScriptedGroup, str]:
        """A group, and a process that belongs to it."""
        plan = self.plans[self.random.randrange(len(self.plans))]
        return plan, self.random.choice(plan.members)

    def _draw_layers(self) -> list[Fault]:
        random = self.random
        layers: list[Fault] = [Delay(MILLISECOND_NS // 10, 2 * MILLISECOND_NS)]
        layers.append(Until(Loss(random.choice((0.0, 0.1, 0.3, 0.5))), self.duration_ns))
        everybody, late = frozenset(self.names), frozenset(self.names[self.founders :])
        if random.random() < 0.3:
            deaf_ns = self.attack_ns + random.randint(1, 6) * FAST.silence_ns_min
            layers.append(Partition(everybody, late, self.attack_ns, deaf_ns))
        if random.random() < 0.4:
            mute_ns = self.attack_ns + int(2 * random.random() * FAST.silence_ns_min)
            layers.append(Partition(frozenset((self.names[self.mute],)), everybody, self.attack_ns, mute_ns))
        return layers

    def _draw_sends(self, script: Script) -> None:
        """Several processes send at the same few moments, so that their messages cross; some senders crash."""
        random = self.random
        levels = random.choice(LEVEL_MIXES)
        span_ns = self.duration_ns - self.attack_ns
        moments = [self.attack_ns + int(random.random() * span_ns) for _ in range(random.randint(2, 6))]
        for _ in range(random.randint(4, 14)):
            plan, process = self._a_membership()
            group = plan.name
            at_ns = random.choice(moments)
            for _ in range(random.randint(1, 6)):
                size = random.randint(0, 1_000)
                script.add(Action(SEND, at_ns, process, group, random.choice(levels), (size,)))
            for other in self.plans:  # the next message to another group at once
                if other is not plan and process in other.members and random.random() < 0.5:
                    script.add(Action(SEND, at_ns, process, other.name, random.choice(levels), (0,)))
            if random.random() < 0.15:
                script.add(Action(BARRIER, at_ns, random.choice(plan.members), group))
            if random.random() < 0.3:
                to = self.mute if random.random() < 0.5 else random.randrange(self.founders)
                script.add(Action(SEND_PRIVATE, at_ns, process, group, to=self.names[to]))
            if random.random() < 0.3:
                script.add(Action(CRASH_IF_SAFE, at_ns + int(random.random() * 5 * MILLISECOND_NS), process))
                script.add(Action(START, at_ns + random.randint(1, 4) * FAST.silence_ns_min, process))
