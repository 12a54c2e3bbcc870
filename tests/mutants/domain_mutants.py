"""The stack `domain` broken on purpose: each mutant must be caught, by all states of a round or by islands that part
and merge.

    ANTIPHON_PURE=1 python -m tests.mutants.domain_mutants
"""

import time
from collections.abc import Callable
from random import Random
from typing import Any

from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.membership.policies import PartitionablePolicy
from antiphon.stacks.domain import voting
from antiphon.stacks.domain.broadcast import Broadcast
from antiphon.stacks.domain.components import Components
from antiphon.stacks.domain.services import HeldBatch, Services
from antiphon.stacks.domain.session import DomainSession
from antiphon.stacks.domain.voting import VoteRounds
from tests.mutants.mutants import Mutant
from tests.papers.test_transis_1992_domain import (
    test_3_2_safe_waits_until_all_hold_the_votes_that_decided_its_place,
)
from tests.stacks.domain import graphs
from tests.stacks.domain.graphs import by_rule, order_by_definition, order_of, random_graph, settled
from tests.stacks.domain.islands import judge_seed
from tests.stacks.domain.test_voting import all_ballots

ISLANDS = "islands"
ROUNDS = "rounds"
GRAPHS = "graphs"
TABLE = "table"
SEEDS_MAX = 120


def round_problem() -> str | None:
    """A state of a round that is decided otherwise than all further votes agree."""
    for members in (2, 3, 4):
        for votes, candidates in all_ballots(members):
            if by_rule(members, votes, candidates) != settled(members, votes, candidates):
                return f"{members} members, votes {votes}"
    return None


def graph_problem() -> str | None:
    """A random graph that is ordered otherwise than defined."""
    random = Random(1)
    for _ in range(300):
        members = random.randrange(3, 6)
        graph = random_graph(random, members, random.randrange(5, 25))
        if order_of(members, graph) != order_by_definition(members, graph):
            return str(graph)
    return None


def table_problem() -> str | None:
    """Engines on a table that deliver a safe message too early."""
    try:
        test_3_2_safe_waits_until_all_hold_the_votes_that_decided_its_place()
    except AssertionError:
        return "a safe message is delivered before all hold the votes that decided its place"
    return None


def island_problem() -> str | None:
    """A run of islands in which something does not hold, or that raises."""
    for seed in range(SEEDS_MAX):
        try:
            problems, _ = judge_seed(seed)
        except (AssertionError, MalformedError, LookupError, ValueError) as error:
            return f"seed {seed}: {type(error).__name__}: {error}"
        if problems:
            return f"seed {seed}: {problems[0]}"
    return None


HUNTERS: dict[str, Callable[[], str | None]] = {
    ROUNDS: round_problem,
    GRAPHS: graph_problem,
    TABLE: table_problem,
    ISLANDS: island_problem,
}

_next_in_round = voting.next_in_round


def _ignore_the_unseen(members: int, support: dict[int, int], placed: list[int], unheard: int) -> int:
    """Unseen candidates are taken to be out: a made-up majority says so."""
    found = _next_in_round(members, support, placed, unheard)
    if found != voting.NOT_YET or not support:
        return found
    leader = min(support, key=lambda rank: (-support[rank].bit_count(), rank))
    known = [rank for rank in support if rank not in placed and rank != leader]
    return leader if leader not in placed and not known else found


def _ignore_the_unheard(members: int, support: dict[int, int], placed: list[int], unheard: int) -> int:
    return _next_in_round(members, support, placed, 0)


def _never_sure_enough(members: int, support: dict[int, int], placed: list[int], unheard: int) -> int:
    """Waits for everybody: safe, but later than it need be."""
    return voting.NOT_YET if unheard else _next_in_round(members, support, placed, unheard)


def _half_is_a_majority(rank: int, support: dict[int, int]) -> int:
    return _most_without(rank, support) + 1


_most_without = voting._most_without


def _votes_that_change(self: VoteRounds, sender: int, number: int, past: list[int], ordered: bool) -> None:
    """The last message of a member is its vote, not the first."""
    if self._votes[sender] and not ordered and not self._votes[sender][-1][2]:
        self._votes[sender].pop()
        self._heard &= ~(1 << sender)
        for rank in self._support:
            self._support[rank] &= ~(1 << sender)
    _add(self, sender, number, past, ordered)


_add = VoteRounds.add


def _safe_at_its_place(self: Services, held: HeldBatch) -> bool:
    return True


def _safe_without_its_votes(self: Services, held: HeldBatch) -> bool:
    """The message is everywhere, but not the votes that decided its place."""
    return held.batch.level != 4 or held.number <= self._graph.stable_to[held.sender]


def _weak_overtakes(self: Services, held: HeldBatch) -> bool:
    return False


def _no_end(self: Services) -> None:
    """Members that are gone do not abstain."""
    self._closing = True


def _own_holdings(self: Components) -> list[int]:
    return self.commits[self._process]


def _first_holdings(self: Components) -> list[int]:
    return self.commits[self.view.members[self.mates()[0]]]


def _decided_without_one(self: Components) -> bool:
    """The commit rule is dropped: one commit may be lacking."""
    return self.suggestion is not None and len(self.commits) >= max(1, len(self.suggestion.view.members) - 1)


def _all_are_mates(self: Components) -> list[int]:
    """Whoever was in the configuration is taken to come along."""
    assert self.suggestion is not None
    return [rank for rank, one in enumerate(self.view.members) if one in self.commits]


def _no_freeze(self: GraphViewEnd) -> None:
    """A commit does not end what is taken in and sent."""


def _complete_at_once(self: GraphViewEnd) -> bool:
    return self._cut is not None


def _skip_regular(self: Services, effects: Effects) -> None:
    """Nothing more is delivered in the regular configuration once the cut is here."""


def _same_id(self: PartitionablePolicy, view_ids: list[int], coordinator: Any, round: int) -> int:
    return (1 + max(view_id >> 40 for view_id in view_ids)) << 40


def _no_cuts(self: Components, process: Any, now_ns: int) -> None:
    """A link that is cut is not named."""
    self.suspected.append(process)


def _ignore_commits(self: Components, commit: Any, now_ns: int) -> None:
    """Only own suggestions count."""
    if self.suggestion is not None and commit.suggestion.id == self.suggestion.id:
        self.commits.update(commit.commits)


def _never_ask(self: Broadcast, now_ns: int) -> None:
    """No negative acks."""
    self._ask_at_ns = 1 << 61


def _forget_what_waits(self: Broadcast, node: Any, now_ns: int) -> Any:
    """What waits for a node is not looked at when the node comes."""
    found = _receive(self, node, now_ns)
    return found[:1]


_receive = Broadcast.receive


def _no_status(self: DomainSession) -> None:
    """The loss of a last message is not found."""


DOMAIN_MUTANTS = (
    Mutant("unseen candidates ignored", (ROUNDS,), ((graphs, "next_in_round", _ignore_the_unseen),)),
    Mutant("the unheard taken to abstain", (ROUNDS,), ((graphs, "next_in_round", _ignore_the_unheard),)),
    Mutant("everybody waited for", (ROUNDS,), ((graphs, "next_in_round", _never_sure_enough),)),
    Mutant("half is a majority against a candidate", (ROUNDS,), ((voting, "_most_without", _half_is_a_majority),)),
    Mutant("a vote changes", (GRAPHS,), ((VoteRounds, "add", _votes_that_change),)),
    Mutant("safe messages at their place", (ISLANDS,), ((Services, "_is_safe", _safe_at_its_place),)),
    Mutant("safe messages without their votes", (TABLE,), ((Services, "_is_safe", _safe_without_its_votes),)),
    Mutant("other messages overtake ordered ones", (ISLANDS,), ((Services, "_is_blocked", _weak_overtakes),)),
    Mutant("members that are gone do not abstain", (ISLANDS,), ((Services, "close", _no_end),)),
    Mutant("K is what one holds oneself", (ISLANDS,), ((Components, "cut_of_messages", _own_holdings),)),
    Mutant("K is what the first member holds", (ISLANDS,), ((Components, "cut_of_messages", _first_holdings),)),
    Mutant("a commit may be lacking", (ISLANDS,), ((Components, "is_decided", _decided_without_one),)),
    Mutant("whoever was there comes along", (ISLANDS,), ((Components, "mates", _all_are_mates),)),
    Mutant("a commit does not freeze", (ISLANDS,), ((GraphViewEnd, "freeze", _no_freeze),)),
    Mutant("missing messages of K are not waited for", (ISLANDS,), ((GraphViewEnd, "is_complete", _complete_at_once),)),
    Mutant("K is not finished by the old rule", (ISLANDS,), ((Services, "finish_regular", _skip_regular),)),
    Mutant("ids do not tell where views come from", (ISLANDS,), ((PartitionablePolicy, "merged_id", _same_id),)),
    Mutant("cut links are not named", (ISLANDS,), ((Components, "_cut", _no_cuts),)),
    Mutant("suggestions of others are ignored", (ISLANDS,), ((Components, "_consider", _ignore_commits),)),
    Mutant("no negative acks", (ISLANDS,), ((Broadcast, "_ask", _never_ask),)),
    Mutant("what waits for a node is forgotten", (ISLANDS,), ((Broadcast, "receive", _forget_what_waits),)),
    Mutant("no status", (ISLANDS,), ((DomainSession, "_send_status", _no_status),)),
)


def hunt(mutant: Mutant) -> str | None:
    """How a mutant was caught; None if it survived."""
    with mutant.at_large():
        return HUNTERS[mutant.breaks[0]]()


def main() -> None:
    """Hunt them all."""
    for mutant in DOMAIN_MUTANTS:
        begun_s = time.monotonic()
        caught = hunt(mutant)
        print(f"{mutant.name}: {'SURVIVED' if caught is None else caught[:110]} ({time.monotonic() - begun_s:.1f} s)")


if __name__ == "__main__":
    main()
