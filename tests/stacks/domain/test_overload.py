"""Overload does not lead to a cascade of losses (transis-1992, 3.3), in virtual time."""

from tests.stacks.domain.overload import measure


def test_overload_loses_little_and_throughput_holds() -> None:
    """Twice as much is offered as fits. Before the window felt its way up, and negative acks asked for as much as can
    be taken in, nine packets in ten were lost, and each message was sent a hundred times."""
    one = measure(2.0, 1.0)
    assert one.lost < 0.1
    assert one.resent < 1.0
    assert one.delivered > 1_500
