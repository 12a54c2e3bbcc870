"""group_broadcast: a barrier stands at the same place among all other deliveries, at all members.

The summaries tell what each process delivered between barriers. So for each barrier, what anybody had before it and
what anybody got after it are a few intervals per sender; what is in both is violated, what is in either was looked at.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.view_intervals import ViewCounts, ViewViolation
from antiphon.pipeline.audit.view_synchrony import Sendings
from antiphon.pipeline.explain import MessageName, group_broadcast_text
from antiphon.pipeline.intervals import EMPTY, Spans, difference, intersection, span, union

BySender = dict[str, Spans]


@dataclass
class _BarrierIntervals:
    """A barrier at one process: what it had delivered of the group before it, and what it delivered after it."""

    before: BySender
    after: BySender


@dataclass
class _Read:
    """What a log holds of a group, as far as it has been read."""

    delivered: BySender = field(default_factory=dict)
    barriers: dict[MessageName, BySender] = field(default_factory=dict)
    """What came before the first delivery of each."""

    def add(self, entry: Mapping[str, Any], sendings: Sendings) -> None:
        sender = entry["sender"]
        spans = sendings.existing((entry["group"], sender), Spans(entry["starts"], entry["ends"]))
        self.delivered[sender] = union(self.delivered.get(sender, EMPTY), spans)


def count(group: str, logs: Mapping[str, LogFacts], sendings: Sendings) -> ViewCounts:
    violations = checked = 0
    barriers: set[MessageName] = set()
    astray: dict[str, list[Spans]] = defaultdict(list)
    first_violation: ViewViolation | None = None
    for barrier, by_process in sorted(_barriers(group, logs, sendings).items()):
        before = _together([marked.before for marked in by_process.values()])
        after = _together([marked.after for marked in by_process.values()])
        for sender in sorted(before.keys() | after.keys()):
            one, other = before.get(sender, EMPTY), after.get(sender, EMPTY)
            both = intersection(one, other)
            checked += union(one, other).size()
            violations += both.size()
            if both.size():
                barriers.add(barrier)
                astray[sender].append(both)
            if both.size() and first_violation is None:
                first_violation = _first_violation(MessageName(group, sender, int(both.starts[0])), barrier, by_process)
    messages = sum(union(*spans).size() for spans in astray.values())
    return ViewCounts(violations, 0, checked, first_violation, min(len(barriers), messages))


def _barriers(
    group: str, logs: Mapping[str, LogFacts], sendings: Sendings
) -> dict[MessageName, dict[str, _BarrierIntervals]]:
    result: dict[MessageName, dict[str, _BarrierIntervals]] = defaultdict(dict)
    for process, log in logs.items():
        if not any(mark["group"] == group for piece in log.pieces for mark in piece["barriers"]):
            continue
        read = _read(group, log, sendings)
        for barrier, before in read.barriers.items():
            number = span(barrier.number, barrier.number + 1)
            if sendings.existing((group, barrier.sender), number).size():
                before[barrier.sender] = difference(before.get(barrier.sender, EMPTY), number)
                after = {
                    sender: difference(spans, before.get(sender, EMPTY)) for sender, spans in read.delivered.items()
                }
                after[barrier.sender] = difference(after[barrier.sender], number)
                result[barrier][process] = _BarrierIntervals(before, after)
    return result


def _read(group: str, log: LogFacts, sendings: Sendings) -> _Read:
    """Go through a log from barrier to barrier."""
    read = _Read()
    for piece in log.pieces:
        marks = [mark for mark in piece["barriers"] if mark["group"] == group]
        entries = piece["between"] if marks else [entry | {"stretch": 0} for entry in piece["delivered"]]
        waiting = deque(sorted((entry for entry in entries if entry["group"] == group), key=_stretch))
        for place, mark in enumerate(marks):
            while waiting and waiting[0]["stretch"] <= place:
                read.add(waiting.popleft(), sendings)
            read.barriers.setdefault(MessageName(group, mark["sender"], mark["number"]), dict(read.delivered))
        for entry in waiting:
            read.add(entry, sendings)
    return read


def _stretch(entry: Mapping[str, Any]) -> int:
    return int(entry["stretch"])


def _together(parts: list[BySender]) -> BySender:
    by_sender: dict[str, list[Spans]] = defaultdict(list)
    for part in parts:
        for sender, spans in part.items():
            by_sender[sender].append(spans)
    return {sender: union(*spans) for sender, spans in by_sender.items()}


def _first_violation(
    message: MessageName, barrier: MessageName, by_process: Mapping[str, _BarrierIntervals]
) -> ViewViolation:
    number = np.array([message.number])
    one = next(name for name, own in by_process.items() if own.before.get(message.sender, EMPTY).holds(number)[0])
    other = next(name for name, own in by_process.items() if own.after.get(message.sender, EMPTY).holds(number)[0])
    deliveries = ((one, message), (one, barrier), (other, barrier), (other, message))
    return ViewViolation(group_broadcast_text(message, barrier, one, other), (), deliveries)
