"""A real browser, driven: Chromium without a screen, over the pipe of its DevTools protocol.

Clicks and keys go in where a mouse and a keyboard put them, so that what a test sees is what a person would. The
protocol is JSON, one message up to each NUL byte; Chromium reads from its descriptor 3 and writes to its descriptor 4.
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-pipe", "--window-size=1280,900",
)  # fmt: skip
REPLY_S_MAX: Final = 60
LAUNCH: Final = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for end, number in zip(ends, (3, 4)):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Takes the place of itself by Chromium, with the pipes where Chromium expects them."""


class Browser:
    """One page of one browser. Use `browser()`, which also ends it."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._heard = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        """What the console and the content policy have said."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.requests: list[str] = []
        """All addresses that the page has asked for."""

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send one request and wait for its answer."""
        self._number += 1
        request: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            request["sessionId"] = self._session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self._writing, data) :]
        while True:
            message = self._hear()
            if message.get("id") == self._number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self._take(message)

    def _hear(self) -> dict[str, Any]:
        deadline_s = time.monotonic() + REPLY_S_MAX
        while b"\0" not in self._heard:
            ready, _, _ = select.select([self._reading], [], [], max(0.0, deadline_s - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._reading, 1 << 16)
            assert piece, "the browser has ended"
            self._heard += piece
        message, _, self._heard = self._heard.partition(b"\0")
        heard: dict[str, Any] = json.loads(message)
        return heard

    def _take(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Log.entryAdded":
                self.complaints.append(parameters["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.complaints.append(str([value.get("value") for value in parameters["args"]]))
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.complaints.append(str(details.get("exception", details).get("description", details)))
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])

    def open(self, page: Path) -> None:
        """Load a page from a file, and wait until it has been drawn."""
        self.visit(page.as_uri())

    def visit(self, url: str) -> None:
        """Load a page, and wait until it has been drawn; complaints and requests are those of this page."""
        self.complaints.clear()
        self.requests.clear()
        self.ask("Page.navigate", url=url)
        while self.evaluate("document.readyState") != "complete":
            time.sleep(0.02)
        self.settle()

    def settle(self) -> None:
        """Wait until everything that is due has been drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        """Move there and click, in coordinates of the window."""
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.settle()

    def drag(self, x: float, y: float, *, by: float) -> None:
        """Press there, move sideways, and let go."""
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        for step in range(1, 5):
            self.mouse("mouseMoved", x + by * step / 4, y, button="left", buttons=1)
        self.mouse("mouseReleased", x + by, y, button="left", clickCount=1)
        self.settle()

    def wheel(self, x: float, y: float, delta: float) -> None:
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)
        # Chromium answers before the page has handled a wheel.
        time.sleep(0.05)
        self.settle()

    def press(self, key: str) -> None:
        """Press a key that has a name, such as Escape, or that writes a character."""
        text = key if len(key) == 1 else ""
        codes = {"Escape": 27, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        code = codes.get(key, 0)
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        self.settle()

    def write(self, text: str) -> None:
        """Put text into what has the focus."""
        self.ask("Input.insertText", text=text)
        self.settle()

    def place(self, selector: str) -> tuple[float, float]:
        """Scroll an element into sight; where its middle is in the window."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{found}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        self.settle()
        box = self.evaluate(f"(({{x, y, width, height}}) => [x, y, width, height])({found}.getBoundingClientRect())")
        return box[0] + box[2] / 2, box[1] + box[3] / 2

    def click_on(self, selector: str) -> None:
        self.click(*self.place(selector))

    def text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def close(self) -> None:
        """Ask the browser to end in good order."""
        self._session = None
        self.ask("Browser.close")

    def picture(self) -> bytes:
        """What the window shows, as a PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser of one's own, ended with everything it started."""
    to_browser, writing = os.pipe()
    reading, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        launch = [sys.executable, "-c", LAUNCH, str(to_browser), str(from_browser)]
        process = subprocess.Popen(
            [*launch, CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(to_browser, from_browser),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            started = Browser(reading, writing)
            yield started
            started.close()
        finally:
            os.close(writing)
            os.close(reading)
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The browser ends when its pipe does; what is left of its own process group is killed."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
