"""The rules of a replicated sequencer's log (seat_log.py), each broken on purpose; hunted at the voters of one seat."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from antiphon.kernel.effects import Effects
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer import seat_sequencer
from antiphon.stacks.sequencer.offers import OFFERS as SEQUENCER
from antiphon.stacks.sequencer.seat_disk import SeatDisk
from antiphon.stacks.sequencer.seat_log import SeatLog
from antiphon.stacks.sequencer.seat_sequencer import SeatSequencer
from antiphon.stacks.sequencer.seat_state import GIVE, GROUP, drop_record
from antiphon.stacks.sequencer.seat_voter import FOLLOWER, RECOVERING
from antiphon.stacks.sequencer.wire import FrameReader
from tests.mutants.mutants import Mutant
from tests.stacks.sequencer.seat_table import hasty_recovery_problem, run_table, two_votes_problem
from tests.stacks.sequencer.test_seat_sequencer import (
    test_a_group_that_comes_back_before_it_was_acknowledged_stays,
    test_where_a_group_went_is_in_the_log,
)


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
    self: SeatLog,
    seat: str,
    own: str,
    voters: list[str],
    life: int,
    options: Options,
    now_ns: int,
    disk: SeatDisk | None = None,
) -> None:
    _init(self, seat, own, voters, life, options, now_ns, disk)
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


def _promise_at_once(self: SeatLog, voter: str, data: bytes) -> None:
    if self.disk is not None and self.role != RECOVERING:
        self.disk.promise(self.term, self._voted_for, self._lives)
    self.outbox.append((voter, data))


def _write_no_votes(self: SeatDisk, term: int, voted_for: str, lives: dict[str, int]) -> None:
    return None


def _count_without_the_own_disk(self: SeatLog) -> None:
    disk, self.disk = self.disk, None
    _count(self)
    self.disk = disk


_count = SeatLog._count


def _trim_at_once(self: SeatDisk, token: int, index: int, effects: Effects) -> None:
    self._trim_to = self._whole_at
    _write(self, token, index, effects)
    self.trim(effects)


_write = SeatDisk.write


def _no_entries_on_disk(self: SeatDisk, term: int, entry: bytes) -> None:
    return None


def _nothing(self: Any, *arguments: Any) -> None:
    return None


RETURNED = "seat: what comes back is not written down"
GONE = "seat: where groups go is not written down"


def _untold_return(self: SeatSequencer, reader: FrameReader) -> list[bytes]:
    before, groups = len(self.records), set(self._groups)
    answer = _take_over(self, reader)
    written = self.records[before:]
    self.records[before:] = [record for record in written if record[0] != GIVE and not _has_group(record, groups)]
    return answer


def _has_group(record: bytes, groups: set[int]) -> bool:
    reader = FrameReader(record)
    return reader.u8() == GROUP and reader.group() in groups


_take_over = SeatSequencer._take_over


def _gone_nowhere(group: int, moves: int, address: str) -> bytes:
    return drop_record(group, moves, "")


def _problem_of(scene: Callable[[], None]) -> str:
    """What a test of records of moves says."""
    try:
        scene()
    except (AssertionError, LookupError) as error:
        return str(error) or type(error).__name__
    return ""


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
    Mutant(RETURNED, (), ((SeatSequencer, "_take_over", _untold_return),), SEQUENCER.name),
    Mutant(GONE, (), ((seat_sequencer, "drop_record", _gone_nowhere),), SEQUENCER.name),
)


def _disk_mutant(name: str, owner: type, attribute: str, replacement: Any) -> Mutant:
    return Mutant(f"seat on disk: {name}", (), ((owner, attribute, replacement),), SEQUENCER.name)


DISK_MUTANTS = (
    _disk_mutant("promised before it is safe", SeatLog, "_promise", _promise_at_once),
    _disk_mutant("votes are not written down", SeatDisk, "promise", _write_no_votes),
    _disk_mutant("told before the leader's disk has it", SeatLog, "_count", _count_without_the_own_disk),
    _disk_mutant("trimmed before the state is safe", SeatDisk, "write", _trim_at_once),
    _disk_mutant("entries are not written down", SeatDisk, "entry", _no_entries_on_disk),
)


SEAT_STAGED: Final[dict[str, Callable[[], str | None]]] = {
    "seat: several votes a term": two_votes_problem,
    "seat: one answer is enough to recover": hasty_recovery_problem,
    RETURNED: partial(_problem_of, test_a_group_that_comes_back_before_it_was_acknowledged_stays),
    GONE: partial(_problem_of, test_where_a_group_went_is_in_the_log),
}
"""What random runs seldom come to."""


def seat_symptoms(seed: int, breaks: Sequence[str]) -> str | None:
    """What does not hold in this seed's run of one replicated sequencer."""
    return run_table(seed, 1).problem or None


def disk_symptoms(seed: int, breaks: Sequence[str]) -> str | None:
    """The same of one that also keeps its log on disk."""
    return run_table(seed, 1, is_durable=True).problem or None
