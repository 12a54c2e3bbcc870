"""Counts and latencies of every member, as a table that stays readable with hundreds of lines.

Latencies of one run spread over orders of magnitude, so they are drawn on a logarithmic scale that all members share:
a bar from the median to the 99th percentile, and a tick at the maximum. An audit observes no more of the distribution.
"""

import math
import xml.etree.ElementTree as ET
from typing import Final

from antiphon.pipeline.explain import process_name
from antiphon.pipeline.result import Audit, MemberObservation
from antiphon.report.markup import tag
from antiphon.report.rows import reading_order
from antiphon.report.words import clipped, duration

BAR_WIDTH: Final = 90
SPREAD_WIDTH: Final = 200
NAME_LENGTH_MAX: Final = 40
MEMBERS_MAX: Final = 500
HEADS: Final = ("member", "group", "sent", "delivered", "", "bytes", "p50", "p99", "max", "latency", "ending")
NUMERIC: Final = frozenset({"sent", "delivered", "bytes", "p50", "p99", "max"})


def members_section(audit: Audit, run: str | None) -> ET.Element:
    """The table of members, in a scroll area of its own; those of `run` come first, and there is a limit."""
    section = tag("section", {"id": "members"}, tag("h2", None, "Members"))
    if not audit.observations:
        section.append(tag("p", {"class": "quiet"}, "The audit observed no member."))
        return section
    everybody = sorted(
        audit.observations, key=lambda one: (one.run != run, one.run, one.group, reading_order(one.process))
    )
    members = everybody[:MEMBERS_MAX]
    scale = _Scale(members)
    heads = list(HEADS) if audit.runs <= 1 else ["run", *HEADS]
    cells = [tag("th", {"class": "number"} if name in NUMERIC else None, name) for name in heads]
    if scale.known:
        extent = f"{duration(scale.low_ns)} to {duration(scale.high_ns)}"
        cells[heads.index("latency")].text = f"latency, {extent}, log scale"
    most = max(one.delivered for one in members)
    rows = [_row(one, most, scale, with_run=audit.runs > 1) for one in members]
    table = tag("table", None, tag("thead", None, tag("tr", None, *cells)), tag("tbody", None, *rows))
    words = "Latency is from the send row to the deliver row: bar from median to 99th percentile, tick at the maximum."
    if len(everybody) > len(members):
        words += f" The first {len(members):,} of {len(everybody):,} members are listed."
    section.append(tag("p", {"class": "quiet"}, words))
    section.append(tag("div", {"class": "scroll tall"}, table))
    return section


class _Scale:
    """The logarithmic scale that all latencies share, in whole powers of ten."""

    def __init__(self, members: list[MemberObservation]) -> None:
        known_ns = [
            max(1, value)
            for one in members
            for value in (one.latency_ns_p50, one.latency_ns_p99, one.latency_ns_max)
            if value is not None
        ]
        self.known = bool(known_ns)
        self.low = math.floor(math.log10(min(known_ns, default=1)))
        self.high = max(self.low + 1, math.ceil(math.log10(max(known_ns, default=1))))
        self.low_ns = 10**self.low
        self.high_ns = 10**self.high

    def place(self, latency_ns: int) -> float:
        share = (math.log10(max(1, latency_ns)) - self.low) / (self.high - self.low)
        return share * (SPREAD_WIDTH - 4) + 2


def _row(one: MemberObservation, most: int, scale: _Scale, *, with_run: bool) -> ET.Element:
    def number(text: str) -> ET.Element:
        return tag("td", {"class": "number"}, text)

    def name(text: str) -> ET.Element:
        return tag("td", {"title": text, "class": "name"}, clipped(text, NAME_LENGTH_MAX))

    latencies = (one.latency_ns_p50, one.latency_ns_p99, one.latency_ns_max)
    ended_well = one.ending == "quiet"
    return tag(
        "tr",
        None,
        name(one.run) if with_run else None,
        name(process_name(one.process)),
        name(one.group),
        number(f"{one.sent:,}"),
        number(f"{one.delivered:,}"),
        tag("td", None, _bar(one.delivered / most if most else 0.0)),
        number(f"{one.delivered_bytes:,}"),
        *(number("–" if value is None else duration(max(0, value))) for value in latencies),
        tag("td", None, _spread(one, scale)),
        tag("td", {"class": "ending" if ended_well else "ending unsure"}, one.ending),
    )


def _bar(share: float) -> ET.Element:
    bar = tag("rect", {"x": 0, "y": 3, "width": share * BAR_WIDTH, "height": 8, "rx": 2})
    return tag("svg", {"class": "bar", "width": BAR_WIDTH, "height": 14, "aria-hidden": "true"}, bar)


def _spread(one: MemberObservation, scale: _Scale) -> ET.Element | None:
    """The quantiles of one member on the shared scale, over a grid of powers of ten."""
    if one.latency_ns_p50 is None or one.latency_ns_p99 is None or one.latency_ns_max is None:
        return None
    middle, far, most = (scale.place(value) for value in (one.latency_ns_p50, one.latency_ns_p99, one.latency_ns_max))
    grid = [
        tag("line", {"x1": x, "x2": x, "y1": 0, "y2": 18, "class": "grid"})
        for x in (scale.place(10**power) for power in range(scale.low, scale.high + 1))
    ]
    return tag(
        "svg",
        {"class": "spread", "width": SPREAD_WIDTH, "height": 18, "aria-hidden": "true"},
        *grid,
        tag("line", {"x1": far, "x2": most, "y1": 9, "y2": 9, "class": "reach"}),
        tag("rect", {"x": middle, "y": 5, "width": max(1.0, far - middle), "height": 8, "rx": 2}),
        tag("line", {"x1": middle, "x2": middle, "y1": 3, "y2": 15, "class": "middle"}),
        tag("line", {"x1": most, "x2": most, "y1": 5, "y2": 13, "class": "most"}),
    )
