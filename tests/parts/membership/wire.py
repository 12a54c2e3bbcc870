"""Engines of one group on a table, by address, so that two of them may bear one name."""

from heapq import heappop, heappush
from random import Random

from antiphon.engine import Engine
from antiphon.kernel.effects import Delivered, Effects, Ended, Installed
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Receive, Send, Tick
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import MILLISECOND_NS, Options

GROUP = "g"
SECOND_NS = 1000 * MILLISECOND_NS
SECONDS = 2 * Options().silence_ns_max // SECOND_NS
"""For how long p2 goes on sending after a founder has begun again."""


class Wire:
    """Engines by address, so that two of them may bear one name; each packet takes a millisecond."""

    def __init__(self, stack: str) -> None:
        self.stack = stack
        self.now_ns = 0
        self.engines: dict[str, Engine] = {}
        self.views: dict[str, list[View]] = {}
        self.ended: dict[str, Ended] = {}
        self.delivered: dict[str, list[bytes]] = {}
        self._deadlines_ns: dict[str, int] = {}
        self._flights: list[tuple[int, int, str, list[bytes]]] = []
        self._serial = 0
        self.late: Random | None = None
        """Set: each packet comes twice, the second time up to two seconds late."""

    def start(self, address: str, process: ProcessId, view: View | None, contacts: tuple[str, ...] = ()) -> None:
        self.engines[address] = Engine(process, Random(0), Options())
        self.views[address] = []
        self.delivered[address] = []
        join = Join(group=GROUP, view=view, stack=self.stack, policy="primary", address=address, contacts=contacts)
        self.step(address, join)

    def kill(self, address: str) -> None:
        del self.engines[address]
        del self._deadlines_ns[address]

    def say(self, address: str, payload: bytes) -> None:
        self.step(address, Send(group=GROUP, payloads=[payload], level=CAUSAL))

    def step(self, address: str, input: Input) -> None:
        effects = self.engines[address].step(input, self.now_ns)
        self._deadlines_ns[address] = effects.deadline_ns
        for event in effects.events:
            if isinstance(event, Installed):
                self.views[address].append(event.view)
            elif isinstance(event, Ended):
                self.ended[address] = event
            elif isinstance(event, Delivered):
                self.delivered[address].extend(event.payloads)
        self._transmit(address, effects)

    def _transmit(self, address: str, effects: Effects) -> None:
        for transmit in effects.transmits:
            for target in transmit.route.names():
                if target != address:
                    self._serial += 1
                    flight = (self.now_ns + MILLISECOND_NS, self._serial, target, transmit.packets)
                    heappush(self._flights, flight)
                    if self.late is not None:
                        late_ns = self.now_ns + self.late.randrange(2 * SECOND_NS)
                        heappush(self._flights, (late_ns, self._serial, target, transmit.packets))

    def run(self, for_ns: int) -> None:
        until_ns = self.now_ns + for_ns
        while True:
            due_ns, address = min((at_ns, address) for address, at_ns in self._deadlines_ns.items())
            if self._flights and self._flights[0][0] <= due_ns:
                due_ns, _, address, packets = heappop(self._flights)
                if due_ns > until_ns:
                    heappush(self._flights, (due_ns, 0, address, packets))
                    break
                self.now_ns = due_ns
                if address in self.engines:
                    self.step(address, Receive(list(packets)))
            elif due_ns > until_ns:
                break
            else:
                self.now_ns = max(self.now_ns, due_ns)
                self.step(address, Tick())
        self.now_ns = until_ns


def founded(stack: str, members: int = 3, talker: str = "") -> tuple[Wire, View]:
    """A group of p1, p2…, at addresses a1, a2…, that has been talking for a while; or only one of them has."""
    wire = Wire(stack)
    processes = tuple(ProcessId(f"p{number}") for number in range(1, members + 1))
    view = View(1, processes, tuple(f"a{number}" for number in range(1, members + 1)))
    for process, address in zip(view.members, view.addresses, strict=True):
        wire.start(address, process, view)
    for number in range(20):
        wire.say(talker or view.addresses[number % members], b"before")
        wire.run(100 * MILLISECOND_NS)
    return wire, view


def begins_again(wire: Wire, view: View, founder: str) -> None:
    """A founder is killed and started at once, with the same incarnation, while p2 goes on sending if it can."""
    wire.kill(founder)
    wire.run(100 * MILLISECOND_NS)
    wire.start(founder, view.members[view.addresses.index(founder)], view)
    for _ in range(SECONDS):
        if "a2" not in wire.ended:
            wire.say("a2", b"again")
        wire.run(SECOND_NS)
