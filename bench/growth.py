"""The cost of a message by the number of members of a group, and by the number of groups of a process.

    python -m bench.growth                    measures, and writes growth.json and two plots to bench/results
    python -m bench.growth --out DIRECTORY    to another directory

On the lab's perfect network, in virtual time. Bytes are those of packets as they leave, operations are lines of Python
executed in the engines (lab.LineCounter): both are the same in every run. Needs the interpreted core, since lines of
compiled code cannot be counted: set ANTIPHON_PURE=1.

By members: one group. SENDERS of its members send MESSAGES messages one millisecond apart: those next to each other in
rank, or those as far apart as can be, since acks name a span of ranks. Operations are those of one member that only
receives, acks included, divided by the messages.

By groups: PROCESSES processes and more and more groups of GROUP_MEMBERS of them, drawn at random, so that each process
is in many groups and the overlap graph has many cycles. In TALKING of the groups one member, drawn at random, sends;
these send in turn. The first message of each is counted separately: it carries the views of the other groups, once.
When each has sent three messages, all processes know all groups, and later messages are measured. Operations are those
of all processes. For each of the rules of a causality domain, and for `carry` also with a resilience of one: what is
known at one other member may be followed at once, so times of other groups have to travel.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Final

from antiphon import _build
from antiphon.kernel.causality_domain import CARRY, CONSERVATIVE, EPOCHS, CausalityDomain
from antiphon.kernel.inputs import Send
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.vector.timestamp import OrderSection
from bench.lab import Lab, LineCounter, Tally
from bench.plots import Panel, Series, draw

PACKET_BYTES_MAX: Final = 9000
"""A view of 200 members needs longer packets than one Ethernet frame (session.members_max)."""
MINUTE_NS: Final = 60_000 * MILLISECOND_NS
OPTIONS: Final = Options(
    packet_bytes_max=PACKET_BYTES_MAX,
    heartbeat_interval_ns=MINUTE_NS,
    silence_ns_min=MINUTE_NS,
    silence_ns_max=MINUTE_NS,
)
"""No heartbeats: they cost what they cost, whatever is sent."""
MEMBERS: Final = (3, 5, 8, 16, 32, 64, 128, 200)
GROUPS: Final = (1, 2, 5, 10, 20, 50, 100, 200)
PROCESSES: Final = 20
GROUP_MEMBERS: Final = 4
MESSAGES: Final = 20
MESSAGES_IN_GROUPS: Final = 60
GROUPS_WATCHED: Final = 20
TALKING: Final = 30
WARM_UP: Final = 3
"""Messages of each talker before those that are measured."""
WATCHED: Final = 5
"""In more groups than these, the lines of every fifth process are counted, times five: counting is slow."""
SENDERS: Final = 3
PAYLOAD: Final = 64
QUIET_NS: Final = 50 * MILLISECOND_NS
LIMIT_NS: Final = 60_000 * MILLISECOND_NS
DOMAINS: Final = {
    "carry": CausalityDomain(rule=CARRY),
    "carry, k = 1": CausalityDomain(rule=CARRY, resilience=1),
    "conservative": CausalityDomain(rule=CONSERVATIVE),
    "epochs": CausalityDomain(rule=EPOCHS),
}
RESULTS: Final = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one message costs, on average."""

    domain: str
    members: int
    """Of each group."""
    groups: int
    processes: int
    overhead_bytes: float
    """Of data packets, beside the payload."""
    foreign_bytes: float
    """Of these, for times of other groups."""
    first_bytes: float
    """The overhead of the first message of a member in a group."""
    multicasts: float
    """Data, order and acks: packets for all."""
    multicast_bytes: float
    """All packets of all kinds, each multicast counted once…"""
    unicast_bytes: float
    """…and counted once per other member."""
    view_messages: float
    """Messages about changes of view: the flushes of an epoch."""
    operations: float
    """Lines of Python executed: at one member that only receives (by members), at all processes (by groups)."""
    latency_ms: float
    """From the call to the last delivery, in virtual time; a packet flies for a tenth of a millisecond."""


def payload(number: int) -> bytes:
    return (b"%d " % number).ljust(PAYLOAD, b".")


def foreign_bytes(lab: Lab) -> int:
    return sum(
        foreign.size()
        for members, packet in lab.data
        if packet.order
        for foreign in OrderSection(packet.order, members).foreign
    )


def overhead_bytes(lab: Lab, messages: int) -> float:
    return round(sum(len(packet.data) for _, packet in lab.data) / messages - PAYLOAD, 1)


def talk(lab: Lab, talkers: list[tuple[str, int]], first: int, end: int) -> list[int]:
    """Messages `first` to `end`, a millisecond apart, until all are delivered everywhere; when each was sent."""
    sent_at_ns = []
    for number in range(first, end):
        group, place = talkers[number % len(talkers)]
        sent_at_ns.append(lab.now_ns)
        lab.step(place, Send(group=group, payloads=[payload(number)], level=CAUSAL))
        lab.run(MILLISECOND_NS)
    copies = sum(len(lab.members(talkers[number % len(talkers)][0])) for number in range(end))
    lab.run_until(lambda: sum(map(len, lab.delivered)) == copies, LIMIT_NS)
    return sent_at_ns


def measure(lab: Lab, talkers: list[tuple[str, int]], messages: int, domain: str, one_in: int) -> Cost:
    """Have the talkers send, and take the tally; lines are counted at one in so many processes that are watched."""
    lab.keep_data = True
    talk(lab, talkers, 0, len(talkers))
    first_bytes = overhead_bytes(lab, len(talkers))
    warm_up = WARM_UP * len(talkers)
    talk(lab, talkers, len(talkers), warm_up)
    lab.run(QUIET_NS)
    lab.tally = Tally()
    lab.data.clear()
    for counter in lab.watched.values():
        counter.lines = 0
    sent_at_ns = talk(lab, talkers, warm_up, warm_up + messages)
    groups = {group for group, _ in talkers}
    lab.run_until(lambda: all(lab.is_stable(group) for group in groups), LIMIT_NS)
    waited_ns = [lab.delivered_at_ns[payload(number)] - at_ns for number, at_ns in enumerate(sent_at_ns, warm_up)]
    about_views = sum(count for kind, count in lab.tally.unicasts.items() if kind.isupper())
    return Cost(
        domain=domain,
        members=len(lab.members(talkers[0][0])),
        groups=len({group for views in lab.views for group in views}),
        processes=len(lab.names),
        overhead_bytes=overhead_bytes(lab, messages),
        foreign_bytes=round(foreign_bytes(lab) / messages, 1),
        first_bytes=first_bytes,
        multicasts=round(lab.tally.multicasts.total() / messages, 2),
        multicast_bytes=round(lab.tally.sent_bytes.total() / messages),
        unicast_bytes=round(lab.tally.unicast_bytes.total() / messages),
        view_messages=round(about_views / messages, 2),
        operations=round(one_in * sum(counter.lines for counter in lab.watched.values()) / messages),
        latency_ms=round(sum(waited_ns) / messages / MILLISECOND_NS, 2),
    )


def by_members(members: int, are_apart: bool) -> Cost:
    lab = Lab(members, OPTIONS)
    lab.found("g", list(range(members)))
    lab.run(QUIET_NS)
    lab.watched = {members - 1: LineCounter()}
    senders = min(SENDERS, members - 1)
    gap = (members - 2) // (senders - 1) if are_apart else 1
    return measure(lab, [("g", place * gap) for place in range(senders)], MESSAGES, CARRY, 1)


def overlapping(groups: int, random: Random) -> list[tuple[str, list[int]]]:
    """Groups of processes drawn by chance."""
    return [(f"g{number}", sorted(random.sample(range(PROCESSES), GROUP_MEMBERS))) for number in range(groups)]


def by_groups(groups: int, domain: str, messages: int = MESSAGES_IN_GROUPS) -> Cost:
    random = Random(groups)
    drawn = overlapping(groups, random)
    lab = Lab(PROCESSES, OPTIONS)
    for name, places in drawn:
        lab.found(name, places, DOMAINS[domain])
    lab.run(QUIET_NS)
    one_in = WATCHED if groups > GROUPS_WATCHED else 1
    lab.watched = {place: LineCounter() for place in range(0, PROCESSES, one_in)}
    talkers = [(name, random.choice(places)) for name, places in drawn[:TALKING]]
    return measure(lab, talkers, messages, domain, one_in)


# ---- plots ---------------------------------------------------------------------------------------------------------


def plot_members(side_by_side: list[Cost], apart: list[Cost]) -> str:
    xs = [cost.members for cost in side_by_side]
    panels = []
    for title, field in (
        ("bytes beside the payload, in data packets", "overhead_bytes"),
        ("bytes on the wire, each multicast once", "multicast_bytes"),
        ("bytes on the wire, a copy per member", "unicast_bytes"),
        ("lines of Python executed, at a receiver", "operations"),
    ):
        series = [
            Series("senders apart in rank", xs, [getattr(cost, field) for cost in apart]),
            Series("side by side", xs, [getattr(cost, field) for cost in side_by_side]),
        ]
        panels.append(Panel(title, "members", series))
    return draw(f"One message of {PAYLOAD} bytes in one group, as members grow", panels)


def plot_groups(costs: list[Cost]) -> str:
    panels = []
    for title, field in (
        ("bytes beside the payload, first message", "first_bytes"),
        ("bytes beside the payload, later messages", "overhead_bytes"),
        ("bytes on the wire, acks and copies included", "unicast_bytes"),
        ("lines of Python executed, all processes", "operations"),
        ("milliseconds to the last delivery", "latency_ms"),
    ):
        series = []
        for domain in DOMAINS:
            chosen = [cost for cost in costs if cost.domain == domain]
            series.append(Series(domain, [cost.groups for cost in chosen], [getattr(cost, field) for cost in chosen]))
        panels.append(Panel(title, "groups", series))
    return draw(f"One message of {PAYLOAD} bytes, as groups over {PROCESSES} processes grow", panels)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a message costs as members and groups grow.")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory for growth.json and the plots")
    arguments = parser.parse_args()
    if _build.describe().startswith("compiled"):
        sys.exit("the core is compiled, and of that no lines can be counted: run with ANTIPHON_PURE=1")
    side_by_side, apart = [], []
    for size in MEMBERS:
        side_by_side.append(by_members(size, False))
        apart.append(by_members(size, True))
        print(side_by_side[-1], apart[-1], sep="\n", file=sys.stderr)
    groups = []
    for domain in DOMAINS:
        for count in GROUPS:
            groups.append(by_groups(count, domain))
            print(groups[-1], file=sys.stderr)
    arguments.out.mkdir(parents=True, exist_ok=True)
    document = {
        "by_members_side_by_side": [asdict(cost) for cost in side_by_side],
        "by_members_apart": [asdict(cost) for cost in apart],
        "by_groups": [asdict(cost) for cost in groups],
    }
    (arguments.out / "growth.json").write_text(json.dumps(document, indent=1) + "\n")
    (arguments.out / "growth-members.svg").write_text(plot_members(side_by_side, apart))
    (arguments.out / "growth-groups.svg").write_text(plot_groups(groups))


if __name__ == "__main__":
    main()
