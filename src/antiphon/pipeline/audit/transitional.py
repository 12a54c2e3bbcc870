"""transitional: processes that come together out of a view deliver the same in it, and in their transitional one.

Beside the messages, by parts of the view, the transitional rows are compared: all that make a step name the same
members, and all that make it are among these. The rules are those of `antiphon.pipeline.reference_components`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

from antiphon.pipeline.audit.components import Passage, steps_of
from antiphon.pipeline.audit.view_intervals import GroupIntervals, ViewCounts, ViewViolation
from antiphon.pipeline.audit.view_synchrony import Sendings
from antiphon.pipeline.explain import MessageName, transitional_members_text, transitional_text
from antiphon.pipeline.intervals import EMPTY, Spans, difference, union

_Delivered = Mapping[str, Mapping[str, Spans]]
"""By process and sender."""


class _Count:
    """What is found in one group."""

    def __init__(self, group: str, sendings: Sendings) -> None:
        self.violations = self.unknown = self.checked = 0
        self.first_violation: ViewViolation | None = None
        self._group = group
        self._sendings = sendings
        self._processes: set[str] = set()
        self._steps: set[tuple[int, int]] = set()
        self._messages: dict[str, list[Spans]] = defaultdict(list)

    def rows(self, view: int, following: int, passages: list[Passage]) -> None:
        """Compare the transitional rows of a step."""
        processes = {passage.process for passage in passages}
        standard = max(Counter(passage.interval.mates for passage in passages).items(), key=lambda item: item[1])[0]
        for process, interval, after in passages:
            self.checked += 1
            if interval.mates == standard and processes <= set(interval.mates):
                continue
            self.violations += 1
            self._processes.add(process)
            self._steps.add((view, following))
            if self.first_violation is None:
                text = transitional_members_text(process, self._group, view, following, interval.mates)
                rows = [(process, interval.transit)] if interval.transit is not None else []
                self.first_violation = ViewViolation(text, (*rows, (process, after.index)))

    def part(self, view: int, delivered: _Delivered, late: bool) -> None:
        """Compare what was delivered in one part of a view."""
        parts: dict[str, list[Spans]] = defaultdict(list)
        for own in delivered.values():
            for sender, spans in own.items():
                parts[sender].append(spans)
        together = {sender: union(*spans) for sender, spans in sorted(parts.items())}
        for process, own in delivered.items():
            for sender, spans in together.items():
                meant = self._sendings.meant_for((self._group, sender), spans, process)
                self.checked += meant.size()
                lacking = difference(meant, own.get(sender, EMPTY))
                doubtful = self._sendings.unsaid((self._group, sender), lacking)
                self.unknown += doubtful.size()
                lacking = difference(lacking, doubtful)
                if lacking.size():
                    self._lacks(process, sender, lacking, view, delivered, late)

    def _lacks(self, process: str, sender: str, lacking: Spans, view: int, delivered: _Delivered, late: bool) -> None:
        self.violations += lacking.size()
        self._processes.add(process)
        self._messages[sender].append(lacking)
        if self.first_violation is None:
            message = MessageName(self._group, sender, int(lacking.starts[0]))
            number = np.array([message.number])
            other = next(name for name, own in delivered.items() if own.get(sender, EMPTY).holds(number)[0])
            text = transitional_text(process, message, other, view, late)
            self.first_violation = ViewViolation(text, (), ((other, message),))

    def counts(self) -> ViewCounts:
        messages = sum(union(*spans).size() for spans in self._messages.values())
        roots = min(len(self._processes), messages + len(self._steps))
        return ViewCounts(self.violations, self.unknown, self.checked, self.first_violation, roots)


def count(group: str, view_intervals: GroupIntervals, sendings: Sendings) -> ViewCounts:
    found = _Count(group, sendings)
    for (view, following), passages in sorted(steps_of(view_intervals).items()):
        if all(passage.interval.transit is None for passage in passages):
            continue
        found.rows(view, following, passages)
        if len({passage.process for passage in passages}) < 2:
            continue
        for late in (False, True):
            delivered: dict[str, dict[str, Spans]] = {}
            for process, interval, _ in passages:
                own = delivered.setdefault(process, {})
                for sender, spans in (interval.late if late else interval.regular).delivered.items():
                    existing = sendings.existing((group, sender), spans)
                    own[sender] = union(own.get(sender, EMPTY), existing)
            found.part(view, delivered, late)
    return found.counts()
