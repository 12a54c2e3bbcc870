"""A small world of one group whose views part and merge, in which every promise is kept, independent of the toolkit.

As in `tests.pipeline.histories` a message carries what its sender knew, and is delivered when all of that which was
sent in the same view is delivered. Ordered messages of a view have one order. Where a view ends, each set of members
that go on together agrees on what counts, delivers it in its part of the view, and behind the transitional row, in an
order of its own, the rest of what its members sent. Everything else is lost to it.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

from antiphon.history.log import MemoryLog
from antiphon.history.schema import GROUP_SCOPE, LEVELS
from tests.pipeline.histories import Name, Sent, digest_of

GROUP = "g"
PARTED_PROMISES = (
    *("creation", "duplication", "fifo", "causal", "total", "content", "safe", "view_agreement", "view_synchrony"),
    *("silence", "transitional", "merged", "settled"),
)


@dataclass
class Configuration:
    """A view and what was sent in it."""

    id: int
    members: list[str]
    sent: dict[Name, Sent] = field(default_factory=dict)
    ordered: list[Name] = field(default_factory=list)
    safe: set[Name] = field(default_factory=set)
    """What somebody delivered there as safe."""


class PartedWorld:
    """Processes p0, p1…, each in a configuration."""

    def __init__(self, random: Random, run: str, processes: int, merge: bool) -> None:
        self.random = random
        self.names = [f"p{place}" for place in range(processes)]
        self.logs = {name: MemoryLog(run=run, process=name, merge=merge) for name in self.names}
        self.alive = list(self.names)
        self.time_ns = 0
        self._last_id = 1
        self._in: dict[str, Configuration] = {}
        self._delivered: dict[str, set[Name]] = defaultdict(set)
        self._known: dict[str, set[Name]] = defaultdict(set)
        self._numbers: dict[str, int] = defaultdict(int)
        first = Configuration(1, self.names)
        for name in self.names:
            self.logs[name].start(0, GROUP, "toy", "partitionable", LEVELS, PARTED_PROMISES, GROUP_SCOPE)
            self._install(name, first)

    def _install(self, name: str, configuration: Configuration) -> None:
        self._in[name] = configuration
        members = [f"{member}/1" for member in configuration.members]
        self.logs[name].view(self.time_ns, GROUP, configuration.id, members)

    def send(self, name: str, level: str) -> None:
        self._numbers[name] += 1
        here, number = self._in[name], self._numbers[name]
        message = Sent((GROUP, name, number), level, frozenset(self._known[name]))
        here.sent[message.name] = message
        self._known[name].add(message.name)
        if level in ("agreed", "safe"):
            here.ordered.append(message.name)
        self.logs[name].send(self.time_ns, GROUP, here.id, number, 1, level, 8, digest=digest_of(message.name))

    def deliver(self, name: str) -> bool:
        """Deliver one of the messages of the view that may be delivered now, if any."""
        here = self._in[name]
        ready = [sent for sent in here.sent.values() if self._is_ready(sent, name)]
        if not ready:
            return False
        self._hand_over(self.random.choice(ready[:3]), name, here, regular=True)
        return True

    def _is_ready(self, sent: Sent, name: str) -> bool:
        here = self._in[name]
        if sent.name in self._delivered[name] or sent.level == "reliable":
            return sent.name not in self._delivered[name]
        needed = {earlier for earlier in sent.past if earlier in here.sent}
        if sent.name in here.ordered:
            needed |= set(here.ordered[: here.ordered.index(sent.name)])
        return needed <= self._delivered[name]

    def _hand_over(self, sent: Sent, name: str, here: Configuration, regular: bool) -> None:
        _, sender, number = sent.name
        digest = digest_of(sent.name)
        self.logs[name].deliver(self.time_ns, GROUP, here.id, sender, 1, number, 1, sent.level, 8, None, None, digest)
        self._delivered[name].add(sent.name)
        self._known[name] |= sent.past | {sent.name}
        if sent.level == "safe" and regular:
            here.safe.add(sent.name)

    def crash(self) -> None:
        if len(self.alive) > 1:
            name = self.random.choice(self.alive)
            self.alive.remove(name)
            self.logs[name].crash(self.time_ns, "killed")

    def change(self, islands: int) -> None:
        """The living are in so many components from here on."""
        place = {name: self.random.randrange(islands) for name in self.alive}
        for island in range(islands):
            members = [name for name in self.alive if place[name] == island]
            if members and any(set(self._in[name].members) != set(members) for name in members):
                self._last_id += self.random.randint(1, 3)
                self._go_on(members, Configuration(self._last_id, members))

    def _go_on(self, members: list[str], after: Configuration) -> None:
        for id in sorted({self._in[name].id for name in members}):
            mates = [name for name in members if self._in[name].id == id]
            before = self._in[mates[0]]
            counted = self._closed(before, before.safe.union(*(self._delivered[name] for name in mates)))
            own = {name for name in before.sent if name[1] in mates}
            rest = [name for name in before.sent if name in self._closed(before, own | counted, places=False) - counted]
            order = self._shuffled(before, rest)
            for name in mates:
                while ready := [before.sent[each] for each in counted if self._is_ready(before.sent[each], name)]:
                    self._hand_over(min(ready, key=lambda sent: sent.name), name, before, regular=True)
                self.logs[name].transitional(self.time_ns, GROUP, before.id, [f"{mate}/1" for mate in mates])
                for each in order:
                    self._hand_over(before.sent[each], name, before, regular=False)
        for name in members:
            self._install(name, after)

    def _closed(self, before: Configuration, names: set[Name], places: bool = True) -> set[Name]:
        """Messages of a view and all that must be delivered before them."""
        result = {name for name in names if name in before.sent}
        while True:
            more = {earlier for name in result for earlier in before.sent[name].past if earlier in before.sent}
            if places:
                last = max((before.ordered.index(name) for name in result | more if name in before.ordered), default=-1)
                more |= set(before.ordered[: last + 1])
            if more <= result:
                return result
            result |= more

    def _shuffled(self, before: Configuration, names: list[Name]) -> list[Name]:
        """In any order in which each comes behind its past."""
        left, result = list(names), list[Name]()
        while left:
            ready = [name for name in left if not before.sent[name].past & set(left)]
            result.append(self.random.choice(ready))
            left.remove(result[-1])
        return result

    def finish(self) -> None:
        """All come together, deliver everything and stop."""
        if any(set(self._in[name].members) != set(self.alive) for name in self.alive):
            self.change(1)
        for name in self.alive:
            while self.deliver(name):
                self.time_ns += 1000
            self.logs[name].stop(self.time_ns)


def make_parted_history(
    random: Random,
    *,
    run: str = "r",
    processes: int = 4,
    steps: int = 40,
    levels: tuple[str, ...] = ("fifo", "causal", "agreed", "safe"),
    changes: int = 3,
    crashes: int = 0,
    merge: bool = True,
) -> list[MemoryLog]:
    """The logs of a run that parts and merges up to `changes` times."""
    world = PartedWorld(random, run, processes, merge)
    change_steps = {random.randrange(steps) for _ in range(changes)}
    crash_steps = {random.randrange(steps) for _ in range(crashes)}
    for step in range(steps):
        world.time_ns += random.randint(1, 150_000)
        if step in change_steps:
            world.change(random.randint(1, 3))
        if step in crash_steps:
            world.crash()
        name = random.choice(world.alive)
        if random.random() < 0.35:
            world.send(name, random.choice(levels))
        else:
            for _ in range(random.randint(1, 4)):
                world.deliver(name)
    world.finish()
    return list(world.logs.values())
