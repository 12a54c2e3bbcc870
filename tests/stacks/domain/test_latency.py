"""Early delivery is ahead of all-ack, idle and loaded, and costs no more packets."""

import pytest

from antiphon.kernel.options import MILLISECOND_NS
from tests.stacks.domain.latency import ALL_ACK, EARLY, LINK_NS, LOADS, SECOND_NS, WARM_UP_NS, Machines, measure


@pytest.mark.parametrize("members", [3, 5, 8])
@pytest.mark.parametrize("load", list(LOADS))
def test_early_delivery_is_ahead_of_all_ack(members: int, load: str) -> None:
    seconds = {"idle": 0.1, "moderate": 0.1, "loaded": 0.02}[load]
    early = measure(members, LOADS[load], EARLY, seconds)
    all_ack = measure(members, LOADS[load], ALL_ACK, seconds)
    assert early.median_us < all_ack.median_us
    assert early.late_us <= all_ack.late_us
    assert early.packets <= 1.01 * all_ack.packets
    assert members / 2 <= early.heard < all_ack.heard == members  # half of an even number, where ranks decide
    if load != "loaded":  # one trip for the message, and one for the votes where the receiver's own is not enough
        assert early.median_us < (1.5 if members == 3 else 4.0) * LINK_NS / 1000


def test_whoever_saves_its_vote_casts_it_where_the_others_do_not() -> None:
    """Those whose turn it is to vote at once for what p0 sends are dead; the rest do not wait until an acknowledgement
    is due."""
    machines = Machines(5, EARLY)
    machines.run(WARM_UP_NS)
    machines.dead = {1, 2}
    machines.per_call, machines.spacing_ns, machines.until_ns = 1, SECOND_NS, WARM_UP_NS + 1
    machines.at(WARM_UP_NS, "say", 0)
    machines.run(WARM_UP_NS + 50 * MILLISECOND_NS)
    assert len(machines.ages_ns) == 2
    assert max(machines.ages_ns) < 2 * MILLISECOND_NS


def test_half_of_the_members_vote_at_once_and_the_rest_when_they_are_needed() -> None:
    """Where messages come one by one and members have no others to send, half of the rest save their votes."""
    early = measure(8, LOADS["moderate"], EARLY, 0.04)
    all_ack = measure(8, LOADS["moderate"], ALL_ACK, 0.04)
    assert early.packets < 0.75 * all_ack.packets
