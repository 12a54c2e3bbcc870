"""What is wrong with another tool's log, and where."""

from pathlib import Path

from antiphon.kernel.errors import AntiphonError


class MalformedLogError(AntiphonError):
    """A log does not follow its format: file, line (from 1 on; 0 for the file as a whole) and reason."""

    def __init__(self, file: Path, line: int, reason: str) -> None:
        super().__init__(f"{file}, line {line}: {reason}" if line else f"{file}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason
