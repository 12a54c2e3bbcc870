"""Files and directories that only their owner can read: histories and spools tell who said how much to whom, and
spools and journals hold the messages themselves. What is there already keeps its permissions: an operator may have
opened it to others on purpose."""

import os
from pathlib import Path
from typing import BinaryIO


def make_private(directory: Path) -> None:
    """Make a directory, if it is not there, for its owner alone."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def open_private(path: Path) -> BinaryIO:
    """A new file for its owner alone, or the one that is there, cut to nothing."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")
