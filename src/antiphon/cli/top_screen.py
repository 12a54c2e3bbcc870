"""The screen of `antiphon top`: tables of members, groups, waits and events, as wide and high as the terminal."""

import time
from collections.abc import Sequence
from typing import Any, Final, final

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.console import Group as Stacked
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from antiphon.observe.board import READY, UNREACHABLE, BoardView, GroupRow, MemberRow, WaitRow

KEYS: Final = "q quit   s sort   g group   p pause   ? help"
SORTED: Final = "▾"
"""Marks the column by which members are sorted."""
WIDTH_MAX: Final = 10_000
TOGETHER_NS: Final = 2_000_000_000
"""What members tell of within this time is one event."""
HELP: Final = """\
 Each member answers by its observer: antiphon node, or antiphon.observe.

 q, Ctrl-C   quit                   s      sort by the next column
 g, →        the next group alone   G, ←   the group before
 p, space    pause, or go on        ?      this, or back

 BEHIND      packets that others wait for this member to acknowledge
 OUTSTANDING messages sent here that some member is not known to have
 WAITS/S     calls of `send` that had to wait for room
 LAG         how late the member's event loop was
 P99         own messages at the slowest level and member, 99 of 100
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


def count(value: int) -> str:
    return str(value) if value < 10_000 else rate(value)


def milliseconds(value: float) -> str:
    return "–" if value == 0 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


@final
class FittedTable:
    """A table without lines. Where it is too narrow for all columns, the least important ones are left out."""

    def __init__(
        self, columns: Sequence[str], rows: Sequence[Sequence[str | Text]], left: int, spare: Sequence[str]
    ) -> None:
        """`left`: so many columns are text, the others figures; `spare`: what is left out first comes first."""
        self._columns = columns
        self._rows = rows
        self._left = left
        self._spare = spare

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for count in range(len(self._spare) + 1):
            table = self._without(self._spare[:count])
            if Measurement.get(console, options.update(max_width=WIDTH_MAX), table).maximum <= options.max_width:
                break
        table.expand = console.is_terminal  # the line of headings is as wide as the screen
        yield table

    def _without(self, left_out: Sequence[str]) -> Table:
        table = Table(box=None, padding=(0, 1), collapse_padding=True, header_style="bold reverse")
        kept = [place for place, column in enumerate(self._columns) if column.rstrip(SORTED) not in left_out]
        for place in kept:
            justify: JustifyMethod = "left" if place < self._left else "right"
            table.add_column(self._columns[place], justify=justify, no_wrap=True, overflow="ellipsis")
        table.add_column("", ratio=1)  # takes the width that the others leave
        for row in self._rows:
            table.add_row(*(row[place] for place in kept), "")
        return table


def members_table(rows: list[MemberRow], sort: str) -> FittedTable:
    columns = (
        "MEMBER", "STATE", "GROUPS", "SENT/S", "DELIVERED/S", "BEHIND", "UNREAD", "OUTSTANDING", "WAITS/S", "LAG MS",
    )  # fmt: skip
    sorted_by = {"name": "MEMBER", "lag": "LAG MS", "delivered": "DELIVERED/S"}.get(sort, sort.upper())
    spare = [column for column in ("GROUPS", "WAITS/S", "UNREAD", "LAG MS") if column != sorted_by]
    headings = [column + SORTED if column == sorted_by else column for column in columns]
    return FittedTable(headings, [member_cells(row) for row in rows], 2, spare)


def member_cells(row: MemberRow) -> list[str | Text]:
    state = Text(row.state, state_style(row.state))
    if row.state == UNREACHABLE:
        return [Text(row.name, "red"), state, *["–"] * 8]
    return [
        row.name, state, str(row.groups), rate(row.sent_per_s), rate(row.delivered_per_s),
        Text(str(row.behind), "bold yellow" if row.behind >= 32 else ""), str(row.unread), count(row.outstanding),
        rate(row.waits_per_s), milliseconds(row.lag_ms),
    ]  # fmt: skip


def reason_lines(rows: list[MemberRow]) -> list[Text]:
    """Why members are not ready; the same reason on one line."""
    names: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.why:
            names.setdefault((row.state, row.why), []).append(row.name)
    return [
        Text.assemble(" ", (", ".join(who), "bold"), ": ", (why, state_style(state)), no_wrap=True, overflow="ellipsis")
        for (state, why), who in names.items()
    ]


def groups_table(rows: list[GroupRow]) -> FittedTable:
    columns = (
        "GROUP", "STACK", "STATE", "VIEW", "SIZE", "SENT/S", "DELIVERED/S", "P50 MS", "P99 MS", "STABLE MS", "WAITS/S",
        "SUSPECTED", "STALLS",
    )  # fmt: skip
    return FittedTable(
        columns, [group_cells(row) for row in rows], 3, ("P50 MS", "STACK", "WAITS/S", "STALLS", "SUSPECTED")
    )


def group_cells(row: GroupRow) -> list[str | Text]:
    views = ",".join(map(str, row.views))
    state = ", ".join(row.states)
    level = f" {row.level}" if row.p99_ms else ""
    return [
        row.name, row.stack, Text(state, state_style(state)), Text(views, "bold yellow" if "," in views else ""),
        str(row.size), rate(row.sent_per_s), rate(row.delivered_per_s), milliseconds(row.p50_ms),
        milliseconds(row.p99_ms) + level, milliseconds(row.stable_p99_ms), rate(row.waits_per_s), str(row.suspicions),
        str(row.stalls),
    ]  # fmt: skip


def waits_table(waits: list[WaitRow]) -> FittedTable:
    rows: list[list[str | Text]] = []
    for wait in waits:
        style = "bold red" if wait.is_suspected else "yellow" if wait.behind >= 32 or wait.strain >= 1 else ""
        slow = wait.slow + (" (suspected)" if wait.is_suspected else "")
        figures = (str(wait.behind), f"{wait.silent_ms:.0f}", f"{wait.strain:.2f}")
        rows.append([wait.waiting, Text(slow, style), wait.group, *figures])
    rows = rows or [[Text("nobody", "dim"), *[Text("–", "dim")] * 5]]
    return FittedTable(("WAITS", "FOR", "IN", "PACKETS", "SILENT MS", "STRAIN"), rows, 3, ("STRAIN",))


def together(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events in order, with those that several members told of put together where the first of them stands."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    lines: list[dict[str, Any]] = []
    for event in events:
        key = (event["group"], event["kind"], event["text"])
        line = found.get(key)
        if line is None or event["time_ns"] - line["time_ns"] > TOGETHER_NS or event["member"] in line["members"]:
            line = found[key] = {**event, "members": []}
            lines.append(line)
        line["members"].append(event["member"])
    return lines


def event_line(event: dict[str, Any]) -> Text:
    clock = time.strftime("%H:%M:%S", time.localtime(event["time_ns"] / 1e9))
    style = {"view": "green", "suspicion": "yellow", "left": "dim"}.get(event["kind"], "bold red")
    head = ((f" {clock} ", "dim"), (f"{', '.join(sorted(event['members']))} ", "bold"), f"{event['group']} ")
    return Text.assemble(*head, (f"{event['kind']} ", style), event["text"], no_wrap=True, overflow="ellipsis")


def screen(
    view: BoardView,
    height: int,
    group: str,
    sort: str,
    is_paused: bool = False,
    shows_help: bool = False,
    keys: str = KEYS,
) -> RenderableType:
    """Everything, in so many lines; members have at most a third of them, and the events have what the tables leave."""
    reached = sum(row.state != UNREACHABLE for row in view.members)
    title = Text.assemble(
        (" antiphon top ", "bold reverse"), f"  {time.strftime('%H:%M:%S')}  ",
        (f"{reached} of {len(view.members)} members answer", "" if reached == len(view.members) else "bold red"),
        f"   group: {group or 'all'}   sort: {sort}", ("   paused" if is_paused else "", "bold yellow"),
        no_wrap=True, overflow="ellipsis",
    )  # fmt: skip
    if shows_help:
        return Stacked(title, Text(), Text(HELP))
    members = view.members[: max(3, height // 3)]
    reasons = reason_lines(members)
    if len(members) < len(view.members):
        reasons.append(
            Text(f" and {len(view.members) - len(members)} more, which sorting or a group may bring up", "dim")
        )
    waits = view.waits[: max(2, height // 8)]
    used = 8 + len(members) + len(reasons) + len(view.groups) + max(1, len(waits))
    events = together(view.events)[-max(1, height - used) :]
    return Stacked(
        title, Text(f" {keys}" if keys else "", "dim"), members_table(members, sort), *reasons, Text(),
        groups_table(view.groups), Text(), waits_table(waits), Text(), *map(event_line, events),
    )  # fmt: skip
