"""A small world that makes histories in which every promise is kept, independent of the toolkit.

Each process keeps the set of messages that it knows of; a message carries the set that its sender knew. A process
delivers a message when it has delivered everything in that set that is meant for it. That is causal order by its
definition, with no protocol at all. Agreed and safe messages are delivered in the order in which they were sent. Before
a view changes, everybody alive delivers all there is, but for some of those who leave.
"""

from collections import defaultdict
from dataclasses import dataclass
from random import Random
from zlib import crc32

from antiphon.history.log import MemoryLog
from antiphon.history.schema import BARRIER, LEAVES, LEFT, LEVELS, Row

MESSAGE_PROMISES = ("creation", "duplication", "fifo", "causal", "content", "settled")
ORDER_PROMISES = ("total", "safe", "group_broadcast")
VIEW_PROMISES = ("view_agreement", "view_synchrony", "view_sending", "primary", "silence")
PROMISES = (*MESSAGE_PROMISES, *ORDER_PROMISES, *VIEW_PROMISES)

ORDERED = ("agreed", "safe")

Name = tuple[str, str, int]
"""A message: group, sender, number."""


@dataclass(frozen=True)
class Sent:
    """A message on its way."""

    name: Name
    level: str
    past: frozenset[Name]


class World:
    """Processes p0, p1… in groups g0 (everybody but the last `late` ones), g1…; each step is drawn by chance."""

    def __init__(self, random: Random, run: str, processes: int, groups: int, merge: bool, late: int = 0) -> None:
        self.random = random
        self.names = [f"p{place}" for place in range(processes)]
        self.logs = {name: MemoryLog(run=run, process=name, merge=merge) for name in self.names}
        self.members = {f"g{place}": self._some_members(place, late) for place in range(groups)}
        self.time_ns = 0
        self._views = dict.fromkeys(self.members, 1)
        self._promises: tuple[str, ...] = ()
        self._been = {group: set(members) for group, members in self.members.items()}
        self._audience: dict[Name, frozenset[str]] = {}
        self._ordered: list[Name] = []
        self._left: set[tuple[str, str]] = set()
        self._known: dict[str, set[Name]] = defaultdict(set)
        self._delivered: dict[str, set[Name]] = defaultdict(set)
        self._numbers: dict[tuple[str, str], int] = defaultdict(int)
        self._waiting: dict[str, list[Sent]] = defaultdict(list)

    def start(self, promises: tuple[str, ...]) -> None:
        self._promises = promises
        for group, members in self.members.items():
            for name in members:
                self._install(group, name, joins=True)

    def send(self, name: str, level: str) -> None:
        """To all members of some group, or, what is causal at most, now and then to one."""
        groups = [group for group, members in self.members.items() if name in members]
        if not groups:
            return
        group = self.random.choice(groups)
        to_one = level not in ORDERED and self.random.random() < 0.15
        meant = [self.random.choice(self.members[group])] if to_one else self.members[group]
        message = self._number(group, name, level, frozenset(meant))
        destinations = tuple(f"{member}/1" for member in meant) if to_one else None
        number, digest = message.name[2], digest_of(message.name)
        view, log = self._views[group], self.logs[name]
        if self.random.random() < 0.5:
            log.send(self.time_ns, group, view, number, 1, level, 8, destinations, digest=digest)
        else:
            log.send(self.time_ns, group, None, number, 1, level, 8, destinations, digest=digest)
            log.depart(self.time_ns, group, view, number, 1, 8)
        for member in meant:
            self._waiting[member].append(message)

    def barrier(self, alive: list[str]) -> None:
        """Somebody sends a barrier: everybody alive delivers all there is, then the barrier, then the next view."""
        group = self.random.choice(list(self.members))
        present = [name for name in self.members[group] if name in alive]
        if not present:
            return
        self._flush(alive)
        name = self.random.choice(present)
        message = self._number(group, name, "safe", frozenset(self.members[group]))
        number, view = message.name[2], self._views[group]
        self.logs[name].send(self.time_ns, group, view, number, 1, "safe", 8, label=BARRIER)
        self._views[group] += 1
        for member in present:
            self.logs[member].deliver(self.time_ns, group, view, name, 1, number, 1, "safe", 8, BARRIER)
            self._delivered[member].add(message.name)
            self._known[member] |= message.past | {message.name}
            self._install(group, member, joins=False)

    def _number(self, group: str, name: str, level: str, meant: frozenset[str]) -> Sent:
        """A new message, about to be sent."""
        self._numbers[group, name] += 1
        message = Sent((group, name, self._numbers[group, name]), level, frozenset(self._known[name]))
        self._audience[message.name] = meant
        self._known[name].add(message.name)
        if level in ORDERED:
            self._ordered.append(message.name)
        return message

    def deliver(self, name: str) -> bool:
        """Deliver one of the messages that may be delivered now, if any."""
        ready = [message for message in self._waiting[name] if self._is_ready(message, name)]
        if not ready:
            return False
        message = self.random.choice(ready[:3])
        group, sender, number = message.name
        self._waiting[name].remove(message)
        everybody = frozenset(self.members[group]) <= self._audience[message.name]
        destinations = None if everybody else (f"{name}/1",)
        digest = digest_of(message.name)
        self.logs[name].deliver(
            *(self.time_ns, group, self._views[group], sender, 1, number, 1, message.level, 8, None),
            *(destinations, digest),
        )
        self._delivered[name].add(message.name)
        self._known[name] |= message.past | {message.name}
        return True

    def change_view(self, alive: list[str]) -> None:
        """The dead are dropped from a group, if they are few enough; and somebody joins it, or leaves it."""
        group = self.random.choice(list(self.members))
        before = self.members[group]
        left = {name for name in before if name in alive and self.random.random() < 0.15}
        joining = [name for name in alive if name not in self._been[group] and self.random.random() < 0.5]
        present = [name for name in before if name in alive]
        after = [name for name in present if name not in left] + joining
        half = 2 * len(present) == len(before) and before[0] in present
        if after == before or not after or not (half or 2 * len(present) > len(before)):
            return
        self._flush([name for name in alive if name not in left or self.random.random() < 0.5])
        for name in left:
            self.logs[name].note(self.time_ns, LEAVES, self.random.choice((group, None)))
            self.logs[name].note(self.time_ns, LEFT, group)
            self._left.add((group, name))
            self._waiting[name] = [message for message in self._waiting[name] if message.name[0] != group]
        self.members[group] = after
        self._views[group] += 1
        self._been[group] |= set(joining)
        for name in after:
            self._install(group, name, joins=name in joining)

    def _flush(self, names: list[str]) -> None:
        for name in names:
            while self.deliver(name):
                pass

    def _install(self, group: str, name: str, *, joins: bool) -> None:
        log = self.logs[name]
        if joins:
            log.start(self.time_ns, group, "toy", "primary", LEVELS, self._promises)
        log.view(self.time_ns, group, self._views[group], [f"{member}/1" for member in self.members[group]])

    def _is_ready(self, message: Sent, name: str) -> bool:
        owed = {earlier for earlier in message.past if self._is_owed(earlier, name)}
        if message.level == "fifo":
            owed = {earlier for earlier in owed if earlier[:2] == message.name[:2]}
        if message.level in ORDERED:
            before = self._ordered[: self._ordered.index(message.name)]
            owed |= {earlier for earlier in before if earlier[0] == message.name[0] and self._is_owed(earlier, name)}
        return message.level == "reliable" or owed <= self._delivered[name]

    def _is_owed(self, message: Name, name: str) -> bool:
        return name in self._audience[message] and (message[0], name) not in self._left

    def _some_members(self, place: int, late: int) -> list[str]:
        least = min(2, len(self.names))
        return (
            self.names[: len(self.names) - late]
            if place == 0
            else sorted(self.random.sample(self.names, self.random.randint(least, len(self.names))))
        )


def make_history(
    random: Random,
    *,
    run: str = "r",
    processes: int = 3,
    groups: int = 1,
    steps: int = 40,
    levels: tuple[str, ...] = ("causal",),
    crashes: int = 0,
    promises: tuple[str, ...] = PROMISES,
    merge: bool = True,
    views: int = 0,
    barriers: int = 0,
) -> list[MemoryLog]:
    """The logs of a run; the first `crashes` processes die half way; `views` times a view may change."""
    world = World(random, run, processes, groups, merge, late=random.randint(0, (processes - 1) // 2) if views else 0)
    world.start(promises)
    alive = list(world.names)
    changes = {random.randrange(steps) for _ in range(views)}
    barrier_steps = {random.randrange(steps) for _ in range(barriers)}
    for step in range(steps):
        world.time_ns += random.randint(1, 150_000)
        if step in changes:
            world.change_view(alive)
        if step in barrier_steps:
            world.barrier(alive)
        name = random.choice(alive)
        if step > steps // 2 and name in world.names[:crashes] and len(alive) > 1:
            world.logs[name].crash(world.time_ns, "killed")
            alive.remove(name)
        elif random.random() < 0.3:
            world.send(name, random.choice(levels))
        else:
            for _ in range(random.randint(1, 4)):
                world.deliver(name)
    for name in alive:
        while world.deliver(name):
            world.time_ns += 1000
        world.logs[name].stop(world.time_ns)
    return list(world.logs.values())


def digest_of(message: Name) -> str:
    """As if the name of a message were its payload."""
    return f"{crc32(repr(message).encode()):08x}"


def rows_of(logs: list[MemoryLog]) -> list[Row]:
    return [row for log in logs for row in log.rows()]
