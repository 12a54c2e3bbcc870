"""A page about running groups that the watch rewrites as findings come: verdicts, views, lag, newest findings.

It is one file without any other, which the browser loads again by itself. It says when it was written; if that is long
ago, the watch is not running. What it shows is also in it as JSON, from which a watch that is started again goes on.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any, Final

from antiphon.pipeline.guarantees import MEANINGS
from antiphon.report.markup import document, held, raw, tag

FOLLOWED: Final = "followed"
FINDINGS_MAX: Final = 200
"""The newest that the page lists; all are counted."""
REFRESH_S: Final = 2
WATCHED: Final = (
    *("duplication", "fifo", "total", "view_agreement", "primary", "silence", "view_synchrony", "view_sending"),
    *("safe", "group_broadcast", "content"),
)
STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1c1c1c }
h1 { font-size: 1.4rem; margin-bottom: 0 } h2 { font-size: 1.1rem; margin-top: 2rem }
.note { color: #666 } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid #ddd; vertical-align: top }
td.number, .broken, .unknown, .quiet { white-space: nowrap } table + table { margin-top: 1rem }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap }
.broken { color: #b3261e; font-weight: 600 } .unknown { color: #8a5a00; font-weight: 600 } .quiet { color: #2e6b34 }
@media (prefers-color-scheme: dark) {
  body { background: #16181b; color: #e4e4e4 } th, td { border-color: #33373c } .note { color: #9aa0a6 }
  .broken { color: #ff8a80 } .unknown { color: #ffcc66 } .quiet { color: #8fd694 }
}
"""
_HELD: Final = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


@dataclass
class LivePage:
    """What the page knows of all groups."""

    file: Path
    listeners: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """By group and listener: offset, view, members, messages, time_ns."""
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    """By group: how many findings of each "guarantee verdict"."""
    findings: list[dict[str, Any]] = field(default_factory=list)
    """The newest last."""
    last_batch: int = -1
    """Of the query that was taken last: one that is repeated after a failure is not counted again."""

    @classmethod
    def open(cls, file: Path) -> "LivePage":
        """The page that is there, or an empty one."""
        match = _HELD.search(file.read_text(encoding="utf-8")) if file.exists() else None
        if match is None:
            return cls(file)
        facts = json.loads(unescape(match[1]))
        counts = {group: Counter(own) for group, own in facts["counts"].items()}
        return cls(file, facts["listeners"], counts, facts["findings"], facts["last_batch"])

    def take(self, rows: Iterable[Mapping[str, Any]], batch: int) -> None:
        """Rows of the watch, with status: one batch of the query."""
        if batch <= self.last_batch:
            return
        self.last_batch = batch
        for row in rows:
            if row["verdict"] == FOLLOWED:
                own = self.listeners.setdefault(row["group"], {})
                name = row["listener"].rpartition("/")[0]
                for former in [other for other in own if other.rpartition("/")[0] == name]:
                    del own[former]
                own[row["listener"]] = {"offset": row["offset"], "view": row["view"], **json.loads(row["text"])}
            else:
                key = f"{row['guarantee']} {row['verdict']}"
                self.counts.setdefault(row["group"], Counter())[key] += 1
                self.findings.append(
                    {name: row[name] for name in ("group", "guarantee", "verdict", "listener", "view", "text")}
                )
        del self.findings[:-FINDINGS_MAX]

    def write(self, now_ns: int, behind: Mapping[str, int] | None = None) -> None:
        """Write the page; `behind` says how many rows of each journal are not followed yet."""
        partial = self.file.with_name(f".{self.file.name}.partial")
        partial.write_text(self._text(now_ns, behind or {}), encoding="utf-8")
        partial.replace(self.file)

    def _text(self, now_ns: int, behind: Mapping[str, int]) -> str:
        written = datetime.fromtimestamp(now_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        groups = sorted({*self.listeners, *self.counts})
        facts = {
            "listeners": self.listeners,
            "counts": self.counts,
            "findings": self.findings,
            "last_batch": self.last_batch,
        }
        head = tag(
            "head",
            None,
            tag("meta", {"charset": "utf-8"}),
            tag("meta", {"http-equiv": "refresh", "content": REFRESH_S}),
            tag("title", None, "Antiphon: running groups"),
            raw("style", STYLE),
        )
        body = tag(
            "body",
            None,
            tag("h1", None, "Running groups"),
            tag("p", {"class": "note"}, f"Written at {written}. If that is long ago, the watch is not running."),
            *(element for group in groups for element in self._group(group, now_ns)),
            None if groups else tag("p", None, "Nothing has come yet."),
            *self._behind(behind),
            *self._newest(),
            held(json.dumps(facts)),
        )
        return document(tag("html", {"lang": "en"}, head, body))

    def _group(self, group: str, now_ns: int) -> list[Any]:
        counts = self.counts.get(group, Counter())
        verdicts = [tag("tr", None, *(tag("th", None, text) for text in ("guarantee", "so far", "meaning")))]
        for guarantee in WATCHED:
            broken, unknown = counts[f"{guarantee} broken"], counts[f"{guarantee} unknown"]
            kind = "broken" if broken else "unknown" if unknown else "quiet"
            told = (
                f"broken {broken:,} times" if broken else f"unknown {unknown:,} times" if unknown else "nothing found"
            )
            cells = (tag("td", None, guarantee), tag("td", {"class": kind}, told), tag("td", None, MEANINGS[guarantee]))
            verdicts.append(tag("tr", None, *cells))
        heads = ("listener", "view", "members", "messages", "last row", "its age")
        views = [tag("tr", None, *(tag("th", None, text) for text in heads))]
        for name, own in sorted(self.listeners.get(group, {}).items()):
            age_s = (now_ns - own["time_ns"]) / 1e9 if own["time_ns"] else None
            told_cells = (
                tag("td", None, name),
                tag("td", {"class": "number"}, str(own["view"])),
                tag("td", None, ", ".join(own["members"])),
                tag("td", {"class": "number"}, f"{own['messages']:,}"),
                tag("td", {"class": "number"}, str(own["offset"])),
                tag("td", {"class": "number"}, "–" if age_s is None else f"{age_s:,.1f} s"),
            )
            views.append(tag("tr", None, *told_cells))
        return [tag("h2", None, f"Group {group}"), tag("table", None, *views), tag("table", None, *verdicts)]

    def _behind(self, behind: Mapping[str, int]) -> list[Any]:
        if not behind:
            return []
        rows = [
            tag("tr", None, tag("td", None, journal), tag("td", {"class": "number"}, f"{rows:,} rows behind"))
            for journal, rows in sorted(behind.items())
        ]
        return [tag("h2", None, "Journals"), tag("table", None, *rows)]

    def _newest(self) -> list[Any]:
        if not self.findings:
            return []
        rows = [
            tag(
                "tr",
                None,
                tag("td", None, found["group"]),
                tag("td", None, found["guarantee"]),
                tag("td", {"class": found["verdict"]}, found["verdict"]),
                tag("td", None, found["text"]),
            )
            for found in reversed(self.findings)
        ]
        return [tag("h2", None, f"The newest {len(rows)} findings"), tag("table", None, *rows)]
