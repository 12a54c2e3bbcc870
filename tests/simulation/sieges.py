"""Sieges: few places, up to three groups, and all goes wrong at the worst moment, in the middle of a change of view.

What a crowd meets in one seed of a thousand happens here in one of ten: senders that die over a burst of which others
have only parts, coordinators that die with the only one who knows their decision, leavers that are the only ones to
know it, a joiner that is let in while it can hear nobody, and a member that hears all and is heard by none.
"""

from dataclasses import replace
from random import Random

from antiphon.faults import Delay, Fault, Loss, Partition
from antiphon.history.log import MemoryLog
from antiphon.kernel.levels import CAUSAL, LEVELS
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.simulator.crowd import Ambush, Charter, Crowd
from antiphon.simulator.weather import Until
from antiphon.stacks.vector import messages
from tests.simulation.crowd_draw import FAST, LEVEL_MIXES, Drawing, draw_domain

GROUPS = (1, 1, 2, 3)
STEPS = (messages.FLUSH, messages.STATE, messages.PROPOSE, messages.DONE, *3 * (messages.INSTALL,))
"""The packets whose sender may die of them; those after which some know the next view are worth the most."""


def draw_siege(seed: int) -> Drawing:
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

    def draw(self) -> Drawing:
        random = self.random
        domain = draw_domain(self.charters, random)
        options = replace(FAST, packet_bytes_max=random.choice((600, 1400)), window_packets=self._window())
        crowd = Crowd(self.names, self.charters, self.seed, self._layers(), options, self._make_log, domain)
        for place in range(self.founders, len(self.names)):
            crowd.plan_start(self.storm_ns, place)
        if random.random() < 0.5:
            place, group = self._a_membership()
            if random.random() < 0.5:  # the leaver is the first to hear of the view without it, perhaps the only one
                place = self.charters[group].founders[1]
                crowd.plan_ambush(Ambush(self.charters[group].name, messages.INSTALL, self.storm_ns, 1))
            crowd.plan_leave(self.storm_ns, place, group)
        if random.random() < 0.3:
            place, group = self._a_membership()
            from_ns = self._a_time()
            crowd.pause_application(place, from_ns, from_ns + 2 * FAST.silence_ns_min, group)
        self._talk(crowd)
        for _ in range(random.randint(1, 3)):
            from_ns = self.storm_ns if random.random() < 0.5 else self._a_time()
            _, group = self._a_membership()
            name, countdown = self.charters[group].name, random.randint(1, self.founders)
            crowd.plan_ambush(Ambush(name, random.choice(STEPS), from_ns, countdown, random.random() < 0.6))
        return Drawing(crowd, self.duration_ns + 4 * FAST.silence_ns_min)

    def _window(self) -> int:
        """Often so few packets that the holder of the token has to wait before it can tell the order."""
        return Random(f"{self.seed}/window").choice((1, 2, 4, FAST.window_packets))

    def _make_log(self, process: str, incarnation: int) -> MemoryLog:
        return MemoryLog(run=f"siege-{self.seed}", process=process, incarnation=incarnation)

    def _a_time(self) -> int:
        return int(self.random.random() * self.duration_ns)

    def _a_membership(self) -> tuple[int, int]:
        """A place, and a group that it belongs to."""
        group = self.random.randrange(len(self.charters))
        return self.random.choice(self.charters[group].places), group

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

    def _talk(self, crowd: Crowd) -> None:
        """Several speak at the same few moments, so that their messages cross; some die over their words."""
        random = self.random
        levels = random.choice(LEVEL_MIXES)
        span_ns = self.duration_ns - self.storm_ns
        moments = [self.storm_ns + int(random.random() * span_ns) for _ in range(random.randint(2, 6))]
        for _ in range(random.randint(4, 14)):
            place, group = self._a_membership()
            at_ns = random.choice(moments)
            for _ in range(random.randint(1, 6)):
                payload = bytes(random.randint(0, 1_000))
                crowd.plan_say(at_ns, place, LEVELS[random.choice(levels)], payload, group)
            for other, charter in enumerate(self.charters):  # from group to group without a pause
                if other != group and place in charter.places and random.random() < 0.5:
                    crowd.plan_say(at_ns, place, LEVELS[random.choice(levels)], b"", other)
            if random.random() < 0.15:
                crowd.plan_barrier(at_ns, random.choice(self.charters[group].places), b"so far", group)
            if random.random() < 0.3:
                to = self.mute if random.random() < 0.5 else random.randrange(self.founders)
                crowd.plan_say(at_ns, place, CAUSAL, b"for you alone", group, to)
            if random.random() < 0.3:
                crowd.plan_accident(at_ns + int(random.random() * 5 * MILLISECOND_NS), place)
                crowd.plan_start(at_ns + random.randint(1, 4) * FAST.silence_ns_min, place)
