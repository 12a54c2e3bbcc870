"""view_synchrony: processes that go from view v to the same next view delivered the same messages in v.

What any of them delivered in v, all must have delivered in v, but for messages to destinations that leave them out.
What was never sent does not count. Where the sender's log does not tell for whom a message was, the deliver rows do; if
they do not either (histories of version 1), what is lacking is unknown.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from antiphon.pipeline.audit.logs import ENDLESS, LogFacts
from antiphon.pipeline.audit.missed import MissedMessages
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.rows import Key
from antiphon.pipeline.audit.view_intervals import GroupIntervals, ViewCounts, ViewViolation
from antiphon.pipeline.explain import MessageName, view_synchrony_text
from antiphon.pipeline.intervals import EMPTY, Spans, clip, difference, intersection, span, union


@dataclass
class _Passage:
    """One process that made a step: what it delivered in the view before, by sender, and where the next one begins."""

    delivered: dict[str, Spans]
    arrival: int


class Sendings:
    """What is needed to know of the messages of a run: how many there are, and for whom."""

    def __init__(self, order: Order, logs: Mapping[str, LogFacts]) -> None:
        self._sent = {key: int(order.sent[place]) for place, key in enumerate(order.keys) if not order.open_keys[place]}
        self._order = order
        self._not_meant: dict[tuple[Key, str], Spans] = {}
        self._private: dict[Key, list[tuple[Spans, frozenset[str]]]] = defaultdict(list)
        """What lies off record, and for whom it was by those who delivered it, where they name destinations."""
        self._unsaid: dict[Key, Spans] = {}
        """What lies off record, and nobody says for whom it was."""
        self._read_destinations(logs)

    def _read_destinations(self, logs: Mapping[str, LogFacts]) -> None:
        named: dict[tuple[Key, int], set[str]] = defaultdict(set)
        unsaid: dict[Key, list[Spans]] = defaultdict(list)
        for log in logs.values():
            for piece in log.pieces:
                for entry in piece["private"]:
                    key = (entry["group"], entry["sender"])
                    for number in range(max(entry["start"], self._off_record(key)), entry["end"]):
                        named[key, number].update(entry["destinations"])
                for entry in piece["unsaid"]:
                    key = (entry["group"], entry["sender"])
                    unsaid[key].append(clip(Spans(entry["starts"], entry["ends"]), self._off_record(key), ENDLESS))
        for (key, number), members in named.items():
            self._private[key].append((span(number, number + 1), frozenset(members)))
        for key, spans in unsaid.items():
            self._unsaid[key] = difference(union(*spans), union(*(one for one, _ in self._private.get(key, ()))))

    def _off_record(self, key: Key) -> int:
        """From which number on the messages of a key are off record."""
        if key in self._sent:
            return ENDLESS
        return int(self._order.sent[self._order.places[key]]) + 1

    def unsaid(self, key: Key, spans: Spans) -> Spans:
        """Of which of these nobody says for whom they were."""
        return intersection(spans, self._unsaid[key]) if key in self._unsaid else EMPTY

    def existing(self, key: Key, spans: Spans) -> Spans:
        """Without what was never sent."""
        sent = self._sent.get(key)
        if sent is None or not len(spans.ends) or spans.ends[-1] <= sent + 1:
            return spans
        return clip(spans, 1, sent + 1)

    def meant_for(self, key: Key, spans: Spans, process: str) -> Spans:
        """Without what names destinations that leave the process out."""
        if (key, process) not in self._not_meant:
            self._not_meant[key, process] = self._find_not_meant(key, process)
        others = self._not_meant[key, process]
        if not len(others.starts) or not len(spans.starts):
            return spans
        return difference(spans, clip(others, int(spans.starts[0]), int(spans.ends[-1])))

    def _find_not_meant(self, key: Key, process: str) -> Spans:
        place = self._order.places.get(key)
        others = [spans for spans, members in self._private.get(key, ()) if process not in members]
        if place is None or not self._order.destinations:
            return union(*others)
        runs = slice(self._order.first_run[place], self._order.first_run[place + 1])
        left_out = np.array([*(process not in meant for meant in self._order.destinations), False])  # the last: none
        chosen = left_out[self._order.narrow[runs]]
        return union((self._order.start[runs][chosen], self._order.end[runs][chosen]), *others)


def count(group: str, view_intervals: GroupIntervals, sendings: Sendings) -> ViewCounts:
    violations = unknown = checked = 0
    missed = MissedMessages()
    first_violation: ViewViolation | None = None
    for (view, following), passages in sorted(_steps(group, view_intervals, sendings).items()):
        if len(passages) < 2:
            continue
        together = _together(passages)
        for process, passage in passages.items():
            for sender, spans in sorted(together.items()):
                meant = sendings.meant_for((group, sender), spans, process)
                checked += meant.size()
                lacking = _lacking(meant, passage.delivered.get(sender, EMPTY))
                doubtful = sendings.unsaid((group, sender), lacking)
                if doubtful.size():
                    unknown += doubtful.size()
                    lacking = difference(lacking, doubtful)
                violations += lacking.size()
                missed.add(process, sender, lacking)
                if lacking.size() and first_violation is None:
                    message = MessageName(group, sender, int(lacking.starts[0]))
                    first_violation = _first_violation(process, message, view, following, passages)
    return ViewCounts(violations, unknown, checked, first_violation, missed.roots(), missed)


def _steps(
    group: str, view_intervals: GroupIntervals, sendings: Sendings
) -> dict[tuple[int, int], dict[str, _Passage]]:
    """Who went from which view to which. Several passages of a process by the same step are taken together."""
    steps: dict[tuple[int, int], dict[str, _Passage]] = defaultdict(dict)
    for process, own in view_intervals.items():
        for interval, following in pairwise(own):
            passage = steps[interval.view, following.view].setdefault(process, _Passage({}, following.index))
            for sender, spans in interval.delivered.items():
                existing = sendings.existing((group, sender), spans)
                passage.delivered[sender] = union(passage.delivered.get(sender, EMPTY), existing)
    return steps


def _together(passages: Mapping[str, _Passage]) -> dict[str, Spans]:
    """What any of them delivered."""
    parts: dict[str, list[Spans]] = defaultdict(list)
    for passage in passages.values():
        for sender, spans in passage.delivered.items():
            parts[sender].append(spans)
    return {sender: union(*spans) for sender, spans in parts.items()}


def _lacking(meant: Spans, delivered: Spans) -> Spans:
    same = len(meant.starts) == len(delivered.starts) > 1
    if same and (meant.starts == delivered.starts).all() and (meant.ends == delivered.ends).all():
        return EMPTY
    return difference(meant, delivered)


def _first_violation(
    process: str, message: MessageName, view: int, following: int, passages: Mapping[str, _Passage]
) -> ViewViolation:
    number = np.array([message.number])
    other = next(
        name for name, passage in passages.items() if passage.delivered.get(message.sender, EMPTY).holds(number)[0]
    )
    text = view_synchrony_text(process, message, other, view, following)
    events = ((other, passages[other].arrival), (process, passages[process].arrival))
    return ViewViolation(text, events, ((other, message),))
