"""The page in a real browser: nothing is complained about, nothing is loaded, and clicks do what they say."""

import re
from pathlib import Path
from typing import Final

import pytest

from antiphon.report.html import write_report
from tests.report.browser import CHROMIUM, Browser
from tests.report.sample import causal_violation, kept

PNG_MAGIC: Final = b"\x89PNG\r\n\x1a\n"

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine (Debian: apt-get install chromium)"),
]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    sample, finding = causal_violation()
    history = tmp_path / "history"
    history.mkdir()
    file = tmp_path / "report.html"
    write_report(sample.audit(kept("fifo"), finding), sample.write(history), file, title="<b>title</b>")
    return file


@pytest.fixture
def shown(chromium: Browser, page: Path) -> Browser:
    chromium.open(page)
    return chromium


def place_of(chromium: Browser, row: int) -> tuple[float, float]:
    """Where a row stands in the window."""
    chromium.place("#explorer-canvas")
    x, y = chromium.evaluate(
        f"(({{x, y}}) => [x + explorer.figure.x(explorer.along({row})), y + explorer.y(explorer.events.lane[{row}])])"
        "(explorer.canvas.getBoundingClientRect())"
    )
    return x, y


def row_of(chromium: Browser, process: str, index: int) -> int:
    find = f"explorer.data.processes[events.lane[row]] === '{process}' && events.index[row] === {index}"
    return int(chromium.evaluate(f"((events) => [...events.lane.keys()].find((row) => {find}))(explorer.events)"))


def test_the_browser_shows_the_page_without_complaint(shown: Browser, page: Path) -> None:
    assert shown.complaints == []
    assert shown.requests == [page.as_uri()]
    assert "A promise was broken" in shown.text("h1")
    assert "<b>title</b>" in shown.text("header")
    assert shown.evaluate("document.querySelectorAll('.mark.missing').length") == 1
    picture = shown.picture()
    assert picture.startswith(PNG_MAGIC)
    assert len(picture) > 30_000, "a blank page of this size takes a few thousand bytes"


def test_the_content_policy_stops_a_foreign_script(chromium: Browser, page: Path) -> None:
    page.write_text(page.read_text().replace("</body>", "<script>document.title = 'owned'</script></body>"))
    chromium.open(page)
    assert chromium.evaluate("document.title") != "owned"
    assert any("Content Security Policy" in complaint for complaint in chromium.complaints)


def test_a_click_in_a_counterexample_lights_up_the_message_and_tells_its_story(shown: Browser) -> None:
    shown.click_on("svg.order .mark.send")
    assert re.findall(r"^(\w+ \w+ \w+ \w+ a#1|\w+ \w+ a#1)", shown.text(".selection"), flags=re.MULTILINE) == [
        "a sent a#1",
        "b delivered a#1",
        "c should have delivered a#1",
        "c delivered a#1",
    ]
    assert shown.evaluate("document.querySelectorAll('.lit').length") == 4 + 3, "four marks and three arrows"
    shown.press("Escape")
    assert shown.evaluate("document.querySelectorAll('.lit').length") == 0


def test_a_click_on_a_row_lights_up_its_past_and_future(shown: Browser) -> None:
    sent = row_of(shown, "b", 2)
    shown.click(*place_of(shown, sent))
    told = shown.text("#explorer-told")
    assert told.startswith("b sent b#1 in quotes (causal)")
    # Before it: b's view and delivery, a's view and send. After it: what b delivers and stops, a's and c's from b#1 on.
    past = shown.evaluate("explorer.causality.past(explorer.chosen).map((row) => explorer.words(row).split(';')[0])")
    assert past == [
        "a installed view 1: a, b, c in quotes",
        "a sent a#1 in quotes (causal)",
        "b installed view 1: a, b, c in quotes",
        "b delivered a#1 in quotes (causal), 2 ms after it was sent",
    ]
    assert "4 rows before it" in told
    assert "c delivered b#1" in told
    shown.press("Escape")
    assert shown.text("#explorer-told").strip() == ""


def test_the_keyboard_walks_along_logs_and_messages(shown: Browser) -> None:
    shown.click(*place_of(shown, row_of(shown, "b", 1)))
    assert shown.text("#explorer-told").startswith("b delivered a#1")
    shown.press("ArrowUp")
    assert shown.text("#explorer-told").startswith("a sent a#1")
    shown.press("ArrowRight")
    assert shown.text("#explorer-told").startswith("a delivered a#1")
    shown.press("ArrowLeft")
    shown.press("ArrowDown")
    assert shown.text("#explorer-told").startswith("a delivered a#1")


def test_wheel_drag_keys_and_buttons_zoom_and_move(shown: Browser) -> None:
    def width() -> float:
        low, high = shown.evaluate("explorer.figure.range")
        return float(high - low)

    shown.click_on("#explorer-whole")
    whole = width()
    x, y = shown.place("#explorer-canvas")
    shown.wheel(x, y, -300)
    assert width() == whole, "before the figure has been clicked, the wheel is the page's"
    shown.click(*shown.place("#explorer-canvas"))
    x, y = shown.place("#explorer-canvas")
    at = shown.evaluate(f"explorer.figure.at({x} - explorer.canvas.getBoundingClientRect().x)")
    shown.wheel(x, y, -300)
    assert width() < 0.9 * whole
    assert shown.evaluate(f"explorer.figure.at({x} - explorer.canvas.getBoundingClientRect().x)") == pytest.approx(at)
    before = shown.evaluate("explorer.figure.range[0]")
    shown.drag(x, y, by=60)
    assert shown.evaluate("explorer.figure.range[0]") < before, "what is dragged to the right shows what is earlier"
    shown.press("Escape")
    now = width()
    shown.press("+")
    assert width() < now
    shown.press("0")
    assert width() == whole
    shown.click_on("#explorer-closer")
    assert width() == pytest.approx(0.6 * whole)


def test_filters_leave_out_what_does_not_match(shown: Browser) -> None:
    def count() -> int:
        return int(shown.text("#explorer-count").split()[0])

    everything = count()
    shown.click_on("#explorer-message")
    shown.write("a#1")
    assert count() == 4, "one send and three deliveries"
    shown.evaluate("explorer.message.value = ''")
    shown.write("nobody#7")
    assert shown.evaluate("explorer.message.matches(':invalid')")
    assert count() == everything, "a filter that makes no sense filters nothing"
    shown.evaluate("explorer.message.value = ''")
    shown.write(" ")
    shown.click_on("details.processes summary")
    shown.click_on("#explorer-processes label:nth-child(3) input")
    assert count() == everything - shown.evaluate("explorer.causality.logs[2].length")
    shown.click_on("#explorer-none")
    assert count() == 0
    shown.click_on("#explorer-all")
    assert count() == everything


def test_the_order_axis_puts_causes_left_of_effects(shown: Browser) -> None:
    shown.click_on("#explorer-order + label")
    assert shown.evaluate("explorer.byOrder")
    effects = "explorer.causality.arrows.filter(([send, delivery]) => explorer.along(send) >= explorer.along(delivery))"
    assert shown.evaluate(f"{effects}.length") == 0


def test_a_click_on_a_view_tells_who_is_in_it(shown: Browser) -> None:
    x, y = shown.place("#timeline-canvas")
    shown.click(x, y)
    assert "in view 1" in shown.text("#timeline-told")
    assert "a, b, c" in shown.text("#timeline-told")
    assert "3 of its 3 members are seen to install it" in shown.text("#timeline-told")
