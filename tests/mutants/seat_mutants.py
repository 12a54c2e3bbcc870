"""The rules of a replicated sequencer's log (seat_log.py), each broken on purpose; hunted at the voters of one seat."""

from typing import Any

from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.offers import OFFERS as SEQUENCER
from antiphon.stacks.sequencer.seat_log import FOLLOWER, RECOVERING, SeatLog
from antiphon.stacks.sequencer.wire import FrameReader
from tests.mutants.mutants import Mutant
from tests.stacks.sequencer.seat_table import hasty_recovery_problem, run_table, two_votes_problem

SEEDS = 60
"""How many runs a mutant may survive."""
CAUGHT_BY = {"seat: k votes make a leader": 106}
"""The seeds that catch mutants which few do."""


def _tell_at_once(self: SeatLog, records: list[bytes]) -> None:
    _append(self, records)
    self.commit = self.index


_append = SeatLog.append


def _count_one_less(self: SeatLog) -> None:
    held = sorted([progress.acked for progress in self.progress.values()])
    self.commit = max(self.commit, held[-1] if self.replicas > 1 else self.index)


def _vote_again(self: SeatLog, voter: str, term: int, reader: FrameReader, now_ns: int) -> None:
    self._voted_for = ""
    _asked_for_vote(self, voter, term, reader, now_ns)


_asked_for_vote = SeatLog._asked_for_vote


def _vote_whatever_the_log(self: SeatLog, voter: str, term: int, reader: FrameReader, now_ns: int) -> None:
    ends = (self.index, self.last_term)
    self.index = self.last_term = 0
    _asked_for_vote(self, voter, term, reader, now_ns)
    self.index, self.last_term = ends


def _obey_lower_terms(self: SeatLog, voter: str, term: int, kind: int, reader: FrameReader, now_ns: int) -> None:
    own = self.term
    if self.role == FOLLOWER and term < own:
        self.term = term
    _entries_from(self, voter, term, kind, reader, now_ns)


_entries_from = SeatLog._entries_from


def _remember_nothing_and_go_on(
    self: SeatLog, seat: str, own: str, voters: list[str], life: int, options: Options, now_ns: int
) -> None:
    _init(self, seat, own, voters, life, options, now_ns)
    self._become_follower()


_init = SeatLog.__init__


def _take_entries_anyway(self: SeatLog, voter: str, term: int, kind: int, reader: FrameReader, now_ns: int) -> None:
    """Does not look whether what comes continues its own log."""
    copy = FrameReader(reader.rest())
    copy.number()
    index, index_term = copy.number(), copy.number()
    if self.role != RECOVERING and term >= self.term:
        self.index, self.last_term = index, index_term
    _entries_from(self, voter, term, kind, reader, now_ns)


def _one_answer_is_enough(self: SeatLog) -> bool:
    return any(term >= 0 for _, term in self._recovered.values())


def _any_two_lead(self: SeatLog, granted: dict[str, int]) -> bool:
    return len(granted) >= self.replicas


def _whole_state_is_not_taken(
    self: SeatLog, voter: str, term: int, kind: int, reader: FrameReader, now_ns: int
) -> None:
    state = self.state
    _entries_from(self, voter, term, kind, reader, now_ns)
    self.state = state


def _always_enough(self: SeatLog, now_ns: int) -> bool:
    return False


def _nothing(self: Any, *arguments: Any) -> None:
    return None


def _mutant(name: str, attribute: str, replacement: Any) -> Mutant:
    return Mutant(f"seat: {name}", (), ((SeatLog, attribute, replacement),), SEQUENCER.name)


SEAT_MUTANTS = (
    _mutant("told before anybody holds it", "append", _tell_at_once),
    _mutant("told when one too few hold it", "_count", _count_one_less),
    _mutant("several votes a term", "_asked_for_vote", _vote_again),
    _mutant("a vote for a shorter log", "_asked_for_vote", _vote_whatever_the_log),
    _mutant("a lower term is obeyed", "_entries_from", _obey_lower_terms),
    _mutant("who has forgotten goes on", "__init__", _remember_nothing_and_go_on),
    _mutant("entries that continue another log", "_entries_from", _take_entries_anyway),
    _mutant("one answer is enough to recover", "_has_recovered_terms", _one_answer_is_enough),
    _mutant("k votes make a leader", "_majority_of", _any_two_lead),
    _mutant("the whole state is not taken", "_entries_from", _whole_state_is_not_taken),
    _mutant("a leader steps down all the time", "answers_enough", _always_enough),
    _mutant("nobody is told of terms", "_tell_recovering", _nothing),
)


STAGED = {
    "seat: several votes a term": two_votes_problem,
    "seat: one answer is enough to recover": hasty_recovery_problem,
}
"""What random runs seldom come to."""


def hunt(mutant: Mutant) -> str | None:
    """What the first run shows that catches the mutant; None if none does."""
    with mutant.at_large():
        if mutant.name in STAGED:
            return STAGED[mutant.name]() or None
        for seed in (CAUGHT_BY.get(mutant.name, 0), *range(SEEDS)):
            problem = run_table(seed, 1).problem
            if problem:
                return f"seed {seed}: {problem}"
    return None
