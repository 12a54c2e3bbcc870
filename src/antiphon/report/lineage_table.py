"""A lineage for the terminal: the message, its relatives step by step, and what its delivery waited for."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from antiphon.pipeline.explain import process_name
from antiphon.pipeline.graph.critical import HANDOVER, HOLD_BACK, LINK, ORDER, STABILITY, DeliveryPath, Wait
from antiphon.pipeline.graph.lineage import Lineage, Relative
from antiphon.pipeline.graph.names import full_name
from antiphon.pipeline.graph.rows import process_of
from antiphon.report.words import duration, printable


def lineage_table(lineage: Lineage, path: list[DeliveryPath]) -> RenderableType:
    """What to print. All text is literal: a name that looks like markup stays what it is."""
    parts: list[RenderableType] = [*_headlines(lineage), Text(), _relatives(lineage), *_left_out(lineage)]
    for place, delivery in enumerate(path):
        parts += [Text(), _delivery_headline(delivery, place), _waits(delivery)]
    if path and not all(delivery.exact for delivery in path):
        hint = "Without receive rows a wait is told in bounds; record them (level `receive`) for an exact split."
        parts += [Text(), Text(hint, style="dim")]
    return Group(*parts)


def stability_text(lineage: Lineage) -> str:
    """Whether and when every member of the view had delivered the message."""
    if lineage.last is not None:
        took = duration(max(0, lineage.last.time_ns - lineage.send.time_ns))
        last = process_name(process_of(lineage.last))
        return f"Stable {took} after it was sent, when {last} delivered it as the last member."
    if lineage.lacking:
        names = ", ".join(process_name(process) for process in lineage.lacking)
        return f"Not stable: no delivery is on record by {names}."
    return "Sent to nobody in its view."


def past_text(lineage: Lineage) -> str:
    """How much lies before and after the message."""
    unsure = "" if lineage.certain else " A log is cut short: there may be more in between."
    return f"Wave {lineage.wave:,}; {_messages(lineage.past)} in its past, {lineage.future:,} in its future.{unsure}"


def wait_text(delivery: DeliveryPath, wait: Wait) -> str:
    """What was waited for, in words."""
    process = process_name(delivery.process)
    named = full_name(wait.message) if wait.message is not None else ""
    if wait.kind == LINK:
        own = delivery.message.sender == delivery.process
        return "its own message" if own else f"on its way from {process_name(delivery.message.sender)} to {process}"
    if wait.kind == HOLD_BACK:
        return f"held back for {named}, which had to come first"
    if wait.kind == ORDER:
        return f"{named} came before it in the total order" if named else "until its place in the total order was known"
    if wait.kind == STABILITY:
        if wait.process is not None:
            return f"until {process_name(wait.process)} had received it, the last member to"
        return f"until {process} knew that every member had received it"
    assert wait.kind == HANDOVER
    return "ready, until the application was handed it"


def offset(time_ns: int) -> str:
    """A time, told from the send of the message in question."""
    if time_ns == 0:
        return "at the same time"
    return f"{duration(abs(time_ns))} {'later' if time_ns > 0 else 'earlier'}"


def _headlines(lineage: Lineage) -> list[RenderableType]:
    send = lineage.send
    name = Text(printable(full_name(lineage.message)), style="bold")
    label = "" if send.label is None else f", labelled “{send.label}”"
    view = "" if send.view is None else f" in view {send.view}"
    where = f", {send.level}{label}, sent{view} (row {send.index} of {process_of(send)}, run {lineage.run})"
    lines = (past_text(lineage), stability_text(lineage))
    return [Text.assemble(name, printable(where)), *(Text(printable(line)) for line in lines)]


def _relatives(lineage: Lineage) -> RenderableType:
    table = _table("step", "message", "sent", "next to it")
    origin = (Text("0"), Text(printable(full_name(lineage.message)), style="bold"), Text("–"), Text(""))
    placed = False
    for relative in lineage.relatives:
        if relative.step > 0 and not placed:
            table.add_row(*origin)
            placed = True
        table.add_row(*_relative(lineage, relative))
    if not placed:
        table.add_row(*origin)
    return table


def _relative(lineage: Lineage, relative: Relative) -> tuple[Text, ...]:
    sent = "off record" if relative.sent_ns is None else offset(relative.sent_ns - lineage.send.time_ns)
    word = "cause of" if relative.step < 0 else "effect of"
    return (
        Text(f"{relative.step:+d}".replace("-", "−")),
        Text(printable(full_name(relative.message))),
        Text(sent),
        Text(printable(f"{word} {full_name(relative.via)}"), style="dim"),
    )


def _left_out(lineage: Lineage) -> list[RenderableType]:
    """How many more there are on each side."""
    shown = {side: sum((relative.step > 0) == side for relative in lineage.relatives) for side in (False, True)}
    more = [
        f"{_messages(total - shown[side])} more in its {word}"
        for side, total, word in ((False, lineage.past, "past"), (True, lineage.future, "future"))
        if total > shown[side]
    ]
    return [Text(f"{' and '.join(more)} (--depth and --limit show more).", style="dim")] if more else []


def _delivery_headline(delivery: DeliveryPath, place: int) -> Text:
    why = "" if place == 0 else "because "
    took = duration(max(0, delivery.delivered_ns - delivery.sent_ns))
    name, process = full_name(delivery.message), process_name(delivery.process)
    line = f"{why}{process} delivered {name} ({delivery.level}) {took} after it was sent:"
    return Text(printable(line[:1].upper() + line[1:] if place else line), style="bold" if place == 0 else "")


def _waits(delivery: DeliveryPath) -> RenderableType:
    table = _table("wait", "cost", "for")
    for wait in delivery.waits:
        if wait.at_most_ns == 0 and wait.kind != LINK:
            continue
        style = "bold" if wait is delivery.longest else ""
        table.add_row(
            Text(wait.kind, style=style), Text(_cost(wait), style=style), Text(printable(wait_text(delivery, wait)))
        )
    return table


def _cost(wait: Wait) -> str:
    if wait.at_least_ns == wait.at_most_ns:
        return duration(wait.at_most_ns)
    return (
        f"{duration(wait.at_least_ns)} to {duration(wait.at_most_ns)}"
        if wait.at_least_ns
        else (f"at most {duration(wait.at_most_ns)}")
    )


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for name in names:
        table.add_column(name, justify="right" if name in ("step", "cost") else "left")
    return table


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"
