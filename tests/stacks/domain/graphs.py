"""Message graphs for the tests of the total order, and the order by its definition: slow, and without cleverness.

`python -m tests.stacks.domain.graphs --members 4 --messages 7` goes through all graphs of that size (make votes).
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

from antiphon.stacks.domain.voting import ROUND_OVER, VoteRounds, next_in_round

Name = tuple[int, int]
"""Rank of the sender, and number from 1 on."""
Ballot = dict[int, frozenset[int]]
"""By voter, the ranks whose candidates it supports."""
OVER = -2


@dataclass(frozen=True)
class Sent:
    """A message: how much of each member it follows, and whether it is to be ordered."""

    sender: int
    number: int
    past: tuple[int, ...]
    ordered: bool


Graph = tuple[Sent, ...]
"""In an order of the graph."""


def order_of(members: int, graph: Graph, close: bool = False) -> list[Name]:
    """What the rule places of a graph."""
    rounds = VoteRounds(members)
    placed: list[Name] = []
    for sent in graph:
        rounds.add(sent.sender, sent.number, list(sent.past), sent.ordered)
        placed += rounds.take()
    if close:
        rounds.close()
        placed += rounds.take()
    return placed


def follows(one: Sent, name: Name) -> bool:
    """Whether a message equals or follows the one of this name."""
    return one.past[name[0]] >= name[1] or (one.sender, one.number) == name


def ballot_of(members: int, graph: Graph, placed: list[Name]) -> tuple[Ballot, dict[int, Name]]:
    """The votes of a round and its candidates, by the definition."""
    pending = [(sent.sender, sent.number) for sent in graph if sent.ordered]
    pending = [name for name in pending if name not in placed]
    sent_as = {(sent.sender, sent.number): sent for sent in graph}
    candidates = {
        name[0]: name
        for name in pending
        if not any(follows(sent_as[name], other) for other in pending if other != name)
    }
    votes: Ballot = {}
    for sent in sorted(graph, key=lambda sent: sent.number):
        if sent.sender not in votes and any(follows(sent, name) for name in pending):
            votes[sent.sender] = frozenset(rank for rank, name in candidates.items() if follows(sent, name))
    return votes, candidates


def outcome(members: int, votes: Ballot, candidates: set[int]) -> list[int]:
    """What a round places if these are all votes, by the definition."""
    voters = {rank: {voter for voter, ranks in votes.items() if rank in ranks} for rank in candidates}
    kept = [d for d in candidates if all(2 * len(voters[c] - voters[d]) <= members for c in candidates)]
    return sorted(kept)


def further_votes(members: int, votes: Ballot, candidates: set[int]) -> Iterator[tuple[Ballot, set[int]]]:
    """All ways in which the unheard can vote: for candidates of their own, or for any of those there are."""
    unheard = [rank for rank in range(members) if rank not in votes]
    for own in product((False, True), repeat=len(unheard)):
        new = {rank for rank, is_own in zip(unheard, own, strict=True) if is_own}
        every = sorted(candidates | new)
        others = [rank for rank in unheard if rank not in new]
        choices = [frozenset(rank for rank, taken in zip(every, bits, strict=True) if taken)
                   for bits in product((False, True), repeat=len(every)) if any(bits)]  # fmt: skip
        for chosen in product(choices, repeat=len(others)):
            more = {rank: frozenset((rank,)) for rank in new} | dict(zip(others, chosen, strict=True))
            yield votes | more, candidates | new


def settled(members: int, votes: Ballot, candidates: set[int]) -> list[int]:
    """What the outcomes of all further votes begin with alike, with OVER behind the last."""
    common: list[int] | None = None
    for more, all_candidates in further_votes(members, votes, candidates):
        ranks = [*outcome(members, more, all_candidates), OVER]
        if common is None:
            common = ranks
        same = 0
        while same < min(len(common), len(ranks)) and common[same] == ranks[same]:
            same += 1
        common = common[:same]
    return common or []


def by_rule(members: int, votes: Ballot, candidates: set[int]) -> list[int]:
    """What the rule places of a round, with OVER behind the last."""
    support = {rank: sum(1 << voter for voter, ranks in votes.items() if rank in ranks) for rank in sorted(candidates)}
    unheard = sum(1 << rank for rank in range(members) if rank not in votes)
    placed: list[int] = []
    while (rank := next_in_round(members, support, placed, unheard)) >= 0:
        placed.append(rank)
    return [*placed, OVER] if rank == ROUND_OVER else placed


def first_alone(members: int, votes: Ballot, candidates: set[int]) -> list[int]:
    """Another rule, to compare with: a round places the candidate with most votes and no other."""
    order = by_rule(members, votes, candidates)[:1]
    return [*order, OVER] if order else []


def all_at_once(members: int, votes: Ballot, candidates: set[int]) -> list[int]:
    """Another rule, to compare with: a round places all candidates when everybody has voted, and none before."""
    return [*sorted(candidates), OVER] if len(votes) == members else []


Rule = Callable[[int, Ballot, set[int]], list[int]]


def order_by_rule(members: int, graph: Graph, rule: Rule) -> list[Name]:
    """What a rule for rounds places of a graph."""
    placed: list[Name] = []
    while True:
        votes, candidates = ballot_of(members, graph, placed)
        ranks = rule(members, votes, set(candidates)) if candidates else []
        placed += [candidates[rank] for rank in ranks if rank != OVER]
        if OVER not in ranks:
            return placed


def order_by_definition(members: int, graph: Graph) -> list[Name]:
    """What must be placed of a graph, and no more: what is alike whatever is still to come."""
    return order_by_rule(members, graph, settled)


def random_graph(random: Random, members: int, messages: int) -> Graph:
    """A graph in which members receive at random, and send ordered messages and others."""
    pasts = [[0] * members for _ in range(members)]
    sent: list[Sent] = []
    ordered = random.choice((0.3, 0.6, 1.0))
    receive = random.choice((0.3, 0.6, 0.9))
    for _ in range(messages):
        sender = random.randrange(members)
        past = pasts[sender]
        for other in sent:
            known = other.sender == sender or all(past[rank] >= count for rank, count in enumerate(other.past))
            if other.number > past[other.sender] and known and random.random() < receive:
                past[other.sender] = other.number
        number = past[sender] + 1
        sent.append(Sent(sender, number, tuple(past), random.random() < ordered))
        past[sender] = number
    return tuple(sent)


def all_graphs(members: int, messages: int) -> Iterator[Graph]:
    """All graphs of up to so many messages, each once, in which each message equals or follows an ordered one: others
    say nothing about any round."""
    level: dict[frozenset[Sent], Graph] = {frozenset(): ()}
    for _ in range(messages):
        grown: dict[frozenset[Sent], Graph] = {}
        for graph in level.values():
            for sent in next_messages(members, graph):
                key = frozenset((*graph, sent))
                if key not in grown:
                    grown[key] = (*graph, sent)
        yield from grown.values()
        level = grown


def next_messages(members: int, graph: Graph) -> Iterator[Sent]:
    """All messages that can come next. One that follows nothing that is ordered, and is not itself, is left out."""
    cuts: set[tuple[int, ...]] = {(0,) * members}
    for sent in graph:  # the pasts that are closed: joins of those of messages
        own = tuple(max(count, sent.number if rank == sent.sender else 0) for rank, count in enumerate(sent.past))
        cuts |= {tuple(map(max, own, cut)) for cut in cuts}
    for sender in range(members):
        last = max([sent.number for sent in graph if sent.sender == sender], default=0)
        for cut in cuts:
            if cut[sender] == last:
                yield Sent(sender, last + 1, cut, True)
                if any(sent.ordered and cut[sent.sender] >= sent.number for sent in graph):
                    yield Sent(sender, last + 1, cut, False)


def compare(prefixes: int) -> None:
    """Count the random graphs in which a rule has placed less, or more, than the one that waits for all."""
    random = Random(36)
    rules: dict[str, Rule] = {"first alone": first_alone, "all that are not beaten": by_rule}
    fewer, more = dict.fromkeys(rules, 0), dict.fromkeys(rules, 0)
    for _ in range(prefixes):
        members = random.randrange(2, 6)
        graph = random_graph(random, members, random.randrange(1, 25))
        waiting = len(order_by_rule(members, graph, all_at_once))
        for name, rule in rules.items():
            count = len(order_by_rule(members, graph, rule))
            fewer[name] += count < waiting
            more[name] += count > waiting
    for name in rules:
        print(f"{name}: of {prefixes} graphs {fewer[name]} with less placed than by waiting for all, {more[name]} more")


def main() -> None:
    """Hold the rule against the definition on all graphs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--messages", type=int, default=7)
    parser.add_argument("--compare", type=int, default=0, help="compare rules on so many random graphs instead")
    given = parser.parse_args()
    if given.compare:
        compare(given.compare)
        return
    begun = time.monotonic()
    count = 0
    for graph in all_graphs(given.members, given.messages):
        count += 1
        assert order_of(given.members, graph) == order_by_definition(given.members, graph), graph
        if count % 100_000 == 0:
            print(f"{count} graphs, {count / (time.monotonic() - begun):.0f} a second", flush=True)
    print(f"{count} graphs of {given.members} members and up to {given.messages} messages: all as defined")


if __name__ == "__main__":
    main()
