"""A campaign in a terminal: how many seeds of each kind kept, broke or left open what, and what to look at next."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from antiphon.pipeline.campaign.chunks import FAILING
from antiphon.pipeline.campaign.failing import Kept
from antiphon.pipeline.campaign.summary import Summary
from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN
from antiphon.report.table import STYLES
from antiphon.report.words import printable

SHOWN_MAX = 10


def campaign_table(summary: Summary) -> RenderableType:
    """What to print for a campaign."""
    tally = summary.tally
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("runs")
    for name in ("seeds", KEPT, BROKEN, UNKNOWN):
        table.add_column(name, justify="right")
    for kind in sorted({kind for kind, _ in tally.kinds}):
        counts = [tally.kinds[kind, verdict] for verdict in (KEPT, BROKEN, UNKNOWN)]
        table.add_row(
            Text(kind), *(Text(f"{count:,}", "default" if count else "dim") for count in (sum(counts), *counts))
        )
    parts: list[RenderableType] = [table, Text()]
    parts += [_kept_line(kept, summary) for kept in summary.kept[:SHOWN_MAX]]
    reached = len(summary.situations) - len(summary.never_reached)
    pace = f" {summary.seeds_per_minute:,.0f} seeds per minute." if summary.seeds_now else " All of it was done before."
    parts.append(
        Text.assemble(
            (tally.verdict, STYLES.get(tally.verdict, "bold")),
            f"  {tally.seeds:,} seeds, {tally.failed:,} failed; {tally.sums['events']:,} events; "
            f"{reached} of {len(summary.situations)} protocol situations reached.{pace}",
        )
    )
    parts.append(Text(f"\nresults  {summary.directory}\npage     {summary.directory / 'summary.html'}"))
    return Group(*parts)


def _kept_line(kept: Kept, summary: Summary) -> Text:
    folder = summary.directory / FAILING / kept.name
    head = f"{kept.kind} {kept.seed}: {kept.guarantee} {kept.verdict}: "
    if kept.test is None:
        return Text(printable(f"{head}{kept.explanation} (not shrunk)") + f"\n  {folder / 'history'}\n")
    shrunk = f"{kept.events:,} events shrunk to {kept.shrunk_events:,}"
    return Text(printable(f"{head}{kept.explanation}") + f"\n  {shrunk}: {folder / kept.test}\n")
