"""The sections that the page's script fills: the timeline of views, the space-time diagram, the latencies.

Here stand the words, the controls and what was left out; the drawing itself is in the scripts beside this file. What a
canvas shows is also told in words: a table of views, a table of latencies, and a story of whatever is chosen.
"""

import xml.etree.ElementTree as ET
from typing import Any, Final

from antiphon.report.markup import Attribute, tag
from antiphon.report.words import duration

VIEWS_LISTED_MAX: Final = 120
SHARES: Final = ("messages", "p50", "p90", "p99", "p99.9", "max")


def timeline_section(which: str, data: dict[str, Any]) -> ET.Element:
    """Views per process over the whole run."""
    section = tag("section", {"id": "timeline"}, tag("h2", None, "Views"))
    if not data["groups"]:
        section.append(tag("p", {"class": "quiet"}, f"{which} has no row that installs a view."))
        return section
    words = (
        f"{which}: a lane per process, a colour per view. Where lanes have different colours at the same time, the "
        "processes are in different views; where the colours come together again, they have merged."
    )
    section.append(tag("p", None, words))
    section.append(
        tag(
            "div",
            {"class": "controls"},
            tag("label", None, "group ", tag("select", {"id": "timeline-group"})),
            *_zoom_buttons("timeline"),
        )
    )
    section.append(_canvas("timeline", "Timeline of views. Arrow keys move, plus and minus zoom, 0 shows all."))
    signs = (
        ("behind", "the others went on without it"), ("crash", "crashed"), ("left", "left"), ("stop", "stopped"),
        ("suspect", "suspects another"), ("band", "stretch of the diagram below"),
    )  # fmt: skip
    hint = "Click a view to see who is in it. Drag to move, wheel to zoom."
    section.append(_legend(signs, hint))
    section.append(tag("div", {"id": "timeline-told", "class": "told", "aria-live": "polite"}))
    if left_out := _left_out(data):
        section.append(tag("p", {"class": "quiet"}, left_out))
    section.append(_views_table(data))
    return section


def _left_out(data: dict[str, Any]) -> str:
    parts = []
    if data["grain_ns"]:
        parts.append(
            f"Views that lasted less than {duration(data['grain_ns'])} are put together with their neighbours."
        )
    for what, count in (
        ("groups in which less happens", data["groups_left_out"]),
        ("processes", sum(group["lanes_left_out"] for group in data["groups"])),
        ("early incarnations", sum(group["lives_left_out"] for group in data["groups"])),
    ):
        if count:
            parts.append(f"{count:,} {what} are left out.")
    if data["marks_left_out"]:
        parts.append(f"{data['marks_left_out']:,} suspicions and notes are left out.")
    return " ".join(parts)


def _views_table(data: dict[str, Any]) -> ET.Element:
    """The views in the order in which they were first installed, in words."""
    first: dict[tuple[int, int], int] = {}
    for number, group in enumerate(data["groups"]):
        for _, _, from_ns, _, view, _, _ in group["pieces"]:
            key = (number, view)
            first[key] = min(first.get(key, from_ns), from_ns)
    ordered = sorted(first, key=lambda key: (first[key], key))
    rows = []
    for number, view in ordered[:VIEWS_LISTED_MAX]:
        facts = data["views"][view]
        names = ", ".join(data["names"][member] for member in facts["members"])
        more = facts["size"] - len(facts["members"])
        cells = (duration(first[number, view]), data["groups"][number]["name"], str(facts["id"]), str(facts["size"]))
        listed = names + (f" and {more} more" if more else "")
        rows.append(tag("tr", None, *(tag("td", None, cell) for cell in (*cells, listed))))
    heads = [tag("th", None, name) for name in ("first installed", "group", "view", "members", "")]
    words = (
        f"{len(ordered):,} views in words"
        if len(ordered) <= VIEWS_LISTED_MAX
        else f"the first {VIEWS_LISTED_MAX} of {len(ordered):,} views in words"
    )
    table = tag("table", None, tag("thead", None, tag("tr", None, *heads)), tag("tbody", None, *rows))
    return tag("details", None, tag("summary", None, words), tag("div", {"class": "scroll tall"}, table))


def explorer_section(which: str, data: dict[str, Any]) -> ET.Element:
    """The space-time diagram with its filters."""
    section = tag("section", {"id": "explorer"}, tag("h2", None, "Space-time diagram"))
    section.append(tag("p", None, f"{which}. {data['caption']}"))
    message: dict[str, Attribute] = {"id": "explorer-message", "type": "search", "placeholder": "p3 or p3#7 or p3#4-9"}
    section.append(
        tag(
            "div",
            {"class": "controls"},
            *_radios("explorer-axis", (("time", "by time", True), ("order", "by order", False))),
            tag("label", None, "group ", tag("select", {"id": "explorer-group"}, tag("option", {"value": ""}, "all"))),
            tag("label", None, "level ", tag("select", {"id": "explorer-level"}, tag("option", {"value": ""}, "all"))),
            tag("label", None, "message ", tag("input", message)),
            *_zoom_buttons("explorer"),
        )
    )
    section.append(
        tag(
            "details",
            {"class": "processes"},
            tag("summary", None, "processes"),
            tag("button", {"id": "explorer-all", "type": "button"}, "all"),
            tag("button", {"id": "explorer-none", "type": "button"}, "none"),
            tag("div", {"id": "explorer-processes", "class": "boxes"}),
        )
    )
    section.append(
        _canvas(
            "explorer",
            "Space-time diagram. Enter chooses a row; then left and right walk along its log, up goes to the send of a "
            "delivery, down to a delivery of a send. Plus and minus zoom, Shift with arrows moves, 0 shows all.",
        )
    )
    signs = (
        ("send", "sent"), ("deliver", "delivered"), ("view", "view installed"), ("crash", "crashed"),
        ("suspect", "suspects another"),
    )  # fmt: skip
    hint = "One colour per sender. Click a row to light up its causal past and future. Drag to move, wheel to zoom."
    section.append(_legend(signs, hint))
    section.append(tag("p", {"id": "explorer-count", "class": "quiet", "aria-live": "polite"}))
    section.append(tag("div", {"id": "explorer-told", "class": "told", "aria-live": "polite"}))
    return section


def latency_section(which: str, data: dict[str, Any]) -> ET.Element:
    """Distributions of latency."""
    section = tag("section", {"id": "latency"}, tag("h2", None, "Latencies"))
    if not data["series"]:
        section.append(tag("p", {"class": "quiet"}, f"In {which} no message is seen both sent and delivered."))
        return section
    words = f"{which}: from the send row to the deliver row, single messages, a sender's own deliveries included."
    section.append(tag("p", None, words + _sampling(data)))
    options = [tag("option", {"value": part}, words) for part, words in _parts(data)]
    section.append(
        tag(
            "div",
            {"class": "controls"},
            tag("label", None, "by ", tag("select", {"id": "latency-by"}, *options)),
            *_radios("latency-curve", (("cumulative", "cumulative", True), ("density", "density", False))),
        )
    )
    section.append(tag("div", {"id": "latency-chart"}, tag("svg", {"id": "latency-picture"})))
    heads = [tag("th", {"class": "number"} if at else None, name) for at, name in enumerate(("", *SHARES))]
    table = tag("table", {"id": "latency-table"}, tag("thead", None, tag("tr", None, *heads)), tag("tbody"))
    section.append(tag("div", {"class": "scroll tall"}, table))
    return section


def _parts(data: dict[str, Any]) -> list[tuple[str, str]]:
    parts = [("levels", "level"), ("groups", "group"), ("processes", "receiving process")]
    return [(part, words) for part, words in parts if part not in data["put_together"]]


def _sampling(data: dict[str, Any]) -> str:
    words = ""
    if data["stride"] > 1:
        words += f" The run has many messages: one send row of {data['stride']:,} is followed."
    if data["put_together"]:
        words += f" There are too many {' and '.join(data['put_together'])} to tell them apart here."
    if data["negative"]:
        words += f" {data['negative']:,} deliveries bear an earlier time than their send, and count as zero."
    return words


def _radios(name: str, choices: tuple[tuple[str, str, bool], ...]) -> list[ET.Element]:
    items: list[ET.Element] = []
    for value, words, checked in choices:
        made = f"{name.partition('-')[0]}-{value}"
        attributes: dict[str, Attribute] = {
            "type": "radio", "name": name, "id": made, "value": value, "class": "axis-choice",
        }  # fmt: skip
        items.append(tag("input", {**attributes, "checked": ""} if checked else attributes))
        items.append(tag("label", {"for": made}, words))
    return [tag("span", {"class": "choice"}, *items)]


def _zoom_buttons(name: str) -> list[ET.Element]:
    buttons = (("closer", "+", "zoom in"), ("farther", "−", "zoom out"), ("whole", "all", "show all"))
    items = [
        tag("button", {"id": f"{name}-{what}", "type": "button", "title": words, "aria-label": words}, sign)
        for what, sign, words in buttons
    ]
    return [tag("span", {"class": "buttons"}, *items)]


def _canvas(name: str, label: str) -> ET.Element:
    attributes: dict[str, Attribute] = {
        "id": f"{name}-canvas", "tabindex": 0, "role": "application", "aria-label": label,
        "aria-describedby": f"{name}-told",
    }  # fmt: skip
    return tag("div", {"class": "stage"}, tag("canvas", attributes, "This picture needs a script."))


def _legend(signs: tuple[tuple[str, str], ...], hint: str) -> ET.Element:
    items = [tag("span", {"class": f"sign {name}"}, words) for name, words in signs]
    return tag("p", {"class": "legend"}, *items, tag("span", {"class": "quiet"}, hint))
