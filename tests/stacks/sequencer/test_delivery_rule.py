"""T1 and T2 at one sequencer: any processes and groups, any order of arrival; and the deadlock of a literal T2."""

from itertools import permutations
from random import Random

import pytest

from antiphon.stacks.sequencer.context import Context, component, restrict
from antiphon.stacks.sequencer.delivery_rule import is_deliverable, missing

Accept = tuple[int, Context]
"""Group and context."""


def literal_is_deliverable(context: Context, group: int, delivered: Context) -> bool:
    """T1 and T2 as the paper has them: "=" for all groups of the process that have an entry."""
    others = [other for other in context if other != group and other in delivered]
    return component(context, group) == component(delivered, group) + 1 and all(
        context[other] == delivered[other] for other in others
    )


RULES = {"T2 with <=": is_deliverable, "T2 with =": literal_is_deliverable}


def accepts(groups: dict[int, frozenset[str]], order: list[int]) -> list[Accept]:
    """What a single sequencer multicasts for messages to these groups, in this order."""
    context = dict.fromkeys(groups, 0)
    result = []
    for group in order:
        context[group] += 1
        intersecting = [other for other, members in groups.items() if members & groups[group]]
        result.append((group, restrict(context, intersecting)))
    return result


def deliver(arriving: list[Accept], delivered: Context, rule: str) -> tuple[list[Accept], list[Accept]]:
    """What a process delivers when these arrive one by one, and what stays in its hold-back queue."""
    held: list[Accept] = []
    done: list[Accept] = []
    for arrived in arriving:
        held.append(arrived)
        ready = True
        while ready:
            ready = False
            for group, context in held:
                if RULES[rule](context, group, delivered):
                    delivered[group] = context[group]
                    done.append((group, context))
                    held.remove((group, context))
                    ready = True
                    break
    return done, held


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(60))
def test_everybody_delivers_in_the_order_of_the_accepts(rule: str, seed: int) -> None:
    random = Random(seed)
    names = "pqrst"
    groups = {number: frozenset(random.sample(names, random.randrange(1, 5))) for number in range(4)}
    stream = accepts(groups, [random.randrange(4) for _ in range(12)])
    for name in names:
        mine = [accept for accept in stream if name in groups[accept[0]]]
        arriving = random.sample(mine, len(mine))
        done, held = deliver(arriving, {group: 0 for group in groups if name in groups[group]}, rule)
        assert done == mine
        assert not held


def test_all_orders_of_arrival_give_one_order_of_delivery() -> None:
    groups = {1: frozenset("pq"), 2: frozenset("pqr"), 3: frozenset("rp")}
    stream = accepts(groups, [1, 2, 3, 2, 1])
    for arriving in permutations(stream):
        done, held = deliver(list(arriving), {1: 0, 2: 0, 3: 0}, "T2 with <=")
        assert (done, held) == (stream, [])


def test_without_contexts_the_order_between_groups_is_lost() -> None:
    """The paper's example: numbers of the message's own group do not show that one of another group was dropped."""
    first, second = accepts({1: frozenset("p"), 2: frozenset("p")}, [2, 1])
    assert is_deliverable({1: second[1][1]}, 1, {1: 0, 2: 0})
    assert not is_deliverable(second[1], 1, {1: 0, 2: 0})
    assert missing(second[1], 1, {1: 0, 2: 0}) == [(2, 1, 1)]
    assert first[1][2] == 1


def test_entries_of_groups_that_a_process_is_not_in_do_not_hold_it_up() -> None:
    assert is_deliverable({1: 1, 2: 7}, 1, {1: 0})
    assert missing({1: 3, 2: 7}, 1, {1: 0}) == [(1, 1, 2)]


@pytest.mark.parametrize(("rule", "stuck"), [("T2 with =", True), ("T2 with <=", False)])
def test_a_literal_t2_deadlocks_when_a_weakly_overlapping_group_moves_away(rule: str, stuck: bool) -> None:
    """Hole (d). {p, q} and {q, r} at one sequencer; m1 is accepted; the second group moves to another sequencer, as S2
    allows; m2 is accepted there, without an entry for the first group. At q m2 arrives first."""
    m1 = (1, {1: 1, 2: 0})
    m2 = (2, {2: 1})
    done, held = deliver([m2, m1], {1: 0, 2: 0}, rule)
    assert bool(held) == stuck
    assert done == ([m2] if stuck else [m2, m1])
