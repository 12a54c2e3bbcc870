"""A process that was excluded from one group of its domain, and retires from another."""

from antiphon.kernel.effects import BarrierReached, Delivered, Ended, Installed
from antiphon.kernel.options import MILLISECOND_NS
from tests.table import Table


def retires_at_the_door() -> Table:
    """p1 has gone on in group x without p2. In y both are to go into the second view, with what p1 has sent last; p2
    has accepted that when it learns of its exclusion, and then hears that the view is installed."""
    table = Table(2, None, "primary", {"x": (0, 1), "y": (0, 1)})
    table.play(20)
    for source, destination in ((0, 1), (1, 0)):
        table.cut(source, destination, "x")
    table.play(5000)
    assert len(table.views[0]["x"].members) == 1
    table.barrier(0, b"barrier", "y")
    for _ in range(50):
        if table.views[0]["y"].id > 1:
            break
        table.pass_on(0, 1, "y")
        table.pass_on(1, 0, "y")
        table.wait(MILLISECOND_NS)
    installs = table.take(0, 1, "y")
    table.mend()
    table.cut(0, 1, "y")
    table.play(3000)
    table.mend()
    table.arrive(1, *installs)
    return table


def test_a_view_that_a_retiring_process_is_let_into_is_told_and_nothing_else() -> None:
    table = retires_at_the_door()
    ends = {event.group: place for place, event in enumerate(table.events[1]) if isinstance(event, Ended)}
    assert isinstance(ended := table.events[1][ends["y"]], Ended)
    assert ended.retires
    after = [event for event in table.events[1][ends["y"] + 1 :] if event.group == "y"]
    assert [event.view.id for event in after if isinstance(event, Installed)] == [2]
    assert not any(isinstance(event, Delivered | BarrierReached) for event in after)
    table.play(1000)
    assert [process.name for process in table.views[0]["y"].members] == ["p1"], "it leaves that view as well"
