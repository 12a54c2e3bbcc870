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
from antiphon.kernel.identity import NUMBER_MAX
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.membership.policies import PartitionablePolicy
from antiphon.stacks.domain import components, voting
from antiphon.stacks.domain.broadcast import Broadcast
from antiphon.stacks.domain.commitment import Commitment
from antiphon.stacks.domain.components import Components
from antiphon.stacks.domain.services import HeldBatch, Services
from antiphon.stacks.domain.session import DomainSession
from antiphon.stacks.domain.surroundings import Surroundings
from antiphon.stacks.domain.voting import VoteRounds
from tests.mutants.mutants import Mutant
from tests.papers.test_transis_1992_domain import (
    test_3_2_safe_waits_until_all_hold_the_votes_that_decided_its_place,
    test_3_3_a_loss_is_recognised_from_the_chain_and_asked_for_by_a_negative_ack,
)
from tests.stacks.domain import graphs
from tests.stacks.domain.graphs import by_rule, order_by_definition, order_of, random_graph, settled
from tests.stacks.domain.islands import judge_seed
from tests.stacks.domain.test_components import (
    test_a_process_closes_its_configuration_once_for_a_suggestion,
    test_a_process_that_has_gone_on_does_not_go_back,
)
from tests.stacks.domain.test_latency import test_whoever_saves_its_vote_casts_it_where_the_others_do_not
from tests.stacks.domain.test_partitionable import (
    test_what_one_survivor_alone_holds_is_fetched_when_the_configuration_is_closed,
)
from tests.stacks.domain.test_surroundings import (
    test_a_flapping_link_makes_fewer_and_fewer_configurations,
    test_a_member_that_takes_nothing_in_is_given_up_by_all,
    test_a_silent_member_is_asked_by_itself_before_it_is_given_up,
    test_bad_links_settle_into_the_largest_sets_that_hear_each_other,
    test_members_that_send_all_the_time_are_not_suspected,
    test_messages_of_a_suspect_are_dropped_unless_somebody_else_has_them,
)
from tests.stacks.domain.test_voting import all_ballots

ISLANDS = "islands"
ROUNDS = "rounds"
GRAPHS = "graphs"
TABLE = "table"
LINKS = "links"
PROBE = "probe"
DEAF = "deaf"
FLAPPING = "flapping"
BACK = "back"
ONCE = "once"
SUSPECTS = "suspects"
LOAD = "load"
LAST = "last"
LOSS = "loss"
SAVED = "saved"
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


def bad_links_do_not_settle() -> None:
    """Three of four hear each other."""
    expected = ["p1 p3 p4", "p2", "p1 p3 p4", "p1 p3 p4"]
    test_bad_links_settle_into_the_largest_sets_that_hear_each_other(4, [(0, 1), (1, 0)], expected)


SCENES: dict[str, Callable[[], None]] = {
    TABLE: test_3_2_safe_waits_until_all_hold_the_votes_that_decided_its_place,
    LINKS: bad_links_do_not_settle,
    PROBE: test_a_silent_member_is_asked_by_itself_before_it_is_given_up,
    DEAF: test_a_member_that_takes_nothing_in_is_given_up_by_all,
    FLAPPING: test_a_flapping_link_makes_fewer_and_fewer_configurations,
    BACK: test_a_process_that_has_gone_on_does_not_go_back,
    ONCE: test_a_process_closes_its_configuration_once_for_a_suggestion,
    SUSPECTS: test_messages_of_a_suspect_are_dropped_unless_somebody_else_has_them,
    LOAD: test_members_that_send_all_the_time_are_not_suspected,
    LOSS: test_3_3_a_loss_is_recognised_from_the_chain_and_asked_for_by_a_negative_ack,
    SAVED: test_whoever_saves_its_vote_casts_it_where_the_others_do_not,
    LAST: test_what_one_survivor_alone_holds_is_fetched_when_the_configuration_is_closed,
}


def scene_problem(scene: str) -> str | None:
    """A scene that does not come out as it must."""
    try:
        SCENES[scene]()
    except (AssertionError, LookupError):
        return f"scene: {scene}"
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
    if self._votes[sender] and not ordered and self._votes[sender][-1][0] not in self._ordered[sender]:
        self._votes[sender].pop()
        self._heard &= ~(1 << sender)
        for rank in self._support:
            self._support[rank] &= ~(1 << sender)
    _add(self, sender, number, past, ordered)


_add = VoteRounds.add


def _nothing_lacks(self: Services) -> bool:
    return False


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


def _own_holdings(self: Commitment) -> list[int]:
    return self.words[self._process].held


def _first_holdings(self: Commitment) -> list[int]:
    return self.words[self._view.members[self.mates()[0]]].held


def _decided_without_one(self: Commitment) -> bool:
    """The commit rule is dropped: one word may be lacking."""
    return sum(1 for word in self.words.values() if word.held) >= max(1, len(self.suggestion.view.members) - 1)


def _all_are_mates(self: Commitment) -> list[int]:
    """Whoever was in the configuration is taken to come along."""
    return [rank for rank, one in enumerate(self._view.members) if one in self.words]


def _never_closed(self: Commitment) -> list[int] | None:
    """Closing does not end what is taken in and sent."""
    return None


def _late_votes(self: Commitment) -> list[int] | None:
    """Votes of whomever are counted after SP was acknowledged."""
    return [NUMBER_MAX] * len(self._view.members) if self.closed else None


def _nothing_after_closing(self: Broadcast, mid: Any) -> bool:
    """What still comes of K is dropped."""
    return self.bounds is None


def _matrix_ignored(self: Commitment) -> bool:
    return self.has_all_words()


def _never_withdraw(self: Components, suggestion: Any) -> bool:
    """The present configuration is installed again and again."""
    return False


def _no_probe(self: Components, now_ns: int) -> None:
    self._suspicion.due(now_ns, set())
    for rank in sorted(self._suspicion.lost):
        self._cut(self.view.members[rank], now_ns)


def _not_watched(self: Components, now_ns: int) -> None:
    """A member may take in nothing, for ever."""


def _no_damping(self: Surroundings, process: Any, now_ns: int) -> bool:
    return False


def _fits_always(here: list[int], cut: list[int]) -> bool:
    return True


def _closes_again(self: Components, now_ns: int) -> None:
    _advance(self, now_ns)
    self._closed_number = 0


_advance = Components._advance


def _suspects_heard(self: DomainSession, bounds: list[int] | None, suspects: set[int]) -> None:
    """Messages of the suspected are acknowledged as ever."""
    _limit(self, bounds, set())


_limit = DomainSession.limit


def _silent_under_load(self: DomainSession, now_ns: int) -> None:
    """A node puts off the heartbeat."""
    _note_node_sent(self, now_ns)
    self._status_at_ns = now_ns + self._interval_ns()


_note_node_sent = DomainSession._note_node_sent


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
    if self.current is not None and commit.suggestion.id == self.current.suggestion.id:
        self.current.learn(commit.words)
        self._advance(now_ns)


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


FITS_ALWAYS = (components, "fits", _fits_always)
"""Two of the rules stand behind each other: what is taken in too much is found when K is known, and mended."""

DOMAIN_MUTANTS = (
    Mutant("unseen candidates ignored", (ROUNDS,), ((graphs, "next_in_round", _ignore_the_unseen),)),
    Mutant("the unheard taken to abstain", (ROUNDS,), ((graphs, "next_in_round", _ignore_the_unheard),)),
    Mutant("everybody waited for", (ROUNDS,), ((graphs, "next_in_round", _never_sure_enough),)),
    Mutant("half is a majority against a candidate", (ROUNDS,), ((voting, "_most_without", _half_is_a_majority),)),
    Mutant("a vote changes", (GRAPHS,), ((VoteRounds, "add", _votes_that_change),)),
    Mutant("a vote that was saved is not cast", (SAVED,), ((Services, "lacks_places", _nothing_lacks),)),
    Mutant("safe messages at their place", (ISLANDS,), ((Services, "_is_safe", _safe_at_its_place),)),
    Mutant("safe messages without their votes", (TABLE,), ((Services, "_is_safe", _safe_without_its_votes),)),
    Mutant("other messages overtake ordered ones", (ISLANDS,), ((Services, "_is_blocked", _weak_overtakes),)),
    Mutant("members that are gone do not abstain", (ISLANDS,), ((Services, "close", _no_end),)),
    Mutant("K is what one holds oneself", (ISLANDS,), ((Commitment, "cut", _own_holdings),)),
    Mutant("K is what the first holds", (ISLANDS,), ((Commitment, "cut", _first_holdings), FITS_ALWAYS)),
    Mutant("a commit may be lacking", (ISLANDS,), ((Commitment, "is_decided", _decided_without_one),)),
    Mutant("whoever was there comes along", (ISLANDS,), ((Commitment, "mates", _all_are_mates),)),
    Mutant("closing ends nothing", (ISLANDS,), ((Commitment, "bounds", _never_closed),)),
    Mutant("a vote counted after SP was acked", (ISLANDS,), ((Commitment, "bounds", _late_votes), FITS_ALWAYS)),
    Mutant("K is not taken in after closing", (LAST,), ((Broadcast, "counts", _nothing_after_closing),)),
    Mutant("the reachability matrix is ignored", (LINKS,), ((Commitment, "is_agreed", _matrix_ignored),)),
    Mutant("the present configuration is installed again", (LINKS,), ((Components, "_is_present", _never_withdraw),)),
    Mutant("no probe before a suspicion", (PROBE,), ((Components, "_suspect", _no_probe),)),
    Mutant("a member takes nothing in", (DEAF,), ((Components, "_watch", _not_watched),)),
    Mutant("flapping is not damped", (FLAPPING,), ((Surroundings, "_must_wait", _no_damping),)),
    Mutant("back to what K lacks", (BACK,), (FITS_ALWAYS,)),
    Mutant("closed twice for one suggestion", (ONCE,), ((Components, "_advance", _closes_again),)),
    Mutant("messages of suspects taken in", (SUSPECTS,), ((DomainSession, "limit", _suspects_heard),)),
    Mutant("a node puts off the heartbeat", (LOAD,), ((DomainSession, "_note_node_sent", _silent_under_load),)),
    Mutant("missing messages of K are not waited for", (ISLANDS,), ((GraphViewEnd, "is_complete", _complete_at_once),)),
    Mutant("K is not finished by the old rule", (ISLANDS,), ((Services, "finish_regular", _skip_regular),)),
    Mutant("ids do not tell where views come from", (ISLANDS,), ((PartitionablePolicy, "merged_id", _same_id),)),
    Mutant("cut links are not named", (ISLANDS,), ((Components, "_cut", _no_cuts),)),
    Mutant("suggestions of others are ignored", (ISLANDS,), ((Components, "_consider", _ignore_commits),)),
    Mutant("no negative acks", (LOSS,), ((Broadcast, "_ask", _never_ask),)),
    Mutant("what waits for a node is forgotten", (ISLANDS,), ((Broadcast, "receive", _forget_what_waits),)),
    Mutant("no status", (ISLANDS,), ((DomainSession, "_send_status", _no_status),)),
)


def hunt(mutant: Mutant) -> str | None:
    """How a mutant was caught; None if it survived."""
    hunter = mutant.breaks[0]
    with mutant.at_large():
        return scene_problem(hunter) if hunter in SCENES else HUNTERS[hunter]()


def main() -> None:
    """Hunt them all."""
    for mutant in DOMAIN_MUTANTS:
        begun_s = time.monotonic()
        caught = hunt(mutant)
        print(f"{mutant.name}: {'SURVIVED' if caught is None else caught[:110]} ({time.monotonic() - begun_s:.1f} s)")


if __name__ == "__main__":
    main()
