"""The critical path of a delivery: which wait cost what, from rows only.

Between the send of a message and its delivery at a process lie, in this order:

link       until the process received it
hold-back  until everything before it in causal order had been delivered there (from level causal on), or everything
           before it of the same sender (fifo)
order      until what came before it in the total order had been delivered there, and its own place was known
           (agreed and safe)
stability  until every member of its view had received it, and the process had heard so (safe)
handover   until the application was handed it (the other levels: what is left when nothing else was waited for)

Each ends where a row says that it ended; one that was over before the one ahead of it cost nothing. What is left at
last belongs to what the rows do not show: for agreed, that the place was told; for safe, that the acks came.

A `receive` row of the message at the process tells when the link was done; then the split is exact. Without it the
link may have taken any part of the time, and each wait is told in bounds: at least, if the message came in at the last
moment, and at most, if it came in at once. Three things no row can tell: how far the clocks of sender and receiver
disagree, which falls to the link; what of a run came when, since a row has the time of its first message; and whether
the application was slow to take what was ready, which falls to what is left.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from antiphon.history.schema import LEVELS, Row
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.audit.rows import AGREED_RANK, CAUSAL_RANK, FIFO_RANK, SAFE_RANK, message_rows
from antiphon.pipeline.explain import MessageName, process_name
from antiphon.pipeline.graph.causal import CausalRun
from antiphon.pipeline.graph.lineage import past_of
from antiphon.pipeline.graph.names import full_name
from antiphon.pipeline.graph.rows import RowReader, process_of

LINK: Final = "link"
HOLD_BACK: Final = "hold-back"
ORDER: Final = "order"
STABILITY: Final = "stability"
HANDOVER: Final = "handover"

CHAIN_MAX: Final = 10
"""How many messages are followed that each waited for the next."""


class NotDeliveredError(UsageError):
    """There is no delivery to explain."""


@dataclass(frozen=True)
class Wait:
    """One part of the time between send and delivery."""

    kind: str
    at_least_ns: int
    at_most_ns: int
    message: MessageName | None = None
    """What was waited for, where it is a message…"""
    process: str | None = None
    """…or whom."""


@dataclass(frozen=True)
class DeliveryPath:
    """How a process came to deliver a message."""

    message: MessageName
    process: str
    level: str
    sent_ns: int
    received_ns: int | None
    """None if no receive row tells."""
    delivered_ns: int
    waits: tuple[Wait, ...]
    """In order; together they make up the time from send to delivery."""

    @property
    def exact(self) -> bool:
        return self.received_ns is not None

    @property
    def longest(self) -> Wait:
        """What cost most; where the link's part is unknown, of what the rows speak for."""
        told = self.waits if self.exact else [wait for wait in self.waits if wait.kind != LINK]
        return max(told, key=lambda wait: wait.at_most_ns)


class _End(NamedTuple):
    """When a wait was over, and because of what."""

    kind: str
    time_ns: int
    message: MessageName | None = None
    process: str | None = None


def critical_path(run: CausalRun, reader: RowReader, message: MessageName, process: str) -> list[DeliveryPath]:
    """The delivery of a message at a process, then those that it waited for longest, each because of the next."""
    path: list[DeliveryPath] = []
    wanted: MessageName | None = message
    while wanted is not None and len(path) < CHAIN_MAX:
        found = _deliver(run, reader, wanted, process)
        if found is None:
            break
        path.append(found)
        longest = found.longest
        wanted = longest.message if longest.at_most_ns > 0 else None
    if not path:
        raise NotDeliveredError(
            f"{process_name(process)} never delivered {full_name(message)}, as far as is on record; "
            "name a process that did, by --at"
        )
    return path


def _deliver(run: CausalRun, reader: RowReader, message: MessageName, process: str) -> DeliveryPath | None:
    rows = reader.about(message)
    send = next((row for row in rows if row.kind == "send"), None)
    own = [row for row in rows if process_of(row) == process]
    delivery = next((row for row in own if row.kind == "deliver"), None)
    if send is None or delivery is None:
        return None
    received_ns = _received_ns(own, message, process, send)
    since_ns = send.time_ns if received_ns is None else received_ns
    ends = _ends(run, reader, message, process, rows, delivery, since_ns)
    if received_ns is None:
        possible = [
            _split(send.time_ns, arrival_ns, some)
            for arrival_ns in (send.time_ns, delivery.time_ns)
            for some in (ends, _held_to_the_end(ends, message, delivery))
        ]
    else:
        possible = [_split(send.time_ns, received_ns, ends)]
    return DeliveryPath(
        message=message,
        process=process,
        level=delivery.level or "",
        sent_ns=send.time_ns,
        received_ns=received_ns,
        delivered_ns=delivery.time_ns,
        waits=tuple(_bounds(alike) for alike in zip(*possible, strict=True)),
    )


def _received_ns(own: list[Row], message: MessageName, process: str, send: Row) -> int | None:
    """When the process had the message; its own ones it has at once."""
    if process == message.sender:
        return send.time_ns
    return next((row.time_ns for row in own if row.kind == "receive"), None)


def _split(sent_ns: int, received_ns: int, ends: list[_End]) -> list[tuple[_End, int]]:
    """What each wait cost if the message was received then."""
    result: list[tuple[_End, int]] = []
    reached_ns = sent_ns
    for end in (_End(LINK, received_ns), *ends):
        until_ns = max(end.time_ns, reached_ns)
        result.append((end, until_ns - reached_ns))
        reached_ns = until_ns
    return result


def _bounds(alike: tuple[tuple[_End, int], ...]) -> Wait:
    """One wait, from what it costs under each assumption; it names what the longest is for."""
    end, at_most_ns = max(alike, key=lambda priced: priced[1])
    return Wait(end.kind, min(cost_ns for _, cost_ns in alike), at_most_ns, end.message, end.process)


def _ends(
    run: CausalRun,
    reader: RowReader,
    message: MessageName,
    process: str,
    rows: list[Row],
    delivery: Row,
    since_ns: int,
) -> list[_End]:
    """The ends of the waits behind the link, in order; the last is the delivery itself."""
    rank = LEVELS.index(delivery.level or "reliable")
    before = _before(run, reader, message, process, delivery, since_ns)
    ends: list[_End] = []
    if rank >= FIFO_RANK:
        ends.append(before.get(HOLD_BACK, _End(HOLD_BACK, since_ns)))
    if rank >= AGREED_RANK and (placed := before.get(ORDER)) is not None:
        ends.append(placed)
    if rank == SAFE_RANK and (slowest := _slowest(run, message, rows, delivery)) is not None:
        ends.append(slowest)
    rest = {AGREED_RANK: ORDER, SAFE_RANK: STABILITY}.get(rank, HANDOVER)
    return [*ends, _End(rest, delivery.time_ns)]


def _before(
    run: CausalRun, reader: RowReader, message: MessageName, process: str, delivery: Row, since_ns: int
) -> Mapping[str, _End]:
    """The last delivery at the process of something in the message's past, and of something in total order with it."""
    order = run.order
    place = order.places[message.group, message.sender]
    past = past_of(order, (place, message.number))
    if LEVELS.index(delivery.level or "reliable") < CAUSAL_RANK:
        past[np.arange(len(past)) != place] = 0
    found: dict[str, tuple[int, _End]] = {}
    for table in reader.log_batches(process, "deliver", None, since_ns, delivery.index):
        rows = message_rows(table, "deliver")
        key = np.array([order.places[known] for known in rows.keys], np.int64)[rows.key]
        in_past = rows.start <= past[key]
        in_order = rows.of_group(message.group) & (rows.level >= AGREED_RANK)
        for kind, mask in ((HOLD_BACK, in_past), (ORDER, in_order)):
            for row in np.flatnonzero(mask)[-1:].tolist():
                last = int(rows.end[row]) - 1
                group, sender = rows.keys[int(rows.key[row])]
                number = min(last, int(past[key[row]])) if kind == HOLD_BACK else last
                end = _End(kind, int(rows.time_ns[row]), MessageName(group, sender, number))
                if int(rows.index[row]) > found.get(kind, (-1, end))[0]:
                    found[kind] = (int(rows.index[row]), end)
    result = {kind: end for kind, (_, end) in found.items()}
    for end in _together(reader, message, process, delivery, since_ns):
        if HOLD_BACK not in result or end.time_ns > result[HOLD_BACK].time_ns:
            result[HOLD_BACK] = end
    return result


def _held_to_the_end(ends: list[_End], message: MessageName, delivery: Row) -> list[_End]:
    """The same, if what came right before it in the same row kept it waiting: only receive rows would tell."""
    if delivery.number == message.number or ends[0].kind != HOLD_BACK:
        return ends
    before = MessageName(message.group, message.sender, message.number - 1)
    return [_End(HOLD_BACK, delivery.time_ns, before), *ends[1:]]


def _together(reader: RowReader, message: MessageName, process: str, delivery: Row, since_ns: int) -> Iterator[_End]:
    """Of the messages that were delivered just before it, by the same row: when each was received."""
    if delivery.number == message.number:
        return
    for table in reader.log_batches(process, "receive", message.group, since_ns, delivery.index):
        rows = message_rows(table, "receive")
        own = np.array([known == (message.group, message.sender) for known in rows.keys], bool)[rows.key]
        for row in np.flatnonzero(own & (rows.start < message.number) & (rows.end > (delivery.number or 0))).tolist():
            number = min(int(rows.end[row]), message.number) - 1
            yield _End(HOLD_BACK, int(rows.time_ns[row]), MessageName(message.group, message.sender, number))


def _slowest(run: CausalRun, message: MessageName, rows: list[Row], delivery: Row) -> _End | None:
    """Which member received the message last; None unless receive rows tell for all of them.

    Who received it after the delivery was not waited for: the view had ended, or the clocks disagree.
    """
    order = run.order
    own = order.run_of(order.places[message.group, message.sender], np.array([message.number]))[0]
    others = order.audiences[order.audience[own]] - {message.sender}
    received: dict[str, int] = {}
    for row in rows:
        if row.kind == "receive":
            received.setdefault(process_of(row), row.time_ns)
    if not others or not others <= received.keys():
        return None
    time_ns, process = max((received[other], other) for other in others)
    return _End(STABILITY, time_ns, process=process) if time_ns <= delivery.time_ns else None
