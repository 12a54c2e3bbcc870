"""A transport whose packets are sealed between identities (pair_seal.py), and what the engine is told of names.

The seal is above the fault layers, like that of a shared key (sealed_transport.py). What is refused is a loss to the
engine.

A node looks every LOOK_S whether its identity or the revocations beside it have changed, and forgets lives whose
certificate has run out. With a new certificate it begins a new life, which costs everybody one more round trip.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from antiphon.kernel.credentials import Credentials
from antiphon.kernel.identity import View, wire_id
from antiphon.runtime.address import SocketAddress
from antiphon.runtime.certificates import COORDINATE_RIGHT, SEND_RIGHT, Certificate, is_signed
from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import IdentityError
from antiphon.runtime.identity import IdentitySupply
from antiphon.runtime.pair_seal import PairSeal
from antiphon.runtime.sealed_transport import LOOK_S
from antiphon.runtime.transport import Transport, UdpTransport

_STATEMENT: Final = b"antiphon statement 1"

log: Final = logging.getLogger("antiphon")


def wall_s() -> float:
    """Seconds since 1970, by which certificates run out."""
    return current_environment().time_ns() / 1e9


class IdentifiedTransport:
    """`below`, sealed between identities; `unicast` is the socket that packets come from."""

    def __init__(self, supply: IdentitySupply, on_packets: Callable[[list[bytes], list[str]], None]) -> None:
        self.below: Transport | None = None
        self.unicast: UdpTransport | None = None
        self._supply = supply
        self._on_packets = on_packets
        self._loop = asyncio.get_running_loop()
        self.seal = PairSeal(supply, current_environment().life_bytes, self._loop.time, wall_s, self._put)
        self.credentials = Credentials(self._attest, self._is_attested, self._may_coordinate)
        self._passed_on = supply.revocations.version
        self._timer = self._loop.call_later(LOOK_S, self._look)

    # ---- packets ---------------------------------------------------------------------------------------------------

    def send(self, packets: list[bytes], destinations: list[SocketAddress]) -> None:
        self.send_to(packets, destinations, ())

    def send_to(self, packets: list[bytes], destinations: Sequence[SocketAddress], names: Sequence[str]) -> None:
        """Each packet to each destination; `names`: by destination, which process is meant, if that is known."""
        assert self.below is not None
        if len(names) != len(destinations):
            names = ()
        for sealed, destination in self.seal.seal(packets, destinations, names):
            self.below.send(sealed, [destination])

    def _put(self, datagram: bytes, destination: SocketAddress) -> None:
        assert self.below is not None
        self.below.send([datagram], [destination])

    def receive(self, datagrams: list[bytes]) -> None:
        """Take what came to the socket."""
        assert self.unicast is not None
        packets, authors = self.seal.open(datagrams, self.unicast.sources)
        if packets:
            self._on_packets(packets, authors)

    def install(self, group: str, view: View | None) -> None:
        """A group has a new view; None: it is over here."""
        own = self._supply.identity.name
        others = [] if view is None else [member.name for member in view.members if member.name != own]
        self.seal.set_circle(wire_id(group), others)

    # ---- names -----------------------------------------------------------------------------------------------------

    def _known(self, name: str) -> Certificate | None:
        own = self._supply.identity.certificate
        return own if name == own.name else self.seal.known.get(name)

    def _attest(self, statement: bytes) -> bytes:
        return self._supply.identity.key.sign(_STATEMENT + statement)

    def _is_attested(self, name: str, statement: bytes, proof: bytes) -> bool:
        known = self._known(name)
        if known is None or not self._supply.holds(known, wall_s()):
            return False
        return is_signed(known.public, proof, _STATEMENT + statement)

    def _may_coordinate(self, name: str) -> bool:
        known = self._known(name)
        return known is None or known.may(COORDINATE_RIGHT)

    def may_send(self, name: str) -> bool:
        """Whether messages of this process are delivered. Where nobody has shown whose it is, they are: then the stack
        takes another's word for who sent them."""
        known = self._known(name)
        return known is None or known.may(SEND_RIGHT)

    # ---- time ------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK_S, self._look)
        identity = self._supply.identity
        try:
            self._supply.look(wall_s())
        except IdentityError as error:
            log.error("the identity stays as it is: %s", error)
        if identity is not self._supply.identity:
            log.info("the identity has changed: %r", self._supply.identity)
            self.seal.renew()
        self.seal.forget_untrusted()
        version = self._supply.revocations.version
        if self._passed_on != version:  # from a file, or from another node
            self._passed_on = version
            log.info("revocations have changed: version %d", version)
            self.seal.pass_revocations_on()

    def close(self) -> None:
        self._timer.cancel()
        if self.below is not None:
            self.below.close()

    def statistics(self) -> dict[str, int]:
        assert self.below is not None
        return self.below.statistics() | self.seal.statistics()
