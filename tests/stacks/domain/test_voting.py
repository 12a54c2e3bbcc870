"""The total order from votes: against its definition, for being tight, and for what the members place together."""

from itertools import combinations, product
from random import Random

import pytest

from antiphon.stacks.domain.voting import NOT_YET, ROUND_OVER, next_in_round, rest_of_round
from tests.stacks.domain.graphs import (
    OVER,
    Ballot,
    Graph,
    Sent,
    all_at_once,
    all_graphs,
    ballot_of,
    by_rule,
    further_votes,
    order_by_definition,
    order_by_rule,
    order_of,
    outcome,
    random_graph,
    settled,
)


def all_ballots(members: int) -> list[tuple[Ballot, set[int]]]:
    """Every state that a round can be in: who is a candidate, who has voted, and for whom."""
    found: list[tuple[Ballot, set[int]]] = []
    for count in range(1, members + 1):
        for candidates in combinations(range(members), count):
            sets = [frozenset(c) for size in range(1, count + 1) for c in combinations(candidates, size)]
            others = [rank for rank in range(members) if rank not in candidates]
            for chosen in product([None, *sets], repeat=len(others)):
                votes = {rank: frozenset((rank,)) for rank in candidates}
                votes |= {rank: ranks for rank, ranks in zip(others, chosen, strict=True) if ranks is not None}
                found.append((votes, set(candidates)))
    return found


@pytest.mark.parametrize("members", [1, 2, 3, 4, 5])
def test_every_state_of_a_round_is_decided_as_far_as_it_can_be_and_no_further(members: int) -> None:
    """Safe and tight at once, whatever the size of the graph: a round depends on its graph by the votes alone."""
    for votes, candidates in all_ballots(members):
        expected = settled(members, votes, candidates)
        assert by_rule(members, votes, candidates) == expected, (votes, candidates)
        if len(votes) == members:
            support = {rank: sum(1 << voter for voter in votes if rank in votes[voter]) for rank in candidates}
            assert rest_of_round(members, support, []) == [rank for rank in expected if rank != OVER]


@pytest.mark.parametrize(("members", "messages"), [(2, 5), (3, 4), (4, 3)])
def test_all_small_graphs_are_ordered_as_defined(members: int, messages: int) -> None:
    count = 0
    for graph in all_graphs(members, messages):
        count += 1
        assert order_of(members, graph) == order_by_definition(members, graph), graph
    assert count > 500


def realize(members: int, graph: Graph, placed: list[tuple[int, int]], votes: Ballot) -> Graph:
    """The graph with messages added by which the unheard vote like this."""
    known, candidates = ballot_of(members, graph, placed)
    grown = list(graph)
    new = [rank for rank in votes if rank not in known and votes[rank] == {rank}]
    for rank in [*new, *(rank for rank in votes if rank not in known and rank not in new)]:
        names = dict(candidates)
        names.update({sent.sender: (sent.sender, sent.number) for sent in grown if sent.sender in new})
        last = [sent for sent in grown if sent.sender == rank]
        past = list(last[-1].past) if last else [0] * members
        past[rank] = len(last)
        for supported in votes[rank]:
            if rank in new:
                continue
            name = names[supported]
            sent = next(sent for sent in grown if (sent.sender, sent.number) == name)
            past = [max(one, other) for one, other in zip(past, sent.past, strict=True)]
            past[name[0]] = max(past[name[0]], name[1])
        grown.append(Sent(rank, len(last) + 1, tuple(past), rank in new))
    return tuple(grown)


def test_where_the_rule_stops_two_real_extensions_differ() -> None:
    """The votes that the proof of tightness uses can be cast: two graphs around this one differ in what is next."""
    random = Random(7)
    stopped = 0
    for _ in range(400):
        members = random.randrange(2, 5)
        graph = random_graph(random, members, random.randrange(2, 12))
        placed = order_of(members, graph)
        begun = [name for name in placed if name in whole_rounds(members, graph, placed)]
        votes, candidates = ballot_of(members, graph, begun)
        if not candidates or len(votes) == members:
            continue
        stopped += 1
        here = len(placed) - len(begun)
        nexts: dict[int, Ballot] = {}
        for more, every in further_votes(members, votes, set(candidates)):
            nexts.setdefault([*outcome(members, more, every), OVER][here], more)
        assert len(nexts) > 1
        one, other = list(nexts.items())[:2]
        for rank, more in (one, other):
            grown = order_of(members, realize(members, graph, begun, more))
            assert grown[: len(placed)] == placed
            if rank != OVER:
                assert grown[len(placed)][0] == rank
    assert stopped > 50


def whole_rounds(members: int, graph: Graph, placed: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of `placed` was placed in rounds that are over."""
    done: list[tuple[int, int]] = []
    while True:
        votes, candidates = ballot_of(members, graph, done)
        ranks = settled(members, votes, set(candidates)) if candidates else []
        if OVER not in ranks:
            return done
        done += [candidates[rank] for rank in ranks if rank != OVER]


@pytest.mark.parametrize("seed", range(200))
def test_members_that_know_different_parts_of_a_graph_place_the_same(seed: int) -> None:
    """Parts of one large graph, each closed: one order is a beginning of the other; and of that of the end."""
    random = Random(seed)
    members = random.choice((2, 3, 4, 5, 7, 10))
    graph = random_graph(random, members, random.randrange(10, 120))
    final = order_of(members, graph, close=True)
    assert sorted(final) == sorted((sent.sender, sent.number) for sent in graph if sent.ordered)
    place = {name: index for index, name in enumerate(final)}
    for sent in graph:
        if sent.ordered:
            before = [other for other in place if sent.past[other[0]] >= other[1]]
            assert all(place[other] < place[sent.sender, sent.number] for other in before)
    for _ in range(6):
        tip = [random.randrange(len(graph)) for _ in range(random.randrange(1, members + 1))]
        limit = [max([graph[i].past[r] for i in tip] + [graph[i].number for i in tip if graph[i].sender == r])
                 for r in range(members)]  # fmt: skip
        part = tuple(sent for sent in graph if sent.number <= limit[sent.sender])
        placed = order_of(members, part)
        assert placed == final[: len(placed)]
        others = list(part)
        random.shuffle(others)
        others.sort(key=lambda sent: sum(sent.past))  # another order of the same graph
        assert order_of(members, tuple(others)) == placed


@pytest.mark.parametrize("seed", range(60))
def test_a_message_with_n_acks_is_placed(seed: int) -> None:
    random = Random(seed)
    members = random.choice((2, 3, 5, 8))
    graph = random_graph(random, members, random.randrange(10, 80))
    placed = order_of(members, graph)
    for sent in graph:
        name = (sent.sender, sent.number)
        acked = {other.sender for other in graph if other.past[name[0]] >= name[1]} | {name[0]}
        assert not sent.ordered or len(acked) < members or name in placed


@pytest.mark.parametrize("members", range(2, 10))
def test_the_best_case_is_a_majority(members: int) -> None:
    """A majority follows the message of the last rank, the others are silent: it is placed, and not before that."""
    last = members - 1
    past = [0] * members
    graph = [Sent(last, 1, tuple(past), True)]
    past[last] = 1
    heard = 1
    while not order_of(members, tuple(graph)):
        graph.append(Sent(heard - 1, 1, tuple(past), False))
        heard += 1
    assert heard == members // 2 + 1


def test_all_heard_and_majority_cannot_both_be_enough() -> None:
    """The two graphs of the proof: what places e without x must not place d as soon as all are heard."""
    c, b1 = Sent(0, 1, (0, 0, 0), True), Sent(1, 1, (1, 0, 0), False)
    e, b2 = Sent(0, 2, (1, 1, 0), True), Sent(1, 2, (2, 1, 0), False)
    d = Sent(2, 1, (0, 0, 0), True)
    assert order_of(3, (c, b1, e, b2)) == [(0, 1), (0, 2)]
    assert order_of(3, (c, b1, d)) == [(0, 1)]
    assert order_of(3, (c, b1, e, b2, d)) == [(0, 1), (0, 2)]
    assert order_by_rule(3, (c, b1, d), all_at_once) == [(0, 1), (2, 1)]


def test_an_undecided_round_waits_and_a_decided_one_is_over() -> None:
    assert next_in_round(3, {0: 0b001}, [], 0b110) == NOT_YET
    assert next_in_round(3, {0: 0b011}, [], 0b100) == 0
    assert next_in_round(3, {0: 0b011}, [0], 0b100) == ROUND_OVER
