"""Partitions and merges on real hosts, beside Corosync: the same namespaces, faults and load for both.

    python -m bench.parting                     as root, with corosync installed (Debian); as JSON
    python -m bench.parting --systems domain    one of them

Eight hosts on bridges, each a network namespace with a process that sends at a rate: on the stack `domain` at all
levels, on Corosync AGREED messages of a closed process group. The network is split 3/3/2, then a host does not hear
another one, then two do not hear each other, each for a while and healed after it (tests/networks/parting.py). Both
have their default settings. Told are, in seconds: from each split to the last host in the view of its side, from each
healing to the last host in the view of all, and the longest time without a delivery at any host.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from antiphon import _build
from tests.networks.domain_member import GROUP
from tests.networks.network import Network, missing
from tests.networks.parting import FULL, MULTICAST, Parting, PartingFigures, PartingScale, run_faults
from tests.networks.trial import PORT, Trial

PROGRAMS: Final[Mapping[str, str]] = {
    "domain": "tests.networks.domain_member",
    "corosync": "bench.peers.cpg_host",
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--rate", type=float, default=FULL.rate, help="messages a second, of all hosts together")
    parser.add_argument("--splits", type=int, default=FULL.splits)
    parser.add_argument("--cuts", type=int, default=1, help="one-way cuts")
    parser.add_argument("--cut-s", type=float, default=25.0, help="how long each of these lasts")
    return parser.parse_args()


def measure(system: str, scale: PartingScale) -> PartingFigures:
    """One run of one system."""
    figures = PartingFigures()
    hosts = range(1, sum(scale.sides) + 1)
    with tempfile.TemporaryDirectory() as directory, Network(len(hosts)) as network:
        members = {f"m{host}": f"{network.address(host)}:{PORT}" for host in hosts}
        extra = {"members": members, "multicast": scale.multicast}
        program = PROGRAMS[system]
        with Trial(network, Path(directory) / "trial", {GROUP: hosts}, {}, 0.0, program=program, extra=extra) as trial:
            run = Parting(scale, trial, figures)
            run_faults(run, scale, figures, lambda line: print(f"{system}, {line}", file=sys.stderr, flush=True))
    return figures


def main() -> int:
    given = parse()
    reason = missing()
    if reason is None and "corosync" in given.systems and shutil.which("corosync") is None:
        reason = "there is no corosync here; install it, or leave it out"
    if reason is not None:
        print(f"this cannot be measured here: {reason}", file=sys.stderr)
        return 2
    scale = PartingScale(
        sides=FULL.sides, rate=given.rate, splits=given.splits, cuts=given.cuts, hold_s=FULL.hold_s,
        cut_s=given.cut_s, limit_s=120.0, multicast=MULTICAST,
    )  # fmt: skip
    found = {system: asdict(measure(system, scale)) for system in given.systems}
    print(json.dumps({"build": _build.describe(), "rate": scale.rate, "systems": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
