"""What the driver has to know of a system: what it promises, how it is made ready, and how its members are started."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).resolve().parent
INSTALL_S: Final = 600


class PeerError(Exception):
    """A system cannot be measured here; the sentence tells why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What every member does."""

    members: int
    size: int
    warmup: int
    count: int
    """Messages that each member sends, after the warm-up."""


@contextmanager
def no_service() -> Iterator[int | None]:
    yield None


@dataclass(frozen=True, kw_only=True)
class System:
    """One system in one configuration."""

    name: str
    order: str
    """What it promises: none, fifo, causal, agreed or safe."""
    version: Callable[[], str] = field(repr=False)
    prepare: Callable[[], None] = field(repr=False)
    """Install and compile what is missing. Raises PeerError."""
    command: Callable[[], list[str]] = field(repr=False)
    """The program of a member, up to its arguments."""
    extra: Callable[[], list[str]] = field(default=list, repr=False)
    """Arguments of this system, after those that all have."""
    service: Callable[[], AbstractContextManager[int | None]] = field(default=no_service, repr=False)
    """What has to run beside the members; gives its process id."""
    warmup: float = 1 / 3
    """How long the warm-up is, in runs."""
    size_max: int = 1 << 20

    def arguments(self, load: Load, ports: Sequence[int], rank: int) -> list[str]:
        numbers = [str(rank), ",".join(map(str, ports)), str(load.size), str(load.warmup), str(load.count)]
        return [*self.command(), *numbers, *self.extra()]


def cache_directory(name: str) -> Path:
    """Where the bench keeps what it installed or compiled, from one time to the next."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base, "antiphon-bench", name)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def environment() -> dict[str, str]:
    """For members in Python: they find the bench and the Antiphon of this checkout."""
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def call(what: str, command: list[str], cwd: Path | None = None) -> str:
    """Run a command to its end, and return what it printed. Raises PeerError with its last words."""
    print(what, file=sys.stderr, flush=True)
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerError(f"{what} failed: {error}") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise PeerError(f"{what} failed with status {done.returncode}: {lines[-1]}")
    return done.stdout


def need_debian(packages: list[str], files: list[Path]) -> None:
    """Have these files, from these Debian packages; installs them where that can be done."""
    if all(file.exists() for file in files):
        return
    names = " ".join(packages)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise PeerError(f"this needs {names}; install them, as root on Debian: apt-get install {names}")
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    try:
        call(f"installing {names}", install)
    except PeerError:
        call("reading what packages there are", ["apt-get", "update"])
        call(f"installing {names}", install)
    missing = [str(file) for file in files if not file.exists()]
    if missing:
        raise PeerError(f"{names} did not bring {', '.join(missing)}; install another version by hand")
