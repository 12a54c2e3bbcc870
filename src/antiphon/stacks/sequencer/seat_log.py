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
  Telling. What an entry gives rise to leaves when k others have acknowledged that entry. A leader begins with an entry
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

Limits. Entries that some voter has not acknowledged are kept up to ENTRIES_BYTES_MAX; a voter further behind is sent
the state as a whole."""

from collections import deque
from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.seat_state import SeatState, pack_records, unpack_records
from antiphon.stacks.sequencer.wire import FrameReader, blob, frame, text, u64

APPEND: Final = 1
ACKNOWLEDGED: Final = 2
WHOLE: Final = 3
VOTE: Final = 4
VOTED: Final = 5
RECOVER: Final = 6
RECOVERED: Final = 7

RECOVERING: Final = 0
FOLLOWER: Final = 1
CANDIDATE: Final = 2
LEADER: Final = 3

ENTRIES_BYTES_MAX: Final = 16 * 1024 * 1024
_NOBODY: Final = ""


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
class SeatLog:
    """One seat at one of its voters. `outbox` holds what is to be sent, by address."""

    __slots__ = (
        "_bytes",
        "_entries",
        "_first_index",
        "_former_term",
        "_founders",
        "_granted",
        "_heard_ns",
        "_heartbeat_ns",
        "_is_fresh",
        "_leader_lost",
        "_lives",
        "_options",
        "_others",
        "_own",
        "_rank",
        "_recovered",
        "_trial",
        "_voted_for",
        "_wake_ns",
        "commit",
        "index",
        "is_stored",
        "last_term",
        "leader",
        "outbox",
        "progress",
        "replicas",
        "role",
        "seat",
        "state",
        "term",
    )

    def __init__(
        self, seat: str, own: str, voters: list[str], life: int, options: Options, now_ns: int, is_stored: bool = False
    ) -> None:
        self.seat = seat
        self._own = own
        self._rank = voters.index(own)
        self._others = [voter for voter in voters if voter != own]
        self.replicas = len(voters) // 2
        """k."""
        self._options = options
        self._lives: dict[str, int] = {own: life}
        """The latest life of each voter that is known of."""
        self.role = RECOVERING
        self._is_fresh = True
        self._founders: dict[str, int] = {}
        """The lives with which the log began, if this voter was there."""
        self._recovered: dict[str, tuple[int, int]] = {}
        """What voters have told this one while it recovers: life and term; -1 for those that have nothing either."""
        self.term = 0
        self._voted_for = _NOBODY
        self._granted: dict[str, int] = {}
        """Votes of this term, by voter: its life."""
        self._trial: dict[str, int] = {}
        """Who would vote for this voter in the next term."""
        self.leader = _NOBODY
        self._leader_lost = False
        self._heard_ns = now_ns
        self._wake_ns = now_ns
        self._heartbeat_ns = NEVER
        self.index = 0
        self.last_term = 0
        self.commit = 0
        self.state = SeatState(options)
        self.progress: dict[str, VoterProgress] = {}
        self._entries: deque[bytes] = deque()
        """The last entries of this term, up to `index`."""
        self._bytes = 0
        self._first_index = 0
        self._former_term = 0
        self.outbox: list[tuple[str, bytes]] = []
        self.is_stored = is_stored
        """Whether entries are told when they are on disk (seat_disk.py)."""

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
        if not self.replicas and not self.is_stored:
            self.commit = self.index

    def last_entry(self) -> bytes:
        """What was appended last."""
        return self._entries[-1]

    def restore(self, state: SeatState, index: int, last_term: int, now_ns: int) -> None:
        """Lead, as the only voter, with what the disk held."""
        self.state, self.index, self.last_term = state, index, last_term
        self.commit = index
        self.term = last_term + 1
        self._become_follower()
        self._become_leader(now_ns)

    def _send_entries(self, voter: str, progress: VoterProgress) -> None:
        """Send what follows what was sent last, if it is still there."""
        first = self.index - len(self._entries) + 1
        if progress.sent + 1 < first:
            self._find_out(voter, progress)
            return
        fresh = [self._entries[at] for at in range(progress.sent + 1 - first, len(self._entries))]
        if fresh:
            previous_term = self.term if progress.sent >= self._first_index else self._term_before()
            self._send_append(voter, progress, progress.sent, previous_term, fresh)
            progress.sent = self.index

    def _term_before(self) -> int:
        """The term of the entry before this leader's first."""
        return self._former_term

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
        """What k others hold may be told."""
        held = sorted([p.acked for voter, p in self.progress.items() if p.life == self._lives.get(voter, 0)])
        if len(held) >= self.replicas:
            settled = held[len(held) - self.replicas]
            if settled >= self._first_index:
                self.commit = max(self.commit, settled)

    def answers_enough(self, now_ns: int) -> bool:
        """Whether k others have answered lately."""
        limit_ns = now_ns - self._options.silence_ns_min
        return sum([progress.answered_ns >= limit_ns for progress in self.progress.values()]) >= self.replicas

    def step_down(self, now_ns: int) -> None:
        """Lead no more."""
        self.role = FOLLOWER
        self.leader = _NOBODY
        self._leader_lost = False
        self._heartbeat_ns = NEVER
        self.progress = {}
        self._entries.clear()
        self._bytes = 0
        self._wait_for_leader(now_ns)

    # ---- links -----------------------------------------------------------------------------------------------------

    def linked(self, voter: str, life: int, now_ns: int) -> None:
        """Frames to a voter leave again."""
        if voter not in self._others:
            return
        self._learn_life(voter, life)
        if self.role == RECOVERING:
            self._send(voter, RECOVER, u64(self._lives[self._own]))
        progress = self.progress.get(voter)
        if progress is not None:
            progress.is_linked = True
            self._find_out(voter, progress)

    def unlinked(self, voter: str, now_ns: int) -> None:
        """A voter is not reached any more."""
        progress = self.progress.get(voter)
        if progress is not None:
            progress.is_linked = progress.is_matched = False
        if voter == self.leader and self.role == FOLLOWER:
            self._leader_lost = True
            self._wake_ns = min(self._wake_ns, now_ns + self._options.retry_ns * self._patience() // 4)

    def _patience(self) -> int:
        return 1 + 2 * self._rank

    # ---- messages --------------------------------------------------------------------------------------------------

    def _send(self, voter: str, kind: int, *parts: bytes) -> None:
        self.outbox.append((voter, frame(kind, u64(self.term), *parts)))

    def _lives_bytes(self) -> bytes:
        known = self._lives
        return b"".join([u64(len(known)), *[text(voter) + u64(life) for voter, life in known.items()]])

    def _note_lives(self, reader: FrameReader) -> None:
        for _ in range(min(reader.number(), 64)):
            voter = reader.text()
            self._learn_life(voter, reader.number())

    def _learn_life(self, voter: str, life: int) -> None:
        if life > self._lives.get(voter, 0):
            self._lives[voter] = life

    def receive(self, voter: str, life: int, data: bytes, now_ns: int) -> bool:
        """Take what another voter sends; whether it is in want of this leader's whole state. Raises MalformedError."""
        if voter not in self._others:
            raise MalformedError("voter")
        self._learn_life(voter, life)
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

    def _is_behind(self, term: int, now_ns: int) -> bool:
        """A higher term is known: take it; whoever leads in a lower one leads no more."""
        if term <= self.term or self.role == RECOVERING:
            return False
        self.term = term
        self._voted_for = _NOBODY
        if self.role != FOLLOWER:
            self.step_down(now_ns)
        self.leader = _NOBODY
        return True

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
        elif (index, index_term) != (self.index, self.last_term):
            self._answer(voter, attempt, is_matched=False)
            return
        else:
            for entry in records:
                for record in unpack_records(entry):
                    self.state.apply(record)
                self.index += 1
                self.last_term = term
        if self.role == RECOVERING:
            self._become_follower()
        self._answer(voter, attempt, is_matched=True)

    def _answer(self, voter: str, attempt: int, is_matched: bool) -> None:
        self._send(
            voter, ACKNOWLEDGED, u64(attempt), b"\1" if is_matched else b"\0", u64(self.index), u64(self.last_term),
            self._lives_bytes(),
        )  # fmt: skip

    def _wait_for_leader(self, now_ns: int) -> None:
        options = self._options
        self._wake_ns = now_ns + options.silence_ns_min + options.retry_ns * self._patience()

    # ---- votes -----------------------------------------------------------------------------------------------------

    def _try_for_votes(self, now_ns: int) -> None:
        """Ask who would vote for this voter, before it raises the term: whoever was cut off unseats nobody."""
        self._trial = {self._own: self._lives[self._own]}
        self._wake_ns = now_ns + self._options.retry_ns * (2 + self._patience())
        for voter in self._others:
            self._send_vote(voter, self.term + 1, b"\1")

    def _send_vote(self, voter: str, term: int, is_trial: bytes) -> None:
        self.outbox.append((voter, frame(VOTE, u64(term), is_trial, u64(self.index), u64(self.last_term))))

    def _ask_for_votes(self, now_ns: int) -> None:
        self.role = CANDIDATE
        self.term += 1
        self._voted_for = self._own
        self._granted = {self._own: self._lives[self._own]}
        self.leader = _NOBODY
        self._wake_ns = now_ns + self._options.retry_ns * (2 + self._patience())
        for voter in self._others:
            self._send_vote(voter, self.term, b"\0")
        self._count_votes(now_ns)

    def _asked_for_vote(self, voter: str, term: int, reader: FrameReader, now_ns: int) -> None:
        is_trial = reader.u8()
        index, last_term = reader.number(), reader.number()
        if self.role == RECOVERING:
            return
        is_led = self.role == LEADER or (
            self.leader != _NOBODY
            and not self._leader_lost
            and now_ns - self._heard_ns < self._options.silence_ns_min
            and voter != self.leader
        )
        if is_led and term > self.term:
            return  # the leader is heard here: whoever does not hear it has to wait
        is_no_older = (last_term, index) >= (self.last_term, self.index)
        if is_trial:
            if is_no_older and term > self.term:
                self.outbox.append((voter, frame(VOTED, u64(term), b"\1", b"\1", self._lives_bytes())))
            else:  # so that it learns of this term
                self._send(voter, VOTED, b"\0", b"\0", self._lives_bytes())
            return
        self._is_behind(term, now_ns)
        is_granted = term == self.term and self._voted_for in (_NOBODY, voter) and is_no_older
        if is_granted:
            self._voted_for = voter
            self._wait_for_leader(now_ns)
        self._send(voter, VOTED, b"\0", b"\1" if is_granted else b"\0", self._lives_bytes())

    def _voted(self, voter: str, life: int, term: int, reader: FrameReader, now_ns: int) -> None:
        is_trial, is_granted = reader.u8(), reader.u8()
        self._note_lives(reader)
        if is_trial:
            if self._trial and term == self.term + 1 and self.role in (FOLLOWER, CANDIDATE):
                self._trial[voter] = life
                if self._majority_of(self._trial):
                    self._trial = {}
                    self._ask_for_votes(now_ns)
        elif not self._is_behind(term, now_ns) and self.role == CANDIDATE and term == self.term and is_granted:
            self._granted[voter] = life
            self._count_votes(now_ns)

    def _majority_of(self, granted: dict[str, int]) -> bool:
        """Whether k + 1 voters of those are in the life that is known of them."""
        return sum([life == self._lives.get(voter, 0) for voter, life in granted.items()]) > self.replicas

    def _count_votes(self, now_ns: int) -> None:
        if self._majority_of(self._granted):
            self._become_leader(now_ns)

    def _become_leader(self, now_ns: int) -> None:
        self.role = LEADER
        self.leader = self._own
        self.progress = {voter: VoterProgress() for voter in self._others}
        self._former_term = self.last_term
        self._first_index = self.index + 1
        self._entries.clear()
        self._bytes = 0
        self._wake_ns = NEVER
        self._heartbeat_ns = now_ns
        for progress in self.progress.values():
            progress.answered_ns = now_ns

    # ---- lives -----------------------------------------------------------------------------------------------------

    def _tell_recovering(self, voter: str) -> None:
        is_new = self.role == RECOVERING
        founders = self._founders
        parts = [b"\1" if is_new and self._is_fresh else b"\0", b"\1" if is_new else b"\0", u64(len(founders))]
        parts += [text(other) + u64(life) for other, life in founders.items()]
        self._send(voter, RECOVERED, *parts, self._lives_bytes())

    def _told_recovering(self, voter: str, life: int, term: int, reader: FrameReader, now_ns: int) -> None:
        is_fresh, is_new = reader.u8(), reader.u8()
        founders: dict[str, int] = {}
        for _ in range(min(reader.number(), 64)):
            founder = reader.text()
            founders[founder] = reader.number()
        self._note_lives(reader)
        if self.role != RECOVERING:
            return
        own_life = self._lives[self._own]
        if founders.get(self._own, 0) == own_life:
            self._found(founders, now_ns)
            return
        self._recovered[voter] = (life, -1 if is_new else term)
        if is_new and not is_fresh:
            del self._recovered[voter]
        new = [told[0] for told in self._recovered.values() if told[1] < 0]
        if self._is_fresh and len(new) == len(self._others):
            lives = {other: told[0] for other, told in self._recovered.items()}
            self._found({self._own: own_life, **lives}, now_ns)
        elif self._has_recovered_terms():
            self._is_fresh = False
            self.term = max([self.term, *[told[1] for told in self._recovered.values()]])

    def _has_recovered_terms(self) -> bool:
        """Whether k + 1 others that remember have told their terms."""
        told = [
            voter for voter, (life, term) in self._recovered.items() if term >= 0 and life == self._lives.get(voter, 0)
        ]
        return len(told) > self.replicas

    def _found(self, founders: dict[str, int], now_ns: int) -> None:
        """Begin with an empty log, as one of those that were new together."""
        self._founders = dict(founders)
        self._become_follower()
        self._wait_for_leader(now_ns)
        if self._rank == 0:
            self._wake_ns = now_ns

    def _become_follower(self) -> None:
        self.role = FOLLOWER
        self._is_fresh = False
        self._recovered = {}

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        return min(self._wake_ns, self._heartbeat_ns)

    def tick(self, now_ns: int) -> None:
        if self.role == LEADER:
            if now_ns >= self._heartbeat_ns:
                self._heartbeat_ns = now_ns + self._options.heartbeat_interval_ns // 2
                if not self.answers_enough(now_ns):
                    self.step_down(now_ns)
                    return
                for voter, progress in self.progress.items():
                    if progress.is_linked and progress.is_matched:
                        self._send_append(voter, progress, progress.sent, self._term_at(progress.sent), [])
                    elif progress.is_linked:
                        self._find_out(voter, progress)
        elif self.is_stored:
            self._wake_ns = NEVER  # the disk has yet to tell
        elif now_ns >= self._wake_ns:
            if self.role == RECOVERING:
                self._wake_ns = now_ns + self._options.retry_ns * 4
                for voter in self._others:
                    self._send(voter, RECOVER, u64(self._lives[self._own]))
            else:
                self._try_for_votes(now_ns)

    def _term_at(self, index: int) -> int:
        return self.term if index >= self._first_index else self._term_before()
