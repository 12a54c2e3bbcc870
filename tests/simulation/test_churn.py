"""A sample of churn and adversarial seeds (`make churn` runs 20,000), and the seeds that once found something."""

import pytest

from antiphon.simulator.adversarial_draw import draw_adversarial
from antiphon.simulator.churn_draw import draw_churn
from antiphon.simulator.link_draw import draw_links
from antiphon.simulator.script_run import run_script
from tests.simulation.churn import run_churn
from tests.simulation.first_churn import draw_first_churn


@pytest.mark.parametrize("seed", range(2000, 2010))
def test_every_promise_is_kept_while_members_come_and_go(seed: int) -> None:
    assert run_churn(seed, draw_churn).problems == ()


@pytest.mark.parametrize("seed", range(2000, 2050))
def test_every_promise_is_kept_against_an_adversary(seed: int) -> None:
    assert run_churn(seed, draw_adversarial).problems == ()


@pytest.mark.parametrize("stack", ["vector", "conversation", "domain"])
@pytest.mark.parametrize("seed", range(2000, 2010))
def test_every_promise_is_kept_while_links_go_bad_one_by_one(seed: int, stack: str) -> None:
    assert run_churn(seed, draw_links, stack).problems == ()


def test_a_churn_that_is_held_up_for_good_ends_when_nothing_happens_any_more() -> None:
    """Some of its four groups have lost their majority, and the others wait for them."""
    script = draw_churn(52)
    run = run_script(script)
    assert len(run.excused) == len(script.groups) == 4
    ends = ("stop", "crash")
    last_ns = max(row.time_ns for log in run.logs for row in log.rows() if row.kind not in ends)
    silence_ns = script.options.silence_ns_min
    assert 4 * silence_ns <= run.time_ns - last_ns < 5 * silence_ns


# fmt: off
SEEDS_OF_OVERLAPPING_GROUPS = (
    2, 6, 36, 110, 168, 250, 328, 338, 381, 694, 696, 808, 1062, 1157,
    1740, 4384, 4413, 4814, 5891, 6497, 11612, 11941, 14249, 14610, 14930, 17102, 20456, 23044, 29379, 29389,
)
# fmt: on


@pytest.mark.parametrize("seed", SEEDS_OF_OVERLAPPING_GROUPS)
def test_seeds_of_overlapping_groups_that_found_something(seed: int) -> None:
    """As they are drawn now. 2: a barrier was overtaken through another group. 36: causal order was broken along a
    chain of three groups by weaker messages. 110: a view was installed by one joiner alone. 168: own messages were
    taken for delivered. 250, 328: messages that not all members had waited for counted as known. 338: an own
    private message was overtaken. 381: epochs rose without end. 694: a process that asked to join two groups
    without a majority waited for one after the other, and was suspected elsewhere. 696: a process did not learn
    that it was excluded. 808: epochs and weaker messages. 4384: a leaver took no part in the cut. 4413: groups
    without a majority end their members in groups of a higher epoch, long after the network has healed. 4814: a cut
    was fetched from members that no longer held it. 1740 breaks causal order by two failures where one was allowed
    for, and must be counted as such. 5891: only a leaver could tell newcomers that they were in. 6497: a leaver
    forgot what it had heard of the view after its last. 11612, 14249, 14610, 14930, 17102, 20456, 23044: what was
    fetched for a cut that was proposed counted before it was decided. 11941: no member was left that had what a
    straggler lacked. 17102: an incarnation was let in again that only crashed members knew. 14930: nobody was left
    of the view that one was in. 29379: a late ack ended a barrier too early. 29389: what weak messages said of
    other groups was forgotten with the view."""
    assert run_churn(seed).problems == ()


@pytest.mark.parametrize("seed", [8, 40, 90, 276, 741, 882, 925, 1202])
def test_seeds_that_found_something(seed: int) -> None:
    """8: a leaver went before the others knew the view. 40: a cut named packets that only crashed members had.
    90: an excluded incarnation was let in again. 741: a deadline was never met. 882: no member began a higher round.
    925: a round waited for crashed members while others were back. 276, 1202: weaker messages whose past was lost with
    the failed."""
    assert run_churn(seed, draw_first_churn).problems == ()


def test_who_waits_for_a_coordinator_that_is_gone_is_told_that_it_was_excluded() -> None:
    """The coordinator has agreed on a view without this member and dies; the member asks nobody, but its packets of the
    old view still reach the others. It learned of its exclusion only when it took the coordinator to have failed."""
    assert run_churn(169, stack="label").problems == ()
