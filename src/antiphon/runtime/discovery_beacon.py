"""Discovery on a local network: everybody announces its address by UDP multicast, and listens to the others.

An announcement is MAGIC and an address in figures, nothing else; what does not look like one is dropped. Who has not
announced itself for HEARD_S is forgotten. Who hears of somebody new announces itself at once. Announcements reach as
far as the network passes multicast on, by default one hop; whoever is out of reach of them is not found. Where the node
that asks is sealed, so are they (seal.py): by a seal of their own, whose greetings go to all.
"""

import asyncio
import errno
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from antiphon.runtime.address import SocketAddress, join_address, numeric, reachable
from antiphon.runtime.discovery import ADDRESSES_MAX
from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import AddressError
from antiphon.runtime.keyring import KeySupply
from antiphon.runtime.seal import BEACON, OVERHEAD, Seal
from antiphon.runtime.sealed_transport import KeyWatch
from antiphon.runtime.trust import Trust

MAGIC: Final = b"antiphon beacon 1\0"
MULTICAST: Final = "239.255.74.0:7400"
"""Of the addresses that are kept within one site."""
ANNOUNCE_S: Final = 0.5
HEARD_S: Final = 5.0
ANNOUNCEMENT_BYTES_MAX: Final = len(MAGIC) + 100
READ_MAX: Final = 64


class BeaconDiscovery:
    """Announces the process that asks from its first question on, until it is closed. IPv4."""

    def __init__(self, multicast: str = MULTICAST) -> None:
        where = numeric(multicast, socket.AF_INET)
        if where is None or not 224 <= int(where[0].split(".")[0]) <= 239:
            raise AddressError(multicast, f'a beacon needs an IPv4 multicast address, as in "{MULTICAST}"')
        self._multicast: SocketAddress = where
        self._announcement = b""
        self._heard_s: dict[str, float] = {}
        self._socket: socket.socket | None = None
        self._keys: KeySupply | None = None
        self._has_keys = False
        """Whether a node said by which keys, if any, it is sealed."""
        self._seal: Seal | None = None
        self._watch: KeyWatch | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"BeaconDiscovery('{self._multicast[0]}:{self._multicast[1]}')"

    def seal_by(self, keys: KeySupply | None) -> None:
        """Use the keys of the node that asks; None: it is not sealed."""
        self._keys = keys
        self._has_keys = True

    async def addresses(self, own: str) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        if self._socket is None:
            self._open(own, loop)
        now_s = loop.time()
        self._heard_s = {address: at for address, at in self._heard_s.items() if now_s - at < HEARD_S}
        return list(self._heard_s)

    def _open(self, own: str, loop: asyncio.AbstractEventLoop) -> None:
        where = reachable(own, socket.AF_INET, self._multicast)
        self._announcement = MAGIC + where.encode()
        found = numeric(where, socket.AF_INET)
        if not self._has_keys and found is not None:
            self.seal_by(Trust().keys("a beacon", found))
        if self._keys is not None:
            self._seal = Seal(self._keys.keyring, current_environment().life_bytes, loop.time, self._greet)
            self._watch = KeyWatch(self._keys, self._seal)
        self._socket = _listen(self._multicast, where)
        loop.add_reader(self._socket.fileno(), self._read, loop)
        self._announce(loop)

    def _send(self) -> None:
        announcement = self._announcement
        self._put(announcement if self._seal is None else self._seal.seal([announcement], BEACON)[0])

    def _put(self, data: bytes) -> None:
        assert self._socket is not None
        with suppress(OSError):  # the network may be back next time
            self._socket.sendto(data, self._multicast)

    def _greet(self, greeting: bytes, destination: SocketAddress) -> None:
        self._put(greeting)

    def _announce(self, loop: asyncio.AbstractEventLoop) -> None:
        self._send()
        if self._seal is not None:  # it opens nothing of its own; without it, this process hears itself
            self._heard_s[self._announcement[len(MAGIC) :].decode()] = loop.time()
        self._timer = loop.call_later(ANNOUNCE_S, self._announce, loop)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._socket is not None
        for _ in range(READ_MAX):
            try:
                data, source = self._socket.recvfrom(OVERHEAD + ANNOUNCEMENT_BYTES_MAX + 1)
            except OSError:
                return
            opened = [data] if self._seal is None else self._open_sealed(self._seal, data, source)
            address = read_announcement(opened[0]) if opened else None
            if address is None:
                continue
            if address in self._heard_s:
                self._heard_s[address] = loop.time()
            elif len(self._heard_s) < ADDRESSES_MAX:
                self._heard_s[address] = loop.time()
                self._send()  # whoever is new has missed what was announced before

    def _open_sealed(self, seal: Seal, data: bytes, source: SocketAddress) -> list[bytes]:
        meetings = seal.meetings
        opened = seal.open([data], [source], BEACON)
        if seal.meetings != meetings:
            self._send()  # what was announced before it was met, whoever is new has dropped
        return opened

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.close()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None


def read_announcement(data: bytes) -> str | None:
    """The address that is announced, or None if this is no announcement."""
    if not data.startswith(MAGIC) or len(data) > ANNOUNCEMENT_BYTES_MAX:
        return None
    where = numeric(data[len(MAGIC) :].decode(errors="replace"), socket.AF_INET)
    return None if where is None or where[1] == 0 else join_address(where)


def _listen(multicast: SocketAddress, own: str) -> socket.socket:
    """A socket that sends from `own`'s interface and hears what comes to `multicast`, also from this machine."""
    sock = current_environment().datagram_socket(socket.AF_INET)
    try:
        sock.setblocking(False)
        interface = socket.inet_aton(own.rpartition(":")[0])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # several processes on one machine
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        sock.bind(multicast)
        membership = struct.pack("4s4s", socket.inet_aton(multicast[0]), interface)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError as error:
        sock.close()
        why = "no interface here does multicast" if error.errno == errno.ENODEV else error.strerror or str(error)
        raise AddressError(join_address(multicast), why) from error
    return sock
