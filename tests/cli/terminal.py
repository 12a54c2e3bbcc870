"""A command in a pseudo-terminal: what it draws, and keys for it."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

COMMAND: Final = (sys.executable, "-c", "from antiphon.cli.main import main; main()")
WAIT_S: Final = 40.0
_CONTROL: Final = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


class Terminal:
    """One process and the master side of its terminal."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int) -> None:
        self.process = process
        self._master = master
        self._seen = b""

    @property
    def text(self) -> str:
        """Everything that was drawn, without control sequences."""
        return _CONTROL.sub(b"", self._seen).decode(errors="replace")

    def wait_for(self, pattern: str, start: int = 0) -> re.Match[str]:
        """Read until the pattern was drawn, after this place of the text."""
        deadline_s = time.monotonic() + WAIT_S
        while not (found := re.compile(pattern).search(self.text, start)):
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"{pattern!r} was not drawn: {self.text[-2000:]}"
            if select.select([self._master], [], [], left_s)[0]:
                try:
                    self._seen += os.read(self._master, 65536)
                except OSError:  # the other side is closed
                    assert re.search(pattern, self.text), f"{pattern!r} was not drawn: {self.text[-2000:]}"
        return found

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    """Run `antiphon` with these arguments in a terminal; it is killed in the end."""
    master, slave = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "160", "LINES": "40"}
    with subprocess.Popen([*COMMAND, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        try:
            yield Terminal(process, master)
        finally:
            process.kill()
            process.wait()
            os.close(master)
