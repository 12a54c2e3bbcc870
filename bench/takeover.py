"""How long nobody leads after the leader was killed (kill -9) or stopped (SIGSTOP): Antiphon beside a lease of etcd.

    python -m bench.takeover --repeats 5        prints JSON; needs Debian's etcd-server

Three candidates, processes on loopback, each time; systems take turns. The time runs from the signal to the first beat
of the next leader, which beats every 10 ms. Antiphon is measured with its default options and with `Options.fast()`;
etcd is one server with its default settings and the shortest lease that it grants (it rounds the wanted TTL up to what
it allows); its candidates ask every 10 ms. An etcd of three servers would not be faster. What is compared is mostly the
time-outs that each allows: a lease ends when its time is over, a member is given up when the others do not hear it.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

from bench.peers.driver import free_ports

CANDIDATES: Final = 3
LIMIT_S: Final = 60.0
REST_S: Final = 0.7
FAULTS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Candidate:
    """One process, and the lines that it prints."""

    def __init__(self, *arguments: str) -> None:
        self.said: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.takeover_member", *arguments], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self._reading = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reading.start()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self.said.append(json.loads(line))

    def beats(self) -> list[dict[str, Any]]:
        return [line for line in self.said if "token" in line]

    @property
    def is_ready(self) -> bool:
        return any("ready" in line for line in self.said)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join(LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


def wait(condition: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > until_s:
            raise TimeoutError(f"no {what} within {LIMIT_S} s")
        time.sleep(0.005)


def measure(candidates: list[Candidate], fault: str) -> float:
    """Strike the one that leads; seconds until another does."""
    for candidate in candidates:
        wait(lambda candidate=candidate: candidate.is_ready, "candidate")  # type: ignore[misc]
    wait(lambda: any(candidate.beats() for candidate in candidates), "leader")
    time.sleep(REST_S)
    leader = max((each for each in candidates if each.beats()), key=lambda each: int(each.beats()[-1]["time_ns"]))
    token = int(leader.beats()[-1]["token"])
    others = [candidate for candidate in candidates if candidate is not leader]
    struck_ns = time.monotonic_ns()
    os.kill(leader.process.pid, FAULTS[fault])
    wait(lambda: any(candidate.beats() for candidate in others), "next leader")
    first = min((candidate.beats()[0] for candidate in others if candidate.beats()), key=lambda beat: beat["time_ns"])
    if int(first["token"]) <= token:
        raise AssertionError(f"the next leader has token {first['token']}, not above {token}")
    return float(first["time_ns"] - struck_ns) / 1e9


@contextmanager
def of_antiphon(options: str) -> Iterator[list[Candidate]]:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(CANDIDATES)]
    candidates: list[Candidate] = []
    try:
        for rank, address in enumerate(addresses):
            candidates.append(Candidate("antiphon", options, f"c{rank}", address, *addresses[:rank]))
            wait(lambda: candidates[-1].is_ready, "member")
        yield candidates
    finally:
        for candidate in candidates:
            candidate.end()


@contextmanager
def of_etcd(ttl: int) -> Iterator[list[Candidate]]:
    client, peer = (f"127.0.0.1:{port}" for port in free_ports(2))
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-etcd-"))
        command = [
            "etcd", "--data-dir", str(Path(directory) / "data"), "--listen-client-urls", f"http://{client}",
            "--advertise-client-urls", f"http://{client}", "--listen-peer-urls", f"http://{peer}",
            "--initial-advertise-peer-urls", f"http://{peer}", "--initial-cluster", f"default=http://{peer}",
        ]  # fmt: skip
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(server.wait)
        stack.callback(server.kill)
        wait(lambda: _answers(client), "etcd")
        candidates = []
        for rank in range(CANDIDATES):
            candidates.append(Candidate("etcd", str(ttl), f"c{rank}", client))
            stack.callback(candidates[-1].end)
        yield candidates


def _answers(address: str) -> bool:
    from bench.takeover_member import KEY, Etcd

    try:
        Etcd(address).call("kv/range", {"key": KEY})
    except OSError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ttl", type=int, default=1, help="seconds that the lease of etcd is to last")
    given = parser.parse_args()
    systems: dict[str, Callable[[], Any]] = {
        "antiphon": lambda: of_antiphon("default"),
        "antiphon fast": lambda: of_antiphon("fast"),
    }
    if shutil.which("etcd") is None:
        print("there is no etcd here (Debian's etcd-server); measured without", file=sys.stderr)
    else:
        systems["etcd lease"] = lambda: of_etcd(given.ttl)
    taken: dict[tuple[str, str], list[float]] = {}
    ttls: set[int] = set()
    for _ in range(given.repeats):
        for fault in FAULTS:
            for system, start in systems.items():
                with start() as candidates:
                    taken.setdefault((system, fault), []).append(measure(candidates, fault))
                    ttls.update(line["ttl"] for each in candidates for line in each.said if "ttl" in line)
                print(f"{system} {fault}: {taken[system, fault][-1]:.3f} s", file=sys.stderr, flush=True)
    results = [
        {"system": system, "workload": f"takeover after {fault}", "order": "safe", "size": 0, "members": CANDIDATES,
         "value": round(statistics.median(times), 3), "unit": "s", "spread": round(max(times) - min(times), 3)}
        for (system, fault), times in taken.items()
    ]  # fmt: skip
    print(json.dumps({"results": results, "etcd_ttl_s": sorted(ttls)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
