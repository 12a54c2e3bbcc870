"""Simulated disks and links, by themselves and under a stack that uses them."""

from collections.abc import Iterator
from random import Random

import pytest

from antiphon import _build
from antiphon.faults import Delay, Fault, Loss, Partition
from antiphon.history.log import MemoryLog
from antiphon.kernel.calls import LINK_BYTES_MAX, Dial, Frames, Hang, Listen, Load, Store, Trim, token_of
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.effects import NEVER, Effects, Installed
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Join
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.outcomes import (
    ApplicationAnswer,
    CallOutcome,
    LinkDown,
    LinkFrames,
    LinkRoom,
    LinkUp,
    Loaded,
    Stored,
)
from antiphon.kernel.policies import POLICIES, PRIMARY
from antiphon.parts.member import Member
from antiphon.parts.membership.phases import NORMAL
from antiphon.simulator.actions import CRASH, PAUSE, POWER_LOSS, START, Action
from antiphon.simulator.disk import SimulatedDisk
from antiphon.simulator.links import SimulatedLinks
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.world import World
from antiphon.stacks.registry import register, unregister
from antiphon.stacks.stack import Capabilities, Stack

if _build.is_compiled():
    pytest.skip("plain Python cannot inherit from a compiled core", allow_module_level=True)

A, B = ProcessId("a"), ProcessId("b")
STACK = 210
LISTEN, DIAL = token_of(STACK, 1), token_of(STACK, 2)


# ---- disks -----------------------------------------------------------------------------------------------------------


def test_a_power_loss_keeps_what_was_synced_and_all_that_was_written_before_it() -> None:
    disk = SimulatedDisk()
    disk.write("x", [b"1"])
    second = disk.write("y", [b"2", b"3"])
    disk.write("x", [b"4"])
    disk.sync(second)
    assert (disk.read("x"), disk.read("y"), disk.read("z")) == ([b"1", b"4"], [b"2", b"3"], [])
    disk.lose_power()
    assert (disk.read("x"), disk.read("y")) == ([b"1"], [b"2", b"3"])
    disk.sync(3)
    disk.write("x", [b"5"])
    disk.lose_power()
    assert disk.read("x") == [b"1"]


def test_a_log_is_trimmed_from_its_front() -> None:
    disk = SimulatedDisk()
    disk.sync(disk.write("x", [b"1", b"2", b"3"]))
    disk.trim("x", 2)
    disk.write("x", [b"4"])
    assert disk.read("x") == [b"3", b"4"]
    disk.lose_power()
    assert disk.read("x") == [b"3"]


# ---- links -----------------------------------------------------------------------------------------------------------


class Net:
    """Two processes and their links, without a world; `told` is what each was told, in order."""

    def __init__(self, layers: list[Fault], seed: int) -> None:
        self.links = SimulatedLinks(layers, seed)
        self.now_ns = 0
        self.told: dict[ProcessId, list[CallOutcome]] = {A: [], B: []}
        self._events: list[tuple[int, int, int, tuple[ProcessId, CallOutcome] | None]] = []
        self._serial = 0

    def run(self, until_ns: int) -> None:
        while True:
            for at_ns, timer in self.links.timers:
                self._serial += 1
                self._events.append((at_ns, self._serial, timer, None))
            for at_ns, process, outcome in self.links.outcomes:
                self._serial += 1
                self._events.append((at_ns, self._serial, 0, (process, outcome)))
            self.links.timers, self.links.outcomes = [], []
            self._events.sort(key=lambda event: event[:2])
            if not self._events or self._events[0][0] > until_ns:
                self.now_ns = until_ns
                return
            self.now_ns, _, timer, told = self._events.pop(0)
            if told is None:
                self.links.advance(self.now_ns, timer)
            else:
                self.told[told[0]].append(told[1])

    def id_of(self, process: ProcessId) -> int:
        return next(outcome.token for outcome in self.told[process] if isinstance(outcome, LinkUp))

    def frames(self, process: ProcessId) -> list[bytes]:
        return [frame for one in self.told[process] if isinstance(one, LinkFrames) for frame in one.frames]


def connected(layers: list[Fault], seed: int = 0) -> Net:
    net = Net(layers, seed)
    net.links.listen(B, LISTEN)
    net.links.dial(0, A, DIAL, B)
    net.run(100 * MILLISECOND_NS)
    return net


DELAY = Delay(MILLISECOND_NS, 5 * MILLISECOND_NS)


def test_both_ends_learn_who_is_at_the_other() -> None:
    net = connected([DELAY])
    (dialled,), (accepted,) = net.told[A], net.told[B]
    assert isinstance(dialled, LinkUp)
    assert isinstance(accepted, LinkUp)
    assert (dialled.token, dialled.identity, dialled.listen) == (DIAL, B, 0)
    assert (accepted.identity, accepted.listen) == (A, LISTEN)


def test_frames_do_not_overtake_the_news_that_the_link_is_up() -> None:
    """The listening end sends as soon as it knows of the link, which the dialling end may not yet."""
    for seed in range(20):
        net = Net([DELAY], seed)
        net.links.listen(B, LISTEN)
        net.links.dial(0, A, DIAL, B)
        while not net.told[B]:
            net.run(net.now_ns + 10_000)
        net.links.send(net.now_ns, B, net.id_of(B), [b"hello"])
        net.run(100 * MILLISECOND_NS)
        assert [type(outcome) for outcome in net.told[A]] == [LinkUp, LinkFrames]


@pytest.mark.parametrize("other", [None, B])
def test_a_link_to_nobody_is_down(other: ProcessId | None) -> None:
    net = Net([DELAY], 0)
    net.links.dial(0, A, DIAL, other)
    net.run(1000 * MILLISECOND_NS)
    assert [type(outcome) for outcome in net.told[A]] == [LinkDown]


@pytest.mark.parametrize("seed", range(60))
def test_what_arrives_is_a_prefix_of_what_was_sent_and_each_end_is_told_once_that_it_is_over(seed: int) -> None:
    random = Random(seed)
    from_ns = random.randrange(2000) * MILLISECOND_NS
    cut = Partition(frozenset("a"), frozenset("b"), from_ns, from_ns + random.randrange(30_000) * MILLISECOND_NS)
    net = connected([DELAY, Loss(random.choice((0.0, 0.3))), cut], seed)
    if not net.told[B]:
        return  # the network lost the call
    sent: dict[ProcessId, list[bytes]] = {A: [], B: []}
    for number in range(200):
        net.run(net.now_ns + random.randrange(20) * MILLISECOND_NS)
        sender = random.choice((A, B))
        frame = number.to_bytes(2, "big") * random.randrange(1, 5)
        sent[sender].append(frame)
        net.links.send(net.now_ns, sender, net.id_of(sender), [frame])
    how = random.choice(("hang", "crash", "nothing"))
    if how == "hang":
        net.links.hang(net.now_ns, A, net.id_of(A))
    elif how == "crash":
        net.links.end_process(net.now_ns, A)
    net.run(net.now_ns + 100_000 * MILLISECOND_NS)
    for sender, receiver in ((A, B), (B, A)):
        arrived = net.frames(receiver)
        assert arrived == sent[sender][: len(arrived)]
    downs = [[type(one) for one in net.told[process]].count(LinkDown) for process in (A, B)]
    assert downs in ([0, 1], [1, 1]) if how != "nothing" else downs in ([0, 0], [1, 1])
    last = net.told[B][-1]
    assert isinstance(last, LinkDown) == bool(downs[1])
    if isinstance(last, LinkDown) and how == "hang" and "hung up" in last.reason:
        assert net.frames(B) == sent[A]
    if downs == [0, 0]:
        assert (net.frames(B), net.frames(A)) == (sent[A], sent[B])


def test_a_full_link_says_when_it_has_room() -> None:
    net = connected([DELAY])
    net.links.send(net.now_ns, A, DIAL, [bytes(LINK_BYTES_MAX)])
    net.run(net.now_ns + 100 * MILLISECOND_NS)
    assert isinstance(net.told[A][-1], LinkRoom)


# ---- a stack that uses them ------------------------------------------------------------------------------------------

TOLD: dict[str, list[CallOutcome]] = {}


class DeviceMember(Member):
    """Is in its first view, or waits; does nothing."""

    def __init__(self, join: Join) -> None:
        super().__init__(join.group)
        self._join = join

    def start(self, contacts: tuple[str, ...], effects: Effects, now_ns: int) -> None:
        if self._join.view is not None:
            effects.events.append(Installed(self.group, self._join.view, self._join.view.members))

    def finish(self, effects: Effects, now_ns: int) -> None:
        self.unfinished = False

    def deadline_ns(self) -> int:
        return NEVER

    def outstanding(self) -> int:
        return 0

    def held(self) -> int:
        return 0

    def phase(self) -> int:
        return NORMAL


class DeviceStack(Stack):
    """Loads its log at the start, then stores, listens, dials the first process and asks its application."""

    def __init__(self, process: ProcessId, random: Random, options: Options) -> None:
        super().__init__(OFFERS, process, random, options)
        self._told = TOLD.setdefault(repr(process), [])
        self._begun = False

    def make_member(self, join: Join, last_number: int) -> Member:
        return DeviceMember(join)

    def end_step(self, effects: Effects, now_ns: int) -> None:
        if not self._begun:
            self._begun = True
            effects.call(Load("log", self.new_token()))
            effects.call(Store("log", [repr(self._process).encode(), b"second"], self.new_token()))
            effects.call(Trim("log", 0))
            effects.call(Listen(self.new_token()))
            if self._process.name != "p1":
                effects.call(Dial(self.new_token(), "p1"))
            self.ask("g", b"why", 1000 * MILLISECOND_NS, effects, now_ns)

    def outcome(self, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        self._told.append(outcome)
        if isinstance(outcome, LinkUp) and not outcome.listen:
            effects.call(Frames(outcome.token, [b"one", b"two"]))
            effects.call(Hang(outcome.token))


OFFERS = Capabilities(
    name="devices", number=STACK, levels=("causal",), policies=POLICIES, packet_kinds=(), promised=()
)  # fmt: skip


@pytest.fixture(autouse=True)
def device_stack() -> Iterator[None]:
    TOLD.clear()
    register(OFFERS, DeviceStack)
    yield
    unregister(OFFERS.name)


def play(*actions: Action, until_ms: int = 1000) -> World:
    names = ["p1", "p2"]
    script = Script(
        run="r",
        seed=0,
        policy=PRIMARY,
        processes=names,
        groups=[ScriptedGroup("g", names, names)],
        layers=[DELAY],
        options=Options(),
        domain=CausalityDomain(),
        stack=OFFERS.name,
    )
    for action in actions:
        script.add(action)
    world = World(script, make_log)
    world.begin()
    world.run_through(until_ms * MILLISECOND_NS)
    return world


def make_log(process: str, incarnation: int) -> MemoryLog:
    return MemoryLog(run="r", process=process, incarnation=incarnation)


def loaded(process: str) -> list[bytes]:
    return next(outcome.records for outcome in TOLD[process] if isinstance(outcome, Loaded))


def kinds(process: str) -> list[type[CallOutcome]]:
    return sorted({type(outcome) for outcome in TOLD[process]}, key=str)


def test_a_stack_in_the_world_has_a_disk_links_and_an_application_that_answers() -> None:
    play()
    assert loaded("p1/1") == []
    assert kinds("p2/1") == [ApplicationAnswer, LinkUp, Loaded, Stored]
    assert kinds("p1/1") == [ApplicationAnswer, LinkDown, LinkFrames, LinkUp, Loaded, Stored]
    assert [one.frames for one in TOLD["p1/1"] if isinstance(one, LinkFrames)] == [[b"one", b"two"]]
    assert [one.answer for one in TOLD["p1/1"] if isinstance(one, ApplicationAnswer)] == [b"why"]


def test_a_disk_outlives_a_crash_and_power_losses_keep_what_was_synced() -> None:
    """The first incarnation crashes before anything is synced; the second loses power before, the third after that."""
    us = 1000
    play(
        Action(CRASH, 10 * us, "p1"),
        Action(START, 100 * us, "p1"),
        Action(POWER_LOSS, 110 * us, "p1"),
        Action(START, 200 * MILLISECOND_NS, "p1"),
        Action(POWER_LOSS, 300 * MILLISECOND_NS, "p1"),
        Action(START, 400 * MILLISECOND_NS, "p1"),
    )
    assert loaded("p1/3") == []
    assert loaded("p1/4") == [b"p1/3", b"second"]
    assert "p1/2" not in TOLD or TOLD["p1/2"] == []


def test_what_was_written_survives_a_crash() -> None:
    play(Action(CRASH, 10_000, "p1"), Action(START, 100_000, "p1"))
    assert loaded("p1/2") == [b"p1/1", b"second"]


def test_what_becomes_of_calls_waits_while_the_process_is_paused() -> None:
    play(Action(PAUSE, 1, "p1", until_ns=500 * MILLISECOND_NS), until_ms=499)
    assert TOLD["p1/1"] == []
    TOLD.clear()
    play(Action(PAUSE, 1, "p1", until_ns=500 * MILLISECOND_NS), until_ms=600)
    assert loaded("p1/1") == []
