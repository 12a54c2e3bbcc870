"""The driver: one timer that follows the engine's deadlines, and effects carried out in their order."""

from random import Random
from typing import Any

from antiphon.engine import Engine
from antiphon.kernel.effects import (
    NEVER,
    Effects,
    Ended,
    Installed,
    MajorityLost,
    Route,
    Sent,
    Suspected,
    Transmit,
    Writable,
)
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join, Receive, Send, Tick
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.runtime.address import SocketAddress
from antiphon.runtime.clock import Clock
from antiphon.runtime.driver import Driver
from tests.runtime.cluster import run, until

ALICE = ProcessId("alice")
BOB = ProcessId("bob")
BOBS: SocketAddress = ("127.0.0.1", 9)
TO_BOB = Route((BOB,), ("127.0.0.1:9",))


class Script:
    """An engine that returns the effects it was given, one after the other, and notes what came in when."""

    def __init__(self, *script: Effects) -> None:
        self.script = list(script)
        self.inputs: list[tuple[object, int]] = []

    def step(self, input: object, now_ns: int) -> Effects:
        self.inputs.append((input, now_ns))
        return self.script.pop(0) if self.script else Effects()


class Notes:
    """Transport, tap and member in one: notes who was told what, in which order."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    @property
    def recorder(self) -> "Notes":
        return self

    def depart(self, *_: Any) -> None:
        self.notes.append("record")

    def send(self, *arguments: Any) -> None:
        self.notes.append(f"transmit to {arguments[1]}")

    def outstanding(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.notes.append(name.removeprefix("_"))


def make(engine: Any, notes: Any) -> Driver:
    driver = Driver(ALICE, engine, Clock(), notes)
    driver.transport = notes
    return driver


def due(deadline_ns: int) -> Effects:
    effects = Effects()
    effects.deadline_ns = deadline_ns
    return effects


def test_a_deadline_that_moves_is_met_where_it_moved_to() -> None:
    async def test() -> None:
        start_ns = Clock().now_ns()
        for first_ms, second_ms in ((5, 30), (30, 5), (5, 5)):
            first_ns = start_ns + first_ms * MILLISECOND_NS
            second_ns = Clock().now_ns() + second_ms * MILLISECOND_NS
            engine = Script(due(first_ns), due(second_ns))
            driver = make(engine, Notes())
            driver.receive([b""])
            driver.receive([b""])
            await until(lambda engine=engine: len(engine.inputs) > 2)  # type: ignore[misc]
            assert [type(input) for input, _ in engine.inputs] == [Receive, Receive, Tick]
            assert engine.inputs[2][1] >= second_ns
            driver.stop(None)

    run(test)


def test_no_deadline_no_tick() -> None:
    async def test() -> None:
        now_ns = Clock().now_ns()
        engine = Script(due(now_ns + 5 * MILLISECOND_NS), due(NEVER))
        driver = make(engine, Notes())
        driver.receive([b""])
        driver.receive([b""])
        later = Script(due(now_ns + 20 * MILLISECOND_NS))
        make(later, Notes()).receive([b""])
        await until(lambda: len(later.inputs) == 2)
        assert [type(input) for input, _ in engine.inputs] == [Receive, Receive]

    run(test)


def test_a_send_is_recorded_before_it_leaves() -> None:
    async def test() -> None:
        effects = Effects()
        effects.transmits = [
            Transmit(TO_BOB, [b"all"]),
            Transmit(TO_BOB, [b"one"]),
        ]
        effects.events = [Writable("g"), Sent("g", 1, 1, 1, 2, 3)]
        notes = Notes()
        view = View(1, (ALICE, BOB))
        installed = Effects()
        installed.events = [Installed("g", view, view.members)]
        driver = make(Script(installed, effects), notes)
        driver.join(Join(group="g", policy="static", view=view), notes)
        driver.receive([b""])
        assert notes.notes[:3] == ["start", "view", "install"]
        assert notes.notes[3:] == ["unblock", "record", f"transmit to {[BOBS]}", f"transmit to {[BOBS]}"]

    run(test)


def test_unrecorded_what_is_sent_leaves_first_and_what_answers_a_packet_last() -> None:
    async def test() -> None:
        notes = Notes()
        view = View(1, (ALICE, BOB))
        installed = Effects()
        installed.events = [Installed("g", view, view.members)]
        script = [installed]
        for _ in range(2):
            script.append(Effects())
            script[-1].transmits = [Transmit(TO_BOB, [b"all"])]
            script[-1].events = [Writable("g")]
        driver = Driver(ALICE, Script(*script), Clock(), None)  # type: ignore[arg-type]
        driver.transport = notes
        driver.join(Join(group="g", policy="static", view=view), notes)
        driver.step(Send(group="g", payloads=[b"x"], level=2))
        driver.receive([b""])
        transmitted = f"transmit to {[BOBS]}"
        assert notes.notes == ["install", transmitted, "unblock", "unblock", transmitted]

    run(test)


def test_what_follows_a_step_may_step_itself() -> None:
    async def test() -> None:
        notes = Notes()
        engine = Script()
        driver = make(engine, notes)
        called: list[str] = []

        def call(name: str) -> None:
            called.append(name)
            driver.receive([b""])

        def step(input: object, now_ns: int) -> Effects:
            if not called:
                assert driver.afterwards(lambda: call("first"))
                assert driver.afterwards(lambda: call("second"))
            return Script.step(engine, input, now_ns)

        engine.step = step  # type: ignore[method-assign]
        assert not driver.afterwards(lambda: call("never"))
        driver.receive([b""])
        assert called == ["first", "second"]
        assert len(engine.inputs) == 3

    run(test)


def ending(*, excluded: bool) -> Effects:
    effects = Effects()
    effects.events = [Ended("g", excluded), Writable("g")]
    effects.transmits = [Transmit(TO_BOB, [b"last words"])]
    return effects


def talking() -> Effects:
    effects = Effects()
    effects.events = [Writable("g"), MajorityLost("g"), Suspected("g", 1, BOB)]
    effects.transmits = [
        Transmit(TO_BOB, [b"more"]),
        Transmit(Route((), ("127.0.0.1:9",)), [b"more"]),
    ]
    return effects


def test_a_group_that_is_over_has_its_last_words_and_no_more() -> None:
    async def test() -> None:
        for excluded, last in ((False, "leave"), (True, "crash")):
            view = View(1, (ALICE, BOB), ("127.0.0.1:8", "127.0.0.1:9"))
            installed = Effects()
            installed.events = [Installed("g", view, view.members)]
            notes = Notes()
            driver = make(Script(installed, talking(), ending(excluded=excluded), talking()), notes)
            driver.join(Join(group="g", policy="static", view=view), notes)
            notes.notes.clear()
            driver.receive([b""])
            assert notes.notes == ["unblock", "stalled", "stall", "suspect", *[f"transmit to {[BOBS]}"] * 2]
            notes.notes.clear()
            driver.receive([b""])
            assert notes.notes == ["note" if excluded else "left", "part", f"transmit to {[BOBS]}"]
            notes.notes.clear()
            driver.receive([b""])
            assert notes.notes == [f"transmit to {[BOBS]}"] * 2  # the engine may still answer others
            notes.notes.clear()
            driver.stop("closed")
            assert notes.notes == ["close", last]

    run(test)


def test_what_follows_a_step_comes_after_it() -> None:
    async def test() -> None:
        notes = Notes()
        driver = make(Script(), notes)
        engine = Script()
        driver.engine = engine  # type: ignore[assignment]
        driver.follow(Tick())
        assert engine.inputs == []
        driver.step(Receive([]))
        assert [type(input) for input, _ in engine.inputs] == [Tick, Receive]

    run(test)


def test_a_stopped_driver_does_nothing_more() -> None:
    async def test() -> None:
        notes = Notes()
        driver = make(Engine(ALICE, Random(1), Options()), notes)
        driver.stop("closed")
        driver.stop("closed")
        driver.receive([b"x"])
        assert notes.notes == ["close", "stop"]

    run(test)
