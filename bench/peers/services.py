"""Services that put the messages of their clients into one order: Antiphon's sequencing service, NATS JetStream, Redis
streams and etcd; each once without and once with durability.

With durability a message is on disk, synced, before a client reads it: Redis with `appendfsync always`, etcd as it
comes, Antiphon's peer with `--storage`; JetStream with file storage, which Debian's version writes and does not sync.
Without: JetStream in memory, Redis without a file, etcd with `--unsafe-no-fsync`, Antiphon's peer alone. The servers
are Debian's; nats-py and redis-py live in an environment of their own. Each run starts its server on loopback, and
ends it by its process id."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from bench.peers.driver import free_ports
from bench.peers.ours import event_loop, nothing
from bench.peers.ours import version as own_version
from bench.peers.system import PeerError, System, cache_directory, call, environment, need_debian

WINDOW: Final = 1024
"""Messages that each client may have under way."""
START_S: Final = 20.0
END_S: Final = 5.0
LOAD: Final = "load"
LATENCY: Final = "latency"
RUN: Final = "from antiphon.cli.main import main; main()"
NATS_CONFIGURATION: Final = """
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{directory}", max_mem: 4GB, max_file: 4GB }}
max_pending: 256MB
"""
Command = Callable[[int, Path], list[str]]
"""A server's command line, from its port and a directory of its own."""


class ServerPlace:
    """Where the server of the run under way listens."""

    address = ""


def python() -> Path:
    return cache_directory("services") / "bin" / "python"


def prepare_clients() -> None:
    try:
        call("asking for nats-py and redis-py", [str(python()), "-c", "import nats, redis, hiredis"])
    except PeerError:
        call("making an environment for clients", [sys.executable, "-m", "venv", "--clear", str(python().parents[1])])
        call("installing clients", [str(python()), "-m", "pip", "install", "--quiet", "nats-py", "redis[hiredis]"])


def prepare_debian(package: str, program: str) -> Callable[[], None]:
    def prepare() -> None:
        if shutil.which(program) is None:
            need_debian([package], [Path("/usr/bin", program)])
        prepare_clients()

    return prepare


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def service_of(command: Command) -> Callable[[], AbstractContextManager[int | None]]:
    """A context in which the server runs; gives its process id."""

    @contextmanager
    def service() -> Iterator[int | None]:
        [port] = free_ports(1)
        directory = Path(tempfile.mkdtemp(prefix="antiphon-service-"))
        server = subprocess.Popen(
            command(port, directory), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
        )
        try:
            limit_s = time.monotonic() + START_S
            while not is_open(port):
                if server.poll() is not None or time.monotonic() > limit_s:
                    raise PeerError(f"{command(port, directory)[0]} did not come up: status {server.poll()}")
                time.sleep(0.05)
            ServerPlace.address = f"127.0.0.1:{port}"
            yield server.pid
        finally:
            server.terminate()
            try:
                server.wait(END_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            shutil.rmtree(directory, ignore_errors=True)

    return service


def nats_command(port: int, directory: Path) -> list[str]:
    configuration = directory / "nats.conf"
    configuration.write_text(NATS_CONFIGURATION.format(port=port, directory=directory))
    return ["nats-server", "-c", str(configuration)]


def redis_command(*more: str) -> Command:
    return lambda port, directory: [
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory), *more
    ]  # fmt: skip


def etcd_command(*more: str) -> Command:
    def command(port: int, directory: Path) -> list[str]:
        [other] = free_ports(1)
        urls = [f"http://127.0.0.1:{port}", f"http://127.0.0.1:{other}"]
        peers = ["--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1]]
        clients = ["--listen-client-urls", urls[0], "--advertise-client-urls", urls[0]]
        return [
            "etcd", "--data-dir", str(directory / "data"), *peers, *clients, "--initial-cluster", f"default={urls[1]}",
            "--quota-backend-bytes", str(4 << 30), *more,
        ]  # fmt: skip

    return command


def own_command(*more: str) -> Command:
    def command(port: int, directory: Path) -> list[str]:
        storage = ["--storage", str(directory)] if more else []
        return [sys.executable, "-c", RUN, "sequencer", "--address", f"127.0.0.1:{port}", *storage]

    return command


@cache
def version_of(*command: str) -> str:
    return call(f"asking {command[0]} for its version", list(command)).splitlines()[0].strip()


def make(name: str, program: list[str], extra: list[str], command: Command, prepare: Callable[[], None],
         version: Callable[[], str]) -> System:  # fmt: skip
    return System(
        name=name,
        order="agreed",
        version=version,
        prepare=prepare,
        command=lambda: program,
        extra=lambda: [ServerPlace.address, str(WINDOW), LOAD, *extra],
        service=service_of(command),
    )


def systems(is_durable: bool) -> list[System]:
    """The services, with or without durability; ours first."""
    mark = "-durable" if is_durable else ""
    member = [str(python()), "-m"]
    redis = ("--appendonly", "yes", "--appendfsync", "always") if is_durable else ("--appendonly", "no")
    return [
        make(f"antiphon-service{mark}", [sys.executable, "-m", "bench.peers.service_member"], [event_loop()],
             own_command(*["durable"] * is_durable), nothing, own_version),
        make(f"nats-jetstream{mark}", [*member, "bench.peers.nats_member"], ["file" if is_durable else "memory"],
             nats_command, prepare_debian("nats-server", "nats-server"),
             lambda: version_of("nats-server", "--version")),
        make(f"redis-streams{mark}", [*member, "bench.peers.redis_member"], [], redis_command(*redis),
             prepare_debian("redis-server", "redis-server"), lambda: version_of("redis-server", "--version")),
        make(f"etcd{mark}", [*member, "bench.peers.etcd_member"], [],
             etcd_command(*([] if is_durable else ["--unsafe-no-fsync"])),
             prepare_debian("etcd-server", "etcd"), lambda: version_of("etcd", "--version")),
    ]  # fmt: skip
