"""IP multicast where the network has it: one copy leaves for many members, and the network makes the others.

A packet for all is one byte string, the same for every destination, so it can go either way. It goes by multicast to
those that are known to hear it, if they are two or more, and by unicast to all others. Everything for one process alone
goes by unicast, and so does what is resent.

Who hears whom is found out, never assumed: switches lose track of who listens, and a route may work in one direction
alone. Each process announces itself by multicast every ANNOUNCE_S and says whom it has heard that way lately. B is sent
multicast as long as B's own announcements arrive and name this process; when they stop doing so, for HEARD_S, B gets
unicast again. That is well before B would be suspected for its silence.

An announcement is MAGIC, the announcer's address, and the addresses that it has heard, six bytes each: IPv4 and port.
What does not look like one is a packet like any other. Where the node is sealed, announcements are sealed by the same
seal as its packets, as a class of their own (seal.py).

Limits: an announcement names HEARD_MAX others; whoever is not named gets unicast. One address serves all groups of a
process, so let processes share an address that share most of their groups: what is for a group that one is not in, it
has to drop.
"""

import asyncio
import ctypes
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Final

from antiphon.runtime.address import SocketAddress, join_address, numeric, reachable
from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import AddressError
from antiphon.runtime.seal import HEARS, Seal, sealed_class
from antiphon.runtime.transport import UdpTransport, enlarge

MAGIC: Final = b"antiphon hears 1\0"
EXAMPLE: Final = "239.255.74.1:7401"
ANNOUNCE_S: Final = 0.2
HEARD_S: Final = 0.7
HEARD_MAX: Final = 200
ADDRESS: Final = Struct("!4sH")
ANNOUNCEMENT_BYTES_MAX: Final = len(MAGIC) + (1 + HEARD_MAX) * ADDRESS.size
SO_ATTACH_FILTER: Final = 26


def check_multicast(address: str) -> SocketAddress:
    where = numeric(address, socket.AF_INET)
    if where is None or not 224 <= int(where[0].split(".")[0]) <= 239 or where[1] == 0:
        raise AddressError(address, f'multicast needs an IPv4 multicast address and a port, as in "{EXAMPLE}"')
    return where


class MulticastTransport:
    """`unicast`, and beside it a multicast address. `own` is where the unicast socket is bound."""

    def __init__(
        self,
        unicast: UdpTransport,
        *,
        own: str,
        multicast: str,
        datagram_bytes_max: int,
        on_datagrams: Callable[[list[bytes]], None],
        seal: Seal | None = None,
    ) -> None:
        """`seal` is that of the node: what is handed to `on_datagrams` is open, and what is sent is sealed already."""
        self._unicast = unicast
        self._seal = seal
        self._where = check_multicast(multicast)
        self._on_datagrams = on_datagrams
        self._loop = asyncio.get_running_loop()
        reached = numeric(reachable(own, socket.AF_INET, self._where), socket.AF_INET)
        if reached is None:
            raise AddressError(own, "multicast needs a node that is bound to an IPv4 address")
        self._own = pack_address(reached)
        self._heard_s: dict[bytes, float] = {}
        """Who announced itself by multicast, and when."""
        self._hearing_s: dict[SocketAddress, float] = {}
        """Who said by multicast that it hears this process, and when."""
        self._routes: dict[tuple[SocketAddress, ...], tuple[bool, list[SocketAddress]]] = {}
        """For destinations: whether to multicast, and who is sent unicast. Made anew with every announcement."""
        unicast.send_multicast_by(reached[0])
        sock = _listen(self._where, reached)
        self._listener = UdpTransport(sock, datagram_bytes_max=datagram_bytes_max, on_datagrams=self._receive)
        self._timer: asyncio.TimerHandle | None = None
        self.multicasts_sent = 0
        self._announce()

    def send(self, packets: list[bytes], destinations: list[SocketAddress]) -> None:
        if len(destinations) < 2:
            self._unicast.send(packets, destinations)
            return
        key = tuple(destinations)
        route = self._routes.get(key)
        if route is None:
            route = self._routes[key] = self._route(destinations)
        if route[0]:
            self.multicasts_sent += len(packets)
            self._unicast.send(packets, [self._where])
        if route[1]:
            self._unicast.send(packets, route[1])

    def _route(self, destinations: list[SocketAddress]) -> tuple[bool, list[SocketAddress]]:
        others = [destination for destination in destinations if destination not in self._hearing_s]
        if len(destinations) - len(others) < 2:
            return False, destinations
        return True, others

    def _announce(self) -> None:
        now_s = self._loop.time()
        self._heard_s = {who: at for who, at in self._heard_s.items() if now_s - at < HEARD_S}
        self._hearing_s = {who: at for who, at in self._hearing_s.items() if now_s - at < HEARD_S}
        self._routes.clear()
        announcement = MAGIC + self._own + b"".join(sorted(self._heard_s)[:HEARD_MAX])
        announcements = [announcement] if self._seal is None else self._seal.seal([announcement], HEARS)
        self._unicast.send(announcements, [self._where])
        self._timer = self._loop.call_later(ANNOUNCE_S, self._announce)

    def _receive(self, datagrams: list[bytes]) -> None:
        if self._seal is not None:
            self._receive_sealed(datagrams, self._seal)
            return
        packets = [datagram for datagram in datagrams if not (datagram.startswith(MAGIC) and self._hear(datagram))]
        if packets:
            self._on_datagrams(packets)

    def _receive_sealed(self, datagrams: list[bytes], seal: Seal) -> None:
        sources = self._listener.sources
        hears = [at for at, datagram in enumerate(datagrams) if sealed_class(datagram) == HEARS]
        for announcement in seal.open([datagrams[at] for at in hears], [sources[at] for at in hears], HEARS):
            self._hear(announcement)
        others = [at for at, datagram in enumerate(datagrams) if sealed_class(datagram) != HEARS]
        packets = seal.open([datagrams[at] for at in others], [sources[at] for at in others])
        if packets:
            self._on_datagrams(packets)

    def _hear(self, announcement: bytes) -> bool:
        """Whether it is one."""
        named = read_announcement(announcement)
        if named is None:
            return False
        who = named[0]
        if who != self._own and (who in self._heard_s or len(self._heard_s) < HEARD_MAX):
            now_s = self._loop.time()
            self._heard_s[who] = now_s
            address = unpack_address(who)
            if self._own in named[1:]:
                if address not in self._hearing_s:
                    self._routes.clear()
                self._hearing_s[address] = now_s
            elif self._hearing_s.pop(address, None) is not None:
                self._routes.clear()
        return True

    def close(self) -> None:
        """Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        self._listener.close()
        self._unicast.close()

    def statistics(self) -> dict[str, int]:
        both = {name: count + self._listener.statistics()[name] for name, count in self._unicast.statistics().items()}
        return both | {"multicasts_sent": self.multicasts_sent, "multicast_hearers": len(self._hearing_s)}


def pack_address(address: SocketAddress) -> bytes:
    return ADDRESS.pack(socket.inet_aton(address[0]), address[1])


def unpack_address(packed: bytes) -> SocketAddress:
    host, port = ADDRESS.unpack(packed)
    return socket.inet_ntoa(host), port


def read_announcement(data: bytes) -> list[bytes] | None:
    """The announcer and those that it has heard, or None if this is no announcement."""
    size = len(data) - len(MAGIC)
    if not data.startswith(MAGIC) or len(data) > ANNOUNCEMENT_BYTES_MAX or size <= 0 or size % ADDRESS.size:
        return None
    return [data[start : start + ADDRESS.size] for start in range(len(MAGIC), len(data), ADDRESS.size)]


def _listen(multicast: SocketAddress, own: SocketAddress) -> socket.socket:
    """A socket that hears what comes to `multicast`, also from this machine."""
    sock = current_environment().datagram_socket(socket.AF_INET)
    try:
        sock.setblocking(False)
        enlarge(sock, "SO_RCVBUF")
        _refuse_own(sock, own)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # several processes on one machine
        sock.bind(multicast)
        membership = socket.inet_aton(multicast[0]) + socket.inet_aton(own[0])
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError as error:
        sock.close()
        raise AddressError(join_address(multicast), f"{join_address(own)} has no multicast: {error}") from error
    return sock


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


_STEP: Final = Struct("=HBBI")


def _refuse_own(sock: socket.socket, own: SocketAddress) -> None:
    """Let the kernel drop what this process sent itself, before it costs anything. Where it cannot, the engine drops
    it: its own packets are of no use to it."""
    if sys.platform != "linux":
        return
    load_source_host, load_source_port, equal, take = 0x20, 0x28, 0x15, 0x06
    host = int.from_bytes(socket.inet_aton(own[0]), "big")
    steps = b"".join(
        (
            _STEP.pack(load_source_host, 0, 0, 0xFFF00000 + 12),  # of the IP header, which is at this odd offset
            _STEP.pack(equal, 0, 3, host),
            _STEP.pack(load_source_port, 0, 0, 0),
            _STEP.pack(equal, 0, 1, own[1]),
            _STEP.pack(take, 0, 0, 0),
            _STEP.pack(take, 0, 0, 0xFFFFFFFF),
        )
    )
    program = _Program(len(steps) // _STEP.size, steps)
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(program))
