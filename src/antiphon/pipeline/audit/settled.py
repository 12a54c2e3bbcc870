"""settled: in a run that healed and went quiet, every survivor has all it is owed.

Decided key by key from what each process delivered in the end. A survivor must have what a survivor sent, and what
any survivor delivered. What else is missing is unknown as long as somebody left the run early, or may have.
"""

from collections.abc import Mapping
from typing import NamedTuple

from antiphon.pipeline.audit.logs import ENDLESS, LogFacts
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.rows import Key
from antiphon.pipeline.intervals import EMPTY, Spans, difference, intersection, span, union


class Settlement(NamedTuple):
    """The counts for one key."""

    violations: int
    unknown: int
    checked: int
    witness: tuple[str, int] | None
    """A process, and the number of a message that it never delivered."""


def count(order: Order, logs: Mapping[str, LogFacts]) -> dict[Key, Settlement]:
    delivered = {process: log.delivered for process, log in logs.items()}
    return {key: _settle(order, place, logs, delivered) for place, key in enumerate(order.keys)}


def _settle(
    order: Order, place: int, logs: Mapping[str, LogFacts], delivered: Mapping[str, Mapping[Key, Spans]]
) -> Settlement:
    group, sender = key = order.keys[place]
    survivors = [process for process, log in logs.items() if log.is_survivor(group)]
    had = union(*(delivered[process].get(key, EMPTY) for process in survivors))
    owed = {process: order.owed(process, place) for process, log in logs.items() if not log.is_gone(group)}
    perhaps = union(*(owed[process] for process in owed if logs[process].is_early(group)))
    violations = unknown = 0
    witness: tuple[str, int] | None = None
    for process, spans in owed.items():
        lacking = difference(spans, delivered[process].get(key, EMPTY))
        if logs[process].is_early(group):
            unknown += lacking.size()
            continue
        surely = lacking if logs[sender].is_survivor(group) else intersection(lacking, had)
        doubtful = difference(lacking, surely)
        unknown += (doubtful if logs[sender].is_early(group) else intersection(doubtful, perhaps)).size()
        violations += surely.size()
        if surely.size() and witness is None:
            witness = (process, int(surely.starts[0]))
    off_record = intersection(had, span(int(order.sent[place]) + 1, ENDLESS)) if logs[sender].open else EMPTY
    for process in survivors:
        if (group, process) in order.joined:
            unknown += difference(off_record, delivered[process].get(key, EMPTY)).size()
    return Settlement(violations, unknown, sum(spans.size() for spans in owed.values()), witness)
