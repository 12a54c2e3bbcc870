"""Forged order: placements, times of this group and of others, private messages, all with right checksums, into groups
at work. They may mislead a group without keys; but nothing raises, and memory stays within limits."""

import tracemalloc
from random import Random

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.codec import seal, view_tag
from antiphon.kernel.declaration import Declaration, declare
from antiphon.kernel.identity import wire_id
from antiphon.kernel.inputs import MAIN, Receive, Tick
from antiphon.kernel.levels import CAUSAL, FIFO
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import PRIVATE, PRIVATE_ACK
from antiphon.parts.packet import ORDERED, encode_data
from antiphon.stacks.vector import timestamp
from antiphon.stacks.vector.timestamp import KEEP, ForeignTime, Placement
from tests.table import Table

MEMBERS = 3
GROUPS = {"a": (0, 1, 2), "b": (0, 1, 2)}
OPTIONS = Options(window_packets=32)
ODD = (0, 1, 2, 3, 31, 32, 33, 0xFFFE, 2**31, 2**63, 2**64 - 1)


class Forger:
    """Two groups of the same three, and somebody who speaks for their members."""

    def __init__(self, seed: int, rule: str) -> None:
        self.random = Random(seed)
        domain = CausalityDomain(rule=rule, resilience=self.random.choice((0, 1)))
        policy = "primary" if rule == "epochs" else "static"
        self.declared = Declaration(declare("vector", policy, domain, OPTIONS)).id
        self.table = Table(MEMBERS, OPTIONS, policy, GROUPS, dict.fromkeys(GROUPS, domain))
        self.numbers: dict[tuple[int, str, int], int] = {}
        self.serials: dict[tuple[int, str, int], int] = {}

    def number(self, *limits: int) -> int:
        return self.random.choice((*ODD, *limits, *limits))

    def rank(self) -> int:
        return self.random.choice((0, 1, 2, 2, 3, 0xFFFF))

    def order(self) -> bytes:
        """A section as an enemy would like it, most of it nearly right."""
        random = self.random
        vector = (0, b"")
        if random.random() < 0.5:
            vector = timestamp.encode_vector([(self.rank(), self.number(1, 2)) for _ in range(2)], [0] * 9)
        token = None
        if random.random() < 0.5:
            runs = [(self.rank(), self.number(1, 2), random.choice((1, 2, 32))) for _ in range(random.randrange(4))]
            token = Placement(random.choice((0, 0, 1, 2**32 - 1)), runs, random.choice((KEEP, 0, 1, 2, 3)))
        foreign = []
        for _ in range(random.choice((0, 0, 1, 3))):
            group = random.choice((wire_id("a"), wire_id("b"), random.getrandbits(64)))
            entries = [(self.rank(), self.number(1, 2)) for _ in range(random.randrange(3))]
            foreign.append(ForeignTime(group, self.number(1, 1, 1), entries))
        section = timestamp.encode(vector, token, foreign)
        return section if random.random() < 0.9 else section + random.randbytes(3)

    def packet(self, member: int) -> bytes:
        random = self.random
        group = random.choice("ab")
        sender = random.choice([rank for rank in range(MEMBERS) if rank != member])
        tag = view_tag(self.table.views[member][group], OPTIONS, self.declared)
        key = (member, group, sender)
        kind = random.random()
        if kind < 0.6:
            number = self.numbers.get(key, 0) + 1
            self.numbers[key] = number
            number = number if random.random() < 0.8 else self.number(number)
            payloads = [random.randbytes(3) for _ in range(random.choice((0, 1, 1, 2)))]
            flags = ORDERED if random.random() < 0.5 else 0
            level = random.randrange(6)
            return encode_data(
                1,
                wire_id(group),
                tag,
                sender,
                level,
                number,
                0,
                self.number(number),
                self.order(),
                None,
                payloads,
                flags,
            )
        if kind < 0.9:
            serial = self.serials.get(key, 0) + 1
            self.serials[key] = serial
            order = self.order() or b"\x00"
            head = b"".join(
                value.to_bytes(size, "little")
                for value, size in (
                    (member if random.random() < 0.9 else self.rank(), 2),
                    (serial if random.random() < 0.8 else self.number(), 8),
                    (self.number(serial), 8),
                    (random.choice((0, 0, 0, 1, 2**32 - 1)), 4),
                    (random.choice((1, 1, 1, 2, 2**32 - 1)), 4),
                    (len(order), 2),
                )
            )
            return seal(1, PRIVATE, wire_id(group), tag, sender, 0, 0, [head, order, random.randbytes(5)])
        ack = member.to_bytes(2, "little") + self.number(1).to_bytes(8, "little")
        return seal(1, PRIVATE_ACK, wire_id(group), tag, sender, 0, 0, [ack])


@pytest.mark.parametrize("rule", ["carry", "conservative", "epochs"])
@pytest.mark.parametrize("seed", range(15))
def test_forged_order_neither_raises_nor_fills_memory(seed: int, rule: str) -> None:
    forger = Forger(seed, rule)
    table, random = forger.table, forger.random
    for _ in range(120):
        member = random.randrange(MEMBERS)
        table.step(member, Receive([forger.packet(member) for _ in range(8)]))
        if random.random() < 0.3:
            to = random.choice((None, None, random.randrange(MEMBERS)))
            level = CAUSAL if to is not None else random.randrange(5)
            table.send(member, b"work", level=level, group=random.choice("ab"), to=to)
        table.now_ns += random.choice((0, 1_000_000, 30_000_000))
        table.step(member, Tick())
        for source, destination in list(table.links):
            if random.random() < 0.5:
                table.pass_on(source, destination)
    held = max(table.statistics(member)["packets_held"] for member in range(MEMBERS))
    assert held <= len(GROUPS) * MEMBERS * OPTIONS.numbers_max()


def grown_bytes(table: Table, lots: list[list[bytes]]) -> int:
    """By how much the memory of p2 grows while the second half of these arrive."""
    half = len(lots) // 2
    tracemalloc.start()
    try:
        before = held_bytes_after(table, lots[:half])
        return held_bytes_after(table, lots[half:]) - before
    finally:
        tracemalloc.stop()


def held_bytes_after(table: Table, lots: list[list[bytes]]) -> int:
    """What the test itself keeps is let go: memory shall show what the engine holds."""
    for lot in lots:
        table.step(1, Receive(lot))
    table.links.clear()
    for kept in (table.events[1], table.log[1], table.story[1], table.payloads[1]):
        kept.clear()
    return tracemalloc.get_traced_memory()[0]


def forged_stream(
    table: Table, sections: list[bytes], level: int, payloads: list[bytes], flags: int
) -> list[list[bytes]]:
    """Packets of p1 to p2 in group a, one after the other, one a lot."""
    tag = view_tag(table.first_view("a"), OPTIONS, Declaration(declare("vector", "static", MAIN, OPTIONS)).id)
    return [
        [encode_data(1, wire_id("a"), tag, 0, level, number, 0, number, section, None, payloads, flags)]
        for number, section in enumerate(sections, 1)
    ]


def test_places_given_again_and_again_do_not_fill_memory() -> None:
    """The holder of the token, or who says he is, puts the same packets in order without end."""
    table = Table(MEMBERS, OPTIONS, groups=GROUPS)
    section = timestamp.encode((0, b""), Placement(0, [(2, 1, 32)] * 32), [])
    lots = forged_stream(table, [section] * 400, FIFO, [], ORDERED)
    assert grown_bytes(table, lots) < 1_000_000


def test_times_of_groups_that_do_not_exist_do_not_fill_memory() -> None:
    table = Table(MEMBERS, OPTIONS, groups=GROUPS)
    random = Random(0)
    sections = [
        timestamp.encode((0, b""), None, [ForeignTime(random.getrandbits(64), 1, [(0, 1)]) for _ in range(40)])
        for _ in range(600)
    ]
    assert grown_bytes(table, forged_stream(table, sections, CAUSAL, [b""], 0)) < 1_000_000
