"""Bars and histograms as inline SVG."""

import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from typing import Final

from antiphon.pipeline.campaign.tally import BINS_PER_DECADE, Histogram
from antiphon.report.markup import Attribute, tag

WIDTH: Final = 520
HEIGHT: Final = 130
LABEL_WIDTH: Final = 90
BAR_HEIGHT: Final = 18
BOTTOM: Final = 18
TOP: Final = 14


def stacked_bars(rows: Sequence[tuple[str, Sequence[tuple[str, int]]]]) -> ET.Element:
    """One bar per row, each of pieces (class, count); all rows to one scale."""
    most = max((sum(count for _, count in pieces) for _, pieces in rows), default=0) or 1
    shapes: list[ET.Element] = []
    for number, (label, pieces) in enumerate(rows):
        y = number * (BAR_HEIGHT + 8)
        shapes.append(tag("text", {"x": 0, "y": y + 13}, label))
        x = float(LABEL_WIDTH)
        for name, count in pieces:
            if count:
                width = max(2.0, count / most * (WIDTH - LABEL_WIDTH - 70))
                title = tag("title", None, f"{count:,} {name}")
                attributes: dict[str, Attribute] = {"x": x, "y": y, "width": width, "height": BAR_HEIGHT, "class": name}
                shapes.append(tag("rect", attributes, title))
                x += width
        total = sum(count for _, count in pieces)
        shapes.append(tag("text", {"x": x + 6, "y": y + 13, "class": "count"}, f"{total:,}"))
    height = len(rows) * (BAR_HEIGHT + 8)
    return tag("svg", {"class": "plot", "width": WIDTH, "height": height, "viewBox": f"0 0 {WIDTH} {height}"}, *shapes)


def histogram(data: Histogram, unit: Callable[[float], str]) -> ET.Element:
    """Counts by value, on a logarithmic axis; each bin tells its bounds and count when pointed at."""
    if not data.bins:
        return tag("p", {"class": "quiet"}, "There is nothing to draw.")
    low, high = min(data.bins), max(data.bins)
    low -= low % BINS_PER_DECADE
    high += BINS_PER_DECADE - high % BINS_PER_DECADE
    step = WIDTH / (high - low)
    most = max(data.bins.values())
    floor = HEIGHT - BOTTOM
    shapes: list[ET.Element] = []
    for bin, count in sorted(data.bins.items()):
        height = max(1.0, count / most * (floor - TOP))
        from_, until = data.bounds(bin)
        title = tag("title", None, f"{count:,} seeds: {unit(from_)} to {unit(until)}")
        attributes: dict[str, Attribute] = {
            "x": (bin - low) * step + 1,
            "y": floor - height,
            "width": step - 2,
            "height": height,
        }
        shapes.append(tag("rect", attributes, title))
    shapes.append(tag("line", {"x1": 0, "x2": WIDTH, "y1": floor, "y2": floor, "class": "axis"}))
    for bin in range(low, high + 1, BINS_PER_DECADE):
        x = (bin - low) * step
        anchor = "start" if bin == low else "end" if bin == high else "middle"
        shapes.append(tag("text", {"x": x, "y": HEIGHT - 4, "text-anchor": anchor}, unit(data.bounds(bin)[0])))
    shapes.append(tag("text", {"x": 0, "y": 10}, f"most in one bin: {most:,}"))
    return tag("svg", {"class": "plot", "width": WIDTH, "height": HEIGHT, "viewBox": f"0 0 {WIDTH} {HEIGHT}"}, *shapes)
