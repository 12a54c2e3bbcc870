"""Faults of a network, as layers that compose.

A layer gets the flights of one packet from `source` to `destination` (each flight is a delay in nanoseconds and the
bytes that arrive) and returns the flights that remain. The simulator and the real sockets use the same layers. All
randomness comes from the generator that is passed in, so a seed reproduces a run.
"""

from collections.abc import Callable
from random import Random
from typing import final

Flight = tuple[int, bytes]


class Fault:
    """One layer of faults."""

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        raise NotImplementedError

    def fresh(self) -> "Fault":
        """Return a layer that does the same and remembers nothing of earlier packets."""
        return self


def fly(layers: list[Fault], random: Random, now_ns: int, source: str, destination: str, data: bytes) -> list[Flight]:
    """Return what arrives of one packet after all layers, applied first to last."""
    flights: list[Flight] = [(0, data)]
    for layer in layers:
        if not flights:
            break
        flights = layer.apply(random, now_ns, source, destination, flights)
    return flights


@final
class Observation(Fault):
    """Shows every packet to a function, which may be plain Python beside a compiled core, and changes nothing.

    The function is given the time, the source, the destination and the flights."""

    def __init__(self, see: Callable[[int, str, str, list[Flight]], None]) -> None:
        self._see = see

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        self._see(now_ns, source, destination, flights)
        return flights


@final
class Loss(Fault):
    """Each flight is lost with this probability."""

    def __init__(self, probability: float) -> None:
        self.probability = probability

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        return [flight for flight in flights if random.random() >= self.probability]


@final
class BurstLoss(Fault):
    """Losses come in bursts: with `probability` a burst starts on a link, which loses everything for `length_ns`."""

    def __init__(self, probability: float, length_ns: int) -> None:
        self.probability = probability
        self.length_ns = length_ns
        self._until_ns: dict[tuple[str, str], int] = {}

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        link = (source, destination)
        if random.random() < self.probability:
            self._until_ns[link] = now_ns + self.length_ns
        return [] if now_ns < self._until_ns.get(link, 0) else flights

    def fresh(self) -> Fault:
        return BurstLoss(self.probability, self.length_ns)


@final
class Duplication(Fault):
    """Each flight arrives twice with this probability, the second time up to `lag_ns_max` later."""

    def __init__(self, probability: float, lag_ns_max: int) -> None:
        self.probability = probability
        self.lag_ns_max = lag_ns_max

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        result = list(flights)
        for delay_ns, data in flights:
            if random.random() < self.probability:
                result.append((delay_ns + int(random.random() * self.lag_ns_max), data))
        return result


@final
class Delay(Fault):
    """Each flight takes `least_ns` plus up to `spread_ns` more: a wide spread reorders."""

    def __init__(self, least_ns: int, spread_ns: int) -> None:
        self.least_ns = least_ns
        self.spread_ns = spread_ns

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        return [(delay_ns + self.least_ns + int(random.random() * self.spread_ns), data) for delay_ns, data in flights]


@final
class Reordering(Fault):
    """With this probability a flight is delayed by up to `hold_ns_max`, so that later ones overtake it."""

    def __init__(self, probability: float, hold_ns_max: int) -> None:
        self.probability = probability
        self.hold_ns_max = hold_ns_max

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        result: list[Flight] = []
        for delay_ns, data in flights:
            held_ns = int(random.random() * self.hold_ns_max) if random.random() < self.probability else 0
            result.append((delay_ns + held_ns, data))
        return result


@final
class Corruption(Fault):
    """With this probability one bit of a flight is flipped."""

    def __init__(self, probability: float) -> None:
        self.probability = probability

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        result: list[Flight] = []
        for delay_ns, data in flights:
            if data and random.random() < self.probability:
                spoiled = bytearray(data)
                position = int(random.random() * len(data) * 8)
                spoiled[position >> 3] ^= 1 << (position & 7)
                data = bytes(spoiled)
            result.append((delay_ns, data))
        return result


@final
class Partition(Fault):
    """From `from_ns` until `until_ns` all flights from `sources` to `destinations` are lost, in this direction only.

    A partition in both directions is two of these.
    """

    def __init__(self, sources: frozenset[str], destinations: frozenset[str], from_ns: int, until_ns: int) -> None:
        self.sources = sources
        self.destinations = destinations
        self.from_ns = from_ns
        self.until_ns = until_ns

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        if not self.from_ns <= now_ns < self.until_ns:
            return flights
        return [] if source in self.sources and destination in self.destinations else flights


@final
class Flapping(Fault):
    """Between `from_ns` and `until_ns` the links between `ones` and `others` are up for `up_ns`, then down for
    `down_ns`, again and again, beginning with down; both ways."""

    def __init__(
        self, ones: frozenset[str], others: frozenset[str], from_ns: int, until_ns: int, up_ns: int, down_ns: int
    ) -> None:
        self.ones = ones
        self.others = others
        self.from_ns = from_ns
        self.until_ns = until_ns
        self.up_ns = up_ns
        self.down_ns = down_ns

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        if not self.from_ns <= now_ns < self.until_ns:
            return flights
        if (now_ns - self.from_ns) % (self.up_ns + self.down_ns) >= self.down_ns:
            return flights
        forth = source in self.ones and destination in self.others
        back = source in self.others and destination in self.ones
        return [] if forth or back else flights


@final
class Oversize(Fault):
    """From `from_ns` on nothing longer than `bytes_max` passes from `sources` to `destinations`, as on a path whose
    routers drop long packets without a word."""

    def __init__(self, sources: frozenset[str], destinations: frozenset[str], from_ns: int, bytes_max: int) -> None:
        self.sources = sources
        self.destinations = destinations
        self.from_ns = from_ns
        self.bytes_max = bytes_max

    def apply(self, random: Random, now_ns: int, source: str, destination: str, flights: list[Flight]) -> list[Flight]:
        if now_ns < self.from_ns or source not in self.sources or destination not in self.destinations:
            return flights
        return [flight for flight in flights if len(flight[1]) <= self.bytes_max]
