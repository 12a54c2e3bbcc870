"""Bytes between sites: three domains of four in a line, linked by relays, beside one domain of all twelve.

    python -m bench.link_bytes --messages 40 --size 200 --share 0.3

In virtual time, so that nothing else counts. Each member sends so many messages of `size` bytes, of which `share` are
for all three sites, the others for its own; half of them causal, half agreed. In one big domain every message goes to
all. Counted is what leaves a site: frames over links, or datagrams to members at other sites (unicast fan-out).
"""

import argparse
import asyncio
from random import Random

import antiphon
from antiphon.domain import CommunicationDomain
from antiphon.faults import Delay, Flight, Observation
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.testing import FaultPlan, Host, NetworkFault, simulate

DOMAINS = ("A", "B", "C")
ROUTES = {"A": {"C": "B"}, "B": {}, "C": {"A": "B"}}
NAMES = [f"{domain}{place}" for domain in DOMAINS for place in range(1, 5)]


class Counter:
    """Counts the bytes that go from site to site. Hosts are known by their addresses or names."""

    def __init__(self) -> None:
        self.bytes = 0
        self.sites: dict[str, str] = {}

    def see(self, now_ns: int, source: str, destination: str, flights: list[Flight]) -> None:
        if source[0] != destination[0]:
            self.bytes += sum(len(data) for _, data in flights)


class LinkLoad:
    """What each host does."""

    def __init__(self, linked: bool, messages: int, size: int, share: float) -> None:
        self.linked = linked
        self.messages = messages
        self.size = size
        self.share = share
        self.link_bytes = 0

    async def __call__(self, host: Host) -> None:
        own = [name for name in NAMES if name[0] == host.name[0]] if self.linked else NAMES
        members = {name: f"{host.addresses[name]}:7400" for name in own}
        random = Random(host.name)
        async with antiphon.Node(host.name, address=host.at()) as node:
            group = await node.join(host.name[0] if self.linked else "all", members=members, stack="domain")
            relay = host.name[1] == "1"
            neighbour = {"B": "A", "C": "B"}.get(host.name[0])
            links = {neighbour: [f"{host.addresses[neighbour + '1']}:7500"]} if relay and neighbour else None
            async with CommunicationDomain(
                group, host.name[0] if self.linked else "A", DOMAINS if self.linked else ("A",),
                listen=host.at(7500) if relay and self.linked else None,
                links=links if self.linked else None, routes=ROUTES[host.name[0]] if self.linked else None,
            ) as everywhere:  # fmt: skip
                reading = asyncio.create_task(self.read(everywhere))
                for number in range(self.messages):
                    await asyncio.sleep(random.uniform(0.01, 0.05))
                    to = DOMAINS if self.linked and random.random() < self.share else ()
                    order: antiphon.Order = "causal" if number % 2 else "agreed"
                    await everywhere.send(bytes(self.size), to=to, order=order)
                await host.ending.wait()
                reading.cancel()
                self.link_bytes += everywhere.link_bytes

    async def read(self, everywhere: CommunicationDomain) -> None:
        async for _ in everywhere:
            pass


def measure(linked: bool, messages: int, size: int, share: float) -> int:
    """Bytes from site to site."""
    load, counter = LinkLoad(linked, messages, size, share), Counter()
    plan = FaultPlan(
        Delay(MILLISECOND_NS, MILLISECOND_NS), [NetworkFault(Observation(counter.see))], heal_ns=4000 * MILLISECOND_NS
    )
    result = simulate(dict.fromkeys(NAMES, load), seed=1, faults=plan)
    assert result.kept, result.report("")
    return load.link_bytes + counter.bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=40)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--share", type=float, default=0.3)
    chosen = parser.parse_args()
    figures = [measure(linked, chosen.messages, chosen.size, chosen.share) for linked in (True, False)]
    print(f"linked {figures[0]:,} bytes, one domain {figures[1]:,} bytes: {figures[1] / figures[0]:.1f} times as many")


if __name__ == "__main__":
    main()
