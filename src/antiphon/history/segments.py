"""How the files of a history are named: `<process>-<incarnation>-<segment>.parquet`.

Every byte of a process name that is not a letter, a digit, `_`, `-`, `.` or `~` is written as %XX, and so is an `_` or
`.` that a name begins with, since Spark passes over such files: so any name makes a file name and the file name gives
the name back. While a segment is being written, `.partial` stands behind its name.
"""

from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

SUFFIX: Final = ".parquet"
PARTIAL: Final = ".partial"


def segment_file(directory: Path, process: str, incarnation: int, segment: int) -> Path:
    """Where the complete segment lies."""
    return directory / f"{_quoted(process)}-{incarnation}-{segment:05}{SUFFIX}"


def lock_file(directory: Path, process: str, incarnation: int) -> Path:
    """Where the lock of a log lies while it is being written."""
    return directory / f"{_quoted(process)}-{incarnation}.lock"


def log_of(file: Path) -> tuple[str, int] | None:
    """The (process, incarnation) whose segment a file is by its name, or None if it is not named as a segment."""
    return log_of_name(file.name)


def log_of_name(name: str) -> tuple[str, int] | None:
    """The same, of the name alone."""
    parts = name.removesuffix(PARTIAL).removesuffix(SUFFIX).rsplit("-", 2)
    if len(parts) != 3 or not parts[1].isdecimal() or not parts[2].isdecimal():
        return None
    return unquote(parts[0]), int(parts[1])


def log_name(name: str) -> str | None:
    """The same as "name/incarnation"."""
    log = log_of_name(name)
    return None if log is None else f"{log[0]}/{log[1]}"


def _quoted(process: str) -> str:
    quoted = quote(process, safe="")
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[:1] in ("_", ".") else quoted
