"""Corosync: closed process groups from C, AGREED order; one daemon, and all members are its clients.

The daemon gets its own configuration, on loopback, and is stopped after the run. It needs root, and must be the only
one on its machine: if another one runs, the bench does not start and says so.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from bench.peers.system import HERE, PeerError, System, cache_directory, call, need_debian

SOURCE: Final = HERE / "cpg_member.c"
PACKAGES: Final = ["corosync", "libcpg-dev", "gcc", "libc6-dev"]
FILES: Final = [Path("/usr/sbin/corosync"), Path("/usr/include/corosync/cpg.h")]
START_S: Final = 20.0
END_S: Final = 10.0
CONFIGURATION: Final = """\
totem {{
    version: 2
    cluster_name: bench
    transport: udpu
    crypto_cipher: none
    crypto_hash: none
    netmtu: 8982
}}
nodelist {{
    node {{
        ring0_addr: 127.0.0.1
        name: bench
        nodeid: 1
    }}
}}
logging {{
    to_stderr: no
    to_syslog: no
    to_logfile: yes
    logfile: {directory}/log
}}
system {{
    state_dir: {directory}
    move_to_root_cgroup: no
}}
"""
"""Frames as long as it takes. Larger values of window_size and max_messages made no difference that could be measured,
so they are left alone."""


def program() -> Path:
    return cache_directory("corosync") / "cpg_member"


def prepare() -> None:
    if os.geteuid() != 0:
        raise PeerError("the corosync daemon must run as root; run the bench as root, or leave corosync out")
    need_debian(PACKAGES, FILES)
    warnings = ["-Wall", "-Wextra", "-Werror"]
    call("compiling the member of corosync", ["cc", "-O2", *warnings, str(SOURCE), "-o", str(program()), "-lcpg"])


@cache
def version() -> str:
    return call("asking corosync for its version", ["corosync", "-v"]).splitlines()[0]


def daemons() -> list[int]:
    """Process ids of all running corosync daemons."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (directory / "comm").read_text().strip() == "corosync":
                found.append(int(directory.name))
    return found


@contextmanager
def service() -> Iterator[int | None]:
    """The daemon, for as long as a run lasts."""
    if daemons():
        raise PeerError("a corosync daemon runs already, and there can be but one; stop it, or leave corosync out")
    directory = Path(tempfile.mkdtemp(prefix="corosync-"))
    configuration = directory / "corosync.conf"
    configuration.write_text(CONFIGURATION.format(directory=directory))
    try:
        daemon = subprocess.Popen(
            ["corosync", "-f", "-c", str(configuration)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_until_it_serves(daemon, directory)
            yield daemon.pid
        finally:
            end(daemon)
    finally:
        shutil.rmtree(directory)


def wait_until_it_serves(daemon: subprocess.Popen[bytes], directory: Path) -> None:
    log = directory / "log"
    limit_s = time.monotonic() + START_S
    while time.monotonic() < limit_s:
        text = log.read_text() if log.exists() else ""
        if "Completed service synchronization" in text:
            return
        if daemon.poll() is not None:
            raise PeerError(f"corosync ended with status {daemon.returncode}: {(text.splitlines() or ['no log'])[-1]}")
        time.sleep(0.05)
    raise PeerError(f"corosync did not come up within {START_S:.0f} s")


def end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(END_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


CPG: Final = System(
    name="corosync-cpg",
    order="agreed",
    version=version,
    prepare=prepare,
    command=lambda: [str(program())],
    extra=lambda: ["bench"],
    service=service,
)
