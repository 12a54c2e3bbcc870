"""The program in README.md runs as printed (on free ports), and its history passes the audit."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.pipeline.reference import audit
from bench.peers.driver import free_ports

pytestmark = pytest.mark.processes

README = Path(__file__).resolve().parent.parent / "README.md"


def readme_program() -> str:
    """The program in README.md, on free ports."""
    programs: list[str] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (program,) = programs
    for printed, port in zip(("7400", "7401"), free_ports(2), strict=True):
        assert printed in program
        program = program.replace(printed, str(port))
    return program


def test_the_first_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", readme_program()], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert sorted(line for line in done.stdout.splitlines() if "hears" in line) == [
        "alice hears that bob sold",
        "bob hears that bob sold",
    ]
    (history,) = tmp_path.glob("quotes-*")
    assert audit(history).verdict == "kept"
