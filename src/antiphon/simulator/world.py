"""The world: engines of many processes in virtual time, on a network that may do anything to a packet.

One heap of things to come, each with its time and a serial number that breaks ties, so a run is a pure function of
its seed and options. Nothing sleeps; time jumps from one thing to the next.

Each process has an application (the workload) that takes deliveries at once and sends in answer or on schedule. What
the engine does not accept waits in the process's backlog and is offered again when the engine is writable.
"""

from heapq import heappop, heappush
from random import Random
from typing import Final, final

from antiphon.engine import Engine
from antiphon.faults import Fault, fly
from antiphon.kernel.effects import NEVER, Delivered, Effects, Event, Writable
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Pause, Receive, Resume, Send, Tick
from antiphon.kernel.options import Options
from antiphon.simulator.coverage import Coverage
from antiphon.stacks.registry import DEFAULT

_ARRIVE: Final = 0
_TICK: Final = 1
_ACT: Final = 2
_PAUSE: Final = 3
_RESUME: Final = 4


class Observer:
    """Sees every event of every process, in the process's own order."""

    def event(self, member: int, now_ns: int, event: Event) -> None:
        raise NotImplementedError

    def said(self, member: int, now_ns: int, payloads: list[bytes], level: int) -> None:
        """The member's application was made to multicast these; they may wait for the engine to accept them."""


class Workload:
    """What the applications do. `begin` schedules; `act` and `delivered` may send and schedule more."""

    def begin(self, world: "World") -> None:
        raise NotImplementedError

    def act(self, world: "World", member: int) -> None:
        """A time that was scheduled for this member has come."""
        raise NotImplementedError

    def delivered(self, world: "World", member: int, event: Delivered) -> None:
        """The member was handed messages."""


@final
class World:
    """One simulated run of one group."""

    def __init__(
        self,
        group: str,
        names: list[str],
        seed: int,
        layers: list[Fault],
        options: Options,
        workload: Workload,
        observer: Observer,
        stack: str = DEFAULT,
    ) -> None:
        self.group = group
        self.stack = stack
        self.names = names
        self.now_ns = 0
        self.sent = 0
        self.delivered = [0] * len(names)
        self.datagrams = 0
        self.datagram_bytes = 0
        self.coverage = Coverage()
        self._workload = workload
        self._observer = observer
        self._layers = layers
        self._random = Random(f"{seed}/network")
        self._heap: list[tuple[int, int, int, int, bytes]] = []
        self._serial = 0
        self._acts = 0
        self._asleep: list[list[tuple[int, int]]] = [[] for _ in names]
        self._tick_at_ns = [NEVER] * len(names)
        self._deadline_ns = [NEVER] * len(names)
        self._backlog: list[list[Send]] = [[] for _ in names]
        self._view = View(1, tuple(ProcessId(name) for name in names))
        self._index = {process: index for index, process in enumerate(self._view.members)}
        self.engines = [Engine(process, Random(f"{seed}/{process}"), options) for process in self._view.members]

    # ---- for workloads and faults ----------------------------------------------------------------------------------

    def send(self, member: int, payloads: list[bytes], level: int) -> None:
        """Multicast from this member, after whatever it was told to send before."""
        self._observer.said(member, self.now_ns, payloads, level)
        self._backlog[member].append(Send(group=self.group, payloads=payloads, level=level))

    def schedule(self, at_ns: int, member: int) -> None:
        """Call the workload's `act` for this member then."""
        self._acts += 1
        self._push(at_ns, member, _ACT, b"")

    def pause_application(self, member: int, from_ns: int, until_ns: int) -> None:
        """The application of this member takes no deliveries for a while."""
        self._push(from_ns, member, _PAUSE, b"")
        self._push(until_ns, member, _RESUME, b"")

    def pause_process(self, member: int, from_ns: int, until_ns: int) -> None:
        """The whole process stands still for a while; its packets and timers wait for it."""
        self._asleep[member].append((from_ns, until_ns))

    # ---- the run ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Everybody joins and the workload makes its plans."""
        for member in range(len(self.names)):
            self._step(member, Join(group=self.group, view=self._view, stack=self.stack))
        self._workload.begin(self)

    def run(self, until_ns: int) -> None:
        """Go on until nothing is left to deliver and all of it is stable, or until this time."""
        while self._heap and self._heap[0][0] <= until_ns and not self.is_quiet():
            self._next()

    def run_through(self, until_ns: int) -> None:
        """Go on until this time."""
        while self._heap and self._heap[0][0] <= until_ns:
            self._next()
        self.now_ns = max(self.now_ns, until_ns)

    def is_quiet(self) -> bool:
        """Whether the workload is done and everything sent is delivered everywhere and known to be stable."""
        if self._acts:
            return False
        for member in range(len(self.names)):
            if self.delivered[member] != self.sent or self._backlog[member]:
                return False
        return all(engine.outstanding(self.group) == 0 for engine in self.engines)

    def _next(self) -> None:
        at_ns, _, member, kind, data = heappop(self._heap)
        for from_ns, until_ns in self._asleep[member]:
            if from_ns <= at_ns < until_ns:
                self._push(until_ns, member, kind, data)
                return
        self.now_ns = at_ns
        if kind == _ARRIVE:
            self._step(member, Receive([data]))
        elif kind == _TICK:
            self._tick(member)
        elif kind == _ACT:
            self._acts -= 1
            self._workload.act(self, member)
            self._offer(member)
        elif kind == _PAUSE:
            self._step(member, Pause(self.group))
        else:
            self._step(member, Resume(self.group))

    def _tick(self, member: int) -> None:
        self._tick_at_ns[member] = NEVER
        if self._deadline_ns[member] <= self.now_ns:
            self._step(member, Tick())
        else:
            self._arm(member)

    def _step(self, member: int, input: Input) -> None:
        self._carry_out(member, self.engines[member].step(input, self.now_ns))
        self._offer(member)

    def _offer(self, member: int) -> None:
        """Offer the backlog to the engine, until it is empty or the engine is full."""
        backlog = self._backlog[member]
        while backlog:
            offer = backlog[0]
            effects = self.engines[member].step(offer, self.now_ns)
            taken = effects.accepted
            self.sent += taken
            if taken == len(offer.payloads):
                backlog.pop(0)
            else:
                backlog[0] = Send(group=self.group, payloads=offer.payloads[taken:], level=offer.level)
            self._carry_out(member, effects)
            if taken < len(offer.payloads) and not _has_writable(effects):
                return

    def _carry_out(self, member: int, effects: Effects) -> None:
        for event in effects.events:
            self._observer.event(member, self.now_ns, event)
            if isinstance(event, Delivered):
                self.delivered[member] += len(event.payloads)
                self._workload.delivered(self, member, event)
        for transmit in effects.transmits:
            for packet in transmit.packets:
                self.coverage.packet(packet, transmit.destination is not None)
            if transmit.destination is None:
                for packet in transmit.packets:
                    for other in range(len(self.names)):
                        if other != member:
                            self._fly(member, other, packet)
            else:
                other = self._index[transmit.destination]
                for packet in transmit.packets:
                    self._fly(member, other, packet)
        self._deadline_ns[member] = effects.deadline_ns
        self._arm(member)

    def _fly(self, source: int, destination: int, packet: bytes) -> None:
        self.datagrams += 1
        self.datagram_bytes += len(packet)
        flights = fly(self._layers, self._random, self.now_ns, self.names[source], self.names[destination], packet)
        for delay_ns, data in flights:
            self._push(self.now_ns + delay_ns, destination, _ARRIVE, data)

    def _arm(self, member: int) -> None:
        deadline_ns = max(self._deadline_ns[member], self.now_ns)
        if deadline_ns < self._tick_at_ns[member]:
            self._tick_at_ns[member] = deadline_ns
            self._push(deadline_ns, member, _TICK, b"")

    def _push(self, at_ns: int, member: int, kind: int, data: bytes) -> None:
        self._serial += 1
        heappush(self._heap, (at_ns, self._serial, member, kind, data))


def _has_writable(effects: Effects) -> bool:
    return any(isinstance(event, Writable) for event in effects.events)
