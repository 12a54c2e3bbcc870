"""ZeroMQ: a PUB/SUB mesh from Python, with pyzmq in an environment of its own. By TCP: ipc was no faster when tried."""

import sys
from functools import cache
from pathlib import Path
from typing import Final

from bench.peers.system import PeerError, System, cache_directory, call


def python() -> Path:
    return cache_directory("zeromq") / "bin" / "python"


@cache
def version() -> str:
    ask = "import zmq; print('libzmq', zmq.zmq_version(), 'by pyzmq', zmq.__version__)"
    return call("asking ZeroMQ for its version", [str(python()), "-c", ask]).strip()


def prepare() -> None:
    try:
        version()
    except PeerError:
        call("making an environment for pyzmq", [sys.executable, "-m", "venv", "--clear", str(python().parents[1])])
        call("installing pyzmq", [str(python()), "-m", "pip", "install", "--quiet", "pyzmq"])
        version()


ZEROMQ: Final = System(
    name="zeromq",
    order="none",
    version=version,
    prepare=prepare,
    command=lambda: [str(python()), "-m", "bench.peers.zeromq_member"],
    extra=lambda: ["tcp"],
)
