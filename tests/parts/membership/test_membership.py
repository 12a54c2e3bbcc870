"""Several incarnations of one process at a time: the later takes the place of the earlier, in one view, and once."""

from heapq import heappop, heappush
from random import Random

import pytest

from antiphon.engine import Engine
from antiphon.kernel.effects import Delivered, Effects, Ended, Installed
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Receive, Send, Tick
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import MILLISECOND_NS, Options

GROUP = "g"
SECOND_NS = 1000 * MILLISECOND_NS
STACKS = ("vector", "conversation")


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


def founded(stack: str, members: int = 3) -> tuple[Wire, View]:
    """A group of p1, p2…, at addresses a1, a2…, that has been talking for a while."""
    wire = Wire(stack)
    processes = tuple(ProcessId(f"p{number}") for number in range(1, members + 1))
    view = View(1, processes, tuple(f"a{number}" for number in range(1, members + 1)))
    for process, address in zip(view.members, view.addresses, strict=True):
        wire.start(address, process, view)
    for number in range(20):
        wire.say(view.addresses[number % members], b"before")
        wire.run(100 * MILLISECOND_NS)
    return wire, view


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("old", ["a1", "a3"])
def test_a_later_incarnation_takes_the_place_of_one_that_lives_in_one_view(stack: str, old: str) -> None:
    wire, view = founded(stack)
    name = view.members[view.addresses.index(old)].name
    wire.start("a9", ProcessId(name, 2), None, ("a2",))
    wire.run(10 * SECOND_NS)
    assert len(wire.views["a2"]) == 2, "one change of view"
    assert set(wire.views["a2"][-1].members) == {*view.members, ProcessId(name, 2)} - {ProcessId(name)}
    assert wire.ended[old].excluded, "the earlier incarnation has been told"
    wire.say("a9", b"after")
    wire.run(SECOND_NS)
    assert wire.delivered["a2"][-1] == b"after"


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("members", [1, 2])
def test_who_is_needed_for_a_majority_is_not_succeeded_while_it_lives(stack: str, members: int) -> None:
    wire, view = founded(stack, members)
    wire.start("a9", ProcessId("p1", 2), None, ("a1",))
    wire.run(15 * SECOND_NS)
    assert wire.views["a1"] == [view]
    wire.say("a1", b"after")
    wire.run(SECOND_NS)
    assert wire.delivered[view.addresses[-1]][-1] == b"after"


@pytest.mark.parametrize("stack", STACKS)
def test_two_processes_that_chase_each_other_make_few_views(stack: str) -> None:
    """Each comes back as a later incarnation as soon as it is out."""
    wire, _ = founded(stack)
    began_ns = wire.now_ns
    address, incarnation = "a9", 2
    wire.start(address, ProcessId("p3", incarnation), None, ("a1", "a2"))
    out = "a3"
    while wire.now_ns < began_ns + 20 * SECOND_NS:
        wire.run(10 * MILLISECOND_NS)
        if out in wire.ended:
            del wire.ended[out]
            incarnation += 1
            wire.start(out, ProcessId("p3", incarnation), None, ("a1", "a2"))
            out, address = address, out
    assert 5 < len(wire.views["a1"]) <= 2 + 20
    assert not wire.ended, "and nobody else suffers"


@pytest.mark.parametrize("stack", STACKS)
def test_a_second_process_with_the_same_incarnation_is_refused_and_told_why(stack: str) -> None:
    wire, _ = founded(stack)
    wire.start("a9", ProcessId("p3"), None, ("a2",))
    wire.run(3 * SECOND_NS)
    assert wire.ended["a9"].excluded
    assert "choose a higher incarnation" in wire.ended["a9"].reason
    assert len(wire.views["a1"]) == 1, "the members do not even notice"


@pytest.mark.parametrize("stack", STACKS)
def test_an_earlier_incarnation_of_a_member_is_refused(stack: str) -> None:
    wire, _ = founded(stack)
    wire.start("a9", ProcessId("p3", 5), None, ("a2",))
    wire.run(3 * SECOND_NS)
    wire.start("a8", ProcessId("p3", 4), None, ("a2",))
    wire.run(SECOND_NS)
    assert "choose a higher incarnation" in wire.ended["a8"].reason


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("founder", ["a1", "a3"])
def test_a_founder_that_begins_again_with_the_same_incarnation_is_left_behind(stack: str, founder: str) -> None:
    """It lacks what its former life had, and cannot get it any more: it is heard, and does not acknowledge."""
    wire, view = founded(stack)
    wire.kill(founder)
    wire.run(100 * MILLISECOND_NS)
    wire.start(founder, view.members[view.addresses.index(founder)], view)
    for _ in range(2 * Options().silence_ns_max // SECOND_NS):
        wire.say("a2", b"again")
        wire.run(SECOND_NS)
    assert founder in wire.ended
    others = tuple(member for member, address in zip(view.members, view.addresses, strict=True) if address != founder)
    assert wire.views["a2"][-1].members == others
    assert wire.delivered["a2"].count(b"again") >= 2 * Options().silence_ns_max // SECOND_NS - 1
