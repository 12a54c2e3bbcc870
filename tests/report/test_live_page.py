"""The live page: what it says of rows of the watch, that it goes on from itself, and that no text becomes markup."""

import json
from pathlib import Path
from typing import Any

from antiphon.report.live_page import FINDINGS_MAX, LivePage

SECOND = 1_000_000_000


def followed(group: str, listener: str, offset: int, view: int = 1, time_ns: int = SECOND) -> dict[str, Any]:
    text = json.dumps({"members": ["a/1", listener], "messages": 7 * offset, "time_ns": time_ns})
    return {"group": group, "guarantee": "", "verdict": "followed", "listener": listener, "offset": offset,
            "view": view, "text": text}  # fmt: skip


def finding(group: str, guarantee: str, verdict: str = "broken", text: str = "something") -> dict[str, Any]:
    return {"group": group, "guarantee": guarantee, "verdict": verdict, "listener": "x/1", "offset": 3, "view": 1,
            "text": text}  # fmt: skip


def test_verdicts_views_and_lag(tmp_path: Path) -> None:
    page = LivePage.open(tmp_path / "page.html")
    page.write(0)
    assert "Nothing has come yet." in page.file.read_text()
    page.take([followed("g", "x/1", 5), followed("h", "y/1", 6, view=3), finding("g", "total", text="<b>a & b</b>")], 0)
    page.write(4 * SECOND, {"journal-1": 1234})
    text = page.file.read_text()
    for words in ("Group g", "Group h", "broken 1 times", "nothing found", "3.0 s", "1,234 rows behind", "a/1, y/1"):
        assert words in text
    assert "&lt;b&gt;a &amp; b&lt;/b&gt;" in text
    assert "<b>" not in text
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_it_goes_on_from_itself(tmp_path: Path) -> None:
    page = LivePage.open(tmp_path / "page.html")
    page.take([followed("g", "x/1", 5), finding("g", "total", text="</script><i>&amp;")], 4)
    page.write(0)
    again = LivePage.open(tmp_path / "page.html")
    assert again == page
    again.take([finding("g", "total")], 4)  # the same batch once more
    again.take([followed("g", "x/2", 9), finding("g", "total", "unknown")], 5)
    assert set(again.listeners["g"]) == {"x/2"}
    assert again.counts["g"] == {"total broken": 1, "total unknown": 1}


def test_only_the_newest_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    page = LivePage.open(tmp_path / "page.html")
    page.take((finding("g", "fifo", text=f"number {place}") for place in range(FINDINGS_MAX + 10)), 0)
    page.write(0)
    text = page.file.read_text()
    assert "broken 210 times" in text
    assert "number 209<" in text
    assert "number 9<" not in text
