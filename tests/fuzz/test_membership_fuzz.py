"""Messages about membership that make no sense: nothing raises, and nothing runs for ever."""

from random import Random

import pytest

from antiphon.kernel.declaration import Declaration, declare
from antiphon.kernel.effects import Ended, Installed
from antiphon.kernel.identity import NUMBER_MAX, ProcessId, View, is_name, wire_id
from antiphon.kernel.inputs import MAIN, Receive, Tick
from antiphon.kernel.options import Options
from antiphon.parts.membership import messages
from antiphon.parts.membership.messages import MembershipMessage, Proposal
from antiphon.parts.ranges import Ranges
from tests.table import GROUP, Table

MEMBERS = 3
DECLARED = Declaration(declare("vector", "primary", MAIN, Options())).id
ODD = (0, 1, 2, 3, 5, -1, 65_536, 65_537, 2**31, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
NAMES = ("p\n1", "p\0", "", "x" * 5_000, "p/1", "\ud7ff" * 200, "\x1b[2J")
INCARNATIONS = (1, 1, 1, 2, 0, -7, 2**40, 2**63, 2**64 - 1)


def some_ranges(random: Random) -> list[Ranges]:
    return [
        Ranges([(random.choice(ODD), random.choice(ODD)) for _ in range(random.randrange(3))])
        for _ in range(random.choice((0, MEMBERS, MEMBERS, MEMBERS, 9)))
    ]


def some_process(random: Random) -> ProcessId:
    name = f"p{random.randrange(9)}" if random.random() < 0.8 else random.choice(NAMES)
    return ProcessId(name, random.choice(INCARNATIONS))


def some_proposal(random: Random) -> Proposal:
    members = tuple(some_process(random) for _ in range(random.choice((0, 1, 3, 4, 300))))
    ranks = [random.choice(ODD) for _ in range(random.randrange(3))]
    cut = [Ranges([])] * MEMBERS if random.random() < 0.5 else some_ranges(random)
    view = View(random.choice((2, 2, 2, *ODD)), members, tuple(member.name for member in members))
    barriers = [(random.choice(ODD), random.choice(ODD), b"barrier") for _ in range(random.choice((0, 0, 1, 2)))]
    left = ranks if random.random() < 0.3 else []
    sources = ranks if random.random() < 0.3 else [0]
    return Proposal(view, left, [], cut, sources, barriers, random.randbytes(random.choice((0, 7, 20_000))))


def some_message(random: Random) -> list[bytes]:
    message = MembershipMessage(
        random.randrange(17),
        some_process(random),
        random.choice(("somewhere", "somewhere", "some\nwhere", "y" * 5_000)),
        random.choice((1, 1, 1, *ODD)),
        round=random.choice(ODD),
        accepted_round=random.choice(ODD),
        accepted=some_proposal(random) if random.random() < 0.7 else None,
        holdings=some_ranges(random),
        about=some_process(random) if random.random() < 0.5 else None,
        barriers=[(random.choice(ODD), random.choice(ODD), b"barrier")] if random.random() < 0.3 else None,
        annex=random.randbytes(random.choice((0, 0, 1, 7, 8, 20_000))),
    )
    if random.random() < 0.5:
        message.rows = [(random.choice(ODD), random.choice(ODD), bytes(random.choice((0, MEMBERS, 9))))]
        message.heard = [(random.choice(NAMES), random.choice(ODD))]
    packets = message.encode(
        1, wire_id(GROUP), random.choice((DECLARED, DECLARED, DECLARED, 7)), random.choice((600, 1400))
    )
    return packets if random.random() < 0.8 else packets[: random.randrange(len(packets) + 1)]


@pytest.mark.parametrize("seed", range(40))
def test_nonsense_about_membership_harms_nobody(seed: int) -> None:
    random = Random(seed)
    table = Table(MEMBERS, policy="primary")
    for _ in range(60):
        member = random.randrange(MEMBERS)
        table.now_ns += random.choice((0, 1_000_000, 60_000_000))
        nonsense = [packet for _ in range(random.randrange(6)) for packet in some_message(random)]
        table.step(member, Receive(nonsense))
        if not any(isinstance(event, Ended) for event in table.events[member]):  # it may have been told that it is out
            table.send(member, b"work")
        table.step(member, Tick())
        if random.random() < 0.5:
            for source, destination in list(table.links):
                table.pass_on(source, destination)


@pytest.mark.parametrize("seed", range(20))
def test_nobody_is_let_in_whose_name_or_incarnation_cannot_be(seed: int) -> None:
    random = Random(seed)
    table = Table(MEMBERS, policy="primary")
    for _ in range(30):
        table.now_ns += 30_000_000
        join = MembershipMessage(messages.JOIN, some_process(random), random.choice(("p9", "p9", *NAMES)), 0)
        table.step(0, Receive(join.encode(1, wire_id(GROUP), DECLARED, 1400)))
        for member in range(MEMBERS):
            table.step(member, Tick())
        for source, destination in list(table.links):
            table.pass_on(source, destination)
    views = [event.view for event in table.events[0] if isinstance(event, Installed)]
    for view in views:
        for process, address in zip(view.members, view.addresses, strict=True):
            assert is_name(process.name)
            assert 0 < process.incarnation <= NUMBER_MAX
            assert address.isprintable()
            assert len(address) <= 1000
