"""IP multicast beside unicast: who is sent which, and that everything arrives either way."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from antiphon.runtime import AddressError, Batch, Group, Node
from antiphon.runtime.address import SocketAddress
from antiphon.runtime.multicast import (
    ANNOUNCEMENT_BYTES_MAX,
    MAGIC,
    MulticastTransport,
    pack_address,
    read_announcement,
    unpack_address,
)
from antiphon.runtime.transport import DATAGRAM_BYTES_MAX, UdpTransport, bind
from tests.runtime.cluster import run

LOOPBACK = "127.0.0.1"
ANYWHERE = (LOOPBACK, 0)
WAIT_S = 10.0


def free_multicast() -> str:
    """An address that no other test uses at the same time: with a port of its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(ANYWHERE)
        return f"239.255.74.1:{sock.getsockname()[1]}"


class Station:
    """A multicast transport and what came in through it."""

    def __init__(self, multicast: str | None) -> None:
        sock = bind(socket.AF_INET, ANYWHERE)
        self.address: SocketAddress = sock.getsockname()
        self.by_unicast: list[bytes] = []
        self.by_multicast: list[bytes] = []
        self.unicast = UdpTransport(sock, datagram_bytes_max=DATAGRAM_BYTES_MAX, on_datagrams=self.by_unicast.extend)
        self.transport: UdpTransport | MulticastTransport = self.unicast
        if multicast is not None:
            self.transport = MulticastTransport(
                self.unicast,
                own=f"{LOOPBACK}:{self.address[1]}",
                multicast=multicast,
                datagram_bytes_max=DATAGRAM_BYTES_MAX,
                on_datagrams=self.by_multicast.extend,
            )

    def hearers(self) -> int:
        return self.transport.statistics()["multicast_hearers"]


@asynccontextmanager
async def stations(*multicasts: str | None) -> AsyncIterator[list[Station]]:
    made: list[Station] = []
    try:
        for multicast in multicasts:
            made.append(Station(multicast))
        yield made
    finally:
        for station in made:
            station.transport.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)


def test_what_is_for_all_leaves_once_and_does_not_come_back() -> None:
    async def scene() -> None:
        where = free_multicast()
        async with stations(where, where, where) as (one, two, three):
            await until(lambda: one.hearers() == 2)
            one.transport.send([b"packet", b"another"], [two.address, three.address])
            await until(lambda: len(two.by_multicast) == len(three.by_multicast) == 2)
            assert two.by_multicast == three.by_multicast == [b"packet", b"another"]
            assert not two.by_unicast
            assert not three.by_unicast
            assert not one.by_multicast
            two.transport.send([b"for one"], [three.address])
            await until(lambda: three.by_unicast == [b"for one"])

    run(scene)


def test_who_does_not_listen_gets_unicast_and_the_others_multicast() -> None:
    async def scene() -> None:
        where = free_multicast()
        async with stations(where, where, where, None) as (one, two, three, deaf):
            await until(lambda: one.hearers() == 2)
            one.transport.send([b"packet"], [two.address, deaf.address, three.address])
            await until(lambda: bool(two.by_multicast and three.by_multicast and deaf.by_unicast))
            assert not two.by_unicast
            assert not three.by_unicast
            one.transport.send([b"for two"], [two.address, deaf.address])  # one hearer alone is no reason
            await until(lambda: two.by_unicast == [b"for two"] and len(deaf.by_unicast) == 2)

    run(scene)


def test_who_goes_deaf_gets_unicast_again() -> None:
    async def scene() -> None:
        where = free_multicast()
        async with stations(where, where, where) as (one, two, three):
            await until(lambda: one.hearers() == 2)
            assert isinstance(three.transport, MulticastTransport)
            three.transport._listener.close()  # it still announces itself, but says that it hears nobody any more
            await until(lambda: one.hearers() == 1)
            one.transport.send([b"packet"], [two.address, three.address])
            await until(lambda: two.by_unicast == three.by_unicast == [b"packet"])

    run(scene)


def test_a_group_over_multicast() -> None:
    async def scene() -> None:
        where = free_multicast()
        nodes = [Node(name, address=f"{LOOPBACK}:0", incarnation=1, multicast=where) for name in "abcd"]
        try:
            for node in nodes:
                await node.start()
            members = {node.process.name: node.address for node in nodes}
            groups = [await node.join("g", members=members, policy="static") for node in nodes]
            await until(lambda: all(node.statistics()["multicast_hearers"] == 3 for node in nodes))
            await asyncio.gather(*(send(group) for group in groups), *(read(group) for group in groups))
            assert all(node.statistics()["multicasts_sent"] > 0 for node in nodes)
        finally:
            await asyncio.gather(*(node.close() for node in nodes))

    async def send(group: Group) -> None:
        for _ in range(10):
            await group.send_many([b"x" * 100] * 50, order="agreed")

    async def read(group: Group) -> None:
        left = 4 * 500
        async with asyncio.timeout(WAIT_S):
            async for event in group.batches():
                left -= len(event.payloads) if isinstance(event, Batch) else 0
                if not left:
                    return

    run(scene)


@pytest.mark.parametrize("address", ["127.0.0.1:7401", "239.255.74.1:0", "nonsense", "[ff02::1]:7401", "239.255.74.1"])
def test_an_address_that_is_no_multicast_address_is_refused(address: str) -> None:
    with pytest.raises(AddressError, match=r'as in "239\.255\.74\.1:7401"'):
        Node("a", address="127.0.0.1:0", incarnation=1, multicast=address)


ONE, TWO = pack_address(("10.0.0.1", 7400)), pack_address(("10.0.0.2", 65535))


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (MAGIC + ONE, [ONE]),
        (MAGIC + ONE + TWO, [ONE, TWO]),
        (MAGIC, None),
        (MAGIC + ONE + TWO[:-1], None),
        (b"packet" + ONE, None),
        (MAGIC + ONE * 201, [ONE] * 201),
        (MAGIC + ONE * 202, None),
    ],
)
def test_announcements_are_read_and_other_things_are_not(data: bytes, named: list[bytes] | None) -> None:
    assert read_announcement(data) == named
    assert len(data) <= ANNOUNCEMENT_BYTES_MAX or named is None


def test_addresses_survive_the_wire() -> None:
    assert unpack_address(ONE) == ("10.0.0.1", 7400)
    assert unpack_address(TWO) == ("10.0.0.2", 65535)
