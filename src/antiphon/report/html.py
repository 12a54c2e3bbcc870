"""The report: one HTML file that holds everything it shows.

It loads nothing from anywhere, and its content policy forbids it to: style and script are allowed by their hash alone,
so that even a name that found a way to become markup could not run. The page is built as a tree (see markup).
"""

import base64
import hashlib
import xml.etree.ElementTree as ET
from importlib import resources
from pathlib import Path

from antiphon.kernel.errors import UsageError
from antiphon.pipeline.explain import process_name
from antiphon.pipeline.result import BROKEN, Audit, Finding
from antiphon.report.markup import document, raw, tag
from antiphon.report.meanings import GUARANTEES, headline
from antiphon.report.members import members_section
from antiphon.report.source import window_of
from antiphon.report.spacetime import deed, spacetime
from antiphon.report.window import Missing, Window
from antiphon.report.words import duration


def write_report(audit: Audit, history_path: Path, file: Path, title: str = "Antiphon audit") -> None:
    """Write the report of `audit` to `file`; the diagram's rows are read from `history_path`."""
    page = report(audit, window_of(audit, history_path), title)
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        problem = error.strerror or str(error)
        raise UsageError(f"the report {file} cannot be written ({problem}); name another file") from error


def report(audit: Audit, window: Window | None, title: str) -> str:
    """The page as text."""
    assets = resources.files("antiphon.report")
    style = assets.joinpath("report.css").read_text(encoding="utf-8")
    script = assets.joinpath("report.js").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    head = tag(
        "head",
        None,
        tag("meta", {"charset": "utf-8"}),
        tag("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("title", None, f"{title}: {audit.verdict}"),
        raw("style", style),
    )
    body = tag(
        "body",
        None,
        _header(audit, title),
        tag("main", None, _verdicts(audit), _explanations(audit), _diagram(window), members_section(audit)),
        raw("script", script),
    )
    return document(tag("html", {"lang": "en"}, head, body))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _header(audit: Audit, title: str) -> ET.Element:
    logs = {(member.run, member.process) for member in audit.observations}
    groups = {member.group for member in audit.observations}
    facts = [
        ("runs", f"{audit.runs:,}"),
        ("processes", f"{len(logs):,}" if logs else "–"),
        ("groups", f"{len(groups):,}" if groups else "–"),
        ("events", f"{audit.events:,}"),
        ("rows", f"{audit.rows:,}"),
        ("longest run" if audit.runs > 1 else "duration", _longest(audit)),
    ]
    items = [tag("div", None, tag("dt", None, name), tag("dd", None, value)) for name, value in facts]
    return tag(
        "header",
        {"class": f"verdict-{audit.verdict}"},
        tag("p", {"class": "title"}, title),
        tag("h1", None, _badge(audit.verdict), tag("span", None, headline(audit))),
        tag("dl", {"class": "facts"}, *items),
    )


def _longest(audit: Audit) -> str:
    spans: dict[str, tuple[int, int]] = {}
    for member in audit.observations:
        first_ns, last_ns = spans.get(member.run, (member.first_ns, member.last_ns))
        spans[member.run] = (min(first_ns, member.first_ns), max(last_ns, member.last_ns))
    return duration(max(last_ns - first_ns for first_ns, last_ns in spans.values())) if spans else "–"


def _badge(verdict: str) -> ET.Element:
    return tag("span", {"class": f"badge {verdict}"}, verdict)


def _verdicts(audit: Audit) -> ET.Element:
    names = ("guarantee", "verdict", "checked", "violations", "unknown")
    heads = [tag("th", {"class": "number"} if at > 1 else None, name) for at, name in enumerate(names)]
    return tag(
        "section",
        {"id": "verdicts"},
        tag("h2", None, "Guarantees"),
        tag(
            "div",
            {"class": "scroll"},
            tag(
                "table",
                None,
                tag("thead", None, tag("tr", None, *heads)),
                tag("tbody", None, *(_verdict_row(finding) for finding in audit.findings)),
            ),
        )
        if audit.findings
        else tag("p", {"class": "quiet"}, "The history promises nothing that could be checked."),
    )


def _verdict_row(finding: Finding) -> ET.Element:
    meaning = GUARANTEES.get(finding.guarantee)
    name = tag("td", None, tag("strong", None, finding.guarantee), tag("p", {"class": "meaning"}, meaning))
    counts = [
        tag("td", {"class": "number" if count else "number zero"}, f"{count:,}")
        for count in (finding.checked, finding.violations, finding.unknown)
    ]
    return tag("tr", {"class": finding.verdict}, name, tag("td", None, _badge(finding.verdict)), *counts)


def _explanations(audit: Audit) -> ET.Element | None:
    """What was broken and what stays open, in words; nothing if there is nothing to explain."""
    items: list[ET.Element] = []
    for finding in audit.findings:
        if finding.example is not None:
            where = f"run {finding.example.run}, group {finding.example.group}"
            items.append(_explanation(finding.guarantee, BROKEN, finding.example.text, where))
        if finding.reason is not None:
            items.append(_explanation(finding.guarantee, finding.verdict, finding.reason, None))
    if not items:
        return None
    return tag("section", {"id": "explanations"}, tag("h2", None, "What was found"), *items)


def _explanation(guarantee: str, verdict: str, text: str, where: str | None) -> ET.Element:
    return tag(
        "div",
        {"class": f"explanation {verdict}"},
        tag("p", None, tag("strong", None, guarantee), ": ", text),
        tag("p", {"class": "quiet"}, where) if where is not None else None,
    )


def _diagram(window: Window | None) -> ET.Element:
    section = tag("section", {"id": "diagram"}, tag("h2", None, "Space-time diagram"))
    if window is None:
        section.append(
            tag("p", {"class": "quiet"}, "No message is seen both sent and delivered, so there is nothing to draw.")
        )
        return section
    shown = len({row.process for row in window.rows})
    extent = "" if shown == window.processes else f"; {shown} of {window.processes} processes, and messages among them"
    section.append(tag("p", None, f"{window.caption}{extent}."))
    for axis, words in (("order", "by order"), ("time", "by time")):
        attributes = {"type": "radio", "name": "axis", "id": f"by-{axis}", "class": "axis-choice"}
        section.append(tag("input", {**attributes, "checked": ""} if axis == "order" else {**attributes}))
        section.append(tag("label", {"for": f"by-{axis}"}, words))
    section.append(_legend(window))
    for axis in ("order", "time"):
        section.append(tag("div", {"class": f"scroll canvas by-{axis}"}, spacetime(window, axis)))
    section.append(tag("div", {"id": "selection", "class": "quiet", "aria-live": "polite"}))
    if window.steps:
        section.append(_steps(window))
    return section


def _legend(window: Window) -> ET.Element:
    signs = [("send", "sent"), ("deliver", "delivered")]
    if window.missing:
        signs.append(("missing", "missing there"))
    if any(lack.late for lack in window.missing):
        signs.append(("late", "delivered too late"))
    items = [tag("span", {"class": f"sign {name}"}, words) for name, words in signs]
    earlier = "A delivery without an arrow was sent earlier." if window.steps else "What was sent earlier is left out."
    hint = f"One colour per sender. {earlier} Click a message to follow it."
    return tag("p", {"class": "legend"}, *items, tag("span", {"class": "quiet"}, hint))


def _steps(window: Window) -> ET.Element:
    """The counterexample, step by step, with the numbers that stand in the diagram."""
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
