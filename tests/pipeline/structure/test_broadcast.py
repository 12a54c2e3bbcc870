"""Broadcast domains: a division of the processes whose cost, counted message by message, no union makes smaller."""

from collections.abc import Iterator
from itertools import combinations
from random import Random

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.pipeline.structure import broadcast
from antiphon.pipeline.structure.broadcast import EXPORT_COST, broadcast_domains, cost
from tests.pipeline.structure.traffic_samples import draw_members

Division = list[frozenset[str]]


def divisions(names: list[str]) -> Iterator[Division]:
    """All ways to divide some names."""
    if not names:
        yield []
        return
    first, *rest = names
    for division in divisions(rest):
        yield [frozenset((first,)), *division]
        for place, part in enumerate(division):
            yield [*division[:place], part | {first}, *division[place + 1 :]]


@pytest.mark.parametrize("seed", range(40))
def test_no_union_of_two_domains_saves_anything_and_the_ends_of_the_scale_cost_no_less(seed: int) -> None:
    random = Random(seed)
    members = draw_members(random, random.randint(1, 8), random.randint(2, 12))
    messages = {group: random.randrange(1, 100) for group in members}
    found = broadcast_domains(members, messages)
    division = [frozenset(domain.members) for domain in found]
    everybody = frozenset().union(*members.values())
    assert sorted(name for part in division for name in part) == sorted(everybody)
    reached = cost(division, members, messages)
    assert reached <= cost([everybody], members, messages)
    assert reached <= cost([frozenset((name,)) for name in everybody], members, messages)
    for one, other in combinations(division, 2):
        rest = [part for part in division if part not in (one, other)]
        assert reached <= cost([*rest, one | other], members, messages)


def test_the_division_is_mostly_the_best_of_all() -> None:
    best = 0
    for seed in range(30):
        random = Random(seed)
        members = draw_members(random, random.randint(2, 5), 6)
        messages = {group: random.randrange(1, 100) for group in members}
        found = [frozenset(domain.members) for domain in broadcast_domains(members, messages)]
        names = sorted(frozenset().union(*members.values()))
        least = min(cost(division, members, messages) for division in divisions(names))
        assert cost(found, members, messages) <= 1.5 * least
        best += cost(found, members, messages) == least
    assert best >= 24


def test_cost_is_counted_message_by_message() -> None:
    members = {"g": frozenset("ab"), "h": frozenset("c")}
    messages = {"g": 10, "h": 1}
    assert cost([frozenset("abc")], members, messages) == 10 * 1 + 1 * 2
    assert cost([frozenset("a"), frozenset("bc")], members, messages) == 10 * (1 + EXPORT_COST) + 1 * 1
    assert cost([frozenset("ab"), frozenset("c")], members, messages) == 0


def test_two_offices_with_a_thin_link_are_two_domains_with_relays() -> None:
    members = {"east": frozenset("abc"), "west": frozenset("xyz"), "both": frozenset("cx")}
    domains = broadcast_domains(members, {"east": 1000, "west": 1000, "both": 3})
    assert [(domain.members, domain.relay, domain.crossing) for domain in domains] == [
        (("a", "b", "c"), "c", ("both",)),
        (("x", "y", "z"), "x", ("both",)),
    ]
    apart = broadcast_domains({"east": frozenset("ab"), "west": frozenset("xy")}, {"east": 5, "west": 0})
    assert [(domain.members, domain.relay) for domain in apart] == [(("a", "b"), None), (("x", "y"), None)]


def test_too_many_kinds_of_process_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "KINDS_MAX", 1)
    with pytest.raises(UsageError, match="2 different sets of groups"):
        broadcast_domains({"g": frozenset("ab"), "h": frozenset("b")}, {"g": 1, "h": 1})
