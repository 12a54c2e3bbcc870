"""A host of a Corosync cluster, with a member of a closed process group on it.

    python -m bench.peers.cpg_host SETTINGS

It runs in a network namespace of its own (tests/networks/trial.py), and mounts its own /run and /dev/shm, so that each
host can have a daemon. It does what tests/networks/domain_member.py does on ours: sends AGREED messages at a rate, and
tells each configuration of the group, as the application is told of it, and how long nothing was delivered. The daemon
dies with this process.
"""

import asyncio
import ctypes
import json
import subprocess
import sys
import time
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import IO, Any, Final

from antiphon.runtime.workers import LINE_BYTES_MAX

GROUP: Final = "trial"
OK: Final = 1
TRY_AGAIN: Final = 6
AGREED: Final = 2
DISPATCH_ALL: Final = 2
BEAT_S: Final = 0.02
SIZE: Final = 64
CONFIGURATION: Final = """\
totem {{
    version: 2
    cluster_name: parting
    crypto_cipher: none
    crypto_hash: none
}}
nodelist {{
{nodes}}}
logging {{
    to_stderr: no
    to_syslog: no
    to_logfile: yes
    logfile: {directory}/log
    timestamp: hires
}}
system {{
    state_dir: {directory}
    move_to_root_cgroup: no
}}
"""
NODE: Final = "    node {{\n        ring0_addr: {host}\n        name: {name}\n        nodeid: {id}\n    }}\n"


class Name(Structure):
    _fields_ = (("length", c_uint32), ("value", c_char * 128))


class Address(Structure):
    _fields_ = (("node", c_uint32), ("pid", c_uint32), ("reason", c_uint32))


class Part(Structure):
    _fields_ = (("base", c_void_p), ("length", c_size_t))


Deliver = CFUNCTYPE(None, c_uint64, POINTER(Name), c_uint32, c_uint32, c_void_p, c_size_t)
Change = CFUNCTYPE(
    None, c_uint64, POINTER(Name), POINTER(Address), c_size_t, POINTER(Address), c_size_t, POINTER(Address), c_size_t
)


class Callbacks(Structure):
    _fields_ = (("deliver", Deliver), ("change", Change))


class CpgMember:
    """One member of the group, by libcpg."""

    def __init__(self, events: IO[str]) -> None:
        self._library = ctypes.CDLL("libcpg.so.4")
        self._events = events
        self._handle = c_uint64()
        self._callbacks = Callbacks(Deliver(self._deliver), Change(self._change))
        self._payload = ctypes.create_string_buffer(SIZE)
        self._part = Part(ctypes.addressof(self._payload), SIZE)
        self._last_s = time.monotonic()
        self._quiet_s = 0.0
        self._views = 0
        self.rate = 0.0

    def tell(self, kind: str, **fields: object) -> None:
        self._events.write(json.dumps({"kind": kind, "time_ns": time.monotonic_ns(), **fields}) + "\n")
        self._events.flush()

    def join(self) -> bool:
        """Whether the daemon has let this member in."""
        if self._library.cpg_initialize(byref(self._handle), byref(self._callbacks)) != OK:
            return False
        name = Name(len(GROUP), GROUP.encode())
        return bool(self._library.cpg_join(self._handle, byref(name)) == OK)

    def _deliver(self, handle: int, group: Any, node: int, pid: int, message: int, length: int) -> None:
        now_s = time.monotonic()
        self._quiet_s = max(self._quiet_s, now_s - self._last_s)
        self._last_s = now_s

    def _change(self, handle: int, group: Any, members: Any, count: int, *changes: Any) -> None:
        self._views += 1
        names = sorted(f"m{members[place].node}/1" for place in range(count))
        self.tell("view", group=GROUP, id=self._views, members=names)

    def tell_quiet(self) -> None:
        self.tell("quiet", seconds=max(self._quiet_s, time.monotonic() - self._last_s))
        self._quiet_s, self._last_s = 0.0, time.monotonic()

    def _send_one(self) -> bool:
        """Whether the daemon has taken a message."""
        taken = self._library.cpg_mcast_joined(self._handle, AGREED, byref(self._part), c_uint(1))
        return bool(taken == OK)

    async def send(self) -> None:
        owed, before_s = 0.0, time.monotonic()
        while True:
            await asyncio.sleep(BEAT_S)
            now_s = time.monotonic()
            owed = min(owed + (now_s - before_s) * self.rate, self.rate)
            before_s = now_s
            while owed >= 1 and self._send_one():
                owed -= 1
            if self._library.cpg_dispatch(self._handle, DISPATCH_ALL) not in (OK, TRY_AGAIN):
                raise SystemExit("the daemon is gone")


def start_daemon(settings: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """The daemon of this host, with directories of its own; it is killed when this process dies."""
    for place in ("/run", "/dev/shm"):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    directory = Path(settings["events"]).with_suffix(".corosync")
    directory.mkdir()
    hosts = [address.rpartition(":")[0] for address in settings["groups"][GROUP]]
    nodes = "".join(NODE.format(host=host, name=f"m{id}", id=id) for id, host in enumerate(hosts, 1))
    configuration = directory / "corosync.conf"
    configuration.write_text(CONFIGURATION.format(nodes=nodes, directory=directory))
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "corosync", "-f", "-c", str(configuration)])


async def main() -> None:
    settings: dict[str, Any] = json.loads(sys.argv[1])
    daemon = start_daemon(settings)
    try:
        with Path(settings["events"]).open("a") as events:
            member = CpgMember(events)
            while not member.join():
                await asyncio.sleep(0.2)
            reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
            loop = asyncio.get_running_loop()
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
            sending = asyncio.create_task(member.send())
            while line := await reader.readline():
                order = json.loads(line)
                if "rate" in order:
                    member.rate = order["rate"]
                elif "quiet" in order:
                    member.tell_quiet()
                else:
                    break
            sending.cancel()
    finally:
        daemon.terminate()
        daemon.wait()


if __name__ == "__main__":
    asyncio.run(main())
