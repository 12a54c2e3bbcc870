"""The screen of `antiphon top`: tables of members, groups, waits and events, as wide and high as the terminal."""

import time
from typing import Any

from rich.console import Group as Stacked
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from antiphon.observe.board import READY, UNREACHABLE, BoardView, GroupRow, MemberRow

KEYS = "q quit   s sort   g group   p pause   ? help"
HELP = """\
 Each member answers by its observer (antiphon node, or antiphon.observe.Observer).

 q, Ctrl-C   quit                   s   sort members by the next column
 g, →        the next group only    G, ← the group before; after the last come all
 p, space    pause, or go on        ?   this, or back

 BEHIND      packets that others wait for this member to acknowledge
 WAITS/S     calls of `send` that had to wait for room
 LAG         how late the member's event loop was
 P99         delivery of own messages at the slowest level, at the slowest member
 STABLE      until all members have what was sent, 99 of 100"""


def state_style(state: str) -> str:
    return "green" if state == READY else "bold white on red" if state == UNREACHABLE else "bold yellow"


def rate(value: float) -> str:
    """A rate in few digits."""
    if value >= 1e6:
        return f"{value / 1e6:.1f}M"
    if value >= 10_000:
        return f"{value / 1e3:.0f}k"
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def milliseconds(value: float) -> str:
    return "–" if value == 0 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def make_table(*columns: str, left: int = 1) -> Table:
    """A table without lines; the first `left` columns are text, the others figures."""
    table = Table(box=None, padding=(0, 1), expand=True, header_style="bold reverse", pad_edge=True)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < left else "right", no_wrap=True, overflow="ellipsis")
    return table


def members_table(rows: list[MemberRow], sort: str) -> Table:
    columns = ["MEMBER", "STATE", "GROUPS", "SENT/S", "DELIVERED/S", "BEHIND", "UNREAD", "OUTBOX", "WAITS/S", "LAG MS"]
    sorted_by = {"name": "MEMBER", "lag": "LAG MS", "delivered": "DELIVERED/S"}.get(sort, sort.upper())
    table = make_table(*(f"{column}▾" if column == sorted_by else column for column in columns), left=2)
    for row in rows:
        state = Text(row.state, state_style(row.state))
        if row.why:
            state.append(f"  {row.why}", "dim")
        if row.state == UNREACHABLE:
            table.add_row(Text(row.name, "red"), state, *["–"] * 8)
            continue
        table.add_row(
            row.name, state, str(row.groups), rate(row.sent_per_s), rate(row.delivered_per_s),
            Text(str(row.behind), "bold yellow" if row.behind >= 32 else ""), str(row.unread), str(row.outbox),
            rate(row.waits_per_s), milliseconds(row.lag_ms),
        )  # fmt: skip
    return table


def groups_table(rows: list[GroupRow]) -> Table:
    table = make_table(
        "GROUP", "STACK", "STATE", "VIEW", "SIZE", "SENT/S", "DELIVERED/S", "P50 MS", "P99 MS", "STABLE MS", "WAITS/S",
        "SUSPECTED", "STALLS", left=3,
    )  # fmt: skip
    for row in rows:
        views = ",".join(map(str, row.views))
        state = ", ".join(row.states)
        table.add_row(
            row.name, row.stack, Text(state, state_style(state)), Text(views, "bold yellow" if "," in views else ""),
            str(row.size), rate(row.sent_per_s), rate(row.delivered_per_s), milliseconds(row.p50_ms),
            milliseconds(row.p99_ms) + (f" {row.level}" if row.level else ""), milliseconds(row.stable_p99_ms),
            rate(row.waits_per_s), str(row.suspicions), str(row.stalls),
        )  # fmt: skip
    return table


def waits_table(view: BoardView, rows: int) -> Table:
    table = make_table("WAITS", "FOR", "IN", "PACKETS", "SILENT MS", "STRAIN", left=3)
    for wait in view.waits[:rows]:
        style = "bold red" if wait.is_suspected else "yellow" if wait.behind >= 32 or wait.strain >= 1 else ""
        slow = wait.slow + (" (suspected)" if wait.is_suspected else "")
        table.add_row(
            wait.waiting, Text(slow, style), wait.group, str(wait.behind), f"{wait.silent_ms:.0f}", f"{wait.strain:.2f}"
        )
    if not view.waits:
        table.add_row(Text("nobody waits for anybody", "dim"), "", "", "", "", "")
    return table


def event_line(event: dict[str, Any]) -> Text:
    clock = time.strftime("%H:%M:%S", time.localtime(event["time_ns"] / 1e9))
    style = {"view": "green", "suspicion": "yellow", "left": "dim"}.get(event["kind"], "bold red")
    head = ((f" {clock} ", "dim"), (f"{event['member']} ", "bold"), f"{event['group']} ")
    return Text.assemble(*head, (f"{event['kind']} ", style), event["text"], no_wrap=True, overflow="ellipsis")


def screen(view: BoardView, height: int, group: str, sort: str, is_paused: bool, shows_help: bool) -> RenderableType:
    """Everything, in so many lines; the events have what the tables leave."""
    reached = sum(row.state != UNREACHABLE for row in view.members)
    title = Text.assemble(
        (" antiphon top ", "bold reverse"), f"  {time.strftime('%H:%M:%S')}  ",
        (f"{reached} of {len(view.members)} members answer", "" if reached == len(view.members) else "bold red"),
        f"   group: {escape(group) if group else 'all'}   sort: {sort}", ("   paused" if is_paused else "", "bold yellow"),
        (f"     {KEYS}", "dim"), no_wrap=True, overflow="ellipsis",
    )  # fmt: skip
    if shows_help:
        return Stacked(title, Text(), Text(HELP))
    waits = max(2, min(len(view.waits), height // 4))
    parts: list[RenderableType] = [
        title, Text(), members_table(view.members, sort), Text(), groups_table(view.groups), Text(),
        waits_table(view, waits), Text(),
    ]  # fmt: skip
    used = 8 + len(view.members) + len(view.groups) + max(1, min(waits, len(view.waits)))
    room = max(3, height - used - 1)
    parts += [event_line(event) for event in view.events[-room:]]
    return Stacked(*parts)
