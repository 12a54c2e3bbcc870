"""A lab: engines on a perfect network in virtual time, where every packet is inspected as it leaves.

Each packet takes FLIGHT_NS, none is lost, and packets that arrive at a process at the same time arrive in one step. So
the figures are exact and the same in every run: they measure the protocol, not the machine.

A multicast counts once as a multicast, and as one packet and its bytes per other member where unicasts are counted.
"""

import gc
import sys
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from types import FrameType
from typing import Any, Final, final

from antiphon.engine import Engine
from antiphon.kernel import codec, packet_kinds
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.effects import NEVER, BarrierReached, Delivered, Effects, Ended, Installed, Transmit
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import MAIN, Input, Join, Receive, Tick
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import PRIMARY
from antiphon.parts.membership import messages
from antiphon.parts.packet import DataPacket, decode_data
from antiphon.stacks.registry import DEFAULT, offer

FLIGHT_NS: Final = 100_000
VECTOR: Final = offer("vector").number
_PACKETS: Final = {
    packet_kinds.DATA: "data",
    packet_kinds.STATUS: "status",
    packet_kinds.REQUEST: "request",
    packet_kinds.PRIVATE: "private",
    packet_kinds.PRIVATE_ACK: "private ack",
}
_MEMBERSHIP: Final = {
    value: name
    for name, value in vars(messages).items()
    if name.isupper() and name[0] != "_" and isinstance(value, int) and not hasattr(packet_kinds, name)
}
"""The kinds of messages about membership, by the names that they have there."""


def packet_kind(packet: bytes) -> str:
    """In a word; data that carries no message but only order is `order`."""
    kind, _, _, sender, flags, level = codec.unseal(packet)
    if kind == packet_kinds.MEMBERSHIP:
        return _MEMBERSHIP[flags]
    if (
        kind == packet_kinds.DATA
        and packet[codec.STACK_AT] == VECTOR
        and not decode_data(packet, sender, flags, level).count
    ):
        return "order"
    return _PACKETS.get(kind, "other")


@final
class Tally:
    """What left, by kind of packet."""

    def __init__(self) -> None:
        self.multicasts: Counter[str] = Counter()
        """Packets for all; how many…"""
        self.unicasts: Counter[str] = Counter()
        """…and all packets, if a multicast goes to each member by itself: how many…"""
        self.unicast_bytes: Counter[str] = Counter()
        """…and how long."""
        self.sent_bytes: Counter[str] = Counter()
        """The same with each multicast counted once, as on a network that multicasts."""

    def note(self, packet: bytes, destinations: int, is_multicast: bool) -> str:
        kind = packet_kind(packet)
        if is_multicast:
            self.multicasts[kind] += 1
        self.unicasts[kind] += destinations
        self.unicast_bytes[kind] += destinations * len(packet)
        self.sent_bytes[kind] += len(packet)
        return kind


@final
class LineCounter:
    """Counts the lines of Python that are executed while it is on: operations, in a unit that no clock disturbs.

    Works on the interpreted core only; of compiled code it sees nothing. The collector rests meanwhile: its callbacks
    and finalizers would count too.
    """

    def __init__(self) -> None:
        self.lines = 0

    def _trace(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event == "line":
            self.lines += 1
        return self._trace

    def step(self, engine: Engine, input: Input, now_ns: int) -> Effects:
        before, collects = sys.gettrace(), gc.isenabled()
        gc.disable()
        sys.settrace(self._trace)
        try:
            return engine.step(input, now_ns)
        finally:
            sys.settrace(before)
            if collects:
                gc.enable()


@final
class Lab:
    """Processes p0, p1…, each with one engine; every process is at the address of its name."""

    def __init__(self, processes: int, options: Options | None = None, stack: str = DEFAULT) -> None:
        self.stack = stack
        self.options = options or Options()
        self.names = [f"p{number}" for number in range(processes)]
        self.ids = [ProcessId(name) for name in self.names]
        self.engines: list[Engine | None] = [Engine(id, Random(f"{id}"), self.options) for id in self.ids]
        self.now_ns = 0
        self.tally = Tally()
        self.data: list[tuple[int, DataPacket]] = []
        """Data packets as they left for all, each with the number of members of its view, if `keep_data`."""
        self.keep_data = False
        self.views: list[dict[str, View]] = [{} for _ in range(processes)]
        self.installs = 0
        self.steps = 0
        self.delivered: list[list[tuple[str, bytes]]] = [[] for _ in range(processes)]
        self.delivered_at_ns: dict[bytes, int] = {}
        """When each payload was delivered last."""
        self.barriers = 0
        self.ended: list[tuple[int, str, bool]] = []
        self.separated: set[int] = set()
        """Processes that only reach each other, and that the rest does not reach."""
        self.watched: dict[int, LineCounter] = {}
        """Processes whose lines are counted."""
        self._place = {name: place for place, name in enumerate(self.names)}
        self._deadlines = [NEVER] * processes
        self._ticks_at_ns = [NEVER] * processes
        self._heap: list[tuple[int, int, int, bytes | None]] = []
        self._serial = 0

    # ---- what processes do -----------------------------------------------------------------------------------------

    def found(self, group: str, places: list[int], domain: CausalityDomain = MAIN) -> None:
        """These processes start the group, in one view."""
        view = View(1, tuple(self.ids[place] for place in places), tuple(self.names[place] for place in places))
        for place in places:
            address = self.names[place]
            self.step(
                place,
                Join(group=group, view=view, stack=self.stack, policy=PRIMARY, address=address, domain=domain),
            )

    def ask_to_join(self, group: str, place: int, contacts: list[int], domain: CausalityDomain = MAIN) -> None:
        known = tuple(self.names[contact] for contact in contacts)
        self.step(
            place, Join(group=group, contacts=known, policy=PRIMARY, address=self.names[place], domain=domain)
        )  # fmt: skip

    def crash(self, place: int) -> None:
        self.engines[place] = None
        self._deadlines[place] = NEVER

    def restart(self, place: int) -> None:
        """A new life begins there: the next incarnation, in no group."""
        self.ids[place] = ProcessId(self.names[place], self.ids[place].incarnation + 1)
        self.engines[place] = Engine(self.ids[place], Random(f"{self.ids[place]}"), self.options)
        self.views[place] = {}
        self._deadlines[place] = NEVER

    def step(self, place: int, input: Input) -> None:
        engine = self.engines[place]
        if engine is None:
            return
        self.steps += 1
        counter = self.watched.get(place)
        effects = engine.step(input, self.now_ns) if counter is None else counter.step(engine, input, self.now_ns)
        for event in effects.events:
            if isinstance(event, Delivered):
                for payload in event.payloads:
                    self.delivered[place].append((event.group, payload))
                    self.delivered_at_ns[payload] = self.now_ns
            elif isinstance(event, Installed):
                self.views[place][event.group] = event.view
                self.installs += 1
            elif isinstance(event, BarrierReached):
                self.barriers += 1
            elif isinstance(event, Ended):
                self.views[place].pop(event.group, None)
                self.ended.append((place, event.group, event.excluded))
        for transmit in effects.transmits:
            self._transmit(place, transmit)
        self._deadlines[place] = effects.deadline_ns
        self._arm(place)

    def _transmit(self, source: int, transmit: Transmit) -> None:
        targets = [self._place[name] for name in transmit.route.names()]
        is_multicast = transmit.route.is_multicast
        for packet in transmit.packets:
            kind = self.tally.note(packet, len(targets), is_multicast)
            if self.keep_data and is_multicast and kind in ("data", "order"):
                _, _, _, sender, flags, level = codec.unseal(packet)
                self.data.append((len(targets) + 1, decode_data(packet, sender, flags, level)))
            for target in targets:
                if (source in self.separated) == (target in self.separated):
                    self._push(self.now_ns + FLIGHT_NS, target, packet)

    def _arm(self, place: int) -> None:
        deadline_ns = max(self._deadlines[place], self.now_ns)
        if deadline_ns < self._ticks_at_ns[place]:
            self._ticks_at_ns[place] = deadline_ns
            self._push(deadline_ns, place, None)

    def _push(self, at_ns: int, place: int, packet: bytes | None) -> None:
        self._serial += 1
        heappush(self._heap, (at_ns, place, self._serial, packet))

    # ---- time ------------------------------------------------------------------------------------------------------

    def run(self, duration_ns: int) -> None:
        end_ns = self.now_ns + duration_ns
        while self._heap and self._heap[0][0] <= end_ns:
            self._next()
        self.now_ns = end_ns

    def run_until(self, done: Callable[[], bool], limit_ns: int) -> int:
        """Go on until `done`, which is asked every millisecond; how long it took. More than the limit is an error."""
        start_ns = self.now_ns
        while not done():
            if self.now_ns - start_ns > limit_ns:
                raise AssertionError(f"not done within {limit_ns // MILLISECOND_NS} ms")
            self.run(MILLISECOND_NS)
        return self.now_ns - start_ns

    def _next(self) -> None:
        """All that arrives at one process at one time, or one tick."""
        at_ns, place, _, packet = heappop(self._heap)
        self.now_ns = at_ns
        if packet is None:
            if at_ns < self._ticks_at_ns[place]:
                return
            self._ticks_at_ns[place] = NEVER
            if self._deadlines[place] <= at_ns:
                self.step(place, Tick())
            else:
                self._arm(place)
            return
        datagrams = [packet]
        while self._heap and self._heap[0][:2] == (at_ns, place) and self._heap[0][3] is not None:
            datagrams.append(heappop(self._heap)[3] or b"")
        self.step(place, Receive(datagrams))

    # ---- how things stand ------------------------------------------------------------------------------------------

    def members(self, group: str) -> list[int]:
        """The processes that live and are in the group."""
        return [
            place for place, engine in enumerate(self.engines) if engine is not None and group in self.views[place]
        ]  # fmt: skip

    def agree(self, group: str, members: int) -> bool:
        """Whether the group has so many members, all in one view of just them."""
        views = [self.views[place][group] for place in self.members(group)]
        return len(views) == members and all(
            view.id == views[0].id and len(view.members) == members for view in views
        )  # fmt: skip

    def is_stable(self, group: str) -> bool:
        """Whether everything that was sent to the group is at all members, and they know."""
        return all(
            engine.outstanding(group) == 0
            for place, engine in enumerate(self.engines)
            if engine is not None and group in self.views[place]
        )
