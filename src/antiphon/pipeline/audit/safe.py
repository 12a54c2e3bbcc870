"""safe: a safe message delivered in view v is delivered by every member of v that does not crash.

Decided from what was delivered as safe in each view, and by each process at all. Who crashed or left is not held; of
those who are open or stopped early, it is unknown, and so it is where nobody says for whom the message was.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from antiphon.pipeline.audit.components import steps_of
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.missed import MissedMessages
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.recoveries import GroupRecoveries
from antiphon.pipeline.audit.view_intervals import GroupIntervals, ViewCounts, ViewViolation
from antiphon.pipeline.audit.view_synchrony import Sendings
from antiphon.pipeline.explain import MessageName, safe_text
from antiphon.pipeline.intervals import EMPTY, Spans, difference, union


def count(
    group: str, view_intervals: GroupIntervals, order: Order, logs: Mapping[str, LogFacts], sendings: Sendings
) -> ViewCounts:
    parts = group in order.parted
    in_view = _delivered_in(group, view_intervals, sendings, parts)
    recoveries = order.recoveries.get(group)
    members = _members(view_intervals)
    behind = _delivered_behind(group, view_intervals, sendings) if parts else {}
    violations = unknown = checked = 0
    missed = MissedMessages()
    first_violation: ViewViolation | None = None
    for process, log in logs.items():
        if log.is_gone(group) or not ((group, process) in order.joined or process in order.missing):
            continue
        delivered = log.delivered
        of_process = behind.get(process, {})
        for sender in sorted(in_view.keys() | of_process.keys()):
            by_view = in_view.get(sender, {})
            held = [spans for view, spans in by_view.items() if process in members[view]]
            wanted = sendings.meant_for((group, sender), union(*held, *of_process.get(sender, ())), process)
            lacking = difference(wanted, delivered.get((group, sender), EMPTY))
            checked += wanted.size()
            if log.is_early(group):
                unknown += lacking.size()
                continue
            doubtful = sendings.unsaid((group, sender), lacking)
            if recoveries is not None and lacking.size():
                demanded = _demanded(process, sender, by_view, members, view_intervals, recoveries)
                doubtful = union(doubtful, difference(lacking, demanded))
            unknown += doubtful.size()
            lacking = difference(lacking, doubtful)
            violations += lacking.size()
            missed.add(process, sender, lacking)
            if lacking.size() and first_violation is None:
                message = MessageName(group, sender, int(lacking.starts[0]))
                first_violation = _first_violation(process, message, log.rows - 1, view_intervals, members, parts)
    return ViewCounts(violations, unknown, checked, first_violation, missed.roots(), missed)


def _demanded(
    process: str,
    sender: str,
    by_view: Mapping[int, Spans],
    members: Mapping[int, set[str]],
    view_intervals: GroupIntervals,
    recoveries: GroupRecoveries,
) -> Spans:
    """What of a sender's safe messages a process must have, whatever an operator said: what was delivered in other
    views than torn ones, by its companions, and before the word."""
    result = [spans for view, spans in by_view.items() if view not in recoveries.torn and process in members[view]]
    for other, own in view_intervals.items():
        for interval, following in zip(own, [*own[1:], None], strict=True):
            if interval.view not in recoveries.torn or process not in members[interval.view]:
                continue
            if recoveries.are_companions(interval.view, process, other):
                result.append(interval.safe.get(sender, EMPTY))
            elif following is not None and other in recoveries.told.get((interval.view, following.view), ()):
                result.append(interval.untold_safe.get(sender, EMPTY))
    return union(*result)


def _delivered_behind(
    group: str, view_intervals: GroupIntervals, sendings: Sendings
) -> dict[str, dict[str, list[Spans]]]:
    """By process and sender: what was delivered as safe behind a transitional row by those that went on with it."""
    result: dict[str, dict[str, list[Spans]]] = defaultdict(lambda: defaultdict(list))
    for passages in steps_of(view_intervals).values():
        for one in passages:
            for sender, spans in one.interval.late.safe.items():
                for process in {other.process for other in passages}:
                    result[process][sender].append(sendings.existing((group, sender), spans))
    return result


def _delivered_in(
    group: str, view_intervals: GroupIntervals, sendings: Sendings, parts_of_views: bool
) -> dict[str, dict[int, Spans]]:
    """By sender and view: what anybody delivered there as safe; in groups that part, before its transitional row."""
    parts: dict[str, dict[int, list[Spans]]] = defaultdict(lambda: defaultdict(list))
    for own in view_intervals.values():
        for interval in own:
            for sender, spans in (interval.regular if parts_of_views else interval).safe.items():
                parts[sender][interval.view].append(sendings.existing((group, sender), spans))
    return {sender: {view: union(*spans) for view, spans in by_view.items()} for sender, by_view in parts.items()}


def _members(view_intervals: GroupIntervals) -> dict[int, set[str]]:
    members: dict[int, set[str]] = defaultdict(set)
    for own in view_intervals.values():
        for interval in own:
            members[interval.view].update(interval.members)
    return members


def _first_violation(
    process: str,
    message: MessageName,
    end: int,
    view_intervals: GroupIntervals,
    members: Mapping[int, set[str]],
    parts: bool,
) -> ViewViolation:
    number = np.array([message.number])
    found = [
        (name, interval.view)
        for name, own in view_intervals.items()
        for interval in own
        if (parts or process in members[interval.view]) and interval.safe.get(message.sender, EMPTY).holds(number)[0]
    ]
    other, view = found[0]
    return ViewViolation(safe_text(process, message, other, view), ((process, end),), ((other, message),))
