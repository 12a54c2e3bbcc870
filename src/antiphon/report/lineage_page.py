"""The picture of a lineage: one HTML page that holds everything it shows, with the space-time diagram of the report.

It loads nothing and runs nothing: its content policy allows its own style alone. The page is built as a tree, so that
no name can become markup (see markup).
"""

import base64
import hashlib
import xml.etree.ElementTree as ET
from importlib import resources
from pathlib import Path
from typing import Final

from antiphon.kernel.errors import UsageError
from antiphon.pipeline.explain import process_name
from antiphon.pipeline.graph.critical import DeliveryPath, Wait
from antiphon.pipeline.graph.lineage import Lineage
from antiphon.pipeline.graph.names import full_name
from antiphon.pipeline.graph.rows import RowReader, process_of
from antiphon.report.lineage_table import offset, past_text, stability_text, wait_text
from antiphon.report.lineage_window import lineage_window
from antiphon.report.markup import Attribute, document, raw, tag
from antiphon.report.spacetime import deed, spacetime
from antiphon.report.window import Window
from antiphon.report.words import duration

STYLE: Final = """
:root { --alarm: #0f5fa8; }
@media (prefers-color-scheme: dark) { :root { --alarm: #6db3f2; } }
.chain { margin-top: 18px; }
.steps li.origin { font-weight: 650; }
tr.origin td { font-weight: 650; }
.mark.origin rect { stroke: var(--ink); stroke-width: 4; }
.mark.origin circle.badge { fill: var(--ink); }
.waits { display: block; width: 100%; height: 20px; margin: 8px 0 10px; border-radius: 5px; }
.wait-link { --wait: #56b4e9; } .wait-hold-back { --wait: #e69f00; } .wait-order { --wait: #cc79a7; }
.wait-stability { --wait: #009e73; } .wait-handover { --wait: #8a8a8a; }
.waits rect { fill: var(--wait); }
.sign.wait::before { border: 0; border-radius: 3px; background: var(--wait); }
"""


def write_lineage_page(lineage: Lineage, path: list[DeliveryPath], reader: RowReader, file: Path) -> None:
    """Write the page to `file`; the rows that it draws are read here."""
    try:
        file.write_text(lineage_page(lineage, path, lineage_window(lineage, reader)), encoding="utf-8")
    except OSError as error:
        problem = error.strerror or str(error)
        raise UsageError(f"the picture {file} cannot be written ({problem}); name another file") from error


def lineage_page(lineage: Lineage, path: list[DeliveryPath], window: Window) -> str:
    """The page as text."""
    style = resources.files("antiphon.report").joinpath("report.css").read_text(encoding="utf-8") + STYLE
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    name = full_name(lineage.message)
    head = tag(
        "head",
        None,
        tag("meta", {"charset": "utf-8"}),
        tag("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("title", None, f"Lineage of {name}"),
        raw("style", style),
    )
    header = tag(
        "header",
        None,
        tag("p", {"class": "title"}, f"Lineage of a message in run “{lineage.run}”"),
        tag("h1", None, name),
        tag(
            "p",
            None,
            f"{(lineage.send.level or '').capitalize()}, sent in view {lineage.send.view}. {past_text(lineage)}",
        ),
        tag("p", None, stability_text(lineage)),
    )
    sections = [_diagram(lineage, window), _relatives(lineage), _critical_path(path)]
    return document(tag("html", {"lang": "en"}, head, tag("body", None, header, tag("main", None, *sections))))


def _diagram(lineage: Lineage, window: Window) -> ET.Element:
    shown = len({row.process for row in window.rows})
    extent = "" if shown == window.processes else f"; {shown} of {window.processes} processes"
    section = tag(
        "section",
        {"id": "diagram"},
        tag("h2", None, "Space-time diagram"),
        tag("p", None, f"{window.caption}{extent}."),
    )
    for axis, words in (("order", "by order"), ("time", "by time")):
        attributes = {"type": "radio", "name": "axis", "id": f"by-{axis}", "class": "axis-choice"}
        section.append(tag("input", {**attributes, "checked": ""} if axis == "order" else {**attributes}))
        section.append(tag("label", {"for": f"by-{axis}"}, words))
    hint = (
        "One colour per sender. The numbered steps made one message the cause of the next; other deliveries step back."
    )
    signs = [
        tag("span", {"class": f"sign {kind}"}, words) for kind, words in (("send", "sent"), ("deliver", "delivered"))
    ]
    section.append(tag("p", {"class": "legend"}, *signs, tag("span", {"class": "quiet"}, hint)))
    for axis in ("order", "time"):
        section.append(tag("div", {"class": f"scroll canvas by-{axis}"}, _drawing(lineage, window, axis)))
    rows = {row.place: row for row in window.rows}
    origin = _origin(lineage, window)
    items = [
        tag("li", {"class": "origin"} if number == origin else None, f"{deed(rows[place])}, row {place[1]}")
        for number, place in enumerate(window.steps, start=1)
    ]
    section.append(tag("ol", {"class": "steps"}, *items))
    return section


def _origin(lineage: Lineage, window: Window) -> int:
    """The number of the step that sends the message in question."""
    return window.steps.index((process_of(lineage.send), lineage.send.index)) + 1


def _drawing(lineage: Lineage, window: Window, axis: str) -> ET.Element:
    """The diagram, with the mark of the message in question set off from the others."""
    drawing = spacetime(window, axis)
    number = str(_origin(lineage, window))
    for mark in drawing.iter("g"):
        badges = [text.text for text in mark.findall("text") if text.get("class") == "badge"]
        if badges == [number]:
            mark.set("class", f"{mark.get('class')} origin")
    return drawing


def _relatives(lineage: Lineage) -> ET.Element:
    heads = [
        tag("th", {"class": "number"} if name == "step" else None, name) for name in ("step", "message", "sent", "")
    ]
    rows = [
        _row(
            f"{relative.step:+d}".replace("-", "−"),
            full_name(relative.message),
            "off record" if relative.sent_ns is None else offset(relative.sent_ns - lineage.send.time_ns),
            f"{'cause' if relative.step < 0 else 'effect'} of {full_name(relative.via)}",
        )
        for relative in lineage.relatives
    ]
    own = _row("0", full_name(lineage.message), "–", "")
    own.set("class", "origin")
    rows.insert(sum(relative.step < 0 for relative in lineage.relatives), own)
    table = tag("table", None, tag("thead", None, tag("tr", None, *heads)), tag("tbody", None, *rows))
    known = (("direct cause", len(lineage.causes)), ("direct effect", len(lineage.effects)))
    counts = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for word, count in known)
    words = f"{counts}; a step is an edge of the graph."
    return tag(
        "section",
        {"id": "relatives"},
        tag("h2", None, "Causes and effects"),
        tag("p", {"class": "quiet"}, words),
        tag("div", {"class": "scroll tall"}, table),
    )


def _row(step: str, *cells: str) -> ET.Element:
    return tag("tr", None, tag("td", {"class": "number"}, step), *(tag("td", None, cell) for cell in cells))


def _critical_path(path: list[DeliveryPath]) -> ET.Element | None:
    """What the delivery waited for, and what that waited for in turn."""
    if not path:
        return None
    section = tag("section", {"id": "critical-path"}, tag("h2", None, "What the delivery waited for"))
    for place, delivery in enumerate(path):
        took = duration(max(0, delivery.delivered_ns - delivery.sent_ns))
        process, name = process_name(delivery.process), full_name(delivery.message)
        because = "" if place == 0 else "Because "
        words = f"{because}{process} delivered {name} ({delivery.level}) {took} after it was sent."
        block = tag("div", {"class": "chain"}, tag("p", None, words))
        if delivery.exact:
            block.append(_bar(delivery))
        waits = [wait for wait in delivery.waits if wait.at_most_ns or wait is delivery.waits[0]]
        block.append(tag("ul", {"class": "quiet"}, *(_wait(delivery, wait) for wait in waits)))
        section.append(block)
    if not all(delivery.exact for delivery in path):
        section.append(
            tag("p", {"class": "quiet"}, "No receive rows tell when a message came in, so waits are in bounds.")
        )
    return section


def _bar(delivery: DeliveryPath) -> ET.Element:
    """The waits side by side, each as long as it took."""
    total_ns = max(1, sum(wait.at_most_ns for wait in delivery.waits))
    box: dict[str, Attribute] = {"class": "waits", "viewBox": "0 0 1000 20", "preserveAspectRatio": "none"}
    bar, x = tag("svg", box), 0.0
    for wait in delivery.waits:
        width = 1000 * wait.at_most_ns / total_ns
        size: dict[str, Attribute] = {"x": x, "y": 0, "width": width, "height": 20, "class": f"wait-{wait.kind}"}
        bar.append(tag("rect", size, tag("title", None, f"{wait.kind}: {duration(wait.at_most_ns)}")))
        x += width
    return bar


def _wait(delivery: DeliveryPath, wait: Wait) -> ET.Element:
    bound = "" if wait.at_least_ns == wait.at_most_ns else "at most "
    cost = f" {bound}{duration(wait.at_most_ns)}, {wait_text(delivery, wait)}"
    return tag("li", None, tag("span", {"class": f"sign wait wait-{wait.kind}"}, wait.kind), cost)
