"""The fault filter: what the layers decide is what leaves."""

from random import Random

import pytest

from antiphon.faults import Delay, Duplication, Fault, Loss, Reordering
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.runtime import faulty
from antiphon.runtime.address import SocketAddress
from antiphon.runtime.faulty import FaultyTransport
from tests.runtime.cluster import run, until

HERE: SocketAddress = ("127.0.0.1", 1)
THERE: SocketAddress = ("127.0.0.1", 2)


class Below:
    """Keeps what leaves."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, SocketAddress]] = []
        self.closed = False

    def send(self, packets: list[bytes], destinations: list[SocketAddress]) -> None:
        self.sent += [(packet, destination) for packet in packets for destination in destinations]

    def close(self) -> None:
        self.closed = True

    def statistics(self) -> dict[str, int]:
        return {"datagrams_sent": len(self.sent)}


def make(*faults: Fault, seed: int = 1) -> tuple[Below, FaultyTransport]:
    below = Below()
    return below, FaultyTransport(below, source="127.0.0.1:9", faults=faults, random=Random(seed))


def test_each_destination_has_its_own_luck() -> None:
    async def test() -> None:
        below, transport = make(Loss(0.5))
        transport.send([b"%d" % number for number in range(1000)], [HERE, THERE])
        here = {packet for packet, destination in below.sent if destination == HERE}
        there = {packet for packet, destination in below.sent if destination == THERE}
        assert 400 < len(here) < 600
        assert 200 < len(here & there) < 300
        assert transport.statistics()["flights_lost"] == 2000 - len(below.sent)

    run(test)


def test_the_seed_decides() -> None:
    async def test() -> None:
        runs = []
        for seed in (1, 1, 2):
            below, transport = make(Loss(0.5), seed=seed)
            transport.send([b"%d" % number for number in range(100)], [HERE])
            runs.append(below.sent)
        assert runs[0] == runs[1] != runs[2]

    run(test)


def test_delayed_and_doubled_packets_leave_later() -> None:
    async def test() -> None:
        below, transport = make(Duplication(1.0, 2 * MILLISECOND_NS))
        transport.send([b"x"], [HERE])
        assert below.sent == [(b"x", HERE)]
        await until(lambda: len(below.sent) == 2)
        assert transport.statistics()["flights_duplicated"] == 1

    run(test)


def test_held_packets_are_overtaken_and_none_is_lost() -> None:
    async def test() -> None:
        below, transport = make(Reordering(0.5, 5 * MILLISECOND_NS))
        packets = [b"%03d" % number for number in range(100)]
        for packet in packets:
            transport.send([packet], [HERE])
        await until(lambda: len(below.sent) == 100)
        arrived = [packet for packet, _ in below.sent]
        assert arrived != packets
        assert sorted(arrived) == packets

    run(test)


def test_the_air_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(faulty, "FLIGHTS_MAX", 10)
        _, transport = make(Delay(3600 * 1000 * MILLISECOND_NS, 0))
        transport.send([b"x"] * 13, [HERE])
        assert transport.statistics()["flights_lost"] == 3
        transport.close()

    run(test)


def test_closing_drops_what_is_in_the_air() -> None:
    async def test() -> None:
        below, transport = make(Delay(MILLISECOND_NS, 0))
        transport.send([b"x"], [HERE])
        transport.close()
        other_below, other = make(Delay(2 * MILLISECOND_NS, 0))
        other.send([b"y"], [HERE])
        await until(lambda: bool(other_below.sent))
        assert below.sent == []
        assert below.closed

    run(test)
