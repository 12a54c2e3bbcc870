"""The limits: the bare loop, raw UDP with and without GSO, raw TCP. They promise nothing and recover nothing."""

import hashlib
import shutil
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from bench.peers.bare import HEADER_BYTES, PACKET_BYTES_MAX
from bench.peers.system import HERE, System, cache_directory, call

BARE: Final = HERE / "bare.py"


@cache
def compiled_bare() -> Path:
    """The directory of the compiled bare loop; one for each version of it and of Python."""
    digest = hashlib.sha256(BARE.read_bytes() + sys.version.encode()).hexdigest()[:16]
    directory = cache_directory(f"bare-{digest}")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if not (directory / f"bare{suffix}").exists():
        shutil.copy(BARE, directory)
        call("compiling the bare loop", [sys.executable, "-m", "mypyc", "bare.py"], cwd=directory)
    return directory


def nothing() -> None:
    return


def prepare_bare() -> None:
    compiled_bare()


def module(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"bench.peers.{name}"]


BARE_LOOP: Final = System(
    name="bare-loop",
    order="none",
    version=lambda: "compiled by mypyc, GSO and GRO",
    prepare=prepare_bare,
    command=module("bare_member"),
    extra=lambda: [str(compiled_bare())],
    size_max=PACKET_BYTES_MAX - HEADER_BYTES - 2,
)
RAW_UDP_GSO: Final = System(
    name="raw-udp-gso",
    order="none",
    version=lambda: "bytes in datagrams of 1,400, 45 per system call",
    prepare=nothing,
    command=module("raw_udp_member"),
    extra=lambda: ["gso"],
)
RAW_UDP: Final = System(
    name="raw-udp",
    order="none",
    version=lambda: "bytes in datagrams of 1,400, one per system call",
    prepare=nothing,
    command=module("raw_udp_member"),
    extra=lambda: ["plain"],
)
RAW_TCP: Final = System(
    name="raw-tcp",
    order="none",
    version=lambda: "bytes, one connection between each two members",
    prepare=nothing,
    command=module("raw_tcp_member"),
)
