"""The stack `domain` broken on purpose: each mutant must be caught, by all states of a round or by islands that part
and merge.

    ANTIPHON_PURE=1 python -m tests.mutants.hunt domain
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX
from antiphon.kernel.levels import AGREED
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.membership.policies import PartitionablePolicy
from antiphon.parts.node_batch import EVERYBODY
from antiphon.stacks.domain import components, suggestion_maker, voting
from antiphon.stacks.domain.broadcast import Broadcast
from antiphon.stacks.domain.commitment import Commitment
from antiphon.stacks.domain.components import Components
from antiphon.stacks.domain.proposal import SuggestionDraft
from antiphon.stacks.domain.services import HeldBatch, Services
from antiphon.stacks.domain.session import DomainSession
from antiphon.stacks.domain.silence import SilentMembers
from antiphon.stacks.domain.surroundings import Surroundings
from antiphon.stacks.domain.voting import VoteRounds
from tests.contracts.test_subsets import (
    test_causal_order_holds_through_a_member_that_is_no_destination,
    test_only_its_destinations_are_handed_a_message,
    test_who_is_gone_when_a_message_leaves_is_left_out,
)
from tests.mutants.mutants import Mutant
from tests.papers.test_transis_1992_domain import (
    test_3_2_safe_waits_until_all_hold_the_votes_that_decided_its_place,
    test_3_3_a_last_message_that_is_lost_is_found_by_what_others_tell,
    test_3_3_a_loss_is_recognised_from_the_chain_and_asked_for_by_a_negative_ack,
)
from tests.papers.test_transis_1992_joins import test_5_2_whoever_is_committed_ignores_foreign_suggestions
from tests.stacks.domain import graphs
from tests.stacks.domain.graphs import by_rule, order_by_definition, order_of, random_graph, settled
from tests.stacks.domain.islands import judge_seed
from tests.stacks.domain.test_components import (
    test_5_2_a_suggestion_that_contains_the_own_one_is_taken_whatever_its_number,
    test_a_cut_counts_until_the_process_that_named_it_takes_it_back,
    test_a_process_closes_its_configuration_once_for_a_suggestion,
    test_a_process_is_suggested_from_where_it_says_it_is,
    test_a_process_that_has_gone_on_does_not_go_back,
    test_a_suggestion_as_large_with_a_higher_number_is_taken,
    test_components_merge_on_a_slow_network,
    test_to_refuse_what_others_suggest_is_no_reason_to_wait,
    test_whoever_is_not_heard_gives_way_to_whoever_says_that_the_link_to_it_is_cut,
    test_whoever_stays_with_a_suggestion_as_large_suggests_it_again,
    test_whoever_was_given_up_for_its_silence_is_taken_back_when_it_is_heard,
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
    test_nobody_leaves_its_own_for_others_while_a_network_heals_bit_by_bit,
    test_suspicion_adapts_over_configurations,
)
from tests.stacks.domain.test_voting import all_ballots
from tests.stacks.domain.test_window import test_members_go_on_sending_while_one_is_silent

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
CHOSEN = "chosen"
THROUGH = "through"
GONE = "gone"
STATUS = "status"
GAPS = "gaps"
BIT_BY_BIT = "bit by bit"
FOREIGN = "foreign"
SLOW = "slow"
ROWS = "rows"
SILENT = "silent"
TAKEN_BACK = "taken back"
CONTAINS = "contains"
INSIST = "insist"
AS_LARGE = "as large"
REFUSED = "refused"
STATED = "stated"
SILENCE = "silence"


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


def handed_to_others() -> None:
    """Agreed messages to some of four members."""
    test_only_its_destinations_are_handed_a_message("domain", AGREED)


def causal_order_through_others() -> None:
    """What is behind an agreed message passes a member that the message is not for."""
    test_causal_order_holds_through_a_member_that_is_no_destination("domain", AGREED)


def destinations_are_gone() -> None:
    """Messages to members that are no longer in the view."""
    test_who_is_gone_when_a_message_leaves_is_left_out("domain")


SCENES: dict[str, Callable[[], None]] = {
    CHOSEN: handed_to_others,
    THROUGH: causal_order_through_others,
    GONE: destinations_are_gone,
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
    SLOW: test_components_merge_on_a_slow_network,
    FOREIGN: test_5_2_whoever_is_committed_ignores_foreign_suggestions,
    GAPS: test_suspicion_adapts_over_configurations,
    BIT_BY_BIT: test_nobody_leaves_its_own_for_others_while_a_network_heals_bit_by_bit,
    STATUS: test_3_3_a_last_message_that_is_lost_is_found_by_what_others_tell,
    ROWS: test_a_cut_counts_until_the_process_that_named_it_takes_it_back,
    SILENT: test_whoever_is_not_heard_gives_way_to_whoever_says_that_the_link_to_it_is_cut,
    TAKEN_BACK: test_whoever_was_given_up_for_its_silence_is_taken_back_when_it_is_heard,
    CONTAINS: test_5_2_a_suggestion_that_contains_the_own_one_is_taken_whatever_its_number,
    INSIST: test_whoever_stays_with_a_suggestion_as_large_suggests_it_again,
    AS_LARGE: test_a_suggestion_as_large_with_a_higher_number_is_taken,
    REFUSED: test_to_refuse_what_others_suggest_is_no_reason_to_wait,
    STATED: test_a_process_is_suggested_from_where_it_says_it_is,
    SILENCE: test_members_go_on_sending_while_one_is_silent,
    LAST: test_what_one_survivor_alone_holds_is_fetched_when_the_configuration_is_closed,
}


def scene_problem(scene: str) -> str | None:
    """A scene that does not come out as it must."""
    try:
        SCENES[scene]()
    except (AssertionError, LookupError):
        return f"scene: {scene}"
    return None


def island_problem(seed: int) -> str | None:
    """What does not hold in this seed's run of islands, or what it raises."""
    try:
        problems, _ = judge_seed(seed)
    except (AssertionError, MalformedError, LookupError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return problems[0] if problems else None


def domain_symptoms(seed: int, breaks: Sequence[str]) -> str | None:
    """What this seed's islands show; what all rounds, random graphs or a scene show is the same for every seed."""
    hunter = breaks[0]
    if hunter == ISLANDS:
        return island_problem(seed)
    if hunter in SCENES:
        return scene_problem(hunter)
    return round_problem() if hunter == ROUNDS else graph_problem()


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
    """Nobody that is silent is asked by itself."""


def _not_watched(self: Components, now_ns: int) -> None:
    """A member may take in nothing, for ever."""


def _no_damping(self: Surroundings, process: Any, now_ns: int) -> bool:
    return False


def _never_more_patient(self: Commitment, least_ns: int, most_ns: int) -> int:
    """Closing is given 0.2 s, however long everything takes."""
    return least_ns


def _any_row(self: Surroundings, process: Any, row: Any) -> None:
    """The row that came last counts, and not the one that was made last."""
    self.rows[process] = row


def _silent_as_others(self: SuggestionDraft, silent: Any) -> Any:
    """Whoever is not heard counts as much as whoever is."""
    return _members_of(self, set())


_members_of = SuggestionDraft.members


def _never_taken_back(self: Components, process: Any, now_ns: int) -> None:
    """Whoever was given up for its silence stays so."""


def _numbers_decide(self: Components, suggestion: Any, current: Any, now_ns: int) -> bool:
    """A suggestion with a lower number is not taken, whatever it contains."""
    return False


def _never_insist(self: Components, now_ns: int) -> None:
    """Whoever stays with a suggestion leaves it to the others to find out."""


def _same_or_nothing(self: SuggestionDraft, other: Any, members: Any) -> bool:
    """Of sets as large each process takes the one that it would choose itself."""
    return set(other.origins) == set(members) and _is_as_good(self, other, members)


_is_as_good = SuggestionDraft.is_as_good


def _refusals_count(self: Components, suggestion: Any) -> bool:
    """A suggestion of others that is refused is a reason to wait."""
    is_present = _is_present(self, suggestion)
    if is_present and self.current is None:
        self._withdraw(0)
    return is_present


_is_present = Components._is_present


def _never_overtaken(self: SilentMembers, sender: int, waiting: Any) -> None:
    """What silent members do not acknowledge fills the window."""


def _others_know_better(self: Surroundings, process: Any) -> int:
    """What a process says of where it is does not count."""
    return 0


def _no_memory(self: Surroundings, process: Any) -> int:
    """How long a member has been silent before is forgotten with the configuration."""
    return 0


def _foreign_ones_not_waited_for(self: Commitment) -> bool:
    return False


def _fits_always(here: list[int], cut: list[int]) -> bool:
    return True


def _closes_again(self: Components, now_ns: int) -> None:
    _advance(self, now_ns)
    self._closed_number = 0


_advance = Components._advance


def _suspects_heard(self: DomainSession, bounds: list[int] | None, suspects: set[int], silent: frozenset[int]) -> None:
    """Messages of the suspected are acknowledged as ever."""
    _limit(self, bounds, set(), silent)


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


def _moves_for_anybody(self: Components, commit: Any, now_ns: int) -> None:
    """A suggestion of a foreign process moves one that is committed."""
    current, suggestion = self.current, commit.suggestion
    if current is not None and not current.suggestion.has(commit.sender) and self.view.rank(commit.sender) < 0:
        self._commit(self._build([current.suggestion, suggestion], now_ns), commit.words, now_ns, suggestion)
    else:
        _consider(self, commit, now_ns)


_consider = Components._consider


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


def _handed_to_all(self: Services, held: HeldBatch, effects: Effects) -> None:
    held.destinations |= 1 << self._me
    _assemble(self, held, effects)


_assemble = Services._assemble


def _others_do_not_wait(self: Services, held: HeldBatch) -> bool:
    """A member does not wait for ordered messages that are not for it."""
    waiting = [one for one in (*self._ordered.values(), *self._line) if one.destinations >> self._me & 1]
    return bool(waiting) and _is_blocked(self, held)


_is_blocked = Services._is_blocked


def _gone_means_all(self: DomainSession, processes: Any) -> int:
    """A message whose destinations are gone is for everybody."""
    return _ranks_of(self, processes) or EVERYBODY


_ranks_of = DomainSession._ranks_of

FITS_ALWAYS = ((components, "fits", _fits_always), (suggestion_maker, "fits", _fits_always))
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
    Mutant("K is what the first holds", (ISLANDS,), ((Commitment, "cut", _first_holdings), *FITS_ALWAYS)),
    Mutant("a commit may be lacking", (ISLANDS,), ((Commitment, "is_decided", _decided_without_one),)),
    Mutant("whoever was there comes along", (ISLANDS,), ((Commitment, "mates", _all_are_mates),)),
    Mutant("closing ends nothing", (ISLANDS,), ((Commitment, "bounds", _never_closed),)),
    Mutant("a vote counted after SP was acked", (ISLANDS,), ((Commitment, "bounds", _late_votes), *FITS_ALWAYS)),
    Mutant("K is not taken in after closing", (LAST,), ((Broadcast, "counts", _nothing_after_closing),)),
    Mutant("the reachability matrix is ignored", (LINKS,), ((Commitment, "is_agreed", _matrix_ignored),)),
    Mutant("the present configuration is installed again", (LINKS,), ((Components, "_is_present", _never_withdraw),)),
    Mutant("no probe before a suspicion", (PROBE,), ((Components, "_probe", _no_probe),)),
    Mutant("a member takes nothing in", (DEAF,), ((Components, "_watch", _not_watched),)),
    Mutant("flapping is not damped", (FLAPPING,), ((Surroundings, "_must_wait", _no_damping),)),
    Mutant("closing is given little time", (SLOW,), ((Commitment, "patience_ns", _never_more_patient),)),
    Mutant("an earlier row of cut links counts", (ROWS,), ((Surroundings, "learn_row", _any_row),)),
    Mutant("the dead preferred to the living", (SILENT,), ((SuggestionDraft, "members", _silent_as_others),)),
    Mutant("silence is never taken back", (TAKEN_BACK,), ((Components, "_heard_again", _never_taken_back),)),
    Mutant("a lower number is never followed", (CONTAINS,), ((Components, "_contains", _numbers_decide),)),
    Mutant("nobody insists", (INSIST,), ((Components, "_insist", _never_insist),)),
    Mutant("each takes its own of sets as large", (AS_LARGE,), ((SuggestionDraft, "is_as_good", _same_or_nothing),)),
    Mutant("to refuse makes one wait", (REFUSED,), ((Components, "_is_present", _refusals_count),)),
    Mutant("the window waits for the silent", (SILENCE,), ((SilentMembers, "settle", _never_overtaken),)),
    Mutant("others say where one is", (STATED,), ((Surroundings, "stated", _others_know_better),)),
    Mutant("gaps are forgotten", (GAPS,), ((Surroundings, "longest_gap_ns", _no_memory),)),
    Mutant(
        "own members left while others are not heard yet",
        (BIT_BY_BIT,),
        ((Commitment, "lacks_foreign_alone", _foreign_ones_not_waited_for),),
    ),
    Mutant("back to what K lacks", (BACK,), FITS_ALWAYS),
    Mutant("closed twice for one suggestion", (ONCE,), ((Components, "_advance", _closes_again),)),
    Mutant("messages of suspects taken in", (SUSPECTS,), ((DomainSession, "limit", _suspects_heard),)),
    Mutant("a node puts off the heartbeat", (LOAD,), ((DomainSession, "_note_node_sent", _silent_under_load),)),
    Mutant("missing messages of K are not waited for", (ISLANDS,), ((GraphViewEnd, "is_complete", _complete_at_once),)),
    Mutant("K is not finished by the old rule", (ISLANDS,), ((Services, "finish_regular", _skip_regular),)),
    Mutant("ids do not tell where views come from", (ISLANDS,), ((PartitionablePolicy, "merged_id", _same_id),)),
    Mutant("cut links are not named", (ISLANDS,), ((Components, "_cut", _no_cuts),)),
    Mutant("suggestions of others are ignored", (ISLANDS,), ((Components, "_consider", _ignore_commits),)),
    Mutant(
        "a foreign suggestion moves whoever is committed", (FOREIGN,), ((Components, "_consider", _moves_for_anybody),)
    ),
    Mutant("no negative acks", (LOSS,), ((Broadcast, "_ask", _never_ask),)),
    Mutant("what waits for a node is forgotten", (ISLANDS,), ((Broadcast, "receive", _forget_what_waits),)),
    Mutant("messages for some are handed to all", (CHOSEN,), ((Services, "_assemble", _handed_to_all),)),
    Mutant("no wait for what is not for oneself", (THROUGH,), ((Services, "_is_blocked", _others_do_not_wait),)),
    Mutant("messages to nobody go to all", (GONE,), ((DomainSession, "_ranks_of", _gone_means_all),)),
    Mutant("no status", (STATUS,), ((DomainSession, "_send_status", _no_status),)),
)
