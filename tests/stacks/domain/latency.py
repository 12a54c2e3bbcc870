"""How old agreed messages are at delivery, by early delivery, by all-ack and by the token of `vector`, in virtual time.

    python -m tests.stacks.domain.latency [--seconds 0.5] [--members 3 5 8]

Each member is a machine of its own: it takes in what has arrived while it was busy, in one step. A packet takes LINK_NS
and up to a quarter more; a machine is busy for PACKET_NS with each packet that comes, half of that for each copy that
leaves, and MESSAGE_NS for each message that is delivered. So queues build up as on a real network, and two runs with
one seed are the same. All members send at the same rate, one after the other in turn; ages are those of messages of
others. Beside them, how many packets there were for each delivery at another member, and how many members had been
heard at the mean when a message got its place; n/2 + 1 is the best case.
"""

import argparse
import heapq
from dataclasses import dataclass
from random import Random
from struct import Struct
from typing import Final

from antiphon.engine import Engine
from antiphon.kernel.effects import NEVER, Delivered, Effects
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Receive, Send, Tick
from antiphon.kernel.levels import AGREED
from antiphon.kernel.options import MILLISECOND_NS, Options

GROUP: Final = "g"
LINK_NS: Final = 100_000
PACKET_NS: Final = 15_000
MESSAGE_NS: Final = 1_000
WARM_UP_NS: Final = 50 * MILLISECOND_NS
SECOND_NS: Final = 1000 * MILLISECOND_NS
STAMP: Final = Struct("<q")
EARLY: Final[dict[str, int]] = {}
ALL_ACK: Final = {"domain.early_order": 0}
LOADS: Final = {"idle": 20, "moderate": 125, "loaded": 5000}
"""Messages a second and member. Up to a thousand leave one by one, more in a batch each millisecond."""


class Machines:
    """The members of one group, each on a machine of its own."""

    def __init__(self, members: int, of_stack: dict[str, int], seed: int = 0, stack: str = "domain") -> None:
        self.random = Random(seed)
        self.names = tuple(f"p{rank}" for rank in range(members))
        self.ids = tuple(ProcessId(name) for name in self.names)
        options = Options(of_stacks=of_stack)
        self.engines = [Engine(process, Random(seed + rank), options) for rank, process in enumerate(self.ids)]
        self.heap: list[tuple[int, int, str, int, list[bytes]]] = []
        self.events = 0
        self.now_ns = 0
        self.arrived: list[list[bytes]] = [[] for _ in self.ids]
        self.busy_ns = [0] * members
        self.timer_ns = [NEVER] * members
        self.ages_ns: list[int] = []
        self.packets = 0
        self.dead: set[int] = set()
        """Members that neither send nor receive."""
        self.per_call = 0
        self.spacing_ns = 0
        self.until_ns = 0
        view = View(1, self.ids, self.names)
        for rank, name in enumerate(self.names):
            self.step(rank, Join(group=GROUP, view=view, policy="static", address=name, stack=stack))

    def at(self, time_ns: int, what: str, rank: int, packets: list[bytes] | None = None) -> None:
        self.events += 1
        heapq.heappush(self.heap, (time_ns, self.events, what, rank, packets or []))

    def step(self, rank: int, input: Input) -> None:
        effects = self.engines[rank].step(input, self.now_ns)
        cost_ns = PACKET_NS // 4
        if isinstance(input, Receive):
            cost_ns += PACKET_NS * len(input.datagrams)
        cost_ns += MESSAGE_NS * self.count(rank, effects)
        self.busy_ns[rank] = max(self.busy_ns[rank], self.now_ns) + cost_ns
        for transmit in effects.transmits:
            for name in transmit.route.names() if rank not in self.dead else ():
                self.packets += len(transmit.packets)
                self.busy_ns[rank] += PACKET_NS * len(transmit.packets) // 2
                delay_ns = LINK_NS + self.random.randrange(LINK_NS // 4)
                self.at(self.busy_ns[rank] + delay_ns, "packets", self.names.index(name), transmit.packets)
        if effects.deadline_ns != self.timer_ns[rank]:
            self.timer_ns[rank] = effects.deadline_ns
            if effects.deadline_ns != NEVER:
                self.at(effects.deadline_ns, "timer", rank)

    def count(self, rank: int, effects: Effects) -> int:
        """Note the ages of what is delivered; how much that is."""
        delivered = [event for event in effects.events if isinstance(event, Delivered)]
        for event in delivered:
            if event.sender != self.ids[rank]:
                self.ages_ns += [self.now_ns - STAMP.unpack_from(payload)[0] for payload in event.payloads]
        return sum(len(event.payloads) for event in delivered)

    def run(self, until_ns: int) -> None:
        while self.heap and self.heap[0][0] <= until_ns:
            self.now_ns, _, what, rank, packets = heapq.heappop(self.heap)
            if what == "packets" and rank not in self.dead:
                self.arrived[rank] += packets
            if self.busy_ns[rank] > self.now_ns:
                self.at(self.busy_ns[rank], what, rank)
            elif what == "say":
                self.say(rank)
            elif self.arrived[rank]:
                arrived, self.arrived[rank] = self.arrived[rank], []
                self.step(rank, Receive(arrived))
            if what == "timer" and self.timer_ns[rank] <= self.now_ns and self.busy_ns[rank] <= self.now_ns:
                self.timer_ns[rank] = 0
                self.step(rank, Tick())

    def say(self, rank: int) -> None:
        if self.now_ns < self.until_ns:
            payload = STAMP.pack(self.now_ns).ljust(64, b".")
            self.step(rank, Send(group=GROUP, payloads=[payload] * self.per_call, level=AGREED))
            self.at(self.now_ns + self.spacing_ns, "say", rank)

    def talk(self, rate: int, seconds: float) -> None:
        """All members send `rate` agreed messages a second for so long."""
        self.per_call = max(1, rate // 1000)
        self.spacing_ns = SECOND_NS * self.per_call // rate
        self.run(WARM_UP_NS)
        self.until_ns = WARM_UP_NS + int(seconds * SECOND_NS)
        for rank in range(len(self.ids)):
            self.at(WARM_UP_NS + rank * self.spacing_ns // len(self.ids), "say", rank)
        self.packets = 0
        self.run(self.until_ns + SECOND_NS // 2)


@dataclass(frozen=True)
class Ages:
    """What was measured."""

    median_us: float
    late_us: float
    """The 99th percentile."""
    packets: float
    """For each delivery at another member."""
    heard: float
    """Members that had been heard when a message got its place, at the mean; 0 where votes do not count."""


def measure(members: int, rate: int, of_stack: dict[str, int], seconds: float, stack: str = "domain") -> Ages:
    machines = Machines(members, of_stack, stack=stack)
    machines.talk(rate, seconds)
    ages_ns = sorted(machines.ages_ns)
    assert ages_ns, "nothing was delivered"
    median_ns, late_ns = ages_ns[len(ages_ns) // 2], ages_ns[len(ages_ns) * 99 // 100]
    counts = [engine.statistics() for engine in machines.engines]
    placed = sum(each.get("ordered_placed", 0) for each in counts)
    heard = sum(each.get("ordered_heard", 0) for each in counts)
    return Ages(median_ns / 1000, late_ns / 1000, machines.packets / len(ages_ns), heard / placed if placed else 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--members", type=int, nargs="*", default=[3, 5, 8])
    given = parser.parse_args()
    titles = ["members", "load"]
    for system in ("early", "all-ack"):
        titles += [f"{system} p50, us", "p99", "packets", "heard"]
    titles += ["token p50, us", "p99", "packets"]
    print(f"| {' | '.join(titles)} |\n{'| --- ' * len(titles)}|")
    for members in given.members:
        for load, rate in LOADS.items():
            told = []
            for of_stack, stack in ((EARLY, "domain"), (ALL_ACK, "domain"), (EARLY, "vector")):
                ages = measure(members, rate, of_stack, given.seconds, stack)
                told += [f"{ages.median_us:,.0f}", f"{ages.late_us:,.0f}", f"{ages.packets:.2f}"]
                told += [f"{ages.heard:.2f}"] if stack == "domain" else []
            print(f"| {members} | {load} | {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main()
