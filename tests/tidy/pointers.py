"""Whether what a page points at in backticks exists: files, folders, tests in files, and targets of make."""

import functools
import re
from collections.abc import Collection, Mapping
from typing import Final

QUOTED: Final = re.compile(r"`([^`\n]+)`")
FILE: Final = re.compile(r"[\w./-]+\.(?:py|md|js|css|toml)|[\w.-]+/[\w./-]+\.(?:json|txt)")
FOLDER: Final = re.compile(r"[\w.-]+(?:/[\w.-]+)*/")
OF_READERS: Final = frozenset(("quotes.py", "ticker.py"))
"""Files that the pages tell readers to make."""
ROOTS: Final = ("src/", "tests/", "bench/", "docs/")


def pointer_complaints(page: str, text: str, files: Mapping[str, str], targets: Collection[str]) -> list[str]:
    """One line for each pointer to nothing. `files` has the text of each file by its path.

    A path from the root of the repository is taken as it is; the end of a path is enough if a file has that. Paths with
    placeholders point at nothing in particular.
    """
    known = ends_of(frozenset(files))
    complaints = []
    for line_number, line in enumerate(text.splitlines(), start=1):
        for quoted in QUOTED.findall(line):
            if problem := _problem(quoted, files, known, targets):
                complaints.append(f"{page}:{line_number}: {problem}")
    return complaints


@functools.lru_cache(maxsize=4)
def ends_of(names: frozenset[str]) -> frozenset[str]:
    """All ends of the paths of these files, and of the folders that they are in, which end with a slash."""
    folders = {"/".join(name.split("/")[:depth]) + "/" for name in names for depth in range(1, name.count("/") + 1)}
    return frozenset(
        "/".join(parts[start:])
        for parts in (name.split("/") for name in names | folders)
        for start in range(len(parts) - (parts[-1] == ""))
    )


def _problem(quoted: str, files: Mapping[str, str], known: Collection[str], targets: Collection[str]) -> str | None:
    words = quoted.split()
    if words[0] == "make" and len(words) > 1:
        gone = [word for word in words[1:] if re.fullmatch(r"[a-z-]+", word) and word not in targets]
        return f"there is no target {gone[0]} of make" if gone else None
    path, _, test = quoted.partition("::")
    if path in OF_READERS or not (FILE.fullmatch(path) or FOLDER.fullmatch(path)):
        return None
    if path not in (files if path.startswith(ROOTS) and not path.endswith("/") else known):
        return f"there is no {path}"
    if test and f"def {test.split('[')[0]}(" not in files.get(path, ""):
        return f"there is no test {test} in {path}"
    return None
