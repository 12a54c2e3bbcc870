"""Names of places: which are paths of this machine. Free of Spark."""

from urllib.parse import urlsplit


def is_plain(name: str) -> bool:
    """Whether a place is a path without a scheme."""
    return len(urlsplit(name).scheme) < 2  # a single letter is a drive
