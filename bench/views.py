"""How long a group is blocked when its coordinator fails: from `kill -9` to the next view at all survivors.

    python -m bench.views                       the default settings and the fast profile, as JSON; from the project's
                                                root, as root, with `ip` and `nft` (network namespaces)

Each member is a process on a host of its own, on a bridge; messages flow all the time. The coordinator is killed, and
restarted when the others have their view, repeatedly. There is one value per kill: the time until the last of the
survivors has read a view without it. `excluded` counts processes that were suspected although they were not killed.
"""

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from antiphon import Options, _build
from tests.networks.member import ORDERS
from tests.networks.network import Network, missing
from tests.networks.scenario import GROUP
from tests.networks.trial import Trial

FOUND_AFTER_S = 3.0
SETTLE_S = 1.0
"""Between the return of the killed one and the next kill: adaptive suspicion forgets the turmoil a little."""
LIMIT_S = 60.0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="From the death of the coordinator to the next view.")
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--kills", type=int, default=20, help="at each setting")
    parser.add_argument("--rate", type=float, default=1000.0, help="messages per second, of all together")
    parser.add_argument("--loss", type=int, default=0, help="percent of all packets")
    return parser.parse_args()


def kill_once(trial: Trial, rate: float) -> float:
    """Seconds from the kill to the view without the coordinator, at the last survivor."""
    trial.rest(SETTLE_S)
    coordinator = trial.coordinator()
    killed_ns = trial.kill(coordinator.host)
    trial.wait_for_all(LIMIT_S, "view of the survivors")
    times_ns = [trial.first_view_without(coordinator.name, host, killed_ns) for host in trial.running]
    trial.start([coordinator.host])
    trial.wait_for_all(LIMIT_S, "return of the coordinator")
    trial.send_at(rate)
    return (max(time_ns for time_ns in times_ns if time_ns is not None) - killed_ns) / 1e9


def measure(name: str, options: Options, arguments: argparse.Namespace) -> dict[str, object]:
    hosts = range(1, arguments.members + 1)
    with (
        tempfile.TemporaryDirectory() as directory,
        Network(arguments.members) as network,
        Trial(network, Path(directory), {GROUP: hosts}, asdict(options), FOUND_AFTER_S) as trial,
    ):
        network.lose(arguments.loss)
        trial.start(hosts)
        trial.wait_for_all(LIMIT_S, "view of all")
        trial.send_at(arguments.rate)
        values: list[float] = []
        for number in range(1, arguments.kills + 1):
            values.append(kill_once(trial, arguments.rate))
            print(f"{name}, kill {number}: {values[-1]:.3f} s", file=sys.stderr, flush=True)
        excluded = trial.excluded()
    deciles = statistics.quantiles(values, n=10, method="inclusive")
    return {
        "system": f"antiphon, {_build.describe()}",
        "workload": f"coordinator killed, {name} settings, {arguments.loss}% loss, {arguments.rate:g} messages/s",
        "order": ", ".join(dict.fromkeys(ORDERS)),
        "size": 64,
        "members": arguments.members,
        "value": round(statistics.median(values), 3),
        "unit": "seconds from kill to the next view at all survivors, median",
        "spread": round((max(values) - min(values)) / statistics.median(values), 3),
        "kills": len(values),
        "least": round(min(values), 3),
        "p90": round(deciles[8], 3),
        "greatest": round(max(values), 3),
        "excluded": excluded,
    }


def main() -> int:
    arguments = parse()
    reason = missing()
    if reason is not None:
        print(f"this cannot be measured here: {reason}", file=sys.stderr)
        return 2
    settings = {"default": Options(), "fast": Options.fast()}
    print(json.dumps({"results": [measure(name, options, arguments) for name, options in settings.items()]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
