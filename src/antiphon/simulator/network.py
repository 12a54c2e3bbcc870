"""The simulated network: layers of faults between named hosts, and a count of what was sent."""

from random import Random
from typing import final

from antiphon.faults import Fault, Flight, fly


@final
class PacketNetwork:
    """Carries single packets; what arrives, and when, is decided as a packet leaves."""

    __slots__ = ("_layers", "_random", "datagram_bytes", "datagrams")

    def __init__(self, layers: list[Fault], seed: int) -> None:
        self._layers = layers
        self._random = Random(f"{seed}/network")
        self.datagrams = 0
        self.datagram_bytes = 0

    def carry(self, now_ns: int, source: str, destination: str, packet: bytes) -> list[Flight]:
        """What arrives of this packet: for each copy the delay and the bytes."""
        self.datagrams += 1
        self.datagram_bytes += len(packet)
        return fly(self._layers, self._random, now_ns, source, destination, packet)
