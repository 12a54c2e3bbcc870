"""The program in README.md runs as printed (on free ports), and its history passes the audit."""

import re
import socket
import subprocess
import sys
from pathlib import Path

from antiphon.pipeline.reference import audit

README = Path(__file__).resolve().parent.parent / "README.md"


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def test_the_first_program(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    for printed, port in zip(("7400", "7401"), free_ports(2), strict=True):
        assert printed in program
        program = program.replace(printed, str(port))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert sorted(line for line in done.stdout.splitlines() if "hears" in line) == [
        "alice hears that bob sold",
        "bob hears that bob sold",
    ]
    assert audit(tmp_path / "quotes-history").verdict == "kept"
