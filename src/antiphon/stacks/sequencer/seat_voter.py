"""One voter of a seat, as far as terms, votes and lives go. seat_log.py has the theory, and the entries."""

from collections import deque
from typing import Final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.seat_disk import SeatDisk, lives_bytes, read_lives
from antiphon.stacks.sequencer.wire import FrameReader, frame, text, u64

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

NOBODY: Final = ""
_FOUNDERS_MAX: Final = 64


class SeatVoter:
    """Who leads a seat, as one of its voters knows it. `outbox` holds what is to be sent, by address."""

    __slots__ = (
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
        "_promises",
        "_rank",
        "_recovered",
        "_trial",
        "_voted_for",
        "_wake_ns",
        "disk",
        "index",
        "last_term",
        "leader",
        "outbox",
        "replicas",
        "role",
        "seat",
        "term",
    )

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
        self.seat = seat
        self._own = own
        self._rank = voters.index(own)
        self._others = [voter for voter in voters if voter != own]
        self.replicas = len(voters) // 2
        """k."""
        self._options = options
        self.disk = disk
        """Where this voter writes down what it promises, if it does (seat_disk.py)."""
        self._lives: dict[str, int] = {own: life}
        """The latest life of each voter that is known of."""
        self.role = RECOVERING
        self._is_fresh = True
        self._founders: dict[str, int] = {}
        """The lives with which the log began, if this voter was there."""
        self._recovered: dict[str, tuple[int, int]] = {}
        """What voters have told this one while it recovers: life and term; -1 for those that have nothing either."""
        self.term = 0
        self._voted_for = NOBODY
        self._granted: dict[str, int] = {}
        """Votes of this term, by voter: its life."""
        self._trial: dict[str, int] = {}
        """Who would vote for this voter in the next term."""
        self.leader = NOBODY
        self._leader_lost = False
        self._heard_ns = now_ns
        self._wake_ns = now_ns if disk is None else NEVER
        """A voter with a disk does nothing before the disk has told what is there."""
        self._heartbeat_ns = NEVER
        self.index = 0
        self.last_term = 0
        self.outbox: list[tuple[str, bytes]] = []
        self._promises: deque[tuple[int, str, bytes]] = deque()
        """What leaves when so many records are safe on disk, and to whom."""

    def is_loading(self) -> bool:
        """Whether the disk has yet to tell what is there."""
        return self.disk is not None and not self.disk.is_loaded

    # ---- links -----------------------------------------------------------------------------------------------------

    def linked(self, voter: str, life: int, now_ns: int) -> None:
        """Frames to a voter leave again."""
        if voter in self._others:
            self._learn_life(voter, life)
            if self.role == RECOVERING and not self.is_loading():
                self._send(voter, RECOVER, u64(self._lives[self._own]))

    def unlinked(self, voter: str, now_ns: int) -> None:
        """A voter is not reached any more."""
        if voter == self.leader and self.role == FOLLOWER:
            self._leader_lost = True
            self._wake_ns = min(self._wake_ns, now_ns + self._options.retry_ns * self._patience() // 4)

    def _patience(self) -> int:
        return 1 + 2 * self._rank

    # ---- messages --------------------------------------------------------------------------------------------------

    def _send(self, voter: str, kind: int, *parts: bytes) -> None:
        """Send what promises nothing."""
        self.outbox.append((voter, frame(kind, u64(self.term), *parts)))

    def _promise(self, voter: str, data: bytes) -> None:
        """Send something when all that it rests on is safe on disk."""
        if self.disk is None or self.role == RECOVERING:
            self.outbox.append((voter, data))
            return
        self.disk.promise(self.term, self._voted_for, self._lives)
        self._promises.append((self.disk.written, voter, data))

    def release_promises(self) -> None:
        """Send what the disk allows by now."""
        while self._promises and self.disk is not None and self._promises[0][0] <= self.disk.safe:
            _, voter, data = self._promises.popleft()
            self.outbox.append((voter, data))

    def _lives_bytes(self) -> bytes:
        return lives_bytes(self._lives)

    def _note_lives(self, reader: FrameReader) -> None:
        for voter, life in read_lives(reader).items():
            self._learn_life(voter, life)

    def _learn_life(self, voter: str, life: int) -> None:
        if life > self._lives.get(voter, 0):
            self._lives[voter] = life

    def _is_behind(self, term: int, now_ns: int) -> bool:
        """A higher term is known: take it; whoever leads in a lower one leads no more."""
        if term <= self.term or self.role == RECOVERING:
            return False
        self.term = term
        self._voted_for = NOBODY
        if self.role != FOLLOWER:
            self.step_down(now_ns)
        self.leader = NOBODY
        return True

    def step_down(self, now_ns: int) -> None:
        """Lead no more."""
        self.role = FOLLOWER
        self.leader = NOBODY
        self._leader_lost = False
        self._heartbeat_ns = NEVER
        self._wait_for_leader(now_ns)

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
        self._promise(voter, frame(VOTE, u64(term), is_trial, u64(self.index), u64(self.last_term)))

    def _ask_for_votes(self, now_ns: int) -> None:
        self.role = CANDIDATE
        self.term += 1
        self._voted_for = self._own
        self._granted = {self._own: self._lives[self._own]}
        self.leader = NOBODY
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
            self.leader != NOBODY
            and not self._leader_lost
            and now_ns - self._heard_ns < self._options.silence_ns_min
            and voter != self.leader
        )
        if is_led and term > self.term:
            return  # the leader is heard here: whoever does not hear it has to wait
        is_no_older = (last_term, index) >= (self.last_term, self.index)
        if is_trial:
            if is_no_older and term > self.term:
                self._promise(voter, frame(VOTED, u64(term), b"\1", b"\1", self._lives_bytes()))
            else:  # so that it learns of this term
                self._send(voter, VOTED, b"\0", b"\0", self._lives_bytes())
            return
        self._is_behind(term, now_ns)
        is_granted = term == self.term and self._voted_for in (NOBODY, voter) and is_no_older
        if is_granted:
            self._voted_for = voter
            self._wait_for_leader(now_ns)
        told = b"\1" if is_granted else b"\0"
        self._promise(voter, frame(VOTED, u64(self.term), b"\0", told, self._lives_bytes()))

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
        self._wake_ns = NEVER
        self._heartbeat_ns = now_ns

    # ---- lives -----------------------------------------------------------------------------------------------------

    def _tell_recovering(self, voter: str) -> None:
        is_new = self.role == RECOVERING
        founders = self._founders
        parts = [b"\1" if is_new and self._is_fresh else b"\0", b"\1" if is_new else b"\0", u64(len(founders))]
        parts += [text(other) + u64(life) for other, life in founders.items()]
        self._promise(voter, frame(RECOVERED, u64(self.term), *parts, self._lives_bytes()))

    def _told_recovering(self, voter: str, life: int, term: int, reader: FrameReader, now_ns: int) -> None:
        is_fresh, is_new = reader.u8(), reader.u8()
        founders: dict[str, int] = {}
        for _ in range(min(reader.number(), _FOUNDERS_MAX)):
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
        """Do what is due, but for what a leader does."""
        if now_ns < self._wake_ns:
            return
        if self.role == RECOVERING:
            self._wake_ns = now_ns + self._options.retry_ns * 4
            for voter in self._others:
                self._send(voter, RECOVER, u64(self._lives[self._own]))
        else:
            self._try_for_votes(now_ns)
