"""A group of the stack `domain` on hosts of its own, on bridges: split, and healed, under load; with IP multicast.

    python -m tests.networks.parting --hosts 8 --rate 250 --rounds 3       as root

Prints how long it took from each cut until all were in the views of their sides, and from healing until all were in
one.
"""

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from typing import Any

from tests.networks.network import Network

MULTICAST = "239.255.77.1:7401"
START_S = 60.0
SETTLE_S = 15.0


class Host:
    """One process on its host, and what it has told."""

    def __init__(self, network: Network, host: int, members: dict[str, str], multicast: str, rate: float) -> None:
        self.name = f"h{host}"
        command = [sys.executable, "-m", "tests.networks.domain_member", self.name, members[self.name],
                   json.dumps(members), multicast, str(rate)]  # fmt: skip
        self.process = subprocess.Popen(
            network.command(host, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.views: list[dict[str, Any]] = []
        self.last: dict[str, Any] = {}
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if "view" in told:
                self.views.append(told)
            else:
                self.last = told

    def stop(self) -> None:
        """Have it tell what it has counted, and end."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()  # which ends its wait for a line
            self.process.wait(timeout=SETTLE_S)
        except (subprocess.TimeoutExpired, OSError):
            self.process.kill()
            self.process.wait()
        self._reading.join(timeout=1.0)


def settle(hosts: list[Host], sides: list[list[str]], since_s: float, patience_s: float = SETTLE_S) -> float:
    """Wait until all are in views of just their sides; how many seconds after `since_s` the last one was."""
    end_s = time.monotonic() + patience_s
    while time.monotonic() < end_s:
        last = [host.views[-1] if host.views else {"members": []} for host in hosts]
        if all(view["members"] in sides for view in last):
            return float(max(view["time_s"] for view in last)) - since_s
        time.sleep(0.01)
    raise AssertionError(f"not settled within {patience_s} s: {[host.views[-1:] for host in hosts]}")


def play(
    hosts: int, rate: float, rounds: int, multicast: str = MULTICAST
) -> tuple[list[float], list[float], list[Host]]:
    """Split and heal; seconds from each cut to the views of the sides, and from each healing to one view."""
    parted: list[float] = []
    merged: list[float] = []
    members = {f"h{host}": f"10.77.0.{host}:7400" for host in range(1, hosts + 1)}
    everybody = sorted(members)
    away = range(hosts - hosts // 3, hosts + 1)
    sides = [sorted(f"h{host}" for host in away), sorted(set(everybody) - {f"h{host}" for host in away})]
    with Network(hosts) as network:
        running = [Host(network, host, members, multicast, rate) for host in range(1, hosts + 1)]
        try:
            settle(running, [everybody], time.monotonic(), START_S)
            for _ in range(rounds):
                time.sleep(1.0)
                cut_s = time.monotonic()
                network.part(away)
                parted.append(settle(running, sides, cut_s))
                time.sleep(1.0)
                healed_s = time.monotonic()
                network.heal()
                merged.append(settle(running, [everybody], healed_s))
            time.sleep(0.5)
        finally:
            for host in running:
                host.stop()
    return parted, merged, running


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--rate", type=float, default=250.0, help="messages a second that each host sends")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--unicast", action="store_true", help="without IP multicast")
    given = parser.parse_args()
    parted, merged, running = play(given.hosts, given.rate, given.rounds, "" if given.unicast else MULTICAST)
    print(f"cut to parted views: {', '.join(f'{taken:.2f}' for taken in parted)} s")
    told = ", ".join(f"{taken:.2f}" for taken in merged)
    print(f"healed to one view: {told} s, median {statistics.median(merged):.2f} s")
    for host in running:
        print(host.name, host.last.get("handed"), "messages,", len(host.views), "views,", host.last.get("statistics"))


if __name__ == "__main__":
    main()
