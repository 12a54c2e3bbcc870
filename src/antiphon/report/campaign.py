"""The page of a campaign: one HTML file that holds everything it shows, and by its content policy can load nothing.

It has no script at all; its style is allowed by its hash. Built as a tree (see markup).
"""

import base64
import hashlib
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from importlib import resources
from typing import Final

from antiphon.history.schema import LEVELS
from antiphon.pipeline import guarantees
from antiphon.pipeline.campaign.chunks import FAILING
from antiphon.pipeline.campaign.failing import FailingSeed, Kept
from antiphon.pipeline.campaign.judge import MISTAKE, REST
from antiphon.pipeline.campaign.summary import Summary
from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN
from antiphon.report.markup import Child, document, raw, tag
from antiphon.report.plots import histogram, stacked_bars
from antiphon.report.words import clipped, duration

FAILING_SHOWN_MAX: Final = 200
EXPLANATION_MAX: Final = 400

HEADLINES: Final = {
    KEPT: "Every seed kept every promise",
    BROKEN: "Some seeds broke a promise",
    UNKNOWN: "No seed was found to break a promise, but some leave something open",
}
MEANINGS: Final = {
    **guarantees.MEANINGS,
    REST: "After the last fault every group comes to rest: one view, and everything stable.",
    MISTAKE: "The engine never fails, whatever comes in.",
}


def campaign_page(summary: Summary) -> str:
    """The page as text."""
    assets = resources.files("antiphon.report")
    style = "".join(assets.joinpath(name).read_text(encoding="utf-8") for name in ("report.css", "campaign.css"))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    title = f"Antiphon campaign: {summary.tally.seeds:,} seeds, {summary.tally.verdict}"
    head = tag(
        "head",
        None,
        tag("meta", {"charset": "utf-8"}),
        tag(
            "meta",
            {"http-equiv": "Content-Security-Policy", "content": f"default-src 'none'; style-src 'sha256-{digest}'"},
        ),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("title", None, title),
        raw("style", style),
    )
    main = tag("main", None, _verdicts(summary), _failing(summary), _distributions(summary), _coverage(summary))
    return document(tag("html", {"lang": "en"}, head, tag("body", None, _header(summary), main)))


def _header(summary: Summary) -> ET.Element:
    tally, campaign = summary.tally, summary.campaign
    facts = [
        ("seeds", f"{tally.seeds:,}"),
        ("failed", f"{tally.failed:,}"),
        ("events", f"{tally.sums['events']:,}"),
        ("views", f"{tally.sums['views']:,}"),
        ("crashes and exclusions", f"{tally.sums['failures']:,}"),
        ("seeds per minute", f"{summary.seeds_per_minute:,.0f}" if summary.seeds_now else "–"),
        ("simulated time", duration(tally.sums["virtual_ns"])),
    ]
    items = [tag("div", None, tag("dt", None, name), tag("dd", None, value)) for name, value in facts]
    what = (
        f"stack {campaign.stack}, workload {campaign.workload}, seeds {campaign.first}:{campaign.end}, {summary.build}"
    )
    badge = tag("span", {"class": f"badge {tally.verdict}"}, tally.verdict)
    return tag(
        "header",
        {"class": f"verdict-{tally.verdict}"},
        tag("p", {"class": "title"}, f"Antiphon campaign: {what}"),
        tag("h1", None, badge, tag("span", None, HEADLINES[tally.verdict])),
        tag("dl", {"class": "facts"}, *items),
    )


def _table(heads: Sequence[str], rows: Sequence[ET.Element], numbers_from: int) -> ET.Element:
    cells = [tag("th", {"class": "number"} if at >= numbers_from else None, name) for at, name in enumerate(heads)]
    table = tag("table", {"class": "plain"}, tag("thead", None, tag("tr", None, *cells)), tag("tbody", None, *rows))
    return tag("div", {"class": "scroll tall"}, table)


def _number(count: int) -> ET.Element:
    return tag("td", {"class": "number" if count else "number zero"}, f"{count:,}")


def _verdicts(summary: Summary) -> ET.Element:
    tally = summary.tally
    bars = [
        (kind, [(verdict, tally.kinds[kind, verdict]) for verdict in (KEPT, BROKEN, UNKNOWN)])
        for kind in sorted({kind for kind, _ in tally.kinds})
    ]
    names = sorted({name for name, _ in tally.guarantees})
    rows = [
        tag(
            "tr",
            None,
            tag("td", None, tag("strong", None, name), tag("p", {"class": "meaning"}, MEANINGS.get(name))),
            _number(tally.guarantees[name, BROKEN]),
            _number(tally.guarantees[name, UNKNOWN]),
        )
        for name in names
    ]
    beyond = tally.sums["beyond_resilience"]
    return tag(
        "section",
        {"id": "verdicts"},
        tag("h2", None, "Seeds by verdict"),
        stacked_bars(bars),
        _table(("guarantee", "seeds that broke it", "seeds that left it open"), rows, 1) if rows else None,
        tag(
            "p",
            {"class": "quiet"},
            f"In {beyond:,} of the seeds that count as kept, more members failed at once than the causality domain was "
            "told to expect, and causal order suffered; nothing else may.",
        )
        if beyond
        else None,
    )


def _failing(summary: Summary) -> ET.Element | None:
    tally = summary.tally
    if not tally.failing:
        return None
    kept = {(one.kind, one.seed): one for one in summary.kept}
    first = [failing for failing in tally.failing if (failing.kind, failing.seed) in kept]
    rest = [failing for failing in tally.failing if (failing.kind, failing.seed) not in kept]
    shown = (first + rest)[:FAILING_SHOWN_MAX]
    rows = [_failing_row(summary, failing, kept.get((failing.kind, failing.seed))) for failing in shown]
    more = f"{len(shown):,} of {tally.failed:,} failing seeds are shown; all stand in the result table."
    return tag(
        "section",
        {"id": "failing"},
        tag("h2", None, "Failing seeds"),
        _table(("seed", "what was found, and how to run it again", "events", "shrunk to", "processes"), rows, 2),
        tag("p", {"class": "quiet"}, more) if tally.failed > len(shown) else None,
    )


def _failing_row(summary: Summary, failing: FailingSeed, kept: Kept | None) -> ET.Element:
    found = failing.explanation if kept is None else f"{failing.guarantee} {failing.verdict}: {kept.explanation}"
    lines: list[Child] = [
        tag("p", None, clipped(found, EXPLANATION_MAX)),
        tag("p", None, tag("code", None, summary.command(failing.seed))),
    ]
    if kept is not None and kept.test is not None:
        test = f"{FAILING}/{kept.name}/{kept.test}"
        spent = f"{kept.shrink_runs:,} runs" + ("" if kept.is_minimal else ", which was the limit")
        lines.append(tag("p", {"class": "quiet"}, tag("code", None, f"pytest {test}"), f"  (shrunk in {spent})"))
    has_shrunk = kept is not None and kept.shrunk_events is not None
    return tag(
        "tr",
        {"class": failing.verdict},
        tag("td", {"class": "seed"}, f"{failing.kind} {failing.seed}"),
        tag("td", None, *lines),
        _number(failing.events),
        tag("td", {"class": "number"}, f"{kept.shrunk_events:,}" if kept is not None and has_shrunk else "–"),
        tag(
            "td",
            {"class": "number"},
            f"{kept.processes} → {kept.shrunk_processes}" if kept is not None and has_shrunk else "–",
        ),
    )


def _distributions(summary: Summary) -> ET.Element:
    tally = summary.tally
    plots = [
        ("events per seed", histogram(tally.events, lambda value: f"{value:,.0f}")),
        ("time to simulate a seed", histogram(tally.simulation_ns, lambda value: duration(int(value)))),
        ("time to audit it", histogram(tally.audit_ns, lambda value: duration(int(value)))),
        (
            "deliveries by level",
            stacked_bars([(level, [("deliveries", tally.sums[_column(level)])]) for level in LEVELS]),
        ),
    ]
    figures = [tag("div", None, tag("h3", None, name), plot) for name, plot in plots]
    return tag(
        "section", {"id": "distributions"}, tag("h2", None, "Distributions"), tag("div", {"class": "plots"}, *figures)
    )


def _coverage(summary: Summary) -> ET.Element:
    tally = summary.tally
    names = list(dict.fromkeys([*summary.situations, *sorted(tally.reached)]))
    names.sort(key=lambda name: (name.partition(":")[0], tally.seeds_reaching[name]))
    rows = [
        tag(
            "tr",
            None if tally.reached[name] else {"class": "never"},
            tag("td", None, name),
            tag("td", {"class": "number"}, f"{tally.seeds_reaching[name] / max(1, tally.seeds):.1%}"),
            _number(tally.seeds_reaching[name]),
            _number(tally.reached[name]),
        )
        for name in names
    ]
    never = len(summary.never_reached)
    told = "All of them were reached." if not never else f"{never} of them no seed has reached."
    return tag(
        "section",
        {"id": "coverage"},
        tag("h2", None, "Protocol situations reached"),
        tag("p", {"class": "quiet"}, f"What packets were sent, and from which phase to which members went. {told}"),
        _table(("situation", "share of seeds", "seeds", "times"), rows, 1),
    )


def _column(level: str) -> str:
    """The sum of deliveries at a level."""
    return f"delivered_{level.replace('-', '_')}"
