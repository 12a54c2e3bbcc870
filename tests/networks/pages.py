"""A page of the documentation as a program: its files are written, its commands run, in the order of the page."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CLEANUP: Final = "cleanup"


def files_of(page: str) -> dict[str, str]:
    """The files that the page shows, by name."""
    return {what.strip().removeprefix("file="): text for _, what, text in _BLOCK.findall(page) if "file=" in what}


def commands_of(page: str, cleanup: bool = False) -> str:
    """The commands of the page, as one script; those that clean up stand apart."""
    blocks = [(what.strip(), text) for kind, what, text in _BLOCK.findall(page) if kind == "sh"]
    return "".join(text for what, text in blocks if (what == CLEANUP) == cleanup)


def follow(page: str, directory: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Do all that a page says, in a directory; whatever happens, clean up as the page says."""
    for name, text in files_of(page).items():
        (directory / name).write_text(text)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": ""}
    try:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + commands_of(page)],
            cwd=directory, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
    finally:
        subprocess.run(["bash", "-c", commands_of(page, cleanup=True)], capture_output=True, check=False, timeout=60)
