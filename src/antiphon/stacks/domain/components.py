"""Which configuration comes next: faults, joins and merges, in any number at once (transis-1992, section 5).

Promise. Processes that come together out of a configuration agree on the next one, and on the messages of the one
before that count. Any set of processes that hear each other gets into one configuration by itself, whatever they were
in before; nobody waits for a majority. Two configurations never share an id.

Rule.
1. Each process tells processes outside its configuration, again and again, what it is in (ATTEMPT; the paper's AJ). A
   process that starts is in a configuration of its own.
2. A process that hears of another configuration, or takes a member to be lost, waits a moment for more of the kind, the
   lower its rank the shorter, and suggests a configuration: all it knows of, without those whose link is cut.
3. Each process commits to one suggestion at a time, by making it or by acknowledging it. Its commit tells how much it
   holds of its configuration; from its first commit on it takes in and sends nothing more there. Commits go to all
   members of the suggestion until they have installed it, and with them all other commits that the sender has.
4. Suggestions are numbered; a process commits to ever higher ones. It leaves one for a higher one only if a member of
   the one it is committed to, or of its configuration, commits to that; others are ignored until this one is through.
   If the higher one lacks somebody that it knows of, or has somebody whose link is cut, it suggests the union.
5. Cut links, once named, stay named until a configuration is installed, so that suggestions grow alike everywhere. The
   members of a suggestion are the largest set without a cut link between two of them that holds its proposer. A link
   is cut if a member was silent for long, has not committed in time, or commits to something without this process.
6. A suggestion is decided where the commits of all its members are known. The messages that count are, for each
   configuration that members come from, all that these members hold (K). When a process has all of K it delivers what
   the old rule places of K, then, in a transitional configuration of those that come along, the rest, and installs the
   new one. Whoever has installed it answers commits of those who have not with all commits.
7. A process that is committed to T and is told by a member of T that another suggestion S is installed goes back to S.

Safe. Let u install S and w install T, both members of both, from the same configuration, S below T. Both committed to
both. w committed to T before it would have installed S, or it would not have committed to T: who has installed S is not
in the old configuration any more, and answers by rule 7. After w's commit to T it installs S only if a member x of T
says that S is installed; but x then never commits to T, so T is not decided and w does not install it. So all that come
together out of a configuration install the same next one; they have the same commits, hence the same K; each member's
graph is then exactly K, since a commit freezes it; and what is placed is a function of the graph (voting.py).
Ids: a proposer uses each number once (parts/membership/policies.py).

Live. Let the links stay as they are. Each commit either completes, or some member is silent, lost or has gone
elsewhere; then its link is cut, and the cut stays named, so a suggestion can fail at most once for each pair.
Suggestions reach all their members by repetition, and a process that gets a higher one joins it. When no link between
its members is cut, all commit and have K from each other. Then ATTEMPTs bring further configurations together, until
all that hear each other are in one.

Flapping. A process that was dropped three times, each within 20 s of the last, waits 250 ms before it is taken in
again, and twice as long each further time, up to 8 s (`readmission_ns`); so a bad link makes fewer and fewer
configurations. 20 s without a drop, and all is forgotten.

Deviations. F messages are suggestions here: a suspicion is a suggestion without the suspect, as the paper combines JOIN
and F. Commits tell what is held by numbers, since a graph without gaps is told by one number per member, instead of
being nodes of it. Between its commit and the new configuration, about one round trip, a process sends and takes in
nothing of the old one: its application's messages wait.
"""

from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.membership.reachability import component
from antiphon.parts.suspicion import Suspicion
from antiphon.stacks.domain.component_messages import (
    ATTEMPT,
    COMMIT,
    Attempt,
    Commit,
    Suggestion,
    encode_attempt,
    encode_commit,
)

KNOWN_MAX: Final = 256
"""Processes outside the configuration that are told of it; of more, the earliest are forgotten."""
FOREIGN_MAX: Final = 64
"""Other configurations that are remembered; of more, the earliest are forgotten, and will be heard of again."""
_MEMORY_NS: Final = 20_000 * MILLISECOND_NS

Letter = tuple[str, int, bytes]
"""Address, kind, body."""


def readmission_ns(times: int) -> int:
    """How long a process that was dropped so many times of late has to wait before it is taken in again."""
    return 0 if times < 3 else min(8_000, 250 << min(times - 3, 10)) * MILLISECOND_NS


@final
class Components:
    """One process's part in the agreement on configurations. Collects what is to leave in `out`."""

    __slots__ = (
        "_address",
        "_answered_ns",
        "_attempt_at_ns",
        "_attempted_ns",
        "_committed_ns",
        "_contacts",
        "_cuts",
        "_dropped",
        "_end",
        "_foreign",
        "_known",
        "_made",
        "_members_max",
        "_number",
        "_options",
        "_process",
        "_stated",
        "_suggest_at_ns",
        "_suspicion",
        "_tell_at_ns",
        "_ticked_ns",
        "commits",
        "installed",
        "leaving",
        "left",
        "let_go",
        "out",
        "suggestion",
        "suspected",
        "view",
    )

    def __init__(self, process: ProcessId, address: str, options: Options, members_max: int) -> None:
        self._process = process
        self._address = address
        self._options = options
        self._members_max = members_max
        self.view = View(0, (process,), (address,))
        self._end: GraphViewEnd | None = None
        self._suspicion = Suspicion(1, 0, 0, options)
        self.suggestion: Suggestion | None = None
        """What this process is committed to…"""
        self.commits: dict[ProcessId, list[int]] = {}
        """…and the commits to it, by process: what it holds of each member of what it comes from."""
        self.installed: Commit | None = None
        """What this configuration came from; None for a first one."""
        self.left: set[ProcessId] = set()
        """Members of this configuration that want to go."""
        self.leaving = False
        self.let_go = False
        """This process wants to go, and the others go on without it."""
        self.suspected: list[ProcessId] = []
        """Members that were taken to be lost, to be reported."""
        self.out: list[Letter] = []
        self._number = 0
        self._cuts: set[tuple[ProcessId, ProcessId]] = set()
        self._foreign: dict[int, tuple[View, int]] = {}
        """Other configurations that were heard of lately, by id, and when."""
        self._known: dict[str, tuple[int, str]] = {}
        """Processes that were ever heard of, by name: incarnation and address."""
        self._stated: dict[ProcessId, int] = {}
        """The configuration that each process last said it is in."""
        self._contacts: tuple[str, ...] = ()
        self._dropped: dict[str, tuple[int, int]] = {}
        """By name, how often a process was dropped of late, and when last."""
        self._answered_ns: dict[str, int] = {}
        """By address, from when on an answer may be sent there again."""
        self._made = 0
        """Suggestions that this process was committed to since it is in this configuration."""
        self._attempted_ns: dict[str, int] = {}
        """By address, when an ATTEMPT was last sent there."""
        self._suggest_at_ns = NEVER
        self._tell_at_ns = NEVER
        self._attempt_at_ns = 0
        self._committed_ns = 0
        self._ticked_ns = 0

    def begin(self, view: View, end: GraphViewEnd, contacts: tuple[str, ...], now_ns: int) -> None:
        """This process is in a configuration."""
        gone: list[str] = []
        since_ns = now_ns - _MEMORY_NS
        self._dropped = {name: (times, at_ns) for name, (times, at_ns) in self._dropped.items() if at_ns > since_ns}
        for process, address in zip(self.view.members, self.view.addresses, strict=False):
            if process in self.left:
                self._known.pop(process.name, None)
                gone.append(address)
                continue
            if view.rank(process) < 0:
                times, last_ns = self._dropped.get(process.name, (0, 0))
                self._dropped[process.name] = (times + 1 if now_ns < last_ns + _MEMORY_NS else 1, now_ns)
            self._know(process, address)
        if self.suggestion is not None:
            self.installed = Commit(self._process, self._address, self.suggestion, self.commits, True)
            for origin in self.suggestion.origins.values():
                self._foreign.pop(origin, None)
        self._contacts = contacts or self._contacts
        self.view = view
        self._end = end
        self._suspicion = Suspicion(len(view.members), view.rank(self._process), now_ns, self._options)
        self.suggestion = None
        self.commits = {}
        self.left = set()
        self._cuts = set()
        self._answered_ns = {}
        self._made = 0
        self._suggest_at_ns = NEVER
        self._tell_at_ns = NEVER
        self._attempt_at_ns = now_ns
        self._ticked_ns = now_ns
        for process, address in zip(view.members, view.addresses, strict=False):
            self._know(process, address)
        for address in gone:
            self._attempt(address, now_ns, 0)

    def _know(self, process: ProcessId, address: str) -> None:
        if process == self._process or self._known.get(process.name, (0, ""))[0] > process.incarnation:
            return
        self._known.pop(process.name, None)
        self._known[process.name] = (process.incarnation, address)
        if len(self._known) > KNOWN_MAX:
            self._known.pop(next(iter(self._known)))

    # ---- what is heard ---------------------------------------------------------------------------------------------

    def heard(self, rank: int, now_ns: int) -> None:
        """Something came from a member of this configuration."""
        self._suspicion.heard(rank, now_ns)

    def receive_attempt(self, attempt: Attempt, now_ns: int) -> None:
        """Somebody tells which configuration it is in."""
        sender = attempt.sender
        if sender == self._process:
            return
        self._know(sender, attempt.address)
        self._state(sender, attempt.view.id)
        rank = self.view.rank(sender)
        if attempt.view.id == self.view.id:
            if rank >= 0:
                self._suspicion.heard(rank, now_ns)
                if attempt.leaving:
                    self.left.add(sender)
                    self._cut(sender, now_ns)
            return
        if self.suggestion is not None and attempt.view.id == self.suggestion.id:
            return
        if rank >= 0:
            if self.leaving and attempt.view.rank(self._process) < 0:
                self.let_go = True
            if self.installed is not None and self.installed.suggestion.origins.get(sender) == attempt.view.id:
                self._answer(self.installed, attempt.address, now_ns)  # it has not installed this one yet
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
        """A process is in another configuration. If the suggestion takes it to be in an earlier one, it cannot be
        decided: suggest the same from where the process is now. But if links are cut, that is perhaps why it went there
        without this one: go on without it, and meet it later, when cut links are forgotten."""
        self._foreign.pop(view.id, None)
        self._foreign[view.id] = (view, now_ns)
        if len(self._foreign) > FOREIGN_MAX:
            self._foreign.pop(next(iter(self._foreign)))
        current = self.suggestion
        if current is None:
            self._plan(now_ns)
        elif current.has(sender) and current.origins[sender] < view.id and sender not in self.commits:
            if current.cuts or self._cuts:
                self._cut(sender, now_ns)
            else:
                self._reconsider(now_ns)

    def _state(self, process: ProcessId, view_id: int) -> None:
        """A process says what it is in; ids rise, so of two such words the higher is the later."""
        before = self._stated.pop(process, 0)
        self._stated[process] = max(before, view_id)
        if len(self._stated) > KNOWN_MAX:
            self._stated.pop(next(iter(self._stated)))

    def receive_commit(self, commit: Commit, now_ns: int) -> None:
        """Somebody is committed to a suggestion."""
        suggestion, sender = commit.suggestion, commit.sender
        if sender == self._process:
            return
        self._number = max(self._number, suggestion.number)
        self._know(sender, commit.address)
        self._state(sender, suggestion.id if commit.installed else suggestion.origins[sender])
        if suggestion.id == self.view.id:
            if not commit.installed and self.installed is not None:
                self._answer(self.installed, commit.address, now_ns)
        elif self.view.rank(sender) >= 0 and self._is_elsewhere(sender, suggestion.origins[sender], commit, now_ns):
            return
        elif not suggestion.has(self._process) and commit.installed:
            self._hear_of(suggestion.view, sender, now_ns)
        elif not suggestion.has(self._process):
            if self.view.rank(sender) >= 0 or (self.suggestion is not None and self.suggestion.has(sender)):
                self.let_go = self.leaving
                self._cut(sender, now_ns)
        elif suggestion.origins[self._process] != self.view.id:
            before = 0 if self.installed is None else self.installed.suggestion.origins[self._process]
            if self.installed is not None and suggestion.origins[self._process] == before:
                self._answer(self.installed, commit.address, now_ns)
            else:
                self._attempt(commit.address, now_ns, self._options.retry_ns)
        else:
            self._consider(commit, now_ns)

    def _is_elsewhere(self, sender: ProcessId, origin: int, commit: Commit, now_ns: int) -> bool:
        """Whether a member of this configuration speaks for another one: the one before, which it has yet to leave, or
        one that it went to without this process, unless that is a later one, with which this one can merge."""
        if origin == self.view.id or commit.installed:
            return False
        if self.installed is not None and self.installed.suggestion.origins.get(sender) == origin:
            self._answer(self.installed, commit.address, now_ns)
            return True
        if origin > self.view.id:
            return False
        self._cut(sender, now_ns)
        return True

    def _consider(self, commit: Commit, now_ns: int) -> None:
        """A suggestion about this configuration and this process."""
        suggestion, current = commit.suggestion, self.suggestion
        if current is not None and suggestion.id == current.id:
            self.commits.update(commit.commits)
        elif commit.installed:
            if current is None or current.has(commit.sender):
                self._commit(suggestion, commit.commits, now_ns)
        elif current is None:
            self._commit(self._build([suggestion], now_ns), commit.commits, now_ns, suggestion)
        elif not current.has(commit.sender) and self.view.rank(commit.sender) < 0:
            return  # one thing at a time
        elif suggestion.rank_key() > current.rank_key():
            better = self._build([current, suggestion], now_ns)
            if better is not current:
                self._commit(better, commit.commits, now_ns, suggestion)
        elif current.has(commit.sender):
            self._answer(self._own_commit(), commit.address, now_ns)

    def _cut(self, process: ProcessId, now_ns: int) -> None:
        """Take the link to a process to be cut."""
        if (self._process, process) in self._cuts:
            return
        self._cuts.add((self._process, process))
        if self.view.rank(process) >= 0 and process not in self.left:
            self.suspected.append(process)
        self._reconsider(now_ns)

    def _reconsider(self, now_ns: int) -> None:
        current = self.suggestion
        if current is None:
            self._plan(now_ns)
            return
        better = self._build([current], now_ns)
        if better is not current:
            self._commit(better, {}, now_ns)

    # ---- suggestions -----------------------------------------------------------------------------------------------

    def _plan(self, now_ns: int) -> None:
        """Suggest something soon, if there is something to suggest and this process is committed to nothing."""
        if self.suggestion is not None or self._suggest_at_ns != NEVER:
            return
        rank = self.view.rank(self._process)
        if any(self.view.rank(other) >= 0 for _, other in self._cuts):
            self._suggest_at_ns = now_ns + rank * self._options.retry_ns // 2
            return
        fresh = self._fresh(now_ns)
        if fresh:
            later = 1 if all(self.view.members[0] < view.members[0] for view in fresh) else 2
            self._suggest_at_ns = now_ns + later * self._options.gather_ns + rank * self._options.retry_ns // 2

    def _fresh(self, now_ns: int) -> list[View]:
        """The other configurations that may be merged with: heard of lately, and without a process that has to wait."""
        since_ns = now_ns - self._options.silence_ns_min
        self._foreign = {id: (view, at_ns) for id, (view, at_ns) in self._foreign.items() if at_ns > since_ns}
        return [view for view, _ in self._foreign.values() if not any(self._must_wait(p, now_ns) for p in view.members)]

    def _must_wait(self, process: ProcessId, now_ns: int) -> bool:
        times, last_ns = self._dropped.get(process.name, (0, 0))
        return now_ns < last_ns + readmission_ns(times)

    def _build(self, others: list[Suggestion], now_ns: int) -> Suggestion:
        """The configuration to be suggested: all of this one, of these suggestions and, if this process is committed to
        nothing, of others that were heard of; without cut links. One of the suggestions, if it says just that."""
        addresses: dict[ProcessId, str] = {}
        origins: dict[ProcessId, int] = {}
        views = [self.view]
        for view in self._fresh(now_ns):  # whoever is committed takes no more in, but follows those that have moved
            if self.suggestion is None or any(other.has(member) for other in others for member in view.members):
                views.append(view)
        for view in views:
            for process, address in zip(view.members, view.addresses, strict=True):
                self._add_member(process, address, view.id, addresses, origins)
        cuts = set(self._cuts)
        for other in others:
            cuts |= other.cuts
            for process, address in zip(other.view.members, other.view.addresses, strict=True):
                self._add_member(process, address, other.origins[process], addresses, origins)
        members = self._choose(list(addresses), cuts)
        for other in sorted(others, key=Suggestion.rank_key, reverse=True):
            if set(other.view.members) == set(members) and all(other.origins[p] == origins[p] for p in members):
                return other
        self._number += 1
        chosen = [(process, addresses[process]) for process in members]
        return Suggestion(self._number, self._process, chosen, {p: origins[p] for p in members}, cuts)

    def _add_member(
        self,
        process: ProcessId,
        address: str,
        origin: int,
        addresses: dict[ProcessId, str],
        origins: dict[ProcessId, int],
    ) -> None:
        """Note a process and what it comes from. Its own word about that counts more than what others say: they may
        take it to be in a configuration that it never installed."""
        stated = self._stated.get(process, 0)
        if process == self._process:
            origin = self.view.id
        elif self.view.rank(process) >= 0:
            origin = max(self.view.id, stated)
        elif stated:
            origin = stated
        if origin >= origins.get(process, 0):
            addresses.setdefault(process, address)
            origins[process] = origin

    def _choose(self, processes: list[ProcessId], cuts: set[tuple[ProcessId, ProcessId]]) -> list[ProcessId]:
        """The largest set of these without a cut link between two of them that this process is in."""
        newest: dict[str, int] = {}
        for process in processes:
            newest[process.name] = max(process.incarnation, newest.get(process.name, 0))
        away = {one for one, other in cuts if other == self._process}
        away |= {other for one, other in cuts if one == self._process}
        left = [p for p in processes if p not in away and p.incarnation == newest[p.name]]
        if self._process not in left:
            left.insert(0, self._process)
        place = {process: index for index, process in enumerate(left)}
        pairs = {(place[one], place[other]) for one, other in cuts if one in place and other in place}
        kept = component(set(range(len(left))), pairs)
        return [process for index, process in enumerate(left) if index in kept][: self._members_max]

    def _commit(
        self,
        suggestion: Suggestion,
        commits: dict[ProcessId, list[int]],
        now_ns: int,
        of: Suggestion | None = None,
    ) -> None:
        """Commit to a suggestion; `commits` are to it, or to `of`."""
        assert self._end is not None
        self._end.freeze()
        self.suggestion = suggestion
        self.commits = dict(commits) if of is None or of is suggestion else {}
        holdings = self._end.holdings()
        self.commits[self._process] = [held.pairs[-1][1] if held.pairs else 0 for held in holdings]
        self._suggest_at_ns = NEVER
        self._committed_ns = now_ns
        self._made += 1
        self._tell_at_ns = now_ns + max(0, min(self._made, 20) - 4) * self._options.retry_ns // 16

    def is_decided(self) -> bool:
        """Whether all members of the suggestion are known to be committed to it."""
        return self.suggestion is not None and len(self.commits) == len(self.suggestion.view.members)

    def mates(self) -> list[int]:
        """The ranks, in this configuration, of those that go on together by the suggestion."""
        assert self.suggestion is not None
        origins = self.suggestion.origins
        return [rank for rank, one in enumerate(self.view.members) if origins.get(one) == self.view.id]

    def cut_of_messages(self) -> list[int]:
        """By rank in this configuration, how many messages count (K)."""
        vectors = [self.commits[self.view.members[rank]] for rank in self.mates()]
        return [max(counts) for counts in zip(*vectors, strict=True)]

    # ---- out -------------------------------------------------------------------------------------------------------

    def _own_commit(self) -> Commit:
        assert self.suggestion is not None
        return Commit(self._process, self._address, self.suggestion, self.commits, False)

    def _tell(self, commit: Commit, address: str) -> None:
        self.out.append((address, COMMIT, encode_commit(commit)))

    def _answer(self, commit: Commit, address: str, now_ns: int) -> None:
        """Tell a process about a suggestion, if that was not done just now."""
        if now_ns >= self._answered_ns.get(address, 0):
            self._answered_ns[address] = now_ns + self._options.retry_ns // 4
            self._tell(commit, address)

    def _attempt(self, address: str, now_ns: int, spacing_ns: int) -> None:
        """Tell a process what this one is in, if that was not done just now."""
        if address == self._address or now_ns < self._attempted_ns.get(address, -spacing_ns) + spacing_ns:
            return
        self._attempted_ns[address] = now_ns
        attempt = Attempt(self._process, self._address, self.view, self.leaving)
        self.out.append((address, ATTEMPT, encode_attempt(attempt)))

    def attempt_soon(self, now_ns: int) -> None:
        """Tell others at once what this process is in, and whether it wants to go."""
        self._attempted_ns = {}
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
            self._committed_ns += now_ns - self._ticked_ns
        self._ticked_ns = now_ns
        if self._suspicion.deadline_ns(NEVER) <= now_ns:
            self._suspicion.due(now_ns, set())
            for rank in sorted(self._suspicion.lost):
                self._cut(self.view.members[rank], now_ns)
        if self._attempt_at_ns <= now_ns:
            self._send_attempts(now_ns)
        if self._suggest_at_ns <= now_ns:
            self._suggest_at_ns = NEVER
            if self.suggestion is None:
                wanted = self._build([], now_ns)
                if wanted.view.members != self.view.members:
                    self._commit(wanted, {}, now_ns)
        if self._tell_at_ns <= now_ns:
            self._press(now_ns)

    def _send_attempts(self, now_ns: int) -> None:
        self._attempt_at_ns = now_ns + self._options.heartbeat_interval_ns
        inside = set(self.view.addresses)
        addresses = [address for _, address in self._known.values() if address not in inside]
        if self.leaving:
            addresses = list(inside)
        for address in (*self._contacts, *addresses):
            if address not in inside or self.leaving:
                self._attempt(address, now_ns, self._options.retry_ns)
        since_ns = now_ns - self._options.silence_ns_min
        self._attempted_ns = {where: at_ns for where, at_ns in self._attempted_ns.items() if at_ns > since_ns}
        self._plan(now_ns)

    def _press(self, now_ns: int) -> None:
        """Tell all members of the suggestion, and give up those that have not committed in time."""
        suggestion = self.suggestion
        if suggestion is None:
            self._tell_at_ns = NEVER
            return
        self._tell_at_ns = now_ns + self._options.retry_ns
        if now_ns >= self._committed_ns + self._patience_ns():
            for process in suggestion.view.members:
                if process != self._process and (process not in self.commits or self.is_decided()):
                    self._cuts.add((self._process, process))
            self._reconsider(now_ns)
        told = self._own_commit()
        view = told.suggestion.view
        for process, address in zip(view.members, view.addresses, strict=True):
            if process != self._process:
                self._tell(told, address)

    def _patience_ns(self) -> int:
        """How long members may take to commit; or, when all have, this process to get all of K: beyond that nobody who
        is here has it."""
        factor = 4 if self.is_decided() else 1
        return factor * self._options.silence_ns_min
