"""Engines on a table: packets lie in the open and arrive when the test says so.

table = Table(3)
table.send(0, b"a")            # packets for 1 and 2 now lie on the table
table.pass_on(0, 1)            # everything from 0 to 1 arrives
table.log[1]                   # what 1 has delivered: ["p1#1"]
"""

from random import Random

from antiphon.engine import Engine
from antiphon.kernel.codec import DATA, unseal
from antiphon.kernel.effects import Delivered, Effects, Event, Writable
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Receive, Send, Tick
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import Options

GROUP = "g"


class Table:
    """One group of `members` engines, named p1, p2…; time stands still until `wait`."""

    def __init__(self, members: int, options: Options | None = None, policy: str = "static") -> None:
        names = [f"p{number}" for number in range(1, members + 1)]
        self.view = View(1, tuple(map(ProcessId, names)), tuple(names))
        self.now_ns = 0
        self.links: dict[tuple[int, int], list[bytes]] = {}
        self.log: list[list[str]] = [[] for _ in range(members)]
        self.payloads: list[list[bytes]] = [[] for _ in range(members)]
        self.events: list[list[Event]] = [[] for _ in range(members)]
        self.deadline_ns = [0] * members
        self.engines = [Engine(process, Random(0), options or Options()) for process in self.view.members]
        for member in range(members):
            self.step(member, Join(group=GROUP, view=self.view, policy=policy, address=names[member]))

    def step(self, member: int, input: Input) -> Effects:
        effects = self.engines[member].step(input, self.now_ns)
        self.deadline_ns[member] = effects.deadline_ns
        for event in effects.events:
            self.events[member].append(event)
            if isinstance(event, Delivered):
                self.log[member] += [f"{event.sender.name}#{event.number + i}" for i in range(len(event.payloads))]
                self.payloads[member] += event.payloads
        for transmit in effects.transmits:
            if transmit.destination is None:
                others = [other for other in range(len(self.engines)) if other != member]
            else:
                others = [rank for rank in (self.view.rank(transmit.destination),) if rank >= 0]
            for other in others:
                self.links.setdefault((member, other), []).extend(transmit.packets)
        return effects

    def send(self, member: int, *payloads: bytes, level: int = CAUSAL) -> Effects:
        return self.step(member, Send(group=GROUP, payloads=list(payloads), level=level))

    def take(self, source: int, destination: int) -> list[bytes]:
        """Take everything off a link."""
        return self.links.pop((source, destination), [])

    def take_data(self, source: int, destination: int) -> list[bytes]:
        """Take everything off a link, and keep the data packets only."""
        return [packet for packet in self.take(source, destination) if unseal(packet)[0] == DATA]

    def arrive(self, destination: int, *packets: bytes) -> Effects:
        return self.step(destination, Receive(list(packets)))

    def pass_on(self, source: int, destination: int) -> None:
        """Everything that lies on a link arrives, in order."""
        for packet in self.take(source, destination):
            self.arrive(destination, packet)

    def drop_all(self) -> None:
        self.links.clear()

    def wait(self, duration_ns: int) -> None:
        """Time passes; timers fire; what they send lies on the table."""
        end_ns = self.now_ns + duration_ns
        while True:
            due_ns = min(self.deadline_ns)
            if due_ns > end_ns:
                break
            self.now_ns = max(self.now_ns, due_ns)
            for member in range(len(self.engines)):
                if self.deadline_ns[member] <= self.now_ns:
                    self.step(member, Tick())
        self.now_ns = end_ns

    def settle(self, rounds: int = 40) -> None:
        """Let everything arrive and every timer fire, until nothing moves or the rounds are over."""
        for _ in range(rounds):
            for source, destination in list(self.links):
                self.pass_on(source, destination)
            if not self.links and all(engine.outstanding(GROUP) == 0 for engine in self.engines):
                return
            self.wait(20_000_000)

    def statistics(self, member: int) -> dict[str, int]:
        return self.engines[member].statistics()

    def writable(self, member: int) -> bool:
        return any(isinstance(event, Writable) for event in self.events[member])
