"""What is counted of one node while somebody observes it: messages, views, suspicions, latencies, the last events.

The driver tells it of each batch that leaves or is delivered, and of each event of the membership. A node that nobody
observes has no meter, and pays one comparison per batch for it.

Latency is sampled. At most one message per group and level is timed: from the moment at which it left in a packet to
its delivery at its own sender. For `agreed` and `safe` that is the time that the order took; a `reliable`, `fifo` or
`causal` message is delivered to its own sender at once.

Bounds: EVENTS_MAX events, and the counts of GROUPS_MAX groups; beyond that the oldest is forgotten.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from antiphon.kernel.effects import (
    DeclaredDifferently,
    Delivered,
    Ended,
    Event,
    Installed,
    MajorityLost,
    RecoveryAsked,
    Sent,
    Suspected,
)
from antiphon.kernel.identity import ProcessId

EVENTS_MAX: Final = 200
GROUPS_MAX: Final = 1024
LATENCY_S: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Upper bounds of the buckets of latencies; a last bucket holds what takes longer."""


@final
class LatencyHistogram:
    """Counts of durations by bucket."""

    __slots__ = ("buckets", "count", "longest_s", "sum_s")

    def __init__(self) -> None:
        self.buckets = [0] * (len(LATENCY_S) + 1)
        self.count = 0
        self.sum_s = 0.0
        self.longest_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.buckets[bisect_left(LATENCY_S, seconds)] += 1
        self.count += 1
        self.sum_s += seconds
        self.longest_s = max(self.longest_s, seconds)

    def quantile_s(self, share: float) -> float:
        """The upper bound of the bucket in which this share of all durations ends; 0 where nothing was counted."""
        wanted = share * self.count
        seen = 0
        for place, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return min(self.longest_s, LATENCY_S[place]) if place < len(LATENCY_S) else self.longest_s
        return 0.0


@final
class GroupMeter:
    """What happened in one group since it was joined, or since it was first observed. Levels are those of the wire."""

    __slots__ = (
        "delivered",
        "delivered_bytes",
        "ended",
        "latency",
        "sent",
        "sent_bytes",
        "stability",
        "stalls",
        "suspicions",
        "timed",
        "views",
    )

    def __init__(self) -> None:
        self.sent: dict[int, int] = {}
        self.sent_bytes: dict[int, int] = {}
        self.delivered: dict[int, int] = {}
        self.delivered_bytes: dict[int, int] = {}
        self.views = 0
        self.suspicions = 0
        self.stalls = 0
        self.latency: dict[int, LatencyHistogram] = {}
        """By level."""
        self.stability = LatencyHistogram()
        """How long it took until all members had what was sent and delivered (observer.py)."""
        self.timed: dict[int, tuple[int, int]] = {}
        """By level: the number of the message that is being timed, and when it left."""
        self.ended = ""
        """Why the others ended this membership: "excluded" or "refused"."""


@dataclass(frozen=True, slots=True)
class ObservedEvent:
    """Something that an operator may want to know of."""

    time_ns: int
    group: str
    kind: str
    text: str


@final
class Meter:
    """Told by the driver of one node (`runtime.handlers.DriverMeter`)."""

    def __init__(self, wall_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self.groups: dict[str, GroupMeter] = {}
        self.events: deque[ObservedEvent] = deque(maxlen=EVENTS_MAX)

    def counts(self, group: str) -> GroupMeter:
        """The counts of a group."""
        found = self.groups.get(group)
        if found is None:
            while len(self.groups) >= GROUPS_MAX:
                del self.groups[next(iter(self.groups))]
            found = self.groups[group] = GroupMeter()
        return found

    def sent(self, event: Sent, now_ns: int) -> None:
        counts = self.counts(event.group)
        level = event.level
        counts.sent[level] = counts.sent.get(level, 0) + event.count
        counts.sent_bytes[level] = counts.sent_bytes.get(level, 0) + event.size
        if level not in counts.timed and not event.destinations and not event.barrier:
            counts.timed[level] = (event.number, now_ns)

    def delivered(self, event: Delivered, process: ProcessId, now_ns: int) -> None:
        counts = self.counts(event.group)
        level = event.level
        count = len(event.payloads)
        counts.delivered[level] = counts.delivered.get(level, 0) + count
        counts.delivered_bytes[level] = counts.delivered_bytes.get(level, 0) + event.size
        if level in counts.timed and event.sender == process:
            number, left_ns = counts.timed[level]
            if number < event.number + count:
                del counts.timed[level]
                if number >= event.number:
                    counts.latency.setdefault(level, LatencyHistogram()).add((now_ns - left_ns) / 1e9)

    def membership(self, event: Event) -> None:
        """Something about who is in a group."""
        if isinstance(event, Installed):
            counts = self.counts(event.group)
            counts.views += 1
            counts.ended = ""
            words = {"joined": event.joined, "left": event.left, "failed": event.failed}
            told = [f"{word} {_names(who)}" for word, who in words.items() if who]
            self._note(event.group, "view", "; ".join([f"view {event.view.id}: {_names(event.view.members)}", *told]))
        elif isinstance(event, Suspected):
            self.counts(event.group).suspicions += 1
            self._note(event.group, "suspicion", f"{event.process!r} is suspected in view {event.view_id}")
        elif isinstance(event, MajorityLost):
            self.counts(event.group).stalls += 1
            self._note(event.group, "stall", "no majority can be reached; the group stands still here")
        elif isinstance(event, Ended):
            self._end(event)
        elif isinstance(event, RecoveryAsked):
            self._note(event.group, "recovery", "an operator has it go on without a majority")
        elif isinstance(event, DeclaredDifferently):
            self._note(event.group, "declaration", f"goes on without {event.process!r}: {event.reason}")

    def _end(self, event: Ended) -> None:
        if event.excluded:
            counts = self.counts(event.group)
            counts.timed.clear()
            counts.ended = "refused" if event.refused else "excluded"
            self._note(event.group, counts.ended, event.reason or f"the others {counts.ended} this process")
        else:
            self.groups.pop(event.group, None)
            self._note(event.group, "left", "this process has left")

    def _note(self, group: str, kind: str, text: str) -> None:
        self.events.append(ObservedEvent(self._wall_ns(), group, kind, text))


def _names(processes: tuple[ProcessId, ...]) -> str:
    return ", ".join(repr(process) for process in processes)
