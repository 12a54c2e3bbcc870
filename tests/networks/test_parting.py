"""A group of the stack `domain` parts and merges on real hosts, over IP multicast on a bridge (transis-1992); in small,
`make parting` has 8 hosts and 2,000 messages a second."""

from pathlib import Path

import pytest

from tests.networks.network import missing
from tests.networks.parting import SMALL, judge, play

REASON = missing()
pytestmark = [pytest.mark.networks, pytest.mark.skipif(REASON is not None, reason=str(REASON))]


def test_a_group_parts_and_merges_on_a_bridge_over_ip_multicast(tmp_path: Path) -> None:
    figures, history = play(SMALL, tmp_path / "trial", print)
    assert max(figures.parted_s) < 10.0
    assert max(*figures.merged_s, *figures.mended_s) < 10.0
    assert figures.counted["multicasts_sent"] > 100, "messages went out by IP multicast"
    result = judge(history, quick=True)
    verdicts = {finding.guarantee: finding.verdict for finding in result.findings}
    assert set(verdicts.values()) <= {"kept", "unchecked"}, verdicts
    assert {verdicts[name] for name in ("causal", "total", "safe", "transitional", "merged", "settled")} == {"kept"}
