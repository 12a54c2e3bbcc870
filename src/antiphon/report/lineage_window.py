"""Which rows of a history make the picture of a lineage.

The message and its nearest relatives: their sends, and their deliveries at the processes that are drawn. The steps that
made one the cause of another (a send, the delivery at whoever sent next, that send) are numbered in causal order; other
deliveries step back. A row may stand for a run of messages; it is drawn for those in the picture only.
"""

from itertools import pairwise
from typing import Final

from antiphon.history.schema import Row
from antiphon.pipeline.explain import MessageName
from antiphon.pipeline.graph.lineage import Lineage
from antiphon.pipeline.graph.names import full_name
from antiphon.pipeline.graph.rows import RowReader, process_of
from antiphon.report.fold import join_own
from antiphon.report.rows import LogRow, Place, by_process, reading_order
from antiphon.report.window import PROCESSES_MAX, Window

MESSAGES_MAX: Final = 15
"""How many messages are drawn, the one in question among them."""


def lineage_window(lineage: Lineage, reader: RowReader) -> Window:
    """The message and as many of its nearest relatives as a picture holds."""
    messages = _drawn_messages(lineage)
    found = [row for row in reader.about(*messages) if row.kind in ("send", "deliver")]
    shown = _drawn_processes(messages, found)
    rows = [_log_row(row, messages) for row in found if process_of(row) in shown]
    steps = _steps(lineage, messages, rows)
    drawn = join_own(rows, frozenset(steps))
    return Window(
        caption=f"What {full_name(lineage.message)} came from and what came of it, in run “{lineage.run}”",
        rows=tuple(sorted(drawn, key=lambda row: (row.time_ns, row.place))),
        processes=len({process_of(row) for row in found}),
        steps=steps,
        hidden=_hidden(drawn),
    )


def _drawn_messages(lineage: Lineage) -> list[MessageName]:
    """In causal order: what comes before a message has a smaller past."""
    nearest = sorted(lineage.relatives, key=lambda relative: abs(relative.step))
    pasts = {relative.message: relative.past for relative in nearest if relative.sent_ns is not None}
    kept = dict(list(pasts.items())[: MESSAGES_MAX - 1]) | {lineage.message: lineage.past}
    return sorted(kept, key=lambda message: (kept[message], message))


def _drawn_processes(messages: list[MessageName], rows: list[Row]) -> frozenset[str]:
    """The senders, nearest names first, then those who only listened."""
    senders = {message.sender for message in messages}
    processes = sorted({process_of(row) for row in rows} | senders, key=reading_order)
    processes.sort(key=lambda process: process not in senders)
    return frozenset(processes[:PROCESSES_MAX])


def _log_row(row: Row, messages: list[MessageName]) -> LogRow:
    """A row, narrowed to the messages that are drawn."""
    sender, first = f"{row.sender}/{row.sender_incarnation}", row.number or 0
    end = first + (row.count or 0)
    numbers = [
        message.number
        for message in messages
        if (message.group, message.sender) == (row.group, sender) and first <= message.number < end
    ]
    return LogRow(
        process=process_of(row), index=row.index, time_ns=row.time_ns, kind=row.kind, group=row.group, view=row.view,
        sender=sender, number=min(numbers), count=max(numbers) - min(numbers) + 1, level=row.level,
    )  # fmt: skip


def _steps(lineage: Lineage, messages: list[MessageName], rows: list[LogRow]) -> tuple[Place, ...]:
    """Each message's send, after the deliveries of its direct causes by its sender."""
    causes: dict[MessageName, list[MessageName]] = {}
    for link in lineage.links:
        causes.setdefault(link.sent, []).append(link.after)
    sends = {message: row for row in rows if row.kind == "send" for message in _messages(row)}
    steps: list[Place] = []
    for message in messages:
        if message not in sends:
            continue
        wanted = {cause for cause in causes.get(message, ()) if cause.sender != message.sender}
        own = [row for row in rows if row.kind == "deliver" and row.process == message.sender]
        told = [row for row in own if row.index < sends[message].index and wanted.intersection(_messages(row))]
        steps += [row.place for row in sorted(told, key=lambda row: row.index)] + [sends[message].place]
    return tuple(dict.fromkeys(steps))


def _messages(row: LogRow) -> list[MessageName]:
    assert row.group is not None
    assert row.sender is not None
    return [MessageName(row.group, row.sender, number) for number in range(row.number, row.last + 1)]


def _hidden(drawn: list[LogRow]) -> dict[Place, int]:
    """How many rows of the same log lie between two that are drawn."""
    return {
        after.place: after.index - before.index_last - 1
        for _, log in by_process(drawn)
        for before, after in pairwise(log)
        if after.index > before.index_last + 1
    }
