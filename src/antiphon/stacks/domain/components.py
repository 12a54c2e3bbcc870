"""Which configuration comes next: faults, joins and merges, in any number at once (transis-1992, section 5).

Promise. Processes that come together out of a configuration agree on the next one, and on the messages of the one
before that count. Any set of processes that hear each other gets into one configuration by itself, whatever they were
in before; nobody waits for a majority. Two configurations never share an id. While processes agree, messages flow.

Rule.
1. Each process tells processes outside its configuration, again and again, what it is in (ATTEMPT; the paper's AJ). A
   process that starts is in a configuration of its own. A member that was silent is first asked by itself (PROBE), by a
   packet that does not go the way of messages; only if no answer comes it is taken to be lost.
2. A process that hears of another configuration, or takes a member to be lost, waits a moment for more of the kind, the
   lower its rank the shorter, and suggests a configuration: all it knows of, without those whose link is cut.
3. Each process commits to one suggestion at a time, by making it or by acknowledging it. A commit stops nothing. It
   tells whom its sender hears of the members: a row of the reachability matrix. Commits go to all members until they
   have installed the suggestion, and with them all other commits that the sender knows of. Of a member that is
   suspected, messages are taken in, and so acknowledged, only if somebody else has them.
4. Suggestions are numbered. A process leaves the one that it is committed to only for the sake of a member of it, or of
   its configuration, that commits to another, whether or not this process is in that one. All others are told what it
   is committed to, and ignored until this one is through. It goes over to what both make together: to one of the two,
   if that is as large as any could be and has the same members of its own configuration, of two such to the one with
   the higher number; else to a new one. If it stays against one with a higher number that it is in, as the other lacks
   members of its configuration, it suggests its own again, with a higher number still. So of suggestions as large all
   take the same; and one that contains another is taken whatever its number, since those who have it see no reason to
   leave it.
5. Each process says of its own links alone which are cut, in rows that it numbers (surroundings.py). A link is cut if a
   member was silent for long, has not committed in time, or commits to something without this process; or if, when all
   have committed, this process still does not hear the other. It takes the cut back when it hears a process that it had
   given up for its silence; else when a configuration is installed, or it withdraws. The members of a suggestion are
   the largest set without a cut link between two of them that holds its proposer; of sets as large, the one with
   members of its configuration, older ones first. Whom the proposer does not hear lately is left out if anybody says
   that the link to it is cut: it is lost, rather than those who say so.
6. If that leaves nothing but the present configuration, the process withdraws: it is committed to nothing, and suggests
   nothing for a while, each time for longer, up to 8 s, or until it hears somebody whom it had not heard lately.
7. When all members are known to be committed and to hear each other, the process *closes* its configuration: it sends
   nothing more in it and tells how many messages of each member it holds. It goes on taking in what counts, and
   delivering by the old rule (commitment.py). It closes once for a suggestion, and then only for higher ones.
8. A suggestion is decided where all members are known to have closed. K is, for each configuration that members come
   from, all that these members hold. When a process has all of K it delivers what the old rule places of K, then, in a
   transitional configuration of those that come along, the rest, with the absent abstaining, and installs the new one.
   Whoever has installed it answers commits of those who have not with all commits.
9. Closing that comes to nothing, because some do not close within a few tries, or something better is suggested, is
   void: the process goes on in its configuration, and suggests again. Told that the suggestion was installed after all,
   it goes back to it if it still has nothing that is not of K; else it merges with that configuration later.
10. Closing may take twice as long as it took to agree, which was two trips; at least 0.2 s, and `silence_ns_min` at
   most. So processes on slow machines and links come together, too, and on quick ones nobody waits long for a process
   that has just died.

Safe. Let u and w install S, both out of the configuration C. Each member of S says once how much it holds of C for the
sake of S (rule 7), and S is decided by the words of all, so u and w have the same K. Each takes in nothing that is not
of K from its closing on, or finds at the decision, or before it goes back, that it has, and does not install S. It
installs S with all of K. So at the end both graphs are exactly K. What the old rule has placed of a part of a graph
without gaps is a beginning of what it places of all of it (voting.py), so what each had delivered before is a beginning
of what K decides; what is delivered in the transitional configuration is a function of K and of those that come along.
A safe message that the old rule places at u alone, where w goes elsewhere, is at w in its place as well: the votes that
decide it are in the graph of each member of C, before it closes. Ids: a proposer uses each number once
(parts/membership/policies.py).

Live. Let the links stay as they are. Each commit either completes, or some member is silent, lost or has gone
elsewhere, or the matrix lacks a pair; then a link is cut, and stays so until a configuration is installed or the
process withdraws, so a suggestion can fail at most once for each pair. Rows go with all suggestions, so all that hear
each other come to know the same rows. Suggestions reach all their members by repetition; by rule 4 those who are in two
of them come together in one, and numbers rise only as long as somebody learns of a row or of a process.
When no link between its members is cut, all commit, close, and have K from each other. Then ATTEMPTs bring further
configurations together, until all that hear each other are in one. Where links are not transitive or work one way, a
process that not all of a configuration hear, or that does not hear them, stays outside: suggestions with it lack a pair
of the matrix, and are withdrawn; so configurations do not change any more.

Not blocked. Until it closes, a process sends and delivers as ever. From then on it delivers what still comes of K, and
its own messages wait for the install: one trip, if all are there; a few tries, if one dies just then.

Flapping: see surroundings.py.

Deviations. F messages are suggestions here: a suspicion is a suggestion without the suspect, as the paper combines JOIN
and F. SP is the set of cut links in a suggestion; Accept, its members, acknowledge all of it by committing; as JOIN
and F come in one suggestion, the order of several F among each other does not show. The word by which a process closes
its configuration stands for its first message that follows all of SP; it is no node of the graph, and tells its past by
numbers. What a process is asked to send between its closing and the install waits for the new configuration, whose
graph begins with the accepted suggestion; the paper sends it at once, into whatever configuration will come. An ATTEMPT
tells the id of the configuration instead of a vector of counters: ids rise, so of two places where a process is said to
be the higher one is where it is now.
"""

from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.identity import ProcessId, View
from antiphon.parts.member import PeerState
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.suspicion import Suspicion
from antiphon.stacks.domain.commitment import Commitment, cut_by, fits
from antiphon.stacks.domain.component_messages import Attempt, Commit, CutRow, Suggestion
from antiphon.stacks.domain.suggestion_maker import SuggestionMaker

CLOSINGS_MAX: Final = 3
"""Closings that come to nothing before those that do not close are taken to be cut off."""


@final
class Components(SuggestionMaker):
    """One process's part in the agreement on configurations. What is to leave is in `sender`."""

    __slots__ = ()

    def begin(self, view: View, end: GraphViewEnd, contacts: tuple[str, ...], now_ns: int) -> None:
        """This process is in a configuration."""
        gone: list[str] = []
        self._around.forget_drops(now_ns)
        for process, address in zip(self.view.members, self.view.addresses, strict=False):
            if process in self.left:
                self._around.forget(process)
                gone.append(address)
                continue
            if view.rank(process) < 0:
                self._around.dropped(process, now_ns)
            self._around.know(process, address)
        if self.current is not None:
            suggestion = self.current.suggestion
            self.installed = Commit(self._process, self._address, suggestion, self.current.words, True)
            for process, origin in suggestion.origins.items():
                self._around.joined(origin)
                self._around.learn_row(process, CutRow(suggestion.number, frozenset()))
        self._around.contacts = contacts or self._around.contacts
        self._begin_suspicion(view, now_ns)
        self.view = view
        self._end = end
        self.current = None
        self._closings = 0
        self._closed_number = 0
        self._wait_until_ns = 0
        self._withdrawals = 0
        self.left = set()
        self._asked_ns = {}
        self.silent = frozenset()
        self.sender.forget_answers()
        self._made = 0
        self._suggest_at_ns = NEVER
        self._tell_at_ns = NEVER
        self._attempt_at_ns = now_ns
        self._ticked_ns = now_ns
        for process, address in zip(view.members, view.addresses, strict=False):
            self._around.know(process, address)
        self._name_cuts(set())
        for address in gone:
            self._attempt(address, now_ns, 0)

    def peer(self, rank: int, behind: int, now_ns: int) -> PeerState:
        """What is known of the member with this rank, which lacks so many of my packets."""
        suspicion = self._suspicion
        return PeerState(
            self.view.members[rank], behind, suspicion.silent_ns(rank, now_ns), suspicion.strain(rank, now_ns),
            rank in suspicion.lost,
        )  # fmt: skip

    def _begin_suspicion(self, view: View, now_ns: int) -> None:
        """Begin to watch the members of a view, with what was learnt of them in the one before."""
        for rank, member in enumerate(self.view.members):
            if rank != self.view.rank(self._process):
                self._around.remember_gap(member, self._suspicion.longest_gap_ns(rank))
        self._suspicion = Suspicion(len(view.members), view.rank(self._process), now_ns, self._options)
        for rank, member in enumerate(view.members):
            self._suspicion.expect_gap(rank, self._around.longest_gap_ns(member))

    # ---- what is heard ---------------------------------------------------------------------------------------------

    def heard(self, rank: int, now_ns: int) -> None:
        """Something came from a member of this configuration."""
        self._suspicion.heard(rank, now_ns)
        if self._unheard and self.view.members[rank] in self._unheard:
            self._heard_again(self.view.members[rank], now_ns)

    def _hear(self, process: ProcessId, now_ns: int) -> None:
        """A packet has come from a process itself. If that is news, suggest without further delay."""
        is_news = self._around.hear(process, now_ns)
        if process in self._asked_ns:
            self._asked_ns[process] = now_ns
        if process in self._unheard:
            self._heard_again(process, now_ns)
        if is_news and self._withdrawals:
            self._withdrawals = 0
            self._wait_until_ns = now_ns
            self._suggest_at_ns = NEVER
            self._plan(now_ns)

    def receive_attempt(self, attempt: Attempt, now_ns: int) -> None:
        """Somebody tells which configuration it is in."""
        sender = attempt.sender
        if sender == self._process:
            return
        self._around.know(sender, attempt.address)
        self._hear(sender, now_ns)
        self._around.state(sender, attempt.view.id)
        self._around.learn_row(sender, attempt.row)
        rank = self.view.rank(sender)
        if attempt.probe:
            self._attempt(attempt.address, now_ns, self._options.retry_ns // 4)
        if attempt.view.id == self.view.id:
            if rank >= 0:
                self._suspicion.heard(rank, now_ns)
                if attempt.leaving:
                    self.left.add(sender)
                    self._cut(sender, now_ns)
            return
        if self.current is not None and attempt.view.id == self.current.suggestion.id:
            return
        if rank >= 0:
            if self.leaving and attempt.view.rank(self._process) < 0:
                self.let_go = True
            if self.installed is not None and self.installed.suggestion.origins.get(sender) == attempt.view.id:
                self.sender.answer(self.installed, attempt.address, now_ns)  # it has not installed this one yet
                return
            if attempt.view.id < self.view.id:
                self._cut(sender, now_ns)
        for member in self.view.members:
            if member.name == sender.name and member.incarnation < sender.incarnation:
                self._cut(member, now_ns)
        if not attempt.leaving:
            self._attempt(attempt.address, now_ns, self._options.retry_ns)
            self._hear_of(attempt.view, sender, now_ns)

    def _hear_of(self, view: View, sender: ProcessId, now_ns: int) -> None:
        """A process is in another configuration. If the suggestion takes it to be elsewhere, in one that it has left or
        was never in, it cannot be decided: suggest the same from where the process is now."""
        self._around.hear_of(view, now_ns)
        current = self.current
        if current is None:
            self._plan(now_ns)
        elif (
            sender not in current.words
            and current.suggestion.origins.get(sender, view.id) != view.id
            and self._around.stated(sender) == view.id  # not an old word that is late
        ):
            self._reconsider(now_ns)

    def receive_commit(self, commit: Commit, now_ns: int) -> None:
        """Somebody is committed to a suggestion."""
        suggestion, sender = commit.suggestion, commit.sender
        if sender == self._process:
            return
        self._number = max(self._number, suggestion.number)
        self._around.know(sender, commit.address)
        for process, row in suggestion.rows.items():
            self._around.learn_row(process, row)
        self._hear(sender, now_ns)
        self._around.state(sender, suggestion.id if commit.installed else suggestion.origins[sender])
        if suggestion.id == self.view.id:
            if not commit.installed and self.installed is not None:
                self.sender.answer(self.installed, commit.address, now_ns)
        elif self.view.rank(sender) >= 0 and self._is_elsewhere(sender, suggestion.origins[sender], commit, now_ns):
            return
        elif not suggestion.has(self._process) and commit.installed:
            self._hear_of(suggestion.view, sender, now_ns)
        elif not suggestion.has(self._process):
            if self.view.rank(sender) >= 0:
                self.let_go = self.leaving
                self._left_by(sender, now_ns)
            elif self.current is not None and self.current.suggestion.has(sender):
                self._combine(self.current.suggestion, suggestion, {}, now_ns)
        elif suggestion.origins[self._process] != self.view.id:
            before = 0 if self.installed is None else self.installed.suggestion.origins[self._process]
            if self.installed is not None and suggestion.origins[self._process] == before:
                self.sender.answer(self.installed, commit.address, now_ns)
            else:
                self._attempt(commit.address, now_ns, self._options.retry_ns)
        else:
            self._consider(commit, now_ns)

    def _left_by(self, sender: ProcessId, now_ns: int) -> None:
        """A member of this configuration goes elsewhere without this process. If it has said that the link is cut,
        that is enough, until it takes it back."""
        if self._process in self._around.row(sender).others:
            self._reconsider(now_ns)
        else:
            self._cut(sender, now_ns)

    def _is_elsewhere(self, sender: ProcessId, origin: int, commit: Commit, now_ns: int) -> bool:
        """Whether a member of this configuration speaks for another one: the one before, which it has yet to leave, or
        one that it went to without this process, unless that is a later one, with which this one can merge."""
        if origin == self.view.id or commit.installed:
            return False
        if self.installed is not None and self.installed.suggestion.origins.get(sender) == origin:
            self.sender.answer(self.installed, commit.address, now_ns)
            return True
        if origin > self.view.id:
            return False
        self._cut(sender, now_ns)
        return True

    def _consider(self, commit: Commit, now_ns: int) -> None:
        """A suggestion about this configuration and this process."""
        suggestion, current = commit.suggestion, self.current
        if current is not None and suggestion.id == current.suggestion.id:
            current.learn(commit.words)
            if current.hear(self._row(suggestion, now_ns)):
                self._tell_at_ns = now_ns
            self._advance(now_ns)
        elif commit.installed:
            if not fits(self._held(), cut_by(self.view, suggestion, commit.words)):
                self._cut(commit.sender, now_ns)  # this process has gone on since it gave that up: merge with it later
            elif current is None or current.suggestion.has(commit.sender):
                self._commit(suggestion, commit.words, now_ns)
        elif current is None:
            if suggestion.number > self._closed_number:
                better = self._build([suggestion], now_ns)
                if not self._is_present(better):
                    self._commit(better, commit.words, now_ns, suggestion)
        elif not current.suggestion.has(commit.sender) and self.view.rank(commit.sender) < 0:
            self.sender.answer(self._own_commit(current), commit.address, now_ns)  # one thing at a time: not to wait
        elif suggestion.rank_key() > current.suggestion.rank_key():
            self._combine(current.suggestion, suggestion, commit.words, now_ns)
        elif current.suggestion.has(commit.sender):
            contains = suggestion.number > self._closed_number and self._contains(suggestion, current, now_ns)
            if contains:
                self._commit(suggestion, commit.words, now_ns, suggestion)
            else:
                self.sender.answer(self._own_commit(current), commit.address, now_ns)

    def _contains(self, suggestion: Suggestion, current: Commitment, now_ns: int) -> bool:
        """Whether a suggestion is what it makes together with the one that this process is committed to. Those who are
        committed to it see no reason to leave it for this one, whatever its number."""
        return self._build([current.suggestion, suggestion], now_ns) is suggestion

    # ---- out -------------------------------------------------------------------------------------------------------

    def attempt_soon(self, now_ns: int) -> None:
        """Tell others at once what this process is in, and whether it wants to go."""
        self.sender.forget_attempts(now_ns)
        self._attempt_at_ns = now_ns
        self._send_attempts(now_ns)

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        deadline_ns = min(self._attempt_at_ns, self._suggest_at_ns, self._tell_at_ns)
        return min(deadline_ns, self._suspicion.deadline_ns(NEVER))

    def tick(self, now_ns: int) -> None:
        """Do what is due."""
        if now_ns - self._ticked_ns > self._options.silence_ns_min // 2:
            self._suspicion.stood_still(now_ns - self._ticked_ns)
            if self.current is not None:
                self.current.committed_ns += now_ns - self._ticked_ns
        self._ticked_ns = now_ns
        if self._suspicion.deadline_ns(NEVER) <= now_ns:
            self._suspect(now_ns)
        if self._attempt_at_ns <= now_ns:
            self._send_attempts(now_ns)
        if self._suggest_at_ns <= now_ns:
            self._suggest_at_ns = NEVER
            if self.current is None:
                self._commit(self._build([], now_ns), {}, now_ns)
        if self._tell_at_ns <= now_ns:
            self._press(now_ns)

    def _suspect(self, now_ns: int) -> None:
        """Ask those that are doubted by themselves; take the link to those to be cut that have not answered."""
        self._suspicion.due(now_ns, set())
        for rank in sorted(self._suspicion.lost):
            self._cut(self.view.members[rank], now_ns)
        self._probe(now_ns)

    def _probe(self, now_ns: int) -> None:
        """Ask those that are doubted by themselves: an answer ends the doubt."""
        for rank in self._suspicion.doubted():
            self._attempt(self.view.addresses[rank], now_ns, self._options.retry_ns, True)

    def _watch(self, now_ns: int) -> None:
        """Once per heartbeat: see who is silent; ask the doubted again; give up those that are heard but take in
        nothing of what is sent, for twice the time of silence: they hold up the windows of all."""
        assert self._end is not None
        self._probe(now_ns)
        quiet_ns = 2 * self._options.heartbeat_interval_ns
        ranks = range(len(self.view.members))
        self.silent = frozenset([rank for rank in ranks if self._suspicion.silent_ns(rank, now_ns) >= quiet_ns])
        for rank, member in enumerate(self.view.members):
            self._suspicion.acknowledged(rank, self._end.received_by(rank), self._end.sent(), now_ns)
            if self._suspicion.unacknowledged_ns(rank, now_ns) >= 2 * self._options.silence_ns_min:
                self._cut(member, now_ns)

    def _send_attempts(self, now_ns: int) -> None:
        self._attempt_at_ns = now_ns + self._options.heartbeat_interval_ns
        self._watch(now_ns)
        inside = set(self.view.addresses)
        for address in (*self._around.addresses(), *(self.view.addresses if self.leaving else ())):
            if address not in inside or self.leaving:
                self._attempt(address, now_ns, self._options.retry_ns)
        self.sender.forget_attempts(now_ns - self._options.silence_ns_min)
        self._plan(now_ns)

    def _press(self, now_ns: int) -> None:
        """Tell all members of the suggestion, and give up those that hold it up for too long."""
        current = self.current
        self._tell_at_ns = now_ns + self._options.retry_ns
        if current is not None and self._silent(current, now_ns):
            self._give_up(self._silent(current, now_ns), now_ns)
            self._reconsider(now_ns)
            current = self.current
        late_ns = 0 if current is None else now_ns - current.committed_ns - self._limit_ns(current)
        if current is not None and late_ns >= 0:
            if current.closed and not current.is_decided() and self._closings < CLOSINGS_MAX:
                self._suggest_again(current, now_ns)
            else:
                self._give_up(current.holds_up(late_ns >= self._options.silence_ns_min), now_ns)
                self._reconsider(now_ns)
        current = self.current
        if current is None:
            self._tell_at_ns = NEVER
            return
        told = self._own_commit(current)
        view = current.suggestion.view
        for process, address in zip(view.members, view.addresses, strict=True):
            if process != self._process:
                self.sender.tell(told, address)

    def _silent(self, current: Commitment, now_ns: int) -> set[ProcessId]:
        """Processes from elsewhere that have been asked to commit, to whatever, and not heard for long."""
        since_ns = now_ns - self._options.silence_ns_min
        return {one for one, asked_ns in self._asked_ns.items() if asked_ns <= since_ns and one not in current.words}

    def _limit_ns(self, current: Commitment) -> int:
        """How long the next step may take: to commit; to hear each other, when all have committed; to close, when all
        hear each other; to get all of K: beyond that nobody who is here has it.

        Closing takes one trip, and the process sends nothing meanwhile, so it is given time for some tries only. The
        lower the rank the shorter, so that one suggests again for all. Members of different configurations that do not
        hear each other yet are given as long as somebody who does not commit: a network does not heal everywhere at
        once, and to part from one's own for the sake of a merge, and merge with them later, costs more."""
        options = self._options
        if current.is_decided():
            return 4 * options.silence_ns_min
        if current.closed or (current.has_all_words() and not current.lacks_foreign_alone()):
            limit_ns = current.patience_ns(4 * options.retry_ns, options.silence_ns_min)
            return limit_ns + self.view.rank(self._process) * options.retry_ns // 2
        return options.silence_ns_min
