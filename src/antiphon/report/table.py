"""An audit as a table for the terminal: one line per guarantee, then what was broken and what stays open, in words."""

from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from antiphon.pipeline.result import BROKEN, KEPT, UNCHECKED, UNKNOWN, Audit, Finding
from antiphon.report.meanings import headline
from antiphon.report.words import printable

STYLES: Final = {KEPT: "bold green", BROKEN: "bold red", UNKNOWN: "bold yellow", UNCHECKED: "bold blue"}


def audit_table(audit: Audit) -> RenderableType:
    """What to print for an audit. All text is literal: a name that looks like markup stays what it is."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("guarantee")
    table.add_column("verdict")
    for name in ("checked", "violations", "roots", "unknown"):
        table.add_column(name, justify="right")
    for finding in audit.findings:
        table.add_row(
            Text(printable(finding.guarantee)),
            _verdict(finding.verdict),
            _count(finding.checked, "default"),
            _count(finding.violations, STYLES[BROKEN]),
            _count(finding.roots, STYLES[BROKEN]),
            _count(finding.unknown, STYLES[UNKNOWN]),
        )
    parts: list[RenderableType] = [table, *_explanations(audit.findings)]
    summary = Text.assemble(_verdict(audit.verdict), f"  {headline(audit)} ({_facts(audit)}).")
    return Group(*parts, Text(), summary)


def _verdict(verdict: str) -> Text:
    return Text(verdict, style=STYLES.get(verdict, "bold"))


def _count(count: int, style: str) -> Text:
    return Text(f"{count:,}", style=style if count else "dim")


def _explanations(findings: tuple[Finding, ...]) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for finding in findings:
        sentences = []
        if finding.example is not None:
            where = f" (run {finding.example.run}, group {finding.example.group})"
            sentences.append(printable(finding.example.text + where))
        if finding.reason is not None:
            sentences.append(printable(finding.reason))
        if sentences:
            parts.append(Text())
            parts.append(Text(printable(finding.guarantee), style=STYLES.get(finding.verdict, "bold")))
            parts.extend(Padding(Text(sentence), (0, 0, 0, 2), expand=False) for sentence in sentences)
    return parts


def _facts(audit: Audit) -> str:
    runs = "1 run" if audit.runs == 1 else f"{audit.runs:,} runs"
    return f"{audit.events:,} events in {audit.rows:,} rows of {runs}"
