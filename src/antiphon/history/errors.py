"""Errors of the history: what could not be read, and what could not be written."""

from pathlib import Path

from antiphon.kernel.errors import AntiphonError


class UnusableHistoryError(AntiphonError):
    """The input is no history that can be audited; the text says what is wrong with it and what to do."""

    def __init__(self, path: Path | None, problem: str) -> None:
        super().__init__(problem if path is None else f"{path}: {problem}")
        self.path = path
        self.problem = problem


class DamagedRowGroupError(UnusableHistoryError):
    """A row group whose bytes are not what was written: the rest of the history can be used without it."""

    def __init__(self, path: Path, row_group: int, problem: str) -> None:
        super().__init__(path, f"row group {row_group} {problem}")
        self.row_group = row_group


class HistoryWriteError(AntiphonError):
    """A segment could not be written; nothing recorded from its rows on is kept."""

    def __init__(self, file: Path, cause: str) -> None:
        super().__init__(
            f"the history file {file} could not be written ({cause}); make room there or choose another directory"
        )
        self.file = file
        self.cause = cause
