"""The steps that are measured do what they say: everything is delivered, and a Receive has as many packets as said."""

import pytest

from bench import steps


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "BLOCKS", 2)
    monkeypatch.setattr(steps, "ROUNDS", 3)


@pytest.mark.parametrize("packets", steps.PACKETS)
def test_a_receive_takes_time(packets: int) -> None:
    assert steps.receive_ns(packets) > 0


@pytest.mark.parametrize("groups", [1, 10])
def test_a_message_in_one_of_many_groups_takes_time(groups: int) -> None:
    assert steps.message_ns(groups) > 0


def test_all_messages_are_received() -> None:
    steps.send_and_receive(40)
