"""The engine: groups that are over are forgotten, and can be joined again; streams are paused as a whole."""

from random import Random

import pytest

from antiphon.engine import Engine
from antiphon.kernel.effects import Delivered, Flushed, Sent
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Create, Flush, Forget, Join, Leave, Pause, Resume, Send, Tick
from antiphon.kernel.levels import AGREED
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.registry import founding_stacks

ME = ProcessId("me")


def engine() -> Engine:
    return Engine(ME, Random(1), Options())


def send(engine: Engine, group: str, now_ns: int) -> list[int]:
    """Send two messages; the numbers that they got."""
    effects = engine.step(Send(group=group, payloads=[b"1", b"2"], level=AGREED), now_ns)
    assert effects.accepted == 2
    sent = [event for event in effects.events if isinstance(event, Sent)]
    return [event.number + place for event in sent for place in range(event.count)]


def leave(engine: Engine, group: str, now_ns: int) -> int:
    engine.step(Leave(group), now_ns)
    for _ in range(100):
        now_ns += MILLISECOND_NS
        engine.step(Tick(), now_ns)
    return now_ns


@pytest.mark.parametrize("stack", founding_stacks())
def test_a_group_that_was_left_can_be_joined_again_and_no_number_comes_twice(stack: str) -> None:
    one, now_ns, numbers = engine(), 0, []
    for _ in range(3):
        one.step(Create(group="g", stack=stack, policy="primary", address="here"), now_ns)
        numbers += send(one, "g", now_ns)
        now_ns = leave(one, "g", now_ns)
        with pytest.raises(UsageError, match="no longer a member of group 'g'"):
            send(one, "g", now_ns)
    assert numbers == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("stack", founding_stacks())
def test_a_group_that_is_forgotten_leaves_nothing_but_its_last_number(stack: str) -> None:
    one = engine()
    for number in range(300):
        one.step(Create(group=f"g{number}", stack=stack, policy="static"), 0)
        send(one, f"g{number}", 0)
        effects = one.step(Forget(f"g{number}"), 0)
    assert effects.deadline_ns > 10**18
    assert one.statistics()["messages_accepted"] == 600
    assert one.statistics().get("pending_bytes", 0) == 0
    one.step(Forget("never joined"), 0)
    one.step(Create(group="g7", stack=stack, policy="static"), 0)
    assert send(one, "g7", 0) == [3, 4]


@pytest.mark.parametrize("stack", founding_stacks())
def test_a_stream_of_several_groups_is_paused_as_one(stack: str) -> None:
    one = engine()
    for group in ("a", "b"):
        one.step(Join(group=group, stack=stack, policy="static", view=View(1, (ME,)), stream="all"), 0)
    one.step(Join(group="c", stack=stack, policy="static", view=View(1, (ME,))), 0)
    one.step(Pause("all"), 0)
    one.step(Join(group="d", stack=stack, policy="static", view=View(1, (ME,)), stream="all"), 0)
    delivered = [
        event.group
        for group in ("c", "a", "b", "d")
        for event in one.step(Send(group=group, payloads=[b""], level=AGREED), 0).events
        if isinstance(event, Delivered)
    ]
    assert delivered == ["c"]
    resumed = one.step(Resume("all"), 0).events
    assert sorted(event.group for event in resumed if isinstance(event, Delivered)) == ["a", "b", "d"]


@pytest.mark.parametrize("stack", founding_stacks())
def test_a_flush_is_answered_when_all_is_everywhere(stack: str) -> None:
    one = engine()
    one.step(Join(group="g", stack=stack, policy="static", view=View(1, (ME, ProcessId("other")))), 0)
    send(one, "g", 0)
    assert not any(isinstance(event, Flushed) for event in one.step(Flush(request=5, groups=("g",)), 0).events)
    one.step(Forget("g"), 0)
    flushed = [event for event in one.step(Tick(), 1).events if isinstance(event, Flushed)]
    assert [event.request for event in flushed] in ([5], [])
