"""Runs of groups under the policy `partitionable`, on a simulated network that parts, merges, loses and delays, and
what must hold of them.

    python -m tests.stacks.domain.islands --seeds 0:20000 --jobs 2 [--seconds 240]

A run: some processes found a group, others join; the network is cut into up to four components, again and again, also
while components merge; links work one way only, or not at all between two processes that others hear; processes crash
and come back; applications send at all levels, to all or, in half of the runs, also to chosen members, and pause. Then
everything heals, and after a quiet time all is judged.
"""

import argparse
import time
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from antiphon.engine import Engine
from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import Delivered, Effects, Installed, Sent, Transitional
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Pause, Receive, Resume, Send, Tick
from antiphon.kernel.levels import AGREED, CAUSAL, FIFO, SAFE
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import MEMBERSHIP
from antiphon.parts.membership.messages import DECLARED
from tests.bounded import run_seeds

GROUP = "g"
SECOND_NS = 1000 * MILLISECOND_NS
QUIET_NS = 12 * SECOND_NS
"""How long after healing all must have come to rest; a run ends earlier…"""
REST_NS = 3 * SECOND_NS
"""…if all were in one configuration for so long, with nothing outstanding."""
CONFIGURATIONS_MAX = 3
"""For each fault, and for each process at its beginning; one at the most is what runs show."""
FAULTS = ("part", "cut", "crash", "start", "pause", "heal")
Name = tuple[ProcessId, int]
"""Sender and number of a message."""


@dataclass
class Stay:
    """One process in one configuration."""

    view: View
    delivered: list[Name] = field(default_factory=list)
    regular: int | None = None
    """How many of these came before the transitional configuration."""
    mates: tuple[ProcessId, ...] = ()


@dataclass
class Life:
    """One incarnation of a process."""

    process: ProcessId
    engine: Engine
    stays: list[Stay] = field(default_factory=list)
    deadline_ns: int = 0
    accepted: int = 0
    paused: bool = False
    news: list[Name] = field(default_factory=list)
    """What it has sent and delivered, in order."""


def is_declaration(packet: bytes) -> bool:
    """Whether a packet only shows how the group is declared, which is alike everywhere."""
    kind, _, _, _, flags, _ = unseal(packet)
    return kind == MEMBERSHIP and flags == DECLARED


class Islands:
    """A group on a network of islands."""

    def __init__(self, seed: int, options: Options | None = None) -> None:
        self.random = Random(f"islands {seed}")
        self.seed = seed
        self.options = options or Options()
        self.count = self.random.randrange(2, 8)
        self.now_ns = 0
        self.heap: list[tuple[int, int, str, object]] = []
        self.serial = 0
        self.island = [0] * self.count
        self.cuts: set[tuple[int, int]] = set()
        self.loss = self.random.choice((0.0, 0.0, 0.02, 0.1))
        self.lives: list[Life | None] = [None] * self.count
        self.history: list[Life] = []
        self.levels: dict[Name, int] = {}
        self.view_of: dict[Name, int] = {}
        self.past: dict[Name, frozenset[Name]] = {}
        self.payloads: dict[Name, bytes] = {}
        self.aside = Random(f"islands {seed}, declarations")
        """For packets that change nothing here: with or without them, a seed is the run that it was."""
        self.subsets = Random(f"islands {seed}, subsets")
        self.has_subsets = self.subsets.random() < 0.5
        self.chosen: dict[Name, tuple[ProcessId, ...]] = {}
        """Destinations, where they were named."""
        self.incarnations = [0] * self.count
        founders = self.random.randrange(1, self.count + 1)
        names = tuple(f"p{place}" for place in range(founders))
        self.first = View(1, tuple(ProcessId(name) for name in names), names)
        self.problems: list[str] = []
        self.faults = 0

    # ---- running ---------------------------------------------------------------------------------------------------

    def at(self, when_ns: int, what: str, about: object = None) -> None:
        self.serial += 1
        heappush(self.heap, (when_ns, self.serial, what, about))

    def pop(self) -> tuple[int, int, str, object]:
        """What happens next."""
        return heappop(self.heap)

    def new_engine(self, process: ProcessId) -> Engine:
        return Engine(process, Random(f"{self.seed}/{process}"), self.options)

    def start(self, place: int) -> None:
        self.incarnations[place] += 1
        process = ProcessId(f"p{place}", self.incarnations[place])
        life = Life(process, self.new_engine(process))
        self.lives[place] = life
        self.history.append(life)
        founder = self.first.rank(process) >= 0
        contacts = tuple(f"p{other}" for other in range(self.count) if other != place)
        join = Join(
            group=GROUP, view=self.first if founder else None, stack="domain", policy="partitionable",
            address=process.name, contacts=() if founder else contacts,
        )  # fmt: skip
        self.step(place, join)

    def step(self, place: int, input: Input) -> Effects | None:
        life = self.lives[place]
        if life is None:
            return None
        effects = life.engine.step(input, self.now_ns)
        for event in effects.events:
            self.observe(life, event)
        for transmit in effects.transmits:
            for name in transmit.route.names():
                for packet in transmit.packets:
                    self.transmit(place, int(name[1:]), packet)
        life.deadline_ns = effects.deadline_ns
        self.at(max(effects.deadline_ns, self.now_ns), "tick", (place, life.process))
        return effects

    def transmit(self, source: int, target: int, packet: bytes) -> None:
        if source == target or self.island[source] != self.island[target] or (source, target) in self.cuts:
            return
        random = self.aside if is_declaration(packet) else self.random
        if random.random() >= self.loss:
            delay_ns = int(random.expovariate(1.0) * MILLISECOND_NS) + MILLISECOND_NS // 10
            self.at(self.now_ns + delay_ns, "packet", (source, target, packet))

    def observe(self, life: Life, event: object) -> None:
        if isinstance(event, Installed):
            life.stays.append(Stay(event.view))
        elif isinstance(event, Transitional):
            life.stays[-1].regular = len(life.stays[-1].delivered)
            life.stays[-1].mates = event.members
        elif isinstance(event, Sent):
            for number in range(event.number, event.number + event.count):
                name = (life.process, number)
                self.levels[name], self.view_of[name] = event.level, event.view_id
                self.past[name] = frozenset(life.news)
                life.news.append(name)
        elif isinstance(event, Delivered):
            if event.view_id != life.stays[-1].view.id:
                self.problems.append(f"{life.process} delivers in {event.view_id}, not in its configuration")
            for index, payload in enumerate(event.payloads):
                name = (event.sender, event.number + index)
                if self.payloads.get(name) != payload:
                    self.problems.append(f"{life.process} delivers {name}, which was not sent so")
                if not self.is_for(name, life.process):
                    self.problems.append(f"{life.process} delivers {name}, which is not for it")
                life.stays[-1].delivered.append(name)
                life.news.append(name)

    def send(self, place: int) -> None:
        life = self.lives[place]
        if life is None:
            return
        size = self.random.choice((0, 5, 100, 2_000))
        count = self.random.randrange(1, 4)
        payloads = [b"%s %d" % (repr(life.process).encode(), life.accepted + 1 + i) + bytes(size) for i in range(count)]
        to = self.choose(life)
        for index, payload in enumerate(payloads):
            self.payloads[life.process, life.accepted + 1 + index] = payload
            if to:
                self.chosen[life.process, life.accepted + 1 + index] = to
        level = self.random.choice((0, 1, 2, 3, 3, 4, 4))
        effects = self.step(place, Send(group=GROUP, payloads=payloads, level=level, destinations=to))
        assert effects is not None
        life.accepted += effects.accepted

    def choose(self, life: Life) -> tuple[ProcessId, ...]:
        """Members that the next messages are for; none: all."""
        members = life.stays[-1].view.members
        if not self.has_subsets or self.subsets.random() < 0.6:
            return ()
        return tuple(self.subsets.sample(members, self.subsets.randint(1, len(members))))

    def is_for(self, name: Name, process: ProcessId) -> bool:
        """Whether a process is among those that a message is for."""
        return name not in self.chosen or process in self.chosen[name]

    def happen(self, what: str, about: object) -> None:
        self.faults += what in FAULTS
        if what == "packet":
            assert isinstance(about, tuple)
            source, target, packet = about
            if self.island[source] == self.island[target]:
                self.step(target, Receive([packet]))
        elif what == "tick":
            assert isinstance(about, tuple)
            place, process = about
            life = self.lives[place]
            if life is not None and life.process == process and life.deadline_ns <= self.now_ns:
                self.step(place, Tick())
        elif what == "send":
            self.send(self.random.randrange(self.count))
        elif what == "start":
            place = self.random.randrange(self.count)
            if self.lives[place] is None:
                self.start(place)
        elif what == "crash":
            place = self.random.randrange(self.count)
            if sum(life is not None for life in self.lives) > 1:
                self.lives[place] = None
        elif what == "part":
            self.island = [self.random.randrange(self.random.choice((1, 2, 2, 3, 4))) for _ in range(self.count)]
        elif what == "cut":
            self.cuts = set()
            for _ in range(self.random.randrange(3)):
                one, other = self.random.randrange(self.count), self.random.randrange(self.count)
                self.cuts |= {(one, other)} if self.random.random() < 0.5 else {(one, other), (other, one)}
        elif what == "pause":
            place = self.random.randrange(self.count)
            life = self.lives[place]
            if life is not None and not life.paused:
                life.paused = True
                self.step(place, Pause(GROUP))
                self.at(self.now_ns + self.random.randrange(SECOND_NS), "resume", (place, life.process))
        elif what == "resume":
            assert isinstance(about, tuple)
            life = self.lives[about[0]]
            if life is not None and life.process == about[1]:
                life.paused = False
                self.step(about[0], Resume(GROUP))
        elif what == "heal":
            self.island, self.cuts = [0] * self.count, set()

    def run(self) -> None:
        """The whole run, and the quiet time after it."""
        random = self.random
        for place in range(self.count):
            self.at(random.randrange(3 * SECOND_NS) if place >= len(self.first.members) else 0, "begin", place)
        length_ns = random.choice((4, 8, 16)) * SECOND_NS
        for what, most in (("send", 60), ("part", 6), ("cut", 3), ("crash", 3), ("start", 5), ("pause", 3)):
            for _ in range(random.randrange(most + 1)):
                self.at(random.randrange(length_ns), what)
        for _ in range(random.randrange(4)):  # merges in the middle of merges
            at_ns = random.randrange(length_ns)
            for offset_ms in (0, random.randrange(200), random.randrange(400)):
                self.at(min(at_ns + offset_ms * MILLISECOND_NS, length_ns - 1), "part")
        self.at(length_ns, "heal")
        end_ns = length_ns + QUIET_NS
        self.settled_ns = self.one_since_ns = 0
        while self.heap and self.heap[0][0] <= end_ns:
            self.now_ns, _, what, about = self.pop()
            if what == "begin":
                assert isinstance(about, int)
                if self.lives[about] is None:
                    self.start(about)
            else:
                self.happen(what, about)
            if self.now_ns > length_ns and self.is_at_rest(length_ns):
                break

    def is_at_rest(self, healed_ns: int) -> bool:
        """Whether all were in one configuration for long, and nothing is on its way."""
        if not self.is_one():
            self.one_since_ns = 0
            return False
        if not self.one_since_ns:
            self.one_since_ns = self.now_ns
            self.settled_ns = self.settled_ns or self.now_ns - healed_ns
        running = [life for life in self.lives if life is not None]
        return self.now_ns > self.one_since_ns + REST_NS and not any(
            life.engine.outstanding(GROUP) or life.paused for life in running
        )

    def is_one(self) -> bool:
        """Whether all that run are in one configuration, of just them."""
        running = [life for life in self.lives if life is not None]
        views = {life.stays[-1].view.id for life in running}
        return len(views) == 1 and len(running[0].stays[-1].view.members) == len(running)

    # ---- judging ---------------------------------------------------------------------------------------------------

    def judge(self) -> list[str]:
        """What does not hold."""
        self._judge_views()
        for life in self.history:
            self._judge_life(life)
        self._judge_synchrony()
        self._judge_end()
        return self.problems

    def _judge_views(self) -> None:
        members: dict[int, tuple[ProcessId, ...]] = {}
        for life in self.history:
            ids = [stay.view.id for stay in life.stays]
            if ids != sorted(set(ids)):
                self.problems.append(f"the configurations of {life.process} do not rise")
            for stay in life.stays:
                if members.setdefault(stay.view.id, stay.view.members) != stay.view.members:
                    self.problems.append(f"two configurations have the id {stay.view.id}")
                if life.process not in stay.view.members:
                    self.problems.append(f"{life.process} is not in its own configuration")

    def _judge_life(self, life: Life) -> None:
        seen: set[Name] = set()
        last: dict[ProcessId, int] = {}
        for stay in life.stays:
            for name in stay.delivered:
                if name in seen:
                    self.problems.append(f"{life.process} delivers {name} twice")
                seen.add(name)
                level = self.levels.get(name, -1)
                if self.view_of.get(name) != stay.view.id:
                    self.problems.append(f"{life.process} delivers {name} in another configuration than it was sent in")
                if level >= FIFO:
                    if name[1] < last.get(name[0], 0):
                        self.problems.append(f"{life.process} delivers {name} out of its sender's order")
                    last[name[0]] = name[1]
                if level >= CAUSAL:
                    for before in self.past[name]:
                        owed = self.view_of[before] == stay.view.id and self.is_for(before, life.process)
                        if owed and self.levels[before] >= FIFO and before not in seen:
                            self.problems.append(f"{life.process} delivers {name} before {before}")

    def _judge_synchrony(self) -> None:
        """Processes of one configuration: what they deliver in it, by where they go next."""
        stays: dict[int, list[tuple[Life, Stay, int]]] = {}
        for life in self.history:
            for index, stay in enumerate(life.stays):
                follower = life.stays[index + 1].view.id if index + 1 < len(life.stays) else 0
                stays.setdefault(stay.view.id, []).append((life, stay, follower))
        for group in stays.values():
            for life, stay, follower in group:
                for other, stay2, follower2 in group:
                    if other.process < life.process:
                        self._compare(life, stay, follower, other, stay2, follower2)

    def _compare(self, life: Life, stay: Stay, follower: int, other: Life, stay2: Stay, follower2: int) -> None:
        pair = f"{life.process} and {other.process} in {stay.view.id}"
        all1, all2 = self.for_both(stay.delivered, life, other), self.for_both(stay2.delivered, life, other)
        regular1 = self.for_both(stay.delivered[: stay.regular], life, other)
        regular2 = self.for_both(stay2.delivered[: stay2.regular], life, other)
        one, two = self.ordered(all1), self.ordered(all2)
        early, early2 = self.ordered(regular1), self.ordered(regular2)
        same = min(len(early), len(early2))
        if early[:same] != early2[:same]:
            self.problems.append(f"{pair} differ in the agreed order")
        for mine, theirs, ended in ((early, two, follower2), (early2, one, follower)):
            last = max([index for index, name in enumerate(mine) if self.levels[name] == SAFE], default=-1)
            if ended and mine[: last + 1] != theirs[: last + 1]:
                self.problems.append(f"{pair}: a safe message was not delivered by both, at the same place")
        if not follower or follower != follower2:
            return
        if set(all1) != set(all2) or one != two:
            self.problems.append(f"{pair} go on together and have not delivered the same")
        self._judge_owed(life, other, stay2)
        self._judge_owed(other, life, stay)
        if set(regular1) != set(regular2) or stay.mates != stay2.mates:
            self.problems.append(f"{pair} go on together and differ in their transitional configuration")
        if life.process not in stay.mates or other.process not in stay.mates:
            self.problems.append(f"{pair} go on together and the transitional configuration lacks one")

    def _judge_owed(self, sender: Life, receiver: Life, stay: Stay) -> None:
        """What a process has sent in a configuration is delivered by whoever it is for and stays with it."""
        delivered = set(stay.delivered)
        for name, view_id in self.view_of.items():
            is_sent = name[0] == sender.process and view_id == stay.view.id
            if is_sent and self.is_for(name, receiver.process) and name not in delivered:
                self.problems.append(f"{receiver.process} goes on with {sender.process} and lacks {name}")

    def for_both(self, names: list[Name], life: Life, other: Life) -> list[Name]:
        """Those of these messages that are for both."""
        return [name for name in names if self.is_for(name, life.process) and self.is_for(name, other.process)]

    def ordered(self, names: list[Name]) -> list[Name]:
        return [name for name in names if self.levels.get(name, -1) >= AGREED]

    def _judge_end(self) -> None:
        if self.configurations() > CONFIGURATIONS_MAX * (self.faults + self.count):
            self.problems.append(f"{self.configurations()} configurations for {self.faults} faults")
        running = [life for life in self.lives if life is not None]
        if not self.is_one():
            views = [(life.process, life.stays[-1].view) for life in running]
            self.problems.append(f"there is not one configuration in the end: {views}")
            return
        for life in running:
            own = {name for stay in life.stays for name in stay.delivered if name[0] == life.process}
            owed = sum(self.is_for((life.process, number), life.process) for number in range(1, life.accepted + 1))
            if len(own) != owed:
                self.problems.append(f"{life.process} has sent {owed} to itself too and delivered {len(own)} of them")
            for other in running:
                self._judge_owed(other, life, life.stays[-1])

    def configurations(self) -> int:
        """How many configurations there were."""
        return len({stay.view.id for life in self.history for stay in life.stays})


def judge_seed(seed: int) -> tuple[list[str], Islands]:
    """Run one seed; what does not hold of it."""
    islands = Islands(seed)
    islands.run()
    return islands.judge(), islands


def summary_of(seed: int) -> tuple[int, list[str], int, int, int]:
    """Run one seed: itself, what does not hold, configurations, deliveries, time from healing to one configuration."""
    try:
        problems, islands = judge_seed(seed)
    except (AssertionError, LookupError, ValueError) as error:
        return seed, [f"{type(error).__name__}: {error}"], 0, 0, 0
    delivered = sum(len(stay.delivered) for life in islands.history for stay in life.stays)
    return seed, problems, islands.configurations(), delivered, islands.settled_ns


def main() -> None:
    """Run many seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="from:to, the last one excluded")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    parser.add_argument("--seconds", type=float, help="begin no further seed after so long")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    begun_s = time.monotonic()
    failed = configurations = delivered = 0
    settled: list[int] = []
    outcomes = run_seeds(summary_of, first, last, given.jobs, given.seconds)
    for seed, problems, installed, count, settled_ns in outcomes:
        configurations += installed
        delivered += count
        settled.append(settled_ns)
        if problems:
            failed += 1
            print(f"seed {seed}: {len(problems)} problems, the first: {problems[0]}", flush=True)
        if len(settled) % 1000 == 0:
            print(f"{len(settled)} seeds, {failed} failed", flush=True)
    settled.sort()
    took_s = time.monotonic() - begun_s
    print(
        f"{len(settled)} seeds, {failed} failed, {configurations} configurations, {delivered} deliveries, "
        f"one configuration {settled[len(settled) // 2] / 1e6:.0f} ms after healing at the median, "
        f"{settled[-1] / 1e6:.0f} ms at most, {60 * len(settled) / took_s:.0f} seeds a minute"
    )


if __name__ == "__main__":
    main()
