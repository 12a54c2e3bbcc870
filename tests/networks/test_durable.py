"""A ledger on disk on real hosts: one, two, then all members are killed, and no acknowledged line is lost."""

from pathlib import Path

import pytest

from tests.networks.durable import check_ledgers, judge, play
from tests.networks.network import missing


@pytest.mark.processes
@pytest.mark.alone
def test_no_acknowledged_line_is_lost_when_one_two_and_all_are_killed(tmp_path: Path) -> None:
    """In namespaces where there can be some, else on loopback."""
    found = play(tmp_path / "trial", namespaces=missing() is None)
    assert found["kills"] == 8
    assert found["acknowledged"] > 200
    assert judge(tmp_path / "trial") == {}


def test_what_was_acknowledged_and_is_lost_is_found(tmp_path: Path) -> None:
    for name in ("m1", "m2", "m3"):
        (tmp_path / f"{name}.lines").write_text("one\ntwo")
    (tmp_path / "acknowledged").write_text("2 two\n")
    assert check_ledgers(tmp_path) == {"acknowledged": 1, "lines": 2}
    (tmp_path / "acknowledged").write_text("1 two\n")
    with pytest.raises(AssertionError, match="lost"):
        check_ledgers(tmp_path)
    (tmp_path / "m1.lines").write_text("two")
    with pytest.raises(AssertionError, match="differ"):
        check_ledgers(tmp_path)
