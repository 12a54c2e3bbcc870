"""Hosts on a bridge: each a network namespace of its own, so that real processes meet on a real, and bad, network.

    host 1   host 2   host 3 …       a namespace each: one interface, 10.77.0.<number>, and a firewall that loses
      │        │        │            a pair of virtual Ethernet devices each
    ──┴────────┴────────┴──  ─────   four bridges, in a namespace of their own: `part` and `split` move ports to others

Everything lies in namespaces whose names carry the id of this process, so runs do not meet, the machine's own network
is not touched, and deleting the namespaces removes everything. Needs root, `ip` and `nft`.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, Self

WHOLE: Final = "whole"
APART: Final = "apart"
BRIDGES: Final = (WHOLE, APART, "apart2", "apart3")
COMMAND_S: Final = 30.0


def missing() -> str | None:
    """Why there can be no such network here, or None if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool, package in (("ip", "iproute2"), ("nft", "nftables")):
        if shutil.which(tool) is None:
            return f"there is no `{tool}` here; install {package}"
    try:
        with Network(1) as network:
            network.lose(1)
    except subprocess.CalledProcessError as error:
        return f"namespaces, bridges or nftables do not work here: {error.stderr.strip()}"
    return None


def call(*command: str, text: str = "") -> None:
    subprocess.run(command, input=text, text=True, capture_output=True, check=True, timeout=COMMAND_S)


class Network:
    """Hosts 1 to `hosts`, all on one bridge at first."""

    def __init__(self, hosts: int) -> None:
        self._hosts = range(1, hosts + 1)
        self._prefix = f"antiphon-{os.getpid()}"
        self._hub = f"{self._prefix}-hub"
        self._made: list[str] = []
        self._loss_percent = 0
        self._dropped: dict[int, set[int]] = {}
        """By host, the hosts whose packets it does not receive."""

    def address(self, host: int) -> str:
        return f"10.77.0.{host}"

    def command(self, host: int, arguments: Sequence[str]) -> list[str]:
        """What runs `arguments` on this host. It becomes that program, so its process id is the program's own."""
        return ["ip", "netns", "exec", self.namespace(host), *arguments]

    def lose(self, percent: int) -> None:
        """From now on every host loses so much of what comes in, at random; 0: nothing."""
        self._loss_percent = percent
        for host in self._hosts:
            self._set_firewall(host)

    def drop(self, source: int, target: int) -> None:
        """From now on nothing from `source` reaches `target`; the other direction is not touched."""
        self._dropped.setdefault(target, set()).add(source)
        self._set_firewall(target)

    def deafen(self, host: int) -> None:
        """From now on nothing from any other host reaches `host`, which can still send."""
        for other in self._hosts:
            if other != host:
                self._dropped.setdefault(host, set()).add(other)
        self._set_firewall(host)

    def mute(self, host: int) -> None:
        """From now on nothing that `host` sends reaches any other host."""
        for other in self._hosts:
            if other != host:
                self.drop(host, other)

    def _set_firewall(self, host: int) -> None:
        rules = [f"ip saddr {self.address(source)} drop" for source in sorted(self._dropped.get(host, ()))]
        if self._loss_percent:
            rules.append(f"numgen random mod 100 < {self._loss_percent} drop")
        chain = "".join(f"{rule}; " for rule in rules)
        table = f"flush ruleset; table inet loss {{ chain input {{ type filter hook input priority 0; {chain}}}; }}"
        call(*self.command(host, ["nft", "-f", "-"]), text=table)

    def part(self, hosts: Iterable[int]) -> None:
        """Cut these hosts off from the others, but not from each other."""
        self._plug(dict.fromkeys(hosts, APART))

    def split(self, *sides: Iterable[int]) -> None:
        """Cut each of these sides off from all others."""
        self._plug({host: bridge for bridge, hosts in zip(BRIDGES, sides, strict=False) for host in hosts})

    def heal(self) -> None:
        """End every partition and every one-way drop; random loss goes on."""
        self._plug(dict.fromkeys(self._hosts, WHOLE))
        for host in list(self._dropped):
            del self._dropped[host]
            self._set_firewall(host)

    def _plug(self, bridges: dict[int, str]) -> None:
        """Move the ports of these hosts to these bridges, all at once."""
        commands = "".join(f"link set port{host} master {bridge}\n" for host, bridge in bridges.items())
        call("ip", "-n", self._hub, "-batch", "-", text=commands)

    def namespace(self, host: int) -> str:
        return f"{self._prefix}-{host}"

    def _make_namespace(self, name: str) -> None:
        call("ip", "netns", "add", name)
        self._made.append(name)
        call("ip", "-n", name, "link", "set", "lo", "up")

    def _make_host(self, host: int) -> None:
        namespace, port = self.namespace(host), f"port{host}"
        self._make_namespace(namespace)
        call("ip", "-n", self._hub, *f"link add {port} type veth peer name eth0 netns {namespace}".split())
        call("ip", "-n", self._hub, *f"link set {port} master {WHOLE} up".split())
        call("ip", "-n", namespace, *f"address add {self.address(host)}/24 dev eth0".split())
        call("ip", "-n", namespace, "link", "set", "eth0", "up")
        call("ip", "-n", namespace, "route", "add", "224.0.0.0/4", "dev", "eth0")

    def __enter__(self) -> Self:
        try:
            self._make_namespace(self._hub)
            for bridge in BRIDGES:
                call("ip", "-n", self._hub, *f"link add {bridge} type bridge mcast_snooping 0".split())
                call("ip", "-n", self._hub, *f"link set {bridge} up".split())
            for host in self._hosts:
                self._make_host(host)
        except BaseException:
            self._destroy()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._destroy()

    def _destroy(self) -> None:
        """Whatever is in a namespace goes with it, when the last process in it has gone."""
        for name in reversed(self._made):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False, timeout=COMMAND_S)
        self._made.clear()
