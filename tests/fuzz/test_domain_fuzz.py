"""Forged packets into groups of the stack `domain`, under all its policies: nothing may raise, and what is held stays
within the limits. Spoiled ones, whose checksum is wrong, change nothing."""

from random import Random
from zlib import crc32

import pytest

from antiphon.kernel.inputs import Receive
from antiphon.kernel.options import Options
from antiphon.stacks.registry import OFFERS
from tests.table import Table

OPTIONS = Options(window_packets=32, packet_bytes_max=600, message_bytes_max=100_000)
MEMBERS = 3
HELD_MAX = MEMBERS * 2 * (2 * OPTIONS.window_packets + 64)


def forge(random: Random, sample: bytes) -> bytes:
    """A real packet that was changed inside and sealed again."""
    data = bytearray(sample)
    for _ in range(random.randrange(1, 5)):
        position = random.choice((7, *range(24, len(data))))
        data[position] = random.choice((0, 1, 2, 255, random.randrange(256)))
    if random.random() < 0.2:
        del data[random.randrange(28, len(data) + 1) :]
    return crc32(data[4:]).to_bytes(4, "little") + bytes(data[4:])


def throw(policy: str, seed: int, forged: bool) -> Table:
    """A group at work, whose second member is cut off now and then, and somebody who throws packets at it."""
    random = Random(f"{policy}/{seed}")
    table = Table(MEMBERS, OPTIONS, policy, stack="domain")
    samples: list[bytes] = []
    for turn in range(60):
        to = random.choice((None, None, (0,), (1, 2)))
        table.send(random.randrange(MEMBERS), bytes(random.randrange(900)), level=random.randrange(5), to=to)
        if policy == "partitionable" and turn in (15, 40):
            for other in (0, 2):
                table.cut(1, other)
                table.cut(other, 1)
        if turn in (25, 50):
            table.mend()
        for _ in range(random.choice((1, 5, 120))):
            samples += [packet for packets in table.links.values() for packet in packets]
            samples = samples[-300:]
            table.pass_all()
            table.wait(5_000_000)
        for member in range(MEMBERS):
            made = [forge(random, random.choice(samples)) for _ in range(24)] if samples else []
            if not forged:
                made = [bytes((packet[0] ^ 1, *packet[1:])) for packet in made]
            table.step(member, Receive(made))
            assert table.statistics(member)["packets_held"] <= HELD_MAX
    return table


@pytest.mark.parametrize("policy", OFFERS["domain"].policies)
@pytest.mark.parametrize("seed", range(2))
def test_nothing_that_is_forged_raises_or_grows_without_limit(policy: str, seed: int) -> None:
    throw(policy, seed, forged=True)


@pytest.mark.parametrize("policy", OFFERS["domain"].policies)
def test_what_is_spoiled_changes_nothing(policy: str) -> None:
    table = throw(policy, 7, forged=False)
    table.mend()
    table.settle(rounds=200)
    table.play(3_000)
    assert all(table.outstanding(member) == 0 for member in range(MEMBERS))
    assert len({table.views[member]["g"].id for member in range(MEMBERS)}) == 1
