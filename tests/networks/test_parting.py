"""A group of the stack `domain` parts and merges on real hosts, over IP multicast on a bridge (transis-1992)."""

import pytest

from tests.networks.network import missing
from tests.networks.parting import play

REASON = missing()
pytestmark = [pytest.mark.networks, pytest.mark.skipif(REASON is not None, reason=str(REASON))]


def test_a_group_parts_and_merges_on_a_bridge_over_ip_multicast() -> None:
    parted, merged, running = play(hosts=4, rate=20.0, rounds=1)
    assert parted[0] < 6.0
    assert merged[0] < 6.0
    for host in running:
        counted = host.last["statistics"]
        assert counted["multicasts_sent"] > 20, "messages went out by IP multicast"
        assert host.last["handed"] > 50
