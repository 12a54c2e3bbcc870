"""Sieges: few places, up to three groups, and all goes wrong at the worst moment, in the middle of a change of view.

What a churn meets in one seed of a thousand happens here in one of ten: senders that die over a burst of which others
have only parts, coordinators that die with the only one who knows their decision, leavers that are the only ones to
know it, a joiner that is let in while it can hear nobody, and a member that hears all and is heard by none.
"""

from dataclasses import replace
from random import Random
from typing import Final

from antiphon.faults import Delay, Fault, Loss, Partition
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.policies import PRIMARY
from antiphon.simulator.churn_draw import FAST, LEVEL_MIXES, draw_domain, gatherings
from antiphon.simulator.churn_world import Charter
from antiphon.simulator.fault_schedule import Until
from antiphon.simulator.script import ACCIDENT, AMBUSH, BARRIER, LEAVE, SAY, START, STOP, TELL, Deed, Script

GROUPS: Final = (1, 1, 2, 3)
STEPS: Final = ("flush", "state", "propose", "done", "install", "install", "install")
"""The packets whose sender may die of them; those after which some know the next view are worth the most."""


def draw_siege(seed: int) -> Script:
    """The siege of this seed."""
    return _Siege(seed).draw()


class _Siege:
    """One seed's dice. The first group holds all places, the others some of its founders."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(f"{seed}/siege")
        self.founders = random.randint(3, 6)
        self.names = [f"p{number}" for number in range(1, self.founders + random.randint(1, 2) + 1)]
        self.duration_ns = random.randint(4, 10) * FAST.silence_ns_min
        self.storm_ns = int(random.random() * self.duration_ns / 2)
        self.mute = random.randrange(self.founders)
        founders = list(range(self.founders))
        self.charters = [Charter("g1", list(range(len(self.names))), founders)]
        for number in range(2, random.choice(GROUPS) + 1):
            some = sorted(random.sample(founders, random.randint(2, self.founders)))
            self.charters.append(Charter(f"g{number}", some, some))

    def draw(self) -> Script:
        random = self.random
        domain = draw_domain(self.charters, random)
        options = replace(FAST, packet_bytes_max=random.choice((600, 1400)), window_packets=self._window())
        script = Script(
            run=f"siege-{self.seed}",
            seed=self.seed,
            policy=PRIMARY,
            names=self.names,
            groups=gatherings(self.charters, self.names),
            layers=self._layers(),
            options=options,
            domain=domain,
            calm_ns=self.duration_ns + 4 * FAST.silence_ns_min,
        )
        for late in self.names[self.founders :]:
            script.add(Deed(START, self.storm_ns, late))
        if random.random() < 0.5:
            self._somebody_leaves(script)
        if random.random() < 0.3:
            charter, who = self._a_membership()
            from_ns = self._a_time()
            script.add(Deed(STOP, from_ns, who, charter.name, until_ns=from_ns + 2 * FAST.silence_ns_min))
        self._talk(script)
        for _ in range(random.randint(1, 3)):
            from_ns = self.storm_ns if random.random() < 0.5 else self._a_time()
            charter, _ = self._a_membership()
            countdown = random.randint(1, self.founders)
            packet, both = random.choice(STEPS), random.random() < 0.6
            script.add(Deed(AMBUSH, from_ns, group=charter.name, packet=packet, countdown=countdown, both=both))
        return script

    def _somebody_leaves(self, script: Script) -> None:
        charter, who = self._a_membership()
        if self.random.random() < 0.5:  # the leaver is the first to hear of the view without it, perhaps the only one
            who = self.names[charter.founders[1]]
            script.add(Deed(AMBUSH, self.storm_ns, group=charter.name, packet="install", countdown=1))
        script.add(Deed(LEAVE, self.storm_ns, who, charter.name))

    def _window(self) -> int:
        """Often so few packets that the holder of the token has to wait before it can tell the order."""
        return Random(f"{self.seed}/window").choice((1, 2, 4, FAST.window_packets))

    def _a_time(self) -> int:
        return int(self.random.random() * self.duration_ns)

    def _a_membership(self) -> tuple[Charter, str]:
        """A group, and somebody who belongs to it."""
        charter = self.charters[self.random.randrange(len(self.charters))]
        return charter, self.names[self.random.choice(charter.places)]

    def _layers(self) -> list[Fault]:
        random = self.random
        layers: list[Fault] = [Delay(MILLISECOND_NS // 10, 2 * MILLISECOND_NS)]
        layers.append(Until(Loss(random.choice((0.0, 0.1, 0.3, 0.5))), self.duration_ns))
        everybody, late = frozenset(self.names), frozenset(self.names[self.founders :])
        if random.random() < 0.3:
            deaf_ns = self.storm_ns + random.randint(1, 6) * FAST.silence_ns_min
            layers.append(Partition(everybody, late, self.storm_ns, deaf_ns))
        if random.random() < 0.4:
            mute_ns = self.storm_ns + int(2 * random.random() * FAST.silence_ns_min)
            layers.append(Partition(frozenset((self.names[self.mute],)), everybody, self.storm_ns, mute_ns))
        return layers

    def _talk(self, script: Script) -> None:
        """Several speak at the same few moments, so that their messages cross; some die over their words."""
        random = self.random
        levels = random.choice(LEVEL_MIXES)
        span_ns = self.duration_ns - self.storm_ns
        moments = [self.storm_ns + int(random.random() * span_ns) for _ in range(random.randint(2, 6))]
        for _ in range(random.randint(4, 14)):
            charter, who = self._a_membership()
            group = charter.name
            at_ns = random.choice(moments)
            for _ in range(random.randint(1, 6)):
                size = random.randint(0, 1_000)
                script.add(Deed(SAY, at_ns, who, group, random.choice(levels), (size,)))
            for other in self.charters:  # from group to group without a pause
                if other is not charter and self.names.index(who) in other.places and random.random() < 0.5:
                    script.add(Deed(SAY, at_ns, who, other.name, random.choice(levels), (0,)))
            if random.random() < 0.15:
                script.add(Deed(BARRIER, at_ns, self.names[random.choice(charter.places)], group))
            if random.random() < 0.3:
                to = self.mute if random.random() < 0.5 else random.randrange(self.founders)
                script.add(Deed(TELL, at_ns, who, group, to=self.names[to]))
            if random.random() < 0.3:
                script.add(Deed(ACCIDENT, at_ns + int(random.random() * 5 * MILLISECOND_NS), who))
                script.add(Deed(START, at_ns + random.randint(1, 4) * FAST.silence_ns_min, who))
