"""The numbers of tests/programs/guarded.py as a server at a Unix socket, which all hosts of a trial reach: also those
that are cut off from each other, as a database in a third place might be reached by both sides of a partition.

One line of JSON each way: {"item", "token", "holder", "value" or none} and {"value"} or {"stale": highest}.
"""

import contextlib
import json
import socketserver
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from antiphon import ProcessId
from antiphon.toolkit import StaleTokenError, TokenGuard
from tests.programs.guarded import GuardedNumbers


class ResourceServer:
    """Serves until it is closed. The guards store what they have admitted, as those of a real resource must."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "resource.socket"
        self.numbers = GuardedNumbers(lambda item: TokenGuard(directory / f"{item}.guard"))
        self.accesses: list[tuple[int, str, str, int]] = []
        """Time (monotonic), item, holder and token of each admitted write."""
        self.refused: list[tuple[int, str, str, int]] = []
        self._lock = threading.Lock()
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):  # a client that was killed
                    for line in self.rfile:
                        self.wfile.write(json.dumps(server.answer(json.loads(line))).encode() + b"\n")

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self._server = Server(str(self.path), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def answer(self, asked: dict[str, object]) -> dict[str, object]:
        item, token, holder, value = str(asked["item"]), asked["token"], str(asked["holder"]), asked.get("value")
        assert isinstance(token, int)
        name, _, incarnation = holder.rpartition("/")
        process = ProcessId(name, int(incarnation))
        with self._lock:
            told = (time.monotonic_ns(), item, holder, token)
            try:
                if isinstance(value, int):
                    self.numbers.write(item, token, process, value)
                    self.accesses.append(told)
                    return {"value": value}
                return {"value": self.numbers.read(item, token, process)}
            except StaleTokenError as error:
                self.refused.append(told)
                return {"stale": error.highest}

    def first_after(self, at_ns: int, item: str, above: int) -> int | None:
        """When a write under a token above this one was first admitted after a time."""
        with self._lock:
            return next(
                (time for time, of, _, token in self.accesses if of == item and time > at_ns and token > above), None
            )

    def last(self, item: str) -> tuple[int, str, str, int]:
        """The last admitted write."""
        with self._lock:
            return next((access for access in reversed(self.accesses) if access[1] == item), (0, item, "", 0))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
