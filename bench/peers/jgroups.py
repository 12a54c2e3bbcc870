"""JGroups: Java, on the stacks that it ships for IP multicast: udp.xml (fifo) and sequencer.xml (total order).

Two values are changed. With the credits it ships with, members send more than a socket's buffer holds; and a member
that loses the last message of a run learns of it only from the stability messages, which by default come every 50 s.
"""

import os
import re
import shutil
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

from bench.peers.driver import free_ports
from bench.peers.system import HERE, PeerError, System, cache_directory, call, need_debian

SOURCE: Final = HERE / "JGroupsMember.java"
JAR: Final = Path("/usr/share/java/jgroups.jar")
LOGGING: Final = Path("/usr/share/java/commons-logging.jar")
FIFO_STACK: Final = "udp.xml"
TOTAL_STACK: Final = "sequencer.xml"
WARMUP: Final = 2.0
"""In runs: the JVM compiles for long."""
CHANGES: Final = {
    "max_credits": "500K",
    "desired_avg_gossip": "1000",
}
JVM: Final = ["-server", "-Xms512m", "-Xmx512m", "-XX:+UseParallelGC"]


def classes() -> Path:
    return cache_directory("jgroups")


def stack(name: str) -> Path:
    return classes() / name


def write_stacks() -> None:
    """The stacks of the jar, with our values."""
    with zipfile.ZipFile(JAR) as jar:
        for name in (FIFO_STACK, TOTAL_STACK):
            text = jar.read(name).decode()
            for key, value in CHANGES.items():
                text, count = re.subn(rf'\b{key}="[^"]*"', f'{key}="{value}"', text)
                if not count:
                    raise PeerError(f"{JAR}: {name} does not set {key}; this version of JGroups needs another stack")
            stack(name).write_text(text)


def prepare() -> None:
    need_debian(["libjgroups-java", "libcommons-logging-java"], [JAR, LOGGING])
    if shutil.which("javac") is None:
        need_debian(["default-jdk-headless"], [Path("/usr/bin/javac")])
    write_stacks()
    call("compiling the member of JGroups", ["javac", "-cp", str(JAR), "-d", str(classes()), str(SOURCE)])


@cache
def version() -> str:
    with zipfile.ZipFile(JAR) as jar:
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
    found = [
        line.partition(":")[2].strip() for line in manifest.splitlines() if line.startswith("Implementation-Version")
    ]
    return f"JGroups {found[0]}" if found else f"{JAR.resolve().stem} from Debian"


@cache
def multicast_port() -> int:
    return free_ports(1)[0]


def command() -> list[str]:
    properties = {
        "java.net.preferIPv4Stack": "true",
        "jgroups.bind_addr": "127.0.0.1",
        "jgroups.udp.mcast_port": str(multicast_port()),
        "jgroups.udp.ip_ttl": "0",
    }
    path = os.pathsep.join(map(str, (classes(), JAR, LOGGING)))
    return ["java", *JVM, *(f"-D{key}={value}" for key, value in properties.items()), "-cp", path, "JGroupsMember"]


def jgroups(name: str, order: str, file: str) -> System:
    return System(
        name=name,
        order=order,
        version=version,
        prepare=prepare,
        command=command,
        extra=lambda: [str(stack(file))],
        warmup=WARMUP,
    )


UDP: Final = jgroups("jgroups-udp", "fifo", FIFO_STACK)
SEQUENCER: Final = jgroups("jgroups-sequencer", "agreed", TOTAL_STACK)
