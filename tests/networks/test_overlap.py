"""Two overlapping groups on a network that fails in two ways at a time, in small; `make overlap` runs 100 cycles."""

from pathlib import Path

import pytest

from antiphon.pipeline.auditor import audit
from antiphon.pipeline.session import make_session
from tests.networks.network import missing
from tests.networks.overlap import SMALL, play

REASON = missing()
pytestmark = [pytest.mark.networks, pytest.mark.skipif(REASON is not None, reason=str(REASON))]


@pytest.mark.slow
@pytest.mark.spark
def test_overlapping_groups_keep_their_promises_under_two_faults_at_a_time(tmp_path: Path) -> None:
    figures, history = play(SMALL, tmp_path / "trial", print)
    result = audit(history, make_session())
    assert result.verdict == "kept", (result.findings, figures)
    assert sum(figures.faults.values()) == 2 * SMALL.cycles
