"""What was broken and what stays open: each in words, and each counterexample also as a picture and step by step."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping

from antiphon.pipeline.explain import process_name
from antiphon.pipeline.result import BROKEN, Audit, Example
from antiphon.report.markup import tag
from antiphon.report.spacetime import deed, spacetime
from antiphon.report.window import Missing, Window


def explanations(audit: Audit, pictures: Mapping[str, Window]) -> ET.Element | None:
    """The section, with the picture of each guarantee that has one; nothing if there is nothing to explain."""
    items: list[ET.Element] = []
    for finding in audit.findings:
        if finding.example is not None:
            items.append(_broken(finding.guarantee, finding.example, pictures.get(finding.guarantee)))
        if finding.reason is not None:
            words = tag("p", None, tag("strong", None, finding.guarantee), ": ", finding.reason)
            items.append(tag("div", {"class": f"explanation {finding.verdict}"}, words))
    if not items:
        return None
    return tag("section", {"id": "explanations"}, tag("h2", None, "What was found"), *items)


def _broken(guarantee: str, example: Example, picture: Window | None) -> ET.Element:
    return tag(
        "div",
        {"class": f"explanation {BROKEN}"},
        tag("p", None, tag("strong", None, guarantee), ": ", example.text),
        tag("p", {"class": "quiet"}, f"run {example.run}, group {example.group}"),
        _picture(picture) if picture is not None else None,
    )


def _picture(window: Window) -> ET.Element:
    shown = len({row.process for row in window.rows})
    extent = "" if shown == window.processes else f"; {shown} of {window.processes} processes, and messages among them"
    return tag(
        "figure",
        None,
        tag("figcaption", {"class": "quiet"}, f"{window.caption}{extent}."),
        _legend(window),
        tag("div", {"class": "scroll canvas"}, spacetime(window, "order")),
        tag("div", {"class": "selection quiet", "aria-live": "polite"}),
        _steps(window),
    )


def _legend(window: Window) -> ET.Element:
    signs = [("send", "sent"), ("deliver", "delivered")]
    if window.missing:
        signs.append(("missing", "missing there"))
    if any(lack.late for lack in window.missing):
        signs.append(("late", "delivered too late"))
    items = [tag("span", {"class": f"sign {name}"}, words) for name, words in signs]
    hint = "One colour per sender. A delivery without an arrow was sent earlier. Click a message to follow it."
    return tag("p", {"class": "legend"}, *items, tag("span", {"class": "quiet"}, hint))


def _steps(window: Window) -> ET.Element:
    """The counterexample, step by step, with the numbers that stand in the picture."""
    rows = {row.place: row for row in window.rows}
    items: list[ET.Element] = []
    for number, place in enumerate(window.steps, start=1):
        items.append(tag("li", {"value": number}, f"{deed(rows[place])}, row {place[1]}"))
        for lack in window.missing:
            if (lack.process, lack.before) == place:
                words = f"{process_name(lack.process)} had not delivered {lack.name} by then, {_later(lack)}"
                items.append(tag("li", {"class": "missing"}, words))
    return tag("ol", {"class": "steps"}, *items)


def _later(lack: Missing) -> str:
    return f"only later, in row {lack.late[1]}" if lack.late else "nor is it seen to deliver it later"
