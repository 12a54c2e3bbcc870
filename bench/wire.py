"""Packets and bytes on the wire, counted packet by packet, beside the figures of isis-1991.

    python -m bench.wire            a table: paper | measured
    python -m bench.wire --json     the same as one JSON document

Without loss, on the lab's perfect network. Acks and heartbeats (`status`) are left out where messages are counted, and
told apart: the paper assumes channels below that do not lose, and does not count theirs.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.inputs import Leave, Send, SendBarrier
from antiphon.kernel.levels import AGREED, CAUSAL
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.packet import DataPacket
from antiphon.stacks.vector.timestamp import OrderSection
from bench.lab import Lab, Tally

SIZES: Final = (3, 5, 8, 16, 32)
OPTIONS: Final = Options()
LIMIT_NS: Final = 20_000 * MILLISECOND_NS
QUIET_NS: Final = 30 * MILLISECOND_NS
"""Long enough for acks to be over."""
G: Final = "g"
SUBGROUP: Final = 4
BROADCASTERS: Final = 2
SERVERS: Final = 3
BURST_PACKETS: Final = 20


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table. `paper` is what the paper's formula gives here; None where it gives none."""

    section: str
    case: str
    members: int
    rule: str
    paper: float | None
    measured: float
    unit: str
    detail: str = ""


def founded(members: int, others: int = 0) -> Lab:
    """A group of so many members, at rest, and nothing on the tally yet."""
    lab = Lab(members + others, OPTIONS)
    lab.found(G, list(range(members)))
    lab.run(QUIET_NS)
    lab.tally = Tally()
    return lab


def spoken(counts: Counter[str], without: tuple[str, ...]) -> Counter[str]:
    return Counter({kind: count for kind, count in counts.items() if kind not in without})


def by_kind(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.items())


# ---- changes of view -----------------------------------------------------------------------------------------------


def view_change(section: str, case: str, rule: str, paper: float, members: int, lab: Lab, after: int) -> Row:
    """Go on until `after` members are in the next view, and count what that took."""
    lab.run_until(lambda: lab.installs >= after and lab.agree(G, after), LIMIT_NS)
    counts = spoken(lab.tally.unicasts, without=("status", "HEARS", "DECLARED"))
    detail = f"{by_kind(counts)}; beside it {lab.tally.multicasts['status']} status multicasts"
    return Row(
        section=section, case=case, members=members, rule=rule, paper=paper, measured=counts.total(),
        unit="messages", detail=detail,
    )  # fmt: skip


def view_changes(members: int) -> list[Row]:
    n = members
    rows = []
    for place, who in ((0, "by the oldest"), (1, "by another")):
        lab = founded(n)
        lab.installs = 0
        lab.step(place, SendBarrier(group=G, payload=b""))
        rows.append(view_change("5.5", f"flush: barrier {who}", "2n", 2 * n, n, lab, n))
    lab = founded(n, others=1)
    lab.installs = 0
    lab.ask_to_join(G, n, [0])
    rows.append(view_change("7.4", "join of one", "about 3n", 3 * n, n, lab, n + 1))
    lab = founded(n)
    lab.installs = 0
    lab.step(n - 1, Leave(G))
    rows.append(view_change("7.4", "leave of one", "about 3n", 3 * n, n, lab, n - 1))
    for place, who in ((n - 1, "of the youngest"), (0, "of the oldest")):
        lab = founded(n)
        lab.installs = 0
        lab.crash(place)
        rows.append(view_change("5.5", f"failure {who}: flush", "2n", 2 * n, n, lab, n - 1))
        rows.append(
            Row(
                section="7.4", case=f"failure {who}: detection", members=n, rule="from outside", paper=None,
                measured=lab.tally.multicasts["HEARS"], unit="multicasts",
            )
        )  # fmt: skip
    return rows


# ---- agreed order --------------------------------------------------------------------------------------------------


def multicasts_per_message(lab: Lab, messages: int) -> float:
    return round((lab.tally.multicasts["data"] + lab.tally.multicasts["order"]) / messages, 3)


def agreed_together(members: int, k: int, rounds: int = 24) -> Row:
    """k members that do not hold the token send at one time, again and again: one sets-order for k messages."""
    lab = founded(members)
    for number in range(rounds):
        for offset in range(k):
            place = 1 + (number * k + offset) % (members - 1)
            lab.step(place, Send(group=G, payloads=[b"%d" % number], level=AGREED))
        lab.run(QUIET_NS)
    assert len(lab.delivered[0]) == rounds * k
    return Row(
        section="5.2", case=f"agreed, {k} messages per sets-order", members=members, rule="1 + 1/k",
        paper=round(1 + 1 / k, 3), measured=multicasts_per_message(lab, rounds * k), unit="multicasts per message",
        detail=by_kind(lab.tally.multicasts),
    )  # fmt: skip


def agreed_by(members: int, place: int, case: str, warm_up: int) -> Row:
    """One member sends alone; after the warm-up it holds the token."""
    lab = founded(members)
    count = 24
    for number in range(warm_up + count):
        if number == warm_up:
            lab.tally = Tally()
        lab.step(place, Send(group=G, payloads=[b"%d" % number], level=AGREED))
        lab.run(QUIET_NS)
    assert len(lab.delivered[members - 1]) == warm_up + count
    return Row(
        section="5.2", case=case, members=members, rule="1", paper=1, measured=multicasts_per_message(lab, count),
        unit="multicasts per message", detail=by_kind(lab.tally.multicasts),
    )  # fmt: skip


def agreed_in_packets(members: int, k: int) -> Row:
    """One member that does not hold the token sends k messages at once: they share packets."""
    lab = founded(members)
    lab.step(1, Send(group=G, payloads=[bytes(8)] * k, level=AGREED))
    lab.run(QUIET_NS)
    assert len(lab.delivered[0]) == k
    return Row(
        section="5.2", case=f"agreed, {k} messages of one sender at once", members=members, rule="1 + 1/k",
        paper=round(1 + 1 / k, 3), measured=multicasts_per_message(lab, k), unit="multicasts per message",
        detail=by_kind(lab.tally.multicasts),
    )  # fmt: skip


def agreed(members: int) -> list[Row]:
    rows = [agreed_together(members, k) for k in (1, 2, 4, 8) if k < members]
    rows.append(agreed_in_packets(members, 64))
    rows.append(agreed_by(members, 0, "agreed, the sender holds the token", 0))
    rows.append(agreed_by(members, 1, "agreed, the token has moved to the busy sender", 12))
    return rows


# ---- timestamps ----------------------------------------------------------------------------------------------------


def entries(packet: DataPacket, members: int) -> int:
    """The entries of vector time that a packet stands for: those it names, and its sender's own, its number."""
    if not packet.order:
        return 1
    return 1 + sum(1 for _, count in OrderSection(packet.order, members).vector if count)


def burst(members: int) -> list[Row]:
    """A member that has just delivered a message sends many packets in a row."""
    lab = founded(members)
    lab.step(1, Send(group=G, payloads=[b"before"], level=CAUSAL))
    lab.run(QUIET_NS)
    lab.keep_data = True
    room = OPTIONS.packet_bytes_max // 2 + 1
    lab.step(0, Send(group=G, payloads=[bytes(room)] * BURST_PACKETS, level=CAUSAL))
    lab.run(QUIET_NS)
    sizes = [len(packet.order) for _, packet in lab.data]
    assert len(sizes) == BURST_PACKETS
    first = Row(
        section="5.4", case="burst: its first packet", members=members, rule="the fields that changed",
        paper=None, measured=sizes[0], unit="timestamp bytes",
    )  # fmt: skip
    rest = Row(
        section="5.4", case=f"burst: the {len(sizes) - 1} after it, together", members=members, rule="0", paper=0,
        measured=sum(sizes[1:]), unit="timestamp bytes",
    )  # fmt: skip
    return [first, rest]


def talk(lab: Lab, group: str, places: list[int], rounds: int = 4) -> None:
    """Each sends in turn and is heard before the next does: nothing that can change is left unchanged."""
    for number in range(rounds):
        for place in places:
            lab.step(place, Send(group=group, payloads=[b"%d" % number], level=CAUSAL))
            lab.run(MILLISECOND_NS)
    lab.run(QUIET_NS)


def size_row(case: str, members: int, rule: str, paper: int, lab: Lab) -> Row:
    """Table I: the longest timestamp of a run."""
    longest = max(entries(packet, view) for view, packet in lab.data)
    size = max(len(packet.order) for _, packet in lab.data)
    foreign = sum(len(OrderSection(packet.order, view).foreign) for view, packet in lab.data if packet.order)
    return Row(
        section="7.1", case=case, members=members, rule=rule, paper=paper, measured=longest, unit="entries at most",
        detail=f"{size} bytes at most; {foreign} times of other groups in {len(lab.data)} packets",
    )  # fmt: skip


def peer(members: int) -> Row:
    lab = founded(members)
    lab.keep_data = True
    talk(lab, G, list(range(members)))
    return size_row("peer group", members, "k <= n", members, lab)


def diffusion(members: int) -> Row:
    lab = founded(members)
    lab.keep_data = True
    talk(lab, G, list(range(BROADCASTERS)))
    return size_row(f"diffusion, {BROADCASTERS} broadcast", members, "k <= b", BROADCASTERS, lab)


def client_server(clients: int) -> Row:
    """Clients are no members: a gateway, one of the servers, multicasts what they say (toolkit/gateway.py)."""
    lab = founded(SERVERS)
    lab.keep_data = True
    talk(lab, G, [client % SERVERS for client in range(clients)])
    case = f"client/server, {SERVERS} servers and {clients} clients"
    return size_row(case, SERVERS + clients, "k <= s + c", SERVERS + clients, lab)


def hierarchical(members: int) -> Row:
    """Subgroups, of which the first members form a group of their own."""
    subgroups = [list(range(first, first + SUBGROUP)) for first in range(0, members, SUBGROUP)]
    names = [f"sub{number}" for number in range(len(subgroups))]
    domain = CausalityDomain(overlaps=tuple((name, "top") for name in names))
    lab = Lab(members, OPTIONS)
    tops = [places[0] for places in subgroups]
    for name, places in zip(names, subgroups, strict=True):
        lab.found(name, places, domain)
    lab.found("top", tops, domain)
    lab.run(QUIET_NS)
    lab.keep_data = True
    for name, places in zip(names, subgroups, strict=True):
        talk(lab, name, places)
        talk(lab, "top", places[:1])
    largest = max(SUBGROUP, len(tops))
    return size_row(
        f"hierarchical, subgroups of {SUBGROUP} and their heads", members, "k <= n of a group", largest, lab
    )


def fixed_overhead(members: int) -> Row:
    lab = founded(members)
    lab.keep_data = True
    lab.step(0, Send(group=G, payloads=[b""], level=CAUSAL))
    lab.run(QUIET_NS)
    measured = len(lab.data[0][1].data)
    return Row(
        section="7.1", case="fixed overhead of a packet", members=members, rule="28", paper=28, measured=measured,
        unit="bytes", detail="checksum, version and loss recovery included, and the length of one message",
    )  # fmt: skip


def timestamps(members: int) -> list[Row]:
    rows = [*burst(members), peer(members), diffusion(members), client_server(members)]
    if members % SUBGROUP == 0:
        rows.append(hierarchical(members))
    rows.append(fixed_overhead(members))
    return rows


# ---- the table -----------------------------------------------------------------------------------------------------

PARTS: Final[tuple[Callable[[int], list[Row]], ...]] = (view_changes, agreed, timestamps)


def measure(sizes: tuple[int, ...] = SIZES) -> list[Row]:
    """All rows, the same case at all its sizes together."""
    rows = [row for part in PARTS for members in sizes for row in part(members)]
    cases = list(dict.fromkeys(row.case for row in rows))
    return sorted(rows, key=lambda row: (row.section, cases.index(row.case)))


def expected(row: Row) -> str:
    """The paper's column: its rule, and what that is here."""
    if row.paper is None or row.rule == f"{row.paper:g}":
        return row.rule
    return f"{row.rule}: {row.paper:g}"


def table(rows: list[Row]) -> str:
    lines = [f"{'section':8}{'case':52}{'n':>4}  {'paper':24}{'measured':>9}"]
    for row in rows:
        numbers = f"{row.members:>4}  {expected(row):24}{row.measured:>9g}"
        lines.append(f"{row.section:8}{row.case:52}{numbers}  {row.unit}  {row.detail}".rstrip())
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Messages and bytes on the wire, beside those of isis-1991.")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    rows = measure()
    print(json.dumps({"results": [asdict(row) for row in rows]}, indent=1) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
