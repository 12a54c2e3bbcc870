"""The log of one seat: k + 1 of 2k + 1 peers hold what the seat's sequencer tells its clients.

A *seat* is a sequencer that outlives processes: it has an address of the service for its name, groups, and a log of
all that it has done. 2k + 1 peers are its *voters*: the one at that address and those that follow it in the ring of
all addresses. One of them leads: it runs the sequencer (seat_sequencer.py); the others hold copies (seat_state.py).
There is one log for all groups of a seat, so whatever has to be at one sequencer is in one log.

Promise. What a seat has told anybody outside (an ACCEPT, an acknowledgement, a transfer) is in the state of every
later leader of the seat: no number is lost, and none is given twice. There are never two processes of which both can
tell.

Rule. (after Raft, in the manner of primary and backup)
  Terms. A voter that does not hear the leader asks all for their votes, in a higher term. A voter gives one vote a
      term, to somebody whose log ends no earlier than its own: a later term at the end, or the same and no lower an
      index. k + 1 votes, the own one included, make a leader. A voter obeys nobody of a lower term.
  Entries. A leader appends entries, all of its term, and sends them to all voters in order. A voter appends what
      continues its own log (index and term of its end are those that the leader names), applies it, and says how far
      it has come. A voter whose log ends otherwise is sent the leader's state as a whole.
  Telling. What an entry gives rise to leaves when k others have acknowledged that entry, and the leader's own disk,
      if it has one, holds it. A leader begins with an entry
      that says nothing, so that what earlier terms left is settled with it.
  Lives. Memory is lost in a crash. A process that starts votes for nobody and acknowledges nothing until k + 1 other
      voters that do have told it their terms, the highest of which becomes its own, and a leader of no lower term has
      brought its copy up to date. Votes and acknowledgements name the lives that their sender knows of, and those of a
      former life of a voter do not count once anybody that counts knows of its next life. At the very first, when all
      voters are new, each starts with an empty log; whoever was new then and is so still may, too.

Safe. Two leaders of one term had a voter in common that voted twice; it would have had to forget, and Lives forbids
that: of the k + 1 that answer a voter that has forgotten, one is among the k others whose votes made the first leader,
and either had voted already, so its term is in the answer, or names the new life when it votes. An entry that was told
is at k + 1 voters; whoever becomes leader later has the vote of one of them, or of one that was brought up to date
since by a leader that had the entry, so its log ends no earlier, and by induction over terms it contains the entry. A
state that was sent as a whole is the leader's log up to its end. A leader that was cut off appends in vain: k others
do not answer it.

Live. While k + 1 voters with memory reach each other, one of them becomes leader: those further from the seat's own
process wait longer. The leader is not unseated while it is heard. A leader that k others do not answer steps down, so
that clients look elsewhere. If more than k voters lose their memory at once, what they held is lost with them: the
seat stands still until all of its voters have been started anew.

With a disk (seat_disk.py) a voter has no lives in this sense: it comes back with all that it has promised.

Limits. Entries that some voter has not acknowledged are kept up to ENTRIES_BYTES_MAX; a voter further behind is sent
the state as a whole."""

from collections import deque
from typing import Final, final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.seat_disk import SeatCopy, SeatDisk
from antiphon.stacks.sequencer.seat_state import SeatState, pack_records, unpack_records
from antiphon.stacks.sequencer.seat_voter import (
    ACKNOWLEDGED,
    APPEND,
    CANDIDATE,
    FOLLOWER,
    LEADER,
    NOBODY,
    RECOVER,
    RECOVERED,
    RECOVERING,
    VOTE,
    VOTED,
    WHOLE,
    SeatVoter,
)
from antiphon.stacks.sequencer.wire import FrameReader, blob, frame, u64

ENTRIES_BYTES_MAX: Final = 16 * 1024 * 1024


@final
class VoterProgress:
    """What the leader knows of another voter."""

    __slots__ = ("acked", "answered_ns", "attempt", "is_linked", "is_matched", "life", "sent")

    def __init__(self) -> None:
        self.is_linked = False
        self.attempt = 0
        """Counts the times that it had to be found out how far it is; answers to earlier ones are void."""
        self.is_matched = False
        """Its log is known to continue as this one does."""
        self.sent = 0
        self.acked = 0
        self.life = 0
        """Which life has acknowledged that."""
        self.answered_ns = 0


@final
class SeatLog(SeatVoter):
    """One seat at one of its voters: a voter that holds entries, and what they amount to."""

    __slots__ = ("_bytes", "_entries", "_first_index", "_former_term", "_is_matched", "commit", "progress", "state")

    def __init__(
        self,
        seat: str,
        own: str,
        voters: list[str],
        life: int,
        options: Options,
        now_ns: int,
        disk: SeatDisk | None = None,
    ) -> None:
        super().__init__(seat, own, voters, life, options, now_ns, disk)
        self.commit = 0
        self.state = SeatState(options)
        self.progress: dict[str, VoterProgress] = {}
        self._entries: deque[bytes] = deque()
        """The last entries of this term, up to `index`."""
        self._bytes = 0
        self._first_index = 0
        self._former_term = 0
        self._is_matched = False
        """Of a voter that follows: whether its log is, or was a moment ago, that of the leader."""

    def is_current(self) -> bool:
        """Whether this voter holds what the seat has told: as its leader, or as one that is brought up to date."""
        if self.role == LEADER:
            return self.commit >= self._first_index
        return self.role == FOLLOWER and self.leader != NOBODY and self._is_matched and not self._promises

    # ---- the leader's side -----------------------------------------------------------------------------------------

    def append(self, records: list[bytes]) -> None:
        """The leader's sequencer has changed so. Of a leader alone."""
        assert self.role == LEADER
        entry = pack_records(records)
        self.index += 1
        self.last_term = self.term
        self._entries.append(entry)
        self._bytes += len(entry)
        while self._bytes > ENTRIES_BYTES_MAX and len(self._entries) > 1:
            self._bytes -= len(self._entries.popleft())
        for voter, progress in self.progress.items():
            if progress.is_linked and progress.is_matched:
                self._send_entries(voter, progress)
        if self.disk is not None:
            self.disk.entry(self.term, entry)
        self._count()

    def _send_entries(self, voter: str, progress: VoterProgress) -> None:
        """Send what follows what was sent last, if it is still there."""
        first = self.index - len(self._entries) + 1
        if progress.sent + 1 < first:
            self._find_out(voter, progress)
            return
        fresh = [self._entries[at] for at in range(progress.sent + 1 - first, len(self._entries))]
        if fresh:
            self._send_append(voter, progress, progress.sent, self._term_at(progress.sent), fresh)
            progress.sent = self.index

    def _term_at(self, index: int) -> int:
        """The term of an entry of this leader, or of the one before its first."""
        return self.term if index >= self._first_index else self._former_term

    def _send_append(
        self, voter: str, progress: VoterProgress, previous: int, previous_term: int, entries: list[bytes]
    ) -> None:
        self._send(
            voter, APPEND, u64(progress.attempt), u64(previous), u64(previous_term), u64(len(entries)),
            *[blob(entry) for entry in entries],
        )  # fmt: skip

    def _find_out(self, voter: str, progress: VoterProgress) -> None:
        """Ask a voter whether its log ends as this one does."""
        progress.attempt += 1
        progress.is_matched = False
        progress.sent = self.index
        self._send_append(voter, progress, self.index, self.last_term, [])

    def send_whole(self, voter: str, records: list[bytes]) -> None:
        """Send the state of the sequencer, at the end of the log."""
        progress = self.progress[voter]
        progress.attempt += 1
        progress.is_matched = True
        progress.sent = self.index
        self._send(
            voter, WHOLE, u64(progress.attempt), u64(self.index), u64(self.last_term), u64(len(records)),
            *[blob(record) for record in records],
        )  # fmt: skip

    def _acknowledged(self, voter: str, life: int, reader: FrameReader, now_ns: int) -> bool:
        """Take an answer to what was sent; whether that voter needs the whole state."""
        term, attempt, is_matched = reader.number(), reader.number(), reader.u8()
        index, last_term = reader.number(), reader.number()
        self._note_lives(reader)
        if self._is_behind(term, now_ns) or self.role != LEADER or term != self.term:
            return False
        progress = self.progress[voter]
        progress.answered_ns = now_ns
        if attempt != progress.attempt or life != self._lives[voter]:
            return False
        if is_matched:
            progress.is_matched = True
            progress.life = life
            progress.acked = max(progress.acked, index)
            self._count()
            self._send_entries(voter, progress)
            return False
        is_known = last_term == self.term if index >= self._first_index else last_term == self._former_term
        first = self.index - len(self._entries) + 1
        if is_known and self._first_index - 1 <= index <= self.index and index + 1 >= first:
            progress.attempt += 1
            progress.is_matched = True
            progress.sent = index
            self._send_entries(voter, progress)
            return False
        return True

    def _count(self) -> None:
        """What k others hold may be told, if this voter's own disk has it too."""
        settled = self.index
        if self.replicas:
            held = sorted([p.acked for voter, p in self.progress.items() if p.life == self._lives.get(voter, 0)])
            settled = held[len(held) - self.replicas] if len(held) >= self.replicas else 0
        if self.disk is not None:
            settled = min(settled, self.disk.safe_index)
        if settled >= self._first_index:
            self.commit = max(self.commit, settled)

    def answers_enough(self, now_ns: int) -> bool:
        """Whether k others have answered lately."""
        limit_ns = now_ns - self._options.silence_ns_min
        return sum([progress.answered_ns >= limit_ns for progress in self.progress.values()]) >= self.replicas

    def step_down(self, now_ns: int) -> None:
        super().step_down(now_ns)
        self.progress = {}
        self._entries.clear()
        self._bytes = 0

    def _become_leader(self, now_ns: int) -> None:
        super()._become_leader(now_ns)
        self.progress = {voter: VoterProgress() for voter in self._others}
        self._former_term = self.last_term
        self._first_index = self.index + 1
        self._entries.clear()
        self._bytes = 0
        if self.disk is not None:  # all that was written is safe: votes were asked for after that
            self.disk.safe_index = self.index
        for progress in self.progress.values():
            progress.answered_ns = now_ns

    # ---- links and messages ----------------------------------------------------------------------------------------

    def linked(self, voter: str, life: int, now_ns: int) -> None:
        super().linked(voter, life, now_ns)
        progress = self.progress.get(voter)
        if progress is not None:
            progress.is_linked = True
            self._find_out(voter, progress)

    def unlinked(self, voter: str, now_ns: int) -> None:
        super().unlinked(voter, now_ns)
        progress = self.progress.get(voter)
        if progress is not None:
            progress.is_linked = progress.is_matched = False
        if voter == self.leader:
            self._is_matched = False

    def receive(self, voter: str, life: int, data: bytes, now_ns: int) -> bool:
        """Take what another voter sends; whether it is in want of this leader's whole state. Raises MalformedError."""
        if voter not in self._others:
            raise MalformedError("voter")
        self._learn_life(voter, life)
        if self.is_loading():
            return False
        reader = FrameReader(data)
        kind = reader.u8()
        if kind == ACKNOWLEDGED:
            return self._acknowledged(voter, life, reader, now_ns)
        term = reader.number()
        if kind in (APPEND, WHOLE):
            self._entries_from(voter, term, kind, reader, now_ns)
        elif kind == VOTE:
            self._asked_for_vote(voter, term, reader, now_ns)
        elif kind == VOTED:
            self._voted(voter, life, term, reader, now_ns)
        elif kind == RECOVER:
            self._tell_recovering(voter)
        elif kind == RECOVERED:
            self._told_recovering(voter, life, term, reader, now_ns)
        else:
            raise MalformedError("kind")
        return False

    # ---- the follower's side ---------------------------------------------------------------------------------------

    def _entries_from(self, voter: str, term: int, kind: int, reader: FrameReader, now_ns: int) -> None:
        attempt = reader.number()
        index, index_term = reader.number(), reader.number()
        records = [reader.blob() for _ in range(reader.number())]
        if term < self.term or (self.role == RECOVERING and not self._has_recovered_terms()):
            if self.role != RECOVERING:
                self._answer(voter, 0, is_matched=False)
            return
        self._is_behind(term, now_ns)
        if self.role == CANDIDATE:
            self.step_down(now_ns)
        self.term = max(term, self.term)
        self.leader = voter
        self._leader_lost = False
        self._heard_ns = now_ns
        self._trial = {}
        self._wait_for_leader(now_ns)
        if kind == WHOLE:
            state = SeatState(self._options)
            for record in records:
                state.apply(record)
            self.state, self.index, self.last_term = state, index, index_term
            if self.disk is not None:
                self._write_whole(self.disk, state)
        elif (index, index_term) != (self.index, self.last_term):
            self._is_matched = False
            self._answer(voter, attempt, is_matched=False)
            return
        else:
            for entry in records:
                for record in unpack_records(entry):
                    self.state.apply(record)
                self.index += 1
                self.last_term = term
                if self.disk is not None:
                    self.disk.entry(term, entry)
        if self.role == RECOVERING:
            self._become_follower()
        self._is_matched = True
        self._answer(voter, attempt, is_matched=True)

    def _answer(self, voter: str, attempt: int, is_matched: bool) -> None:
        matched = b"\1" if is_matched else b"\0"
        parts = [u64(attempt), matched, u64(self.index), u64(self.last_term), self._lives_bytes()]
        self._promise(voter, frame(ACKNOWLEDGED, u64(self.term), *parts))

    # ---- disk ------------------------------------------------------------------------------------------------------

    def restore(self, copy: SeatCopy, now_ns: int) -> None:
        """The disk has told what is there. A voter that has promised something goes on; the only voter leads."""
        self._wake_ns = now_ns
        if self.replicas and (copy.is_damaged or copy.is_empty()):
            self._is_fresh = not copy.is_damaged
            return
        self.state, self.index, self.last_term = copy.state, copy.index, copy.last_term
        self.term, self._voted_for = copy.term, copy.voted_for
        for voter, life in copy.lives.items():
            self._learn_life(voter, life)
        self._become_follower()
        if self.replicas:
            self._wake_ns = now_ns + self._options.retry_ns * self._patience()
        else:
            self.commit = self.index
            self.term += 1
            self._become_leader(now_ns)

    def stored(self) -> None:
        """The disk has made more safe."""
        if self.role == LEADER:
            self._count()

    def compact(self, state: SeatState) -> None:
        """Have the state, which is that of the log's end, take the place of the log on disk."""
        if self.disk is not None:
            self._write_whole(self.disk, state)

    def _write_whole(self, disk: SeatDisk, state: SeatState) -> None:
        disk.whole(state, self.index, self.last_term, self.term, self._voted_for, self._lives)

    # ---- time ------------------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        if self.role != LEADER:
            super().tick(now_ns)
        elif now_ns >= self._heartbeat_ns:
            self._heartbeat_ns = now_ns + self._options.heartbeat_interval_ns // 2
            if not self.answers_enough(now_ns):
                self.step_down(now_ns)
                return
            for voter, progress in self.progress.items():
                if progress.is_linked and progress.is_matched:
                    self._send_append(voter, progress, progress.sent, self._term_at(progress.sent), [])
                elif progress.is_linked:
                    self._find_out(voter, progress)
