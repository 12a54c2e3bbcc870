"""A transport whose packets are sealed (seal.py), and the keys of a node.

The seal is above the fault layers and above multicast: each packet is sealed once, for all destinations and both ways,
and what the network damages or doubles meets the checks of the seal. What is refused is a loss to the engine.

A node whose keys are in a file looks every LOOK_S whether the file has changed.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from antiphon.runtime.address import SocketAddress
from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import KeyringError
from antiphon.runtime.keyring import KeySupply
from antiphon.runtime.logs import log_event
from antiphon.runtime.seal import Seal
from antiphon.runtime.transport import Transport, UdpTransport

LOOK_S: Final = 1.0


class KeyWatch:
    """Gives a seal the keys of a file whenever that changes."""

    def __init__(self, supply: KeySupply, seal: Seal) -> None:
        self._supply = supply
        self._given = supply.keyring
        self._seal = seal
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        if supply.has_file or len(supply.keyring.keys) > 1:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK_S, self._look)
        try:
            self._supply.look()
        except KeyringError as error:
            log_event(logging.ERROR, "keyring_unusable", f"the keys stay as they are: {error}")
        if self._given is not self._supply.keyring:  # a beacon of the same node may have looked first
            self._given = self._supply.keyring
            log_event(logging.INFO, "keyring_changed", keys=len(self._given.keys))
            self._seal.change_keys(self._given)
        else:
            self._seal.choose_key()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class SealedTransport:
    """`below`, sealed; `unicast` is the socket that packets come from."""

    def __init__(self, supply: KeySupply, on_packets: Callable[[list[bytes]], None]) -> None:
        machine = current_environment()
        self.below: Transport | None = None
        self.unicast: UdpTransport | None = None
        self._on_packets = on_packets
        self.seal = Seal(supply.keyring, machine.life_bytes, asyncio.get_running_loop().time, self._greet)
        self._watch = KeyWatch(supply, self.seal)

    def send(self, packets: list[bytes], destinations: list[SocketAddress]) -> None:
        assert self.below is not None
        self.below.send(self.seal.seal(packets), destinations)

    def _greet(self, greeting: bytes, destination: SocketAddress) -> None:
        assert self.below is not None
        self.below.send([greeting], [destination])

    def receive(self, datagrams: list[bytes]) -> None:
        """Take what came to the socket."""
        assert self.unicast is not None
        packets = self.seal.open(datagrams, self.unicast.sources)
        if packets:
            self._on_packets(packets)

    def close(self) -> None:
        self._watch.close()
        if self.below is not None:
            self.below.close()

    def statistics(self) -> dict[str, int]:
        assert self.below is not None
        return self.below.statistics() | self.seal.statistics()
