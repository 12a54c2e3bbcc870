"""A page of the documentation as a program: its files are written, its commands run, in the order of the page."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL
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
    program = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", commands_of(page)],
        cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, err = program.communicate(timeout=timeout_s)
        return subprocess.CompletedProcess(program.args, program.returncode, out, err)
    finally:
        with suppress(ProcessLookupError):  # whatever the page has started and not ended
            os.killpg(program.pid, SIGKILL)
        program.wait()
        subprocess.run(["bash", "-c", commands_of(page, cleanup=True)], capture_output=True, check=False, timeout=60)
