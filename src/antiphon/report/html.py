"""The report: one HTML file that holds everything it shows.

It loads nothing from anywhere, and its content policy forbids it to: style and script are allowed by their hash alone,
so that even a name that found a way to become markup could not run. The page is built as a tree (see markup).
"""

import base64
import hashlib
import json
import xml.etree.ElementTree as ET
from importlib import resources
from pathlib import Path
from typing import Final

from antiphon.kernel.errors import UsageError
from antiphon.pipeline.guarantees import MEANINGS
from antiphon.pipeline.result import Audit, Finding
from antiphon.report.contents import Contents, contents_of
from antiphon.report.examples import explanations
from antiphon.report.figures import explorer_section, latency_section, timeline_section
from antiphon.report.markup import document, held, raw, tag
from antiphon.report.meanings import headline
from antiphon.report.members import members_section
from antiphon.report.words import duration

SCRIPTS: Final = ("figure", "causality", "timeline", "explorer", "drawing", "latency", "report")
"""The parts of the page's script, in the order in which they need each other."""


def write_report(audit: Audit, history_path: Path, file: Path, title: str = "Antiphon audit") -> None:
    """Write the report of `audit` to `file`; what it draws is read from `history_path`."""
    page = report(audit, contents_of(audit, history_path), title)
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        problem = error.strerror or str(error)
        raise UsageError(f"the report {file} cannot be written ({problem}); name another file") from error


def report(audit: Audit, contents: Contents, title: str) -> str:
    """The page as text."""
    assets = resources.files("antiphon.report")
    style = assets.joinpath("report.css").read_text(encoding="utf-8")
    script = "".join(assets.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
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
        tag(
            "main",
            None,
            _verdicts(audit),
            explanations(audit, contents.examples),
            *_figures(contents, audit.runs),
            members_section(audit, contents.run),
        ),
        held(json.dumps(contents.data, ensure_ascii=False, separators=(",", ":"))) if contents.data else None,
        raw("script", script),
    )
    return document(tag("html", {"lang": "en"}, head, body))


def _figures(contents: Contents, runs: int) -> list[ET.Element]:
    if contents.run is None:
        words = "No member is seen in this history, so there is nothing to draw."
        return [tag("section", {"id": "diagram"}, tag("h2", None, "Views"), tag("p", {"class": "quiet"}, words))]
    which = f"Run “{contents.run}”" + (f", one of {runs:,}" if runs > 1 else "")
    return [
        timeline_section(which, contents.data["timeline"]),
        explorer_section(which, contents.data["explorer"]),
        latency_section(which, contents.data["latency"]),
    ]


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
    names = ("guarantee", "verdict", "checked", "violations", "root causes", "unknown")
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
    meaning = MEANINGS.get(finding.guarantee)
    name = tag("td", None, tag("strong", None, finding.guarantee), tag("p", {"class": "meaning"}, meaning))
    counts = [
        tag("td", {"class": "number" if count else "number zero"}, f"{count:,}")
        for count in (finding.checked, finding.violations, finding.roots, finding.unknown)
    ]
    return tag("tr", {"class": finding.verdict}, name, tag("td", None, _badge(finding.verdict)), *counts)
