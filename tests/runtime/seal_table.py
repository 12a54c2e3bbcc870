"""Seals around a table, without sockets: what one says is heard by whom it is given to, and all of it is captured."""

from collections import deque
from collections.abc import Sequence
from random import Random

from antiphon.runtime.address import SocketAddress
from antiphon.runtime.keyring import Keyring, SharedKey
from antiphon.runtime.seal import PACKET, Seal


def key(epoch: int, chance: int = 0) -> SharedKey:
    """The key of this epoch; another `chance` has other keys."""
    return SharedKey(epoch, Random(f"{epoch} {chance}").randbytes(32))


def ring(*epochs: int, chance: int = 0) -> Keyring:
    return Keyring([key(epoch, chance) for epoch in epochs])


class Seat:
    """One process at the table: its seal, and what it has taken."""

    def __init__(self, table: "Table", name: str, keyring: Keyring) -> None:
        self.name = name
        self.address: SocketAddress = (name, 7400)
        self.taken: list[bytes] = []
        self.greeted: list[SocketAddress] = []
        """Where its greetings went."""
        self._table = table
        self.seal = Seal(keyring, table.random.randbytes, lambda: table.now_s, self._greet)

    def _greet(self, greeting: bytes, where: SocketAddress) -> None:
        self.greeted.append(where)
        self._table.send(self, greeting, [where[0]])

    def receive(self, datagrams: Sequence[bytes], source: SocketAddress, kind: int = PACKET) -> None:
        self.taken += self.seal.open(list(datagrams), [source] * len(datagrams), kind)

    def count(self, name: str) -> int:
        return self.seal.statistics()[name]


class Table:
    """Whatever anybody sends arrives, unless it is cut off, and is captured."""

    def __init__(self, names: str = "ab", keyring: Keyring | None = None) -> None:
        self.now_s = 0.0
        self.random = Random(7)
        self.seats: dict[str, Seat] = {}
        self.captured: list[tuple[Seat, bytes]] = []
        self._flying: deque[tuple[Seat, bytes, str]] = deque()
        self._is_delivering = False
        for name in names:
            self.sit(name, keyring)

    def sit(self, name: str, keyring: Keyring | None = None) -> Seat:
        """A process starts, in place of a former one of its name."""
        seat = self.seats[name] = Seat(self, name, keyring or ring(1))
        return seat

    def send(self, source: Seat, data: bytes, to: Sequence[str]) -> None:
        self.captured.append((source, data))
        self._flying.extend((source, data, name) for name in to)
        if self._is_delivering:
            return
        self._is_delivering = True
        while self._flying:
            sender, flying, name = self._flying.popleft()
            if name in self.seats:
                self.seats[name].receive([flying], sender.address)
        self._is_delivering = False

    def say(self, source: str, packet: bytes, to: str) -> bytes:
        """Let `source` seal a packet once, for all of these; what went over the wire."""
        seat = self.seats[source]
        sealed = seat.seal.seal([packet])[0]
        self.send(seat, sealed, to)
        return sealed

    def meet(self) -> None:
        """Let everybody talk to everybody, so that all have met."""
        for source in self.seats:
            others = "".join(name for name in self.seats if name != source)
            self.say(source, b"hello", others)
        self.now_s += 1
        for seat in self.seats.values():
            seat.taken.clear()

    def replay(self, to: str, count: int | None = None) -> None:
        """Give one of them all that was captured, as if it came from where it came."""
        for source, data in list(self.captured[:count]):
            self.seats[to].receive([data], source.address)
