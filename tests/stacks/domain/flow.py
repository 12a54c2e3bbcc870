"""How long messages stand still around a change of configuration, under the policy `partitionable`, in virtual time.

    python -m tests.stacks.domain.flow [--seeds 10] [--rate 2000]

Five processes send messages, a hundred a second each unless `--rate` says how many all of them send together, at the
levels causal and agreed in turn. For each scene: the longest time, from the moment before the change until all is over,
in which a survivor sent no packet with messages, delivered nothing and delivered nothing agreed; the longest of all
survivors and seeds. Links take 0.5 to 0.6 ms. The time in which a silent member has not been given up yet (a second) is
part of it: agreed messages go on, as far as votes are not divided, since they need a majority alone. Members that have
none, in a part of two of five or beside one that has died of two, are not looked at: they cannot order anything before
the others are given up.
"""

import argparse
from dataclasses import dataclass, field

from antiphon.kernel.effects import Delivered, Sent
from antiphon.kernel.inputs import Send
from antiphon.kernel.levels import AGREED, CAUSAL
from antiphon.kernel.options import MILLISECOND_NS
from tests.stacks.domain.islands import GROUP, SECOND_NS, Islands, Life

COUNT = 5
BEGUN_NS = 2 * SECOND_NS
"""When the scene begins; before that all are in one configuration, or in their parts."""
LENGTH_NS = 2 * SECOND_NS


@dataclass
class Gaps:
    """The longest pauses of one process."""

    last_ns: dict[str, int] = field(default_factory=dict)
    longest_ns: dict[str, int] = field(default_factory=dict)

    def note(self, what: str, now_ns: int) -> None:
        if now_ns >= BEGUN_NS:
            gap_ns = now_ns - max(BEGUN_NS, self.last_ns.get(what, 0))
            self.longest_ns[what] = max(gap_ns, self.longest_ns.get(what, 0))
        self.last_ns[what] = now_ns


class Flow(Islands):
    """A scene on a network without losses."""

    def __init__(self, seed: int, scene: str, spacing_ns: int = 10 * MILLISECOND_NS) -> None:
        super().__init__(seed)
        self.spacing_ns = spacing_ns
        self.scene = scene
        self.count = COUNT
        self.loss = 0.0
        self.island = [0] * COUNT
        self.lives = [None] * COUNT
        self.incarnations = [0] * COUNT
        names = tuple(f"p{place}" for place in range(COUNT))
        self.first = type(self.first)(1, tuple(type(self.first.members[0])(name) for name in names), names)
        self.gaps = [Gaps() for _ in range(COUNT)]

    def observe(self, life: Life, event: object) -> None:
        gaps = self.gaps[int(life.process.name[1:])]
        if isinstance(event, Sent):
            gaps.note("sends", self.now_ns)
        elif isinstance(event, Delivered):
            gaps.note("deliveries", self.now_ns)
            if event.level == AGREED:
                gaps.note("agreed", self.now_ns)

    def transmit(self, source: int, target: int, packet: bytes) -> None:
        if source != target and self.island[source] == self.island[target]:
            delay_ns = MILLISECOND_NS // 2 + self.random.randrange(MILLISECOND_NS // 10)
            self.at(self.now_ns + delay_ns, "packet", (source, target, packet))

    def happen(self, what: str, about: object) -> None:
        if what == "say":
            assert isinstance(about, tuple)
            place, number = about
            life = self.lives[place]
            if life is not None:
                payload = b"%s %d" % (life.process.name.encode(), number)
                self.step(place, Send(group=GROUP, payloads=[payload], level=CAUSAL if number % 2 else AGREED))
            self.at(self.now_ns + self.spacing_ns, "say", (place, number + 1))
        elif what == "islands":
            assert isinstance(about, tuple)
            self.island = list(about)
        elif what == "kill":
            assert isinstance(about, int)
            self.lives[about] = None
        else:
            super().happen(what, about)

    def play(self) -> dict[str, float]:
        """Run it; the longest pauses of the survivors, in ms."""
        for place in range(COUNT):
            self.start(place)
            self.at(place * self.spacing_ns // COUNT, "say", (place, 1))
        survivors = SCENES[self.scene](self)
        while self.heap and self.heap[0][0] <= BEGUN_NS + LENGTH_NS:
            self.now_ns, _, what, about = self.pop()
            self.happen(what, about)
        result: dict[str, float] = {}
        for place in survivors:
            for what in ("sends", "deliveries", "agreed"):
                self.gaps[place].note(what, self.now_ns)
                result[what] = max(result.get(what, 0.0), self.gaps[place].longest_ns[what] / MILLISECOND_NS)
        return result


def _crash(flow: Flow) -> list[int]:
    flow.at(BEGUN_NS, "kill", 4)
    return [0, 1, 2, 3]


def _crash_of_two(flow: Flow) -> list[int]:
    flow.at(BEGUN_NS, "kill", 4)
    flow.at(BEGUN_NS + 700 * MILLISECOND_NS, "kill", 3)
    return [0, 1, 2]


def _part(flow: Flow) -> list[int]:
    flow.at(BEGUN_NS, "islands", (0, 0, 0, 1, 1))
    return [0, 1, 2]


def _merge(flow: Flow) -> list[int]:
    flow.at(0, "islands", (0, 0, 0, 1, 1))
    flow.at(BEGUN_NS, "islands", (0, 0, 0, 0, 0))
    return [0, 1, 2, 3, 4]


def _merge_with_a_dead(flow: Flow) -> list[int]:
    """A member dies when the parts hear each other again, so it is in the suggestion and never answers."""
    flow.at(0, "islands", (0, 0, 0, 1, 1))
    flow.at(BEGUN_NS, "islands", (0, 0, 0, 0, 0))
    flow.at(BEGUN_NS, "kill", 4)
    return [0, 1, 2]


def _merge_and_crash(flow: Flow) -> list[int]:
    """A member dies some time in the middle of a merge."""
    flow.at(0, "islands", (0, 0, 0, 1, 1))
    flow.at(BEGUN_NS, "islands", (0, 0, 0, 0, 0))
    flow.at(BEGUN_NS + flow.random.randrange(300 * MILLISECOND_NS), "kill", 4)
    return [0, 1, 2]


SCENES = {
    "a member crashes": _crash,
    "two members crash": _crash_of_two,
    "the network parts": _part,
    "two parts merge": _merge,
    "a merge with a member that has just died": _merge_with_a_dead,
    "a crash in the middle of a merge": _merge_and_crash,
}


def longest(scene: str, seeds: int, rate: int) -> dict[str, float]:
    """The longest pauses in some runs of a scene, in ms."""
    result: dict[str, float] = {}
    for seed in range(seeds):
        for what, pause_ms in Flow(seed, scene, COUNT * SECOND_NS // rate).play().items():
            result[what] = max(pause_ms, result.get(what, 0.0))
    return result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rate", type=int, default=500, help="messages a second, of all five together")
    given = parser.parse_args()
    print("| scene | sends, ms | deliveries, ms | agreed, ms |\n| --- | --- | --- | --- |")
    for scene in SCENES:
        pauses = longest(scene, given.seeds, given.rate)
        print(f"| {scene} | {pauses['sends']:.1f} | {pauses['deliveries']:.1f} | {pauses['agreed']:.1f} |", flush=True)


if __name__ == "__main__":
    main()
