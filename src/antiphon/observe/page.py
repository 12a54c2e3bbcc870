"""The page at /: one document that asks for nothing but /status and /history of the server it came from."""

from functools import cache
from importlib.resources import files
from typing import Final

HTML: Final = "text/html; charset=utf-8"
PAGE_HEADERS: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:",
    ),
    ("Referrer-Policy", "no-referrer"),
)


@cache
def page_bytes() -> bytes:
    """The page."""
    return files("antiphon.observe").joinpath("page.html").read_bytes()
