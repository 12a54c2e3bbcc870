"""The disk of a simulated host: a real directory, and what of it would outlive a power loss.

A killed program leaves behind what it wrote. Where the power goes, a file keeps what it held when it was last synced,
and its name only if the directory was synced since the name was given: so what was never synced is gone, what was
written after the last sync too, and a file whose name was synced but not its bytes is empty. A directory that was
synced is there.

Programs, and the parts of Antiphon in them, sync by `os.fsync` and `os.fdatasync`; during a simulation these tell the
disks.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR
from tempfile import TemporaryDirectory
from typing import Final, Protocol

File = tuple[int, int]
"""Device and inode."""


class _HasFileno(Protocol):
    def fileno(self) -> int: ...


class HostDisk:
    """A directory of one host."""

    def __init__(self, host: str) -> None:
        self._directory: Final = TemporaryDirectory(prefix=f"disk-of-{host}-")
        self.path: Final = Path(self._directory.name)
        self._contents: dict[File, bytes] = {}
        """What each file held when it was last synced."""
        self._names: dict[Path, dict[str, File]] = {Path(): {}}
        """The names in each directory, relative to the disk, when it was last synced."""
        self._open: dict[File, int] = {}
        """Synced files are kept open, so that no other file gets their inode."""

    def sync(self, descriptor: int) -> bool:
        """A file or directory is synced; false if it is not on this disk."""
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        path = self._find(key)
        if path is None:
            return False
        if S_ISDIR(status.st_mode):
            self._names[path.relative_to(self.path)] = {
                entry.name: (entry.stat().st_dev, entry.inode()) for entry in os.scandir(path) if entry.is_file()
            }
        else:
            self._contents[key] = path.read_bytes()
            if key not in self._open:
                self._open[key] = os.open(path, os.O_RDONLY)
        return True

    def _find(self, key: File) -> Path | None:
        for root, _, files in os.walk(self.path):
            for path in (Path(root), *(Path(root, file) for file in files)):
                status = path.stat()
                if (status.st_dev, status.st_ino) == key:
                    return path
        return None

    def lose_power(self) -> None:
        """Only what was synced is left."""
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        names, self._names = self._names, {Path(): {}}
        contents, self._contents = self._contents, {}
        self._let_go()
        for directory, files in names.items():
            place = self.path / directory
            place.mkdir(parents=True, exist_ok=True)
            for name, key in files.items():
                (place / name).write_bytes(contents.get(key, b""))
            self._sync_all(place)

    def _sync_all(self, directory: Path) -> None:
        """What came through is on disk."""
        for path in (*(path for path in directory.iterdir() if path.is_file()), directory):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                self.sync(descriptor)
            finally:
                os.close(descriptor)

    def _let_go(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def scrap(self) -> None:
        """Throw it away."""
        self._let_go()
        self._directory.cleanup()


@contextmanager
def watched_syncs(disks: Callable[[], Sequence[HostDisk]]) -> Iterator[None]:
    """Tell these disks what is synced while the block lasts."""
    before = os.fsync, os.fdatasync

    def sync(fd: "int | _HasFileno") -> None:
        descriptor = fd if isinstance(fd, int) else fd.fileno()
        if not any(disk.sync(descriptor) for disk in disks()):
            before[0](descriptor)

    os.fsync = os.fdatasync = sync
    try:
        yield
    finally:
        os.fsync, os.fdatasync = before
