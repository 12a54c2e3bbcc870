"""Files that outlive whoever writes them: locks, counters, and files that are replaced as a whole."""

import fcntl
import os
from pathlib import Path

from antiphon.history.private_files import open_private
from antiphon.kernel.errors import AntiphonError


class StorageError(AntiphonError):
    """A journal or spool cannot be read or written; the text says which, why, and what to do."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def take_lock(path: Path) -> int:
    """The descriptor of a lock that ends with this process; refused if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StorageError(path, "another process works here; stop it, or choose another directory") from None
    return descriptor


def count_up(path: Path) -> int:
    """One more than the number in this file, which is there for good when it is returned."""
    try:
        number = int(path.read_text()) + 1 if path.exists() else 1
    except ValueError as error:
        raise StorageError(path, "it holds no number; write there the highest incarnation ever used") from error
    write_durably(path, str(number).encode())
    return number


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file as a whole: after a failure it is the old one or the new one, and on disk when this returns."""
    partial = path.with_name(f"{path.name}.partial")
    with open_private(partial) as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    partial.rename(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """So that files that were made or renamed there keep their names."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
