"""The lineage of a message: what it came from and what came of it, step by step along the context graph.

Everything is looked up in the vectors of the causal order. A step back leads to the direct causes. A step forward from
a message leads to the one after it in its send run, and, of each other sender, to the first message that has it in its
past, where it is a direct cause of that one: along a sender the past only grows, so that one is found by bisection.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from antiphon.history.schema import Row
from antiphon.pipeline.audit.order import NO_ROW, Order
from antiphon.pipeline.explain import Link, MessageName
from antiphon.pipeline.graph.causal import CausalRun
from antiphon.pipeline.graph.reduction import direct_causes
from antiphon.pipeline.graph.rows import RowReader, process_of
from antiphon.pipeline.graph.waves import first_waves
from antiphon.pipeline.intervals import Ints

DEPTH: Final = 3
LIMIT: Final = 20

Place = tuple[int, int]
"""A message: (key, number), the key as a place in the order's keys."""


@dataclass(frozen=True)
class Relative:
    """A message in the past or in the future of another."""

    message: MessageName
    step: int
    """How many steps along the graph, the fewest there are: -1 is a direct cause, 1 a direct effect."""
    via: MessageName
    """The message one step nearer."""
    sent_ns: int | None
    """None if its send is off record."""
    past: int
    """How many messages lie in its own past. What comes before it has fewer."""


@dataclass(frozen=True)
class Lineage:
    """One message and its relatives."""

    run: str
    message: MessageName
    send: Row
    wave: int
    past: int
    """How many messages lie in its past."""
    future: int
    """In how many pasts it lies, as far as is on record."""
    certain: bool
    """False if something off record lies in its past: then there may be more in between."""
    causes: tuple[MessageName, ...]
    effects: tuple[MessageName, ...]
    relatives: tuple[Relative, ...]
    """Past first, furthest first; each side up to the limit, nearest kept."""
    links: tuple[Link, ...]
    """The edges among the message and its relatives that were come by: what was sent, and directly after what."""
    deliveries: tuple[Row, ...]
    """The first of each process, in order of time."""
    lacking: tuple[str, ...]
    """Members of its view that never delivered it, as far as is on record."""

    @property
    def stable_ns(self) -> int | None:
        """When the last member had delivered it."""
        return self.last.time_ns if self.last is not None else None

    @property
    def last(self) -> Row | None:
        """The delivery that made it stable."""
        return None if self.lacking or not self.deliveries else self.deliveries[-1]


def _send_row(rows: Sequence[Row]) -> Row:
    """The send row of a message, with the view in which it left, where that is known."""
    send = next(row for row in rows if row.kind == "send")
    left = next((row for row in rows if row.kind == "depart"), None)
    return send if send.view is not None or left is None else replace(send, view=left.view)


def lineage(run: CausalRun, reader: RowReader, message: MessageName, depth: int = DEPTH, limit: int = LIMIT) -> Lineage:
    """The lineage of a message on record, `depth` steps each way, at most `limit` messages each way."""
    order = run.order
    place = (order.places[message.group, message.sender], message.number)
    own = int(order.run_of(place[0], np.array([place[1]]))[0])
    rows = reader.about(message)
    deliveries = first_deliveries(rows)
    members = order.audiences[order.audience[own]]
    back, forward = (_LineageWalk(order, place, depth, limit, back=back) for back in (True, False))
    in_view = tuple(row for row in deliveries if process_of(row) in members)
    return Lineage(
        run=run.name,
        message=message,
        send=_send_row(rows),
        wave=wave_of(order, place),
        past=int(past_of(order, place).sum()),
        future=_future_size(order, place),
        certain=not order.off_record()[own],
        causes=tuple(_message(order, cause) for cause in causes_of(order, place)),
        effects=tuple(_message(order, effect) for effect in effects_of(order, place)),
        relatives=(*reversed(back.found), *forward.found),
        links=(*reversed(back.links), *forward.links),
        deliveries=in_view,
        lacking=tuple(sorted(members - {process_of(row) for row in in_view})),
    )


def first_deliveries(rows: list[Row]) -> list[Row]:
    """Of each process the delivery at the earliest time, in order of time; of several at the same time by name."""
    first: dict[str, Row] = {}
    for row in rows:
        process = process_of(row)
        if row.kind == "deliver" and (process not in first or row.time_ns < first[process].time_ns):
            first[process] = row
    return sorted(first.values(), key=lambda row: (row.time_ns, process_of(row)))


def past_of(order: Order, place: Place) -> Ints:
    """How many messages of each key lie in the past of a message."""
    key, number = place
    past: Ints = order.past[order.run_of(key, np.array([number]))[0]].copy()
    past[key] = number - 1
    return past


def causes_of(order: Order, place: Place) -> list[Place]:
    """The direct causes of a message."""
    key, number = place
    run = order.run_of(key, np.array([number]))
    if number > order.start[run[0]]:
        return [(key, number - 1)]
    direct = np.flatnonzero(direct_causes(order, run)[0])
    return [(int(cause), int(order.past[run[0], cause])) for cause in direct]


def effects_of(order: Order, place: Place) -> list[Place]:
    """The messages on record of which a message is a direct cause."""
    key, number = place
    found: list[Place] = []
    own = int(order.run_of(key, np.array([number]))[0])
    if number + 1 < order.end[own] and order.index[own] != NO_ROW:
        found.append((key, number + 1))
    runs = first_after(order, place)
    runs = runs[(order.past[runs, key] == number) & (order.index[runs] != NO_ROW)]
    direct = direct_causes(order, runs)[:, key]
    return [*found, *((int(order.key[run]), int(order.start[run])) for run in runs[direct])]


def first_after(order: Order, place: Place) -> Ints:
    """Of each key the first send run that begins with the message in its past, if there is one."""
    key, number = place
    found: list[int] = []
    for other in range(len(order.keys)):
        first, end = int(order.first_run[other]), int(order.first_run[other + 1])
        run = first + int(np.searchsorted(order.past[first:end, key], number))
        if run < end:
            found.append(run)
    return np.array(found, np.int64)


def wave_of(order: Order, place: Place) -> int:
    """The wave of a message, from the send runs in its past alone."""
    key, number = place
    own = int(order.run_of(key, np.array([number]))[0])
    runs = np.flatnonzero(order.start <= order.past[own][order.key])
    return int(first_waves(order, np.append(runs, own))[-1]) + number - int(order.start[own])


def _future_size(order: Order, place: Place) -> int:
    runs = first_after(order, place)
    elsewhere = runs[order.key[runs] != place[0]]
    later = order.sent[order.key[elsewhere]] - order.start[elsewhere] + 1
    return int(later.sum()) + int(order.sent[place[0]]) - place[1]


class _LineageWalk:
    """Breadth first from a message, one way; nearest first."""

    def __init__(self, order: Order, origin: Place, depth: int, limit: int, *, back: bool) -> None:
        self.found: list[Relative] = []
        self.links: list[Link] = []
        """Each edge of the graph between messages that were found, or the origin."""
        step = causes_of if back else effects_of
        seen, front = {origin}, [origin]
        for distance in range(1, depth + 1):
            reached: list[Place] = []
            for place in front:
                for other in step(order, place):
                    if other not in seen and len(self.found) < limit:
                        seen.add(other)
                        reached.append(other)
                        self.found.append(_relative(order, other, -distance if back else distance, place))
                    if other in seen:
                        ends = (other, place) if back else (place, other)
                        self.links.append(Link(*(_message(order, end) for end in ends)))
            front = reached


def _relative(order: Order, place: Place, step: int, via: Place) -> Relative:
    run = order.run_of(place[0], np.array([place[1]]))[0]
    sent_ns = None if order.index[run] == NO_ROW else int(order.time_ns[run])
    past = int(past_of(order, place).sum())
    return Relative(_message(order, place), step, _message(order, via), sent_ns, past)


def _message(order: Order, place: Place) -> MessageName:
    group, sender = order.keys[place[0]]
    return MessageName(group, sender, place[1])
