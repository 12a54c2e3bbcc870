"""The page: whole, safe, and readable for whatever an audit may hold."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.pipeline.guarantees import MEANINGS
from antiphon.pipeline.result import KEPT, UNKNOWN, Audit, Example, Finding
from antiphon.report.contents import Contents, contents_of
from antiphon.report.html import report, write_report
from tests.report.sample import Sample, broken, causal_violation, kept, observation

EVIL: Final = "<script>alert('x')</script>\"&\x1b[31m"
VOID: Final = frozenset({"meta", "input"})


class Page(HTMLParser):
    """A page taken apart: its tags, those that are left open, text by the tag it stands in, and all attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[str]:
        return [text for inside, text in self.texts if inside == tag]

    def values(self, attribute: str) -> list[str]:
        return [value for _, name, value in self.attributes if name == attribute]


def shown_name(name: str) -> str:
    return name.replace("\x1b", "�")


def page_of(audit: Audit) -> Page:
    page = Page(report(audit, Contents(run=None), "title"))
    assert page.open == []
    return page


def test_a_kept_history_is_told_from_end_to_end(tmp_path: Path) -> None:
    sample = Sample("a", "b", "c")
    for _ in range(5):
        sample.multicast("a")
        sample.multicast("b")
    sample.stop()
    file = tmp_path / "report.html"
    write_report(sample.audit(kept("fifo"), kept("causal")), sample.write(tmp_path), file, title="A morning's run")
    page = Page(file.read_text(encoding="utf-8"))
    assert page.open == []
    assert page.all("title")[0] == "A morning's run: kept"
    assert "Every promise was kept" in page.all("span")
    assert page.all("strong") == ["fifo", "causal"]
    assert {MEANINGS["fifo"], MEANINGS["causal"]} <= set(page.all("p"))
    assert {"timeline-canvas", "explorer-canvas", "latency-chart"} <= set(page.values("id"))


def test_a_broken_history_names_the_steps(tmp_path: Path) -> None:
    sample, finding = causal_violation()
    file = tmp_path / "report.html"
    write_report(sample.audit(kept("fifo"), finding), sample.write(tmp_path), file)
    page = Page(file.read_text(encoding="utf-8"))
    assert "A promise was broken" in page.all("span")
    assert finding.example is not None
    assert f": {finding.example.text}" in page.all("p")
    assert "spacetime order example" in page.values("class")
    assert page.all("li") == [
        "a sent a#1 in quotes (causal), row 1",
        "b delivered a#1 in quotes (causal), row 1",
        "b sent b#1 in quotes (causal), row 2",
        "c delivered b#1 in quotes (causal), row 1",
        "c had not delivered a#1 by then, only later, in row 2",
        "c delivered a#1 in quotes (causal), row 2",
    ]


def test_a_report_that_cannot_be_written_is_the_callers_error(tmp_path: Path) -> None:
    sample, finding = causal_violation()
    with pytest.raises(UsageError, match="cannot be written"):
        write_report(sample.audit(finding), sample.write(tmp_path), tmp_path)


def test_an_unknown_verdict_gives_its_reason() -> None:
    reason = "412 checks are undecided: the log of p5/1 is cut short after 9 rows"
    finding = Finding(guarantee="settled", verdict=UNKNOWN, violations=0, unknown=412, checked=5, reason=reason)
    page = page_of(Sample("a").audit(finding))
    assert f": {reason}" in page.all("p")
    assert "Nothing was found broken, but the records leave something open" in page.all("span")
    assert "412" in page.all("td")


def test_an_audit_without_findings_or_observations_is_still_a_page() -> None:
    page = page_of(Audit(verdict=KEPT, events=0, rows=0, runs=0, findings=()))
    assert "The audit observed no member." in page.all("p")
    assert "No member is seen in this history, so there is nothing to draw." in page.all("p")


def test_nothing_that_users_name_becomes_markup(tmp_path: Path) -> None:
    sample = Sample(EVIL, "b")
    sample.multicast(EVIL)
    sample.logs["b"].note(10**9, EVIL, EVIL)
    finding = Finding(
        guarantee=EVIL, verdict="broken", violations=1, unknown=1, checked=1, reason=EVIL,
        example=Example(text=EVIL, run=EVIL, group=EVIL, events=()),
    )  # fmt: skip
    audit = replace(sample.audit(finding), runs=2, observations=(observation(EVIL, group=EVIL, run=EVIL, ending=EVIL),))
    text = report(audit, replace(contents_of(sample.audit(), sample.write(tmp_path)), run=EVIL), EVIL)
    assert "\x1b" not in text
    page = Page(text)
    assert page.open == []
    assert page.tags.count("script") == 2, "the page's data and the page's own"
    data = json.loads(page.all("script")[0])
    assert shown_name(EVIL) in data["explorer"]["processes"]
    assert any(shown_name(EVIL) in words for words in page.all("td"))
    assert not any(name.startswith("on") for _, name, _ in page.attributes)


def test_the_page_allows_its_own_style_and_script_and_loads_nothing(tmp_path: Path) -> None:
    sample, finding = causal_violation()
    audit = sample.audit(finding)
    text = report(audit, contents_of(audit, sample.write(tmp_path)), "title")
    policy = next(value for value in Page(text).values("content") if value.startswith("default-src"))
    for name in ("style", "script"):
        [content] = re.findall(f"<{name}>(.*?)</{name}>", text, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"https?:|@import|src=|href=|url\((?!#)| style=", text)


def test_many_members_stand_in_an_area_that_scrolls() -> None:
    names = [f"member-{number}" for number in range(50)]
    audit = Audit(
        verdict=KEPT, events=1, rows=1, runs=1, findings=(kept("fifo"),),
        observations=tuple(observation(name, group=group) for group in ("g1", "g2", "g3") for name in names),
    )  # fmt: skip
    page = page_of(audit)
    assert "scroll tall" in page.values("class")
    cells = page.all("td")
    assert [cells.count(name) for name in names] == [3] * 50
    assert cells.index("member-2") < cells.index("member-10")


def test_a_member_without_latencies_has_dashes() -> None:
    blank = replace(
        observation("a"), latency_ns_p50=None, latency_ns_p99=None, latency_ns_max=None, delivered=0, ending="cut short"
    )
    page = page_of(Audit(verdict=KEPT, events=1, rows=1, runs=1, findings=(), observations=(blank,)))
    assert page.all("td").count("–") == 3
    assert "cut short" in page.all("td")


def test_very_long_names_are_clipped_but_can_be_read_in_full() -> None:
    name = "long" * 50
    audit = Audit(verdict=KEPT, events=1, rows=1, runs=1, findings=(), observations=(observation(name),))
    page = page_of(audit)
    assert name in page.values("title")
    assert max(len(cell) for cell in page.all("td")) <= 40


@pytest.mark.parametrize("count", [1, 2])
def test_the_headline_counts_broken_promises(count: int) -> None:
    audit = Sample("a").audit(*(broken(guarantee, "") for guarantee in ("fifo", "causal")[:count]))
    assert ("A promise was broken", "2 promises were broken")[count - 1] in page_of(audit).all("span")
