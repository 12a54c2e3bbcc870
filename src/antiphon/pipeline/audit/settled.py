"""settled: in a run that healed and went quiet, every survivor has all it is owed.

Decided key by key from what each process delivered in the end. A survivor must have what a survivor sent, and what
any survivor delivered. What else is missing is unknown as long as somebody left the run early, or may have.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from antiphon.pipeline.audit.logs import ENDLESS, LogFacts
from antiphon.pipeline.audit.missed import MissedMessages
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.rows import Key
from antiphon.pipeline.explain import MessageName
from antiphon.pipeline.intervals import EMPTY, Spans, difference, intersection, span, union


@dataclass
class Settlement:
    """The counts for one group."""

    violations: int = 0
    unknown: int = 0
    checked: int = 0
    missed: MissedMessages = field(default_factory=MissedMessages)
    first_violation: tuple[str, MessageName] | None = None
    """A process, and a message that it never delivered."""


def count(order: Order, logs: Mapping[str, LogFacts]) -> dict[str, Settlement]:
    """By group."""
    delivered = {process: log.delivered for process, log in logs.items()}
    groups: dict[str, Settlement] = defaultdict(Settlement)
    for place, (group, _) in enumerate(order.keys):
        _settle(groups[group], order, place, logs, delivered)
    return groups


def _settle(
    found: Settlement,
    order: Order,
    place: int,
    logs: Mapping[str, LogFacts],
    delivered: Mapping[str, Mapping[Key, Spans]],
) -> None:
    """Add what is found of one key."""
    group, sender = key = order.keys[place]
    survivors = [process for process, log in logs.items() if log.is_survivor(group)]
    had = union(*(delivered[process].get(key, EMPTY) for process in survivors))
    owed = {process: order.still_owed(process, place) for process, log in logs.items() if not log.is_gone(group)}
    perhaps = union(*(owed[process] for process in owed if logs[process].is_early(group)))
    for process, spans in owed.items():
        found.checked += spans.size()
        lacking = difference(spans, delivered[process].get(key, EMPTY))
        if logs[process].is_early(group):
            found.unknown += lacking.size()
            continue
        surely = lacking if logs[sender].is_survivor(group) else intersection(lacking, had)
        doubtful = difference(lacking, surely)
        found.unknown += (doubtful if logs[sender].is_early(group) else intersection(doubtful, perhaps)).size()
        left_open = intersection(surely, order.open_to(process, place))
        found.unknown += left_open.size()
        surely = difference(surely, left_open)
        found.violations += surely.size()
        found.missed.add(process, sender, surely)
        if surely.size() and found.first_violation is None:
            found.first_violation = (process, MessageName(group, sender, int(surely.starts[0])))
    for process, log in logs.items():
        if not log.is_gone(group):
            perhaps = order.perhaps_owed(process, place)
            found.unknown += difference(perhaps, delivered[process].get(key, EMPTY)).size()
    off_record = intersection(had, span(int(order.sent[place]) + 1, ENDLESS)) if logs[sender].open else EMPTY
    for process in survivors:
        if (group, process) in order.joined:
            found.unknown += difference(off_record, delivered[process].get(key, EMPTY)).size()
