"""What a seed makes of a churn: its groups and who is in them, what is said, and everything that goes wrong.

Short runs with many faults in them find more in an hour than long ones. The fast options keep a change of view within
the bad weather; a third of the seeds run with the defaults.
"""

from itertools import combinations
from random import Random
from typing import Final

from antiphon.kernel.causality_domain import CARRY, CONSERVATIVE, EPOCHS, CausalityDomain
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import PRIMARY
from antiphon.simulator.churn_world import Charter
from antiphon.simulator.fault_schedule import network_layers
from antiphon.simulator.script import (
    ACCIDENT,
    AMBUSH,
    BARRIER,
    CRASH,
    LEAVE,
    SAY,
    SLEEP,
    START,
    STOP,
    TELL,
    Deed,
    Gathering,
    Script,
)

PLACES_MIN: Final = 3
PLACES_MAX: Final = 12
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
"""A seed speaks at the levels of one of these."""
AMBUSHES: Final = ("flush", "state", "propose", "done", "install", "installed")
"""The packets whose sender may be lost in the middle of a change of view."""
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
    """The churn of this seed."""
    return _Draw(seed).draw()


def gatherings(charters: list[Charter], names: list[str]) -> list[Gathering]:
    """The groups, by names."""
    return [
        Gathering(
            charter.name, [names[place] for place in charter.places], [names[place] for place in charter.founders]
        )
        for charter in charters
    ]


def draw_domain(charters: list[Charter], random: Random) -> CausalityDomain:
    """One domain for all groups: the audit takes causal order to hold between all of them."""
    rule = random.choice((CARRY, CARRY, CONSERVATIVE, EPOCHS))
    overlaps: tuple[tuple[str, str], ...] = ()
    if rule == CARRY and random.random() < 0.3:
        pairs = combinations(charters, 2)
        overlaps = tuple((one.name, other.name) for one, other in pairs if set(one.places) & set(other.places))
    return CausalityDomain(rule=rule, resilience=random.choice((0, 0, 1, 2)), overlaps=overlaps)


class _Draw:
    """One seed's dice."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(f"{seed}/crowd")
        self.names = [f"p{number}" for number in range(1, self.random.randint(PLACES_MIN, PLACES_MAX) + 1)]
        fast = self.random.random() < 0.67
        self.silence_ns = (FAST if fast else SLOW).silence_ns_min
        self.duration_ns = self.random.randint(3, 12) * self.silence_ns
        self.calm_ns = self.duration_ns
        self.charters = self._draw_charters()
        self.options = self._draw_options(FAST if fast else SLOW)

    def draw(self) -> Script:
        layers = network_layers(
            self.random.choice(("none", "loss", "all", "all")), self.names, self.duration_ns, self.random
        )
        domain = draw_domain(self.charters, self.random)
        script = Script(
            run=f"seed-{self.seed}",
            seed=self.seed,
            policy=PRIMARY,
            names=self.names,
            groups=gatherings(self.charters, self.names),
            layers=layers,
            options=self.options,
            domain=domain,
        )
        self._draw_talk(script)
        self._draw_comings(script)
        self._draw_crashes(script)
        self._draw_pauses(script)
        script.calm_ns = self.calm_ns
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

    def _draw_charters(self) -> list[Charter]:
        """Groups that overlap at random; some places come late, and some of the others ask to be let in."""
        random = self.random
        places = list(range(len(self.names)))
        random.shuffle(places)
        early = places[: random.randint(max(3, len(places) // 2), len(places))]
        count = 1 if random.random() < 0.4 else random.randint(2, GROUPS_MAX)
        charters: list[Charter] = []
        for number in range(count):
            size = len(early) if count == 1 else random.randint(2, len(early))
            founders = sorted(random.sample(early, size))
            others = [place for place in places if place not in founders and (count == 1 or random.random() < 0.3)]
            charters.append(Charter(f"g{number + 1}", sorted(founders + others), founders))
        for place in places:
            if not any(place in charter.places for charter in charters):
                charters[0].places.append(place)
        return charters

    def _a_time(self) -> int:
        return int(self.random.random() * self.duration_ns)

    def _some(self, most: int) -> range:
        """None in a third of the seeds, so that each fault is also seen without the others."""
        return range(0 if self.random.random() < 0.33 else self.random.randint(1, most))

    def _a_membership(self) -> tuple[Charter, str]:
        """A group, and somebody who belongs to it."""
        charter = self.charters[self.random.randrange(len(self.charters))]
        return charter, self.names[self.random.choice(charter.places)]

    def _somebody(self) -> str:
        return self.names[self.random.randrange(len(self.names))]

    def _draw_talk(self, script: Script) -> None:
        """Single messages and bursts; now and then somebody dies over its words."""
        random = self.random
        levels = random.choice(LEVEL_MIXES)
        for _ in range(random.randint(5, 60)):
            charter, who = self._a_membership()
            group = charter.name
            at_ns = self._a_time()
            burst = 1 if random.random() < 0.8 else random.randint(2, 8)
            for _ in range(burst):
                size = int(2_000 * random.random() ** 4)
                script.add(Deed(SAY, at_ns, who, group, random.choice(levels), (size,)))
            if random.random() < 0.15:
                script.add(Deed(TELL, at_ns, who, group, to=self.names[random.choice(charter.places)]))
            if burst > 1 and random.random() < 0.2:
                script.add(Deed(ACCIDENT, at_ns + int(random.random() * 5 * MILLISECOND_NS), who))
                script.add(Deed(START, self._until(at_ns + int(4 * random.random() * self.silence_ns)), who))
        for _ in self._some(3):
            charter, who = self._a_membership()
            script.add(Deed(BARRIER, self._a_time(), who, charter.name))

    def _draw_comings(self, script: Script) -> None:
        storm_ns = self._a_time()
        for place, name in enumerate(self.names):
            if not any(place in charter.founders for charter in self.charters):
                at_ns = self._until(storm_ns + self.random.randint(0, 100) * MILLISECOND_NS)
                script.add(Deed(START, at_ns, name))
        for _ in self._some(3):
            charter, who = self._a_membership()
            at_ns = self._a_time()
            script.add(Deed(LEAVE, at_ns, who, charter.name))
            if self.random.random() < 0.5:
                script.add(Deed(START, self._until(at_ns + self.random.randint(1, 4) * self.silence_ns), who))

    def _draw_crashes(self, script: Script) -> None:
        random = self.random
        storm_ns = self._a_time()
        for _ in self._some(5):
            who = self._somebody()
            at_ns = storm_ns + random.randint(0, 100) * MILLISECOND_NS if random.random() < 0.4 else self._a_time()
            what = ACCIDENT if random.random() < 0.95 else CRASH
            script.add(Deed(what, self._until(at_ns), who))
            if random.random() < 0.8:
                script.add(Deed(START, self._until(at_ns + int(random.random() * 4 * self.silence_ns)), who))
        for _ in self._some(4):
            charter, _ = self._a_membership()
            packet = random.choice(AMBUSHES)
            both = random.random() < 0.3
            from_ns = self._a_time()
            countdown = random.randint(1, 8)
            script.add(Deed(AMBUSH, from_ns, group=charter.name, packet=packet, countdown=countdown, both=both))

    def _draw_pauses(self, script: Script) -> None:
        random = self.random
        for _ in self._some(2):
            from_ns = self._a_time()
            until_ns = self._until(from_ns + int(4 * random.random() * self.silence_ns))
            script.add(Deed(SLEEP, from_ns, self._somebody(), until_ns=until_ns))
        for _ in self._some(3):
            charter, who = self._a_membership()
            from_ns = self._a_time()
            until_ns = self._until(from_ns + int(3 * random.random() * self.silence_ns))
            script.add(Deed(STOP, from_ns, who, charter.name, until_ns=until_ns))

    def _until(self, at_ns: int) -> int:
        """Something ends or happens then: it is not calm before."""
        self.calm_ns = max(self.calm_ns, at_ns)
        return at_ns
