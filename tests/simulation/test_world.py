"""The world itself: pauses that overlap, a backlog that the engine does not take at once."""

from antiphon.faults import Delay
from antiphon.history.log import MemoryLog
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import STATIC
from antiphon.simulator.actions import PAUSE, PAUSE_APPLICATION, SEND, Action
from antiphon.simulator.event_heap import resume_ns
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.script_run import ScriptRun, run_script

NAMES = ["p1", "p2", "p3"]


def run(*actions: Action, options: Options | None = None) -> ScriptRun:
    """What three members that stay make of these actions."""
    script = Script(
        run="r",
        seed=0,
        policy=STATIC,
        processes=NAMES,
        groups=[ScriptedGroup("g", NAMES, NAMES)],
        layers=[Delay(MILLISECOND_NS, 0)],
        options=options or Options(),
        domain=CausalityDomain(),
        heal_ns=200 * MILLISECOND_NS,
    )
    for action in actions:
        script.add(action)
    return run_script(script)


def deliveries(log: MemoryLog) -> list[int]:
    """When messages were delivered, in milliseconds."""
    return [row.time_ns // MILLISECOND_NS for row in log.rows() if row.kind == "deliver" for _ in range(row.count or 0)]


def pause(from_ms: int, until_ms: int) -> Action:
    return Action(PAUSE, from_ms * MILLISECOND_NS, "p2", until_ns=until_ms * MILLISECOND_NS)


def pause_application(from_ms: int, until_ms: int) -> Action:
    return Action(PAUSE_APPLICATION, from_ms * MILLISECOND_NS, "p2", "g", until_ns=until_ms * MILLISECOND_NS)


def send(at_ms: int, count: int = 1) -> Action:
    return Action(SEND, at_ms * MILLISECOND_NS, "p1", "g", "causal", [100] * count)


def test_a_process_goes_on_when_the_last_of_its_pauses_has_ended() -> None:
    pauses = [(50, 80), (10, 30), (20, 55)]
    assert [resume_ns(pauses, at_ns) for at_ns in (0, 10, 29, 30, 54, 79, 80)] == [0, 80, 80, 80, 80, 80, 80]


def test_what_was_due_in_overlapping_pauses_happens_in_the_order_in_which_it_was_due() -> None:
    """The application pauses at 30 and goes on at 70, both while its process is paused, listed in either order."""
    for pauses in ((pause(20, 100), pause(10, 50)), (pause(10, 50), pause(20, 100)), (pause(10, 70), pause(60, 100))):
        result = run(*pauses, pause_application(30, 70), send(120))
        assert (result.mistake, result.restless) == ("", [])
        assert deliveries(result.logs[1]) == [121]


def test_what_was_due_in_a_pause_comes_before_what_is_due_at_its_end() -> None:
    result = run(pause(10, 100), pause_application(30, 100), send(120))
    assert deliveries(result.logs[1]) == [121]


def test_an_application_goes_on_when_the_last_of_its_pauses_has_ended() -> None:
    result = run(pause_application(10, 50), pause_application(20, 100), send(30), send(120))
    assert deliveries(result.logs[1]) == [100, 121]


def test_what_the_engine_has_no_room_for_is_offered_again() -> None:
    result = run(send(10, 50), options=Options(pending_bytes_max=500, window_packets=1))
    assert (result.mistake, result.restless) == ("", [])
    assert [len(deliveries(log)) for log in result.logs] == [50, 50, 50]
