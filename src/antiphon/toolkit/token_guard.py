"""Fencing: a resource refuses the holder of a lock that another process has been given since.

    guard = TokenGuard("/var/lib/ledger/guard")
    with guard.admit(token):                # raises StaleTokenError, or holds everybody else off while the body runs
        ledger.append(line)

No lock service can keep a process that was paused from going on as if it still held its lock: between its last look and
its access any time may pass. So the resource itself has to compare. It keeps the highest token that it has admitted and
refuses lower ones (`locks.py` proves that a later holder has a higher token).

The rule. Tokens of write locks, and of leaders, are even; tokens of read locks are odd. With W the highest even token
admitted so far, and R the highest odd one:

    a write token w is admitted if w >= W and w > R;  then W = w
    a read token r is admitted if r > W;              then R = max(R, r)

Safe: once a holder has been admitted with w, no earlier writer and no earlier reader is; once a reader has been
admitted with r, no writer that came before it is. Several readers are admitted in any order, since none excludes the
others: a read token may be lower than another one's although both hold the lock, where a writer gave up in between.

Admitting and accessing must be one step, or a pause between the two would undo the guard: do the access inside `admit`,
or hand the token to whatever does both at once (`UPDATE … SET token = :t WHERE token <= :t`; for write locks alone the
comparison with the highest token suffices).

W and R must outlive the resource's own restarts: given a file, the guard stores them there, synchronously, before a
higher token is admitted. A power loss at that point leaves the former contents or the new ones. The file may be shared
by threads and by processes of one machine. Without a file the guard lasts as long as the object.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

from antiphon import UsageError
from antiphon.toolkit.errors import StaleTokenError

TOKEN_MAX: Final = (1 << 62) - 1


def is_read_token(token: int) -> bool:
    """Return whether the token is that of a read lock."""
    return token & 1 == 1


class TokenGuard:
    """The highest tokens that a resource has admitted."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._lock = Lock()
        self._written = 0
        self._read = 0
        if self._path is not None:
            with self._locked_file():
                self._load()

    def __repr__(self) -> str:
        return f"TokenGuard({str(self._path)!r})" if self._path is not None else f"TokenGuard(highest={self.highest})"

    @property
    def highest(self) -> int:
        """The highest token that was admitted here; a new holder needs a higher one."""
        return max(self._written, self._read)

    def check(self, token: int) -> None:
        """Admit the token, or raise StaleTokenError. For resources that are accessed in the same step otherwise."""
        with self.admit(token):
            pass

    @contextmanager
    def admit(self, token: int) -> Iterator[None]:
        """Admit the token, or raise StaleTokenError; others wait until the body is done."""
        if type(token) is not int or not 0 < token <= TOKEN_MAX:
            raise UsageError(f"a token is a number from 1 to {TOKEN_MAX}, not {token!r}: take it from the lock's claim")
        with self._lock:
            if self._path is None:
                self._admit(token)
                yield
                return
            with self._locked_file():
                self._load()
                self._admit(token)
                yield

    def _admit(self, token: int) -> None:
        written, read = self._written, self._read
        if is_read_token(token):
            if token < written:
                raise StaleTokenError(token, self.highest)
            read = max(read, token)
        else:
            if token < written or token < read:
                raise StaleTokenError(token, self.highest)
            written = token
        if (written, read) != (self._written, self._read):
            if self._path is not None:
                self._store(self._path, written, read)
            self._written, self._read = written, read

    @contextmanager
    def _locked_file(self) -> Iterator[None]:
        """Hold off other processes: by a file beside the guard's own, which is replaced when it is written."""
        assert self._path is not None
        beside = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(beside, fcntl.LOCK_EX)
            yield
        finally:
            os.close(beside)

    def _load(self) -> None:
        assert self._path is not None
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return
        try:
            written, read = (int(part) for part in text.split())
        except ValueError:
            raise UsageError(f"{self._path} is no file of a TokenGuard: it holds {text[:40]!r}; give another") from None
        self._written, self._read = written, read

    def _store(self, path: Path, written: int, read: int) -> None:
        beside = path.with_name(f"{path.name}.new")
        with beside.open("w") as file:
            file.write(f"{written} {read}\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
