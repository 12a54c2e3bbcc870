"""A row in a few words, on one line, for tools that show text."""

import json

from antiphon.history.schema import BARRIER, Row


def plain(text: str) -> str:
    """A text that fits into a line: as it is, or as a JSON string if it holds what does not print."""
    return text if text.isprintable() else json.dumps(text)


def messages(row: Row) -> str:
    """The messages of a row: `b/1#4`, or `b/1#4..6` for three of them."""
    assert row.number is not None
    last = row.number + (row.count or 1) - 1
    name = f"{plain(row.sender or '')}/{row.sender_incarnation}#{row.number}"
    return name if last == row.number else f"{name}..{last}"


def words(row: Row) -> str:
    """What happened."""
    group = "" if row.group is None else f" in {plain(row.group)}"
    match row.kind:
        case "send" | "receive" | "deliver":
            label = " as a barrier" if row.label == BARRIER else "" if row.label is None else f" {plain(row.label)}"
            return f"{row.kind} {messages(row)}{group} ({row.level}){label}"
        case "depart":
            return f"depart {messages(row)}{group} in view {row.view}"
        case "view":
            return f"view {row.view}{group}: {', '.join(map(plain, row.members or ()))}"
        case "start":
            return f"start{group}"
        case _:
            return f"{row.kind}{group}: {plain(row.label or '')}"
