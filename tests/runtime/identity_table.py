"""Identities for tests, and pair seals around a table: what one sends is heard by whom it is given to, and captured."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from antiphon.kernel.codec import seal
from antiphon.kernel.packet_kinds import DATA, STATUS
from antiphon.runtime.address import SocketAddress
from antiphon.runtime.certificates import ROLES, Revocations, issue, revoke
from antiphon.runtime.identity import Identity, IdentitySupply
from antiphon.runtime.keyring import Keyring
from antiphon.runtime.pair_seal import PairSeal
from tests.runtime.seal_table import ring

GROUP = 77
FOR_EVER_S = 1 << 40


def seeded_key(text: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(Random(f"private {text}").randbytes(32))


AUTHORITY = seeded_key("authority")
PUBLIC = AUTHORITY.public_key().public_bytes_raw()


@lru_cache(maxsize=256)
def serial_of(name: str, life: int = 0) -> int:
    return int.from_bytes(name.encode(), "little") % 2**32 + life


def identity(
    name: str,
    role: str = "member",
    *,
    until_s: int = FOR_EVER_S,
    authority: Ed25519PrivateKey = AUTHORITY,
    entry: Keyring | None = None,
    renewed: int = 0,
) -> Identity:
    """The identity of a name, the same each time."""
    key = seeded_key(f"{name} {renewed}")
    public = key.public_key().public_bytes_raw()
    certificate = issue(authority, serial_of(name, renewed), name, until_s, ROLES[role], public)
    return Identity(certificate, authority.public_key().public_bytes_raw(), key, entry or ring(1))


def revoked(*names: str, version: int = 1) -> Revocations:
    return revoke(AUTHORITY, version, frozenset(serial_of(name) for name in names))


def data(text: bytes = b"data", rank: int = 0, group: int = GROUP) -> bytes:
    """A packet with messages."""
    return seal(1, DATA, group, 5, rank, 0, 0, [text])


def status(text: bytes = b"status") -> bytes:
    return seal(1, STATUS, GROUP, 5, 0, 0, 0, [text])


class PairSeat:
    """One process at the table: its seal, and what it has taken."""

    def __init__(self, table: "PairTable", who: Identity) -> None:
        self.name = who.name
        self.address: SocketAddress = (who.name, 7400)
        self.table = table
        self.taken: list[tuple[str, bytes]] = []
        self.supply = IdentitySupply(who, who.name, 0.0)
        self.seal = PairSeal(
            self.supply, table.random.randbytes, lambda: table.now_s, lambda: table.wall_s, self._greet
        )

    def _greet(self, datagram: bytes, where: SocketAddress) -> None:
        self.table.put(self.address, datagram, where)

    def send(self, packets: Sequence[bytes], *to: str) -> None:
        """To these, as the engine sends to processes that it knows by name."""
        where: list[SocketAddress] = [(name, 7400) for name in to]
        for sealed, destination in self.seal.seal(list(packets), where, to):
            for datagram in sealed:
                self.table.put(self.address, datagram, destination)
        self.table.deliver()

    def receive(self, datagram: bytes, source: SocketAddress) -> None:
        packets, authors = self.seal.open([datagram], [source])
        self.taken += zip(authors, packets, strict=True)

    def count(self, name: str) -> int:
        return self.seal.statistics()[name]


class PairTable:
    """Whatever anybody sends arrives, unless `lost` says otherwise, and is captured."""

    def __init__(self, *people: Identity) -> None:
        self.now_s = 0.0
        self.wall_s = 1000.0
        self.random = Random(" ".join(who.name for who in people))
        self.seats: dict[str, PairSeat] = {}
        self.captured: list[tuple[SocketAddress, bytes, SocketAddress]] = []
        self.lost: Callable[[str, bytes, str], bool] = lambda source, datagram, to: False
        self._flying: deque[tuple[SocketAddress, bytes, SocketAddress]] = deque()
        for who in people:
            self.sit(who)

    def sit(self, who: Identity) -> PairSeat:
        """A process starts, in place of a former one of its name."""
        seat = self.seats[who.name] = PairSeat(self, who)
        return seat

    def put(self, source: SocketAddress, datagram: bytes, to: SocketAddress) -> None:
        self.captured.append((source, datagram, to))
        if not self.lost(source[0], datagram, to[0]):
            self._flying.append((source, datagram, to))

    def deliver(self) -> None:
        while self._flying:
            source, datagram, to = self._flying.popleft()
            if to[0] in self.seats:
                self.seats[to[0]].receive(datagram, source)

    def meet(self) -> None:
        """Let everybody talk to everybody, so that all have met, and are in one view."""
        for seat in self.seats.values():
            others = [name for name in self.seats if name != seat.name]
            seat.send([status()], *others)
            seat.seal.set_circle(GROUP, others)
        for seat in self.seats.values():
            seat.taken.clear()
        self.now_s += 1


def table(*names: str) -> PairTable:
    """Members of these names that have met."""
    made = PairTable(*(identity(name) for name in names))
    made.meet()
    return made
