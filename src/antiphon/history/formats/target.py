"""Where a result goes: written beside its place under another name, and moved there once it is whole.

Whatever goes wrong in between, the place is as it was before, and nothing is left beside it.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TextIO

from antiphon.kernel.errors import UsageError


@contextmanager
def new_directory(place: Path) -> Iterator[Path]:
    """A directory to fill. It takes its place, which must be free or an empty directory, if the block ends well."""
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise UsageError(f"{place} exists and is not an empty directory; name another place for the history")
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(mkdtemp(prefix=f".{place.name}-", suffix=".partial", dir=place.parent))
    try:
        partial.chmod(0o755)  # mkdtemp lets nobody else in
        yield partial
        partial.rename(place)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


@contextmanager
def new_file(place: Path) -> Iterator[TextIO]:
    """A text file to write. It takes its place, and that of a file that is there, if the block ends well."""
    if place.is_dir() or not place.parent.is_dir():
        raise UsageError(f"{place} cannot be written; name a file in a directory that exists")
    partial = place.with_name(f".{place.name}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        partial.replace(place)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
