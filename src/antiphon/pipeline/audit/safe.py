"""safe: a safe message delivered in view v is delivered by every member of v that does not crash.

Decided from what was delivered as safe in each view, and by each process at all. Who crashed or left is not held; of
those who are open or stopped early, it is unknown, and so it is where nobody says for whom the message was.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.missed import MissedMessages
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.view_intervals import GroupIntervals, ViewCounts, ViewWitness
from antiphon.pipeline.audit.view_synchrony import Sendings
from antiphon.pipeline.explain import MessageName, safe_text
from antiphon.pipeline.intervals import EMPTY, Spans, difference, union


def count(
    group: str, stays: GroupIntervals, order: Order, logs: Mapping[str, LogFacts], sendings: Sendings
) -> ViewCounts:
    in_view = _delivered_in(group, stays, sendings)
    members = _members(stays)
    violations = unknown = checked = 0
    missed = MissedMessages()
    witness: ViewWitness | None = None
    for process, log in logs.items():
        if log.is_gone(group) or not ((group, process) in order.joined or process in order.missing):
            continue
        delivered = log.delivered
        for sender, by_view in sorted(in_view.items()):
            parts = [spans for view, spans in by_view.items() if process in members[view]]
            wanted = sendings.meant_for((group, sender), union(*parts), process)
            lacking = difference(wanted, delivered.get((group, sender), EMPTY))
            checked += wanted.size()
            if log.is_early(group):
                unknown += lacking.size()
                continue
            doubtful = sendings.unsaid((group, sender), lacking)
            unknown += doubtful.size()
            lacking = difference(lacking, doubtful)
            violations += lacking.size()
            missed.add(process, sender, lacking)
            if lacking.size() and witness is None:
                message = MessageName(group, sender, int(lacking.starts[0]))
                witness = _witness(process, message, log.rows - 1, stays, members)
    return ViewCounts(violations, unknown, checked, witness, missed.roots())


def _delivered_in(group: str, stays: GroupIntervals, sendings: Sendings) -> dict[str, dict[int, Spans]]:
    """By sender and view: what anybody delivered there as safe."""
    parts: dict[str, dict[int, list[Spans]]] = defaultdict(lambda: defaultdict(list))
    for own in stays.values():
        for stay in own:
            for sender, spans in stay.safe.items():
                parts[sender][stay.view].append(sendings.existing((group, sender), spans))
    return {sender: {view: union(*spans) for view, spans in by_view.items()} for sender, by_view in parts.items()}


def _members(stays: GroupIntervals) -> dict[int, set[str]]:
    members: dict[int, set[str]] = defaultdict(set)
    for own in stays.values():
        for stay in own:
            members[stay.view].update(stay.members)
    return members


def _witness(
    process: str, message: MessageName, end: int, stays: GroupIntervals, members: Mapping[int, set[str]]
) -> ViewWitness:
    number = np.array([message.number])
    other, view = next(
        (name, stay.view)
        for name, own in stays.items()
        for stay in own
        if process in members[stay.view] and stay.safe.get(message.sender, EMPTY).holds(number)[0]
    )
    return ViewWitness(safe_text(process, message, other, view), ((process, end),), ((other, message),))
