"""Locks, leaders and resilient objects on real hosts: the leader is killed, stopped past the time-out, and cut off."""

from pathlib import Path

import pytest

from tests.networks.guarding import check_lines, judge, play
from tests.networks.network import missing

REASON = missing()


@pytest.mark.networks
@pytest.mark.skipif(REASON is not None, reason=str(REASON))
def test_no_update_is_lost_and_no_former_leader_is_admitted(tmp_path: Path) -> None:
    takeovers, history = play(tmp_path / "trial")
    assert takeovers.writes > 20
    assert takeovers.additions > 5
    assert len(takeovers.killed_s) == len(takeovers.stopped_s) == len(takeovers.parted_s) == 1
    assert set(judge(history).values()) <= {"kept", "unchecked"}


def test_what_was_acknowledged_and_is_lost_is_found(tmp_path: Path) -> None:
    (tmp_path / "lines").mkdir()
    for name in ("m1", "m2"):
        (tmp_path / "lines" / name).write_text("one\ntwo")
    (tmp_path / "acknowledged").write_text("two\n")
    assert check_lines(tmp_path / "lines", tmp_path / "acknowledged") == 2
    (tmp_path / "acknowledged").write_text("two\nthree\n")
    with pytest.raises(AssertionError, match="lost"):
        check_lines(tmp_path / "lines", tmp_path / "acknowledged")
    (tmp_path / "lines" / "m1").write_text("one\ntwo\ntwo")
    with pytest.raises(AssertionError, match="differ"):
        check_lines(tmp_path / "lines", tmp_path / "acknowledged")
    (tmp_path / "lines" / "m2").write_text("one\ntwo\ntwo")
    with pytest.raises(AssertionError, match="twice"):
        check_lines(tmp_path / "lines", tmp_path / "acknowledged")
