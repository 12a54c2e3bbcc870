"""The page in a real browser: nothing is complained about, and a click does what it says."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from antiphon.report.html import write_report
from tests.report.sample import causal_violation, kept

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--enable-logging=stderr",
)  # fmt: skip
PNG_MAGIC: Final = b"\x89PNG\r\n\x1a\n"

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine (Debian: apt-get install chromium)")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    sample, finding = causal_violation()
    history = tmp_path / "history"
    history.mkdir()
    file = tmp_path / "report.html"
    write_report(sample.audit(kept("fifo"), finding), sample.write(history), file, title="<b>title</b>")
    return file


def browse(page: Path, *flags: str) -> tuple[str, list[str]]:
    """The page's elements after its script has run, and what the browser's console says."""
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={page.parent / 'profile'}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_the_browser_shows_the_page_without_complaint(page: Path) -> None:
    elements, complaints = browse(page, "--dump-dom")
    assert complaints == []
    assert "A promise was broken" in elements
    assert elements.count('<svg viewBox="0 0 ') == 2
    assert "&lt;b&gt;title&lt;/b&gt;" in elements
    assert 'class="mark missing' in elements


def test_the_content_policy_stops_a_foreign_script(page: Path) -> None:
    page.write_text(page.read_text().replace("</body>", "<script>document.title = 'owned'</script></body>"))
    elements, complaints = browse(page, "--dump-dom")
    assert "<title>owned" not in elements
    assert any("Content Security Policy" in line for line in complaints)


def test_a_click_lights_up_the_message_and_tells_its_story(page: Path) -> None:
    click = "document.querySelector('svg.order .mark.send').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    text = re.sub('<meta http-equiv="Content-Security-Policy".*?>', "", page.read_text())
    page.write_text(text.replace("</body>", f"<script>{click}</script></body>"))
    elements, complaints = browse(page, "--dump-dom")
    assert complaints == []
    selection = elements.split('id="selection"')[1].split("</div>")[0]
    assert re.findall(r"<li>(\w+ \w+ \w+ \w+ a#1|\w+ \w+ a#1)", selection) == [
        "a sent a#1",
        "b delivered a#1",
        "c should have delivered a#1",
        "c delivered a#1",
    ]
    assert len(re.findall(r'class="[^"]*\blit\b', elements)) == 2 * (4 + 3), "four marks and three arrows, on both axes"


def test_a_picture_of_it_is_not_empty(page: Path) -> None:
    picture = page.parent / "report.png"
    _, complaints = browse(page, f"--screenshot={picture}", "--window-size=1280,1600")
    assert complaints == []
    data = picture.read_bytes()
    assert data.startswith(PNG_MAGIC)
    assert len(data) > 30_000, "a blank page of this size takes a few thousand bytes"
