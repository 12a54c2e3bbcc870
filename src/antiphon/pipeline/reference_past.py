"""What lies in a message's past, for the reference auditor, and the chain of steps that leads there.

The *strong* past leaves out what only a message below causal could have told of: such a message is delivered without
waiting for its past, so with it only the message itself becomes known. The terms are those of
`antiphon.pipeline.reference`.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from antiphon.history.schema import LEVELS
from antiphon.pipeline.explain import Link, MessageName
from antiphon.pipeline.reference_world import KnownLog, ReferenceWorld

AT_LEAST_CAUSAL = frozenset(LEVELS[LEVELS.index("causal") :])


@dataclass
class _LogWalk:
    """How far one log has been walked, and what its process knew there."""

    log: KnownLog
    place: int = 0
    known: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By domain."""


class Pasts:
    """The past, or the strong past, of every message of a run."""

    def __init__(self, world: ReferenceWorld, *, strong: bool = False) -> None:
        self._world = world
        self._strong = strong
        self._past: dict[MessageName, int] = {}
        self._find()

    def of(self, message: MessageName) -> int:
        return self._past[message]

    def _find(self) -> None:
        """Walk all logs side by side, each waiting where it delivers what is not yet sent.

        A cycle makes some wait for ever; then everything is swept over again and again until nothing changes.
        """
        logs = self._world.logs.values()
        runnable = deque(_LogWalk(log) for log in logs)
        waiting: dict[MessageName, list[_LogWalk]] = defaultdict(list)
        while runnable:
            walk = runnable.popleft()
            for message in self._advance(walk, waiting):
                runnable.extend(waiting.pop(message, ()))
        while waiting:
            before = dict(self._past)
            for log in logs:
                for _ in self._advance(_LogWalk(log), None):
                    pass
            if self._past == before:
                break

    def _advance(self, walk: _LogWalk, waiting: dict[MessageName, list[_LogWalk]] | None) -> Iterator[MessageName]:
        """Walk on and tell which messages were sent; without `waiting`, what is not yet sent counts as without past."""
        events = walk.log.events
        while walk.place < len(events):
            row, message = events[walk.place]
            bit, domain = self._world.bit.get(message), self._world.domain(message.group)
            if row.kind == "send":
                self._past[message] = walk.known[domain]
                walk.known[domain] |= self._world.bit[message]
                yield message
            elif bit is not None:
                if waiting is not None and message not in self._past:
                    waiting[message].append(walk)
                    return
                tells_its_past = not self._strong or row.level in AT_LEAST_CAUSAL
                walk.known[domain] |= bit | (self._past.get(message, 0) if tells_its_past else 0)
            walk.place += 1
        for (group, sender), messages in self._world.off_record.items():
            if sender == walk.log.process:
                known = walk.known[self._world.domain(group)]
                for message in sorted(messages):
                    self._past[message] = known
                    known |= self._world.bit[message]
                    yield message


def has_weak_deliveries(world: ReferenceWorld) -> bool:
    """Whether anything was delivered below causal."""
    return any(
        row.kind == "deliver" and row.level not in AT_LEAST_CAUSAL for log in world.logs.values() for row in log.rows
    )


def chain(world: ReferenceWorld, message: MessageName, wanted: int) -> list[Link]:
    """The shortest chain of steps that leads from one of the `wanted` messages to `message`, first step first."""
    step: dict[MessageName, MessageName] = {}
    frontier = deque([message])
    while frontier:
        sent = frontier.popleft()
        for earlier in _known_at_send(world, sent):
            if earlier in step or earlier not in world.bit:
                continue
            step[earlier] = sent
            if world.bit[earlier] & wanted:
                return _links(step, earlier, message)
            frontier.append(earlier)
    raise AssertionError("what lies in the past is reached by a chain")


def _known_at_send(world: ReferenceWorld, sent: MessageName) -> Iterator[MessageName]:
    """What its sender had sent or delivered when it sent `sent`."""
    place, domain = world.sent_at.get(sent), world.domain(sent.group)
    for _, earlier in world.logs[sent.sender].events[:place]:
        if world.domain(earlier.group) == domain:
            yield earlier
    if place is None:
        yield from (other for other in world.off_record[sent.group, sent.sender] if other.number < sent.number)


def _links(step: dict[MessageName, MessageName], first: MessageName, last: MessageName) -> list[Link]:
    links = [Link(first, step[first])]
    while links[-1].sent != last:
        links.append(Link(links[-1].sent, step[links[-1].sent]))
    return links
