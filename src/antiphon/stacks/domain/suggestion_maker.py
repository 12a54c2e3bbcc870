"""What a process suggests as its next configuration, and what it is committed to: rules 2 to 9 of components.py, which
has the theory."""

from typing import Final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.suspicion import Suspicion
from antiphon.stacks.domain.commitment import Commitment, Words, fits
from antiphon.stacks.domain.component_messages import Attempt, Commit, CutRow, Suggestion
from antiphon.stacks.domain.component_sender import ComponentSender
from antiphon.stacks.domain.proposal import SuggestionDraft
from antiphon.stacks.domain.surroundings import Surroundings

WAIT_NS_MAX: Final = 8_000 * MILLISECOND_NS
"""The longest time without a suggestion, where suggestions come to nothing again and again."""


class SuggestionMaker:
    """One process's suggestions, and its commitment to one of them."""

    __slots__ = (
        "_address",
        "_around",
        "_asked_ns",
        "_attempt_at_ns",
        "_closed_number",
        "_closings",
        "_end",
        "_given_up",
        "_made",
        "_members_max",
        "_number",
        "_options",
        "_process",
        "_row_number",
        "_suggest_at_ns",
        "_suspicion",
        "_tell_at_ns",
        "_ticked_ns",
        "_unheard",
        "_wait_until_ns",
        "_withdrawals",
        "current",
        "installed",
        "leaving",
        "left",
        "let_go",
        "sender",
        "silent",
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
        self.current: Commitment | None = None
        """What this process is committed to."""
        self.installed: Commit | None = None
        """What this configuration came from; None for a first one."""
        self.left: set[ProcessId] = set()
        """Members of this configuration that want to go."""
        self.leaving = False
        self.let_go = False
        """This process wants to go, and the others go on without it."""
        self.suspected: list[ProcessId] = []
        """Members that were taken to be lost, to be reported."""
        self.silent: frozenset[int] = frozenset()
        """The ranks of members that have not been heard for two heartbeats."""
        self.sender = ComponentSender(address, options.retry_ns)
        self._number = 0
        self._given_up: set[ProcessId] = set()
        """The processes to which this one takes the link to be cut…"""
        self._unheard: set[ProcessId] = set()
        """…and those of them that it had not heard then."""
        self._row_number = 0
        self._around = Surroundings(process, options)
        self._made = 0
        """Suggestions that this process was committed to since it is in this configuration."""
        self._asked_ns: dict[ProcessId, int] = {}
        """Since when each member of what this process is committed to, from elsewhere, is asked and silent."""
        self._suggest_at_ns = NEVER
        self._tell_at_ns = NEVER
        self._attempt_at_ns = 0
        self._closings = 0
        """How often this process has closed this configuration…"""
        self._closed_number = 0
        """…and the highest suggestion for which it has."""
        self._ticked_ns = 0
        self._wait_until_ns = 0
        self._withdrawals = 0
        """Suggestions that came to nothing since this process is in this configuration, or heard of somebody anew."""

    # ---- cut links -------------------------------------------------------------------------------------------------

    def _cut(self, process: ProcessId, now_ns: int) -> None:
        """Take the link to a process to be cut."""
        if process in self._given_up:
            return
        self._give_up({process}, now_ns)
        if self.view.rank(process) >= 0 and process not in self.left:
            self.suspected.append(process)
        self._reconsider(now_ns)

    def _give_up(self, processes: set[ProcessId], now_ns: int) -> None:
        """Take the links to some processes to be cut, and remember which of these are silent."""
        self._unheard |= {process for process in processes if not self._is_heard(process, now_ns)}
        self._name_cuts(self._given_up | processes)

    def _name_cuts(self, processes: set[ProcessId]) -> None:
        """Say from now on that the links to these processes are cut, and no others."""
        self._unheard &= processes
        if processes != self._given_up:
            self._given_up = processes
            self._number += 1
            self._row_number = self._number

    def _cut_row(self) -> CutRow:
        """What this process says of its links."""
        return CutRow(self._row_number, frozenset(self._given_up))

    def _is_heard(self, process: ProcessId, now_ns: int) -> bool:
        """Whether this process has heard another lately, in its configuration or outside."""
        rank = self.view.rank(process)  # of this process itself the suspicion knows
        return (rank >= 0 and self._suspicion.is_heard(rank, now_ns)) or self._around.hears(process, now_ns)

    def _heard_again(self, process: ProcessId, now_ns: int) -> None:
        """A process is heard that was given up for its silence: take that back (rule 5)."""
        self._unheard.discard(process)
        if process not in self.left:
            self._name_cuts(self._given_up - {process})
            if self.current is None or not self.current.closed:
                self._reconsider(now_ns)

    def _reconsider(self, now_ns: int) -> None:
        if self.current is None:
            self._plan(now_ns)
            return
        better = self._build([self.current.suggestion], now_ns)
        if better is not self.current.suggestion:
            self._commit(better, {}, now_ns)

    # ---- out -------------------------------------------------------------------------------------------------------

    def _attempt(self, address: str, now_ns: int, spacing_ns: int, probe: bool = False) -> None:
        """Tell a process what this one is in, if that was not done just now; `probe`: it is to answer."""
        if self.sender.may_attempt(address, now_ns, spacing_ns):
            attempt = Attempt(self._process, self._address, self.view, self.leaving, probe, self._cut_row())
            self.sender.attempt(attempt, address, now_ns)

    # ---- suggestions -----------------------------------------------------------------------------------------------

    def _plan(self, now_ns: int) -> None:
        """Suggest something soon, if there is something to suggest and this process is committed to nothing."""
        if self.current is not None or self._suggest_at_ns != NEVER:
            return
        rank = self.view.rank(self._process)
        if any(self.view.rank(other) >= 0 for other in self._given_up):
            self._suggest_at_ns = now_ns + rank * self._options.retry_ns // 2
            return
        fresh = self._around.fresh(now_ns)
        if fresh:
            later = 1 if all(self.view.members[0] < view.members[0] for view in fresh) else 2
            at_ns = now_ns + later * self._options.gather_ns + rank * self._options.retry_ns // 2
            self._suggest_at_ns = max(at_ns, self._wait_until_ns)

    def _build(self, others: list[Suggestion], now_ns: int) -> Suggestion:
        """The configuration to be suggested: all of this one, of these suggestions and, if this process is committed to
        nothing, of others that were heard of; without cut links. One of the suggestions, if it says just that."""
        draft = SuggestionDraft(self._process, self.view, self._around, self._cut_row(), now_ns)
        for view in self._around.fresh(now_ns):  # whoever is committed follows those that have moved, and no others
            if self.current is None or any(other.has(member) for other in others for member in view.members):
                draft.add_view(view)
        for other in others:
            draft.add_suggestion(other)
        silent = {process for process in draft.addresses if not self._is_heard(process, now_ns)}
        members = draft.members(silent)[: self._members_max]
        for other in sorted(others, key=Suggestion.rank_key, reverse=True):
            if draft.is_as_good(other, members):
                return other
        self._number += 1
        chosen = [(process, draft.addresses[process]) for process in members]
        origins = {process: draft.origins[process] for process in members}
        return Suggestion(self._number, self._process, chosen, origins, draft.rows)

    def _combine(self, one: Suggestion, other: Suggestion, words: Words, now_ns: int) -> None:
        """Leave the suggestion that this process is committed to, `one`, for what both together make, unless that is
        the same; `words` are about the other."""
        better = self._build([one, other], now_ns)
        if better is not one:
            self._commit(better, words, now_ns, other)
        elif other.has(self._process) and not all(one.has(process) for process in other.origins):
            self._insist(now_ns)

    def _insist(self, now_ns: int) -> None:
        """Suggest what this process stays with again, with a higher number, lest those who are committed to another
        suggestion, as large, stay with that. It has no more time for that."""
        former = self.current
        assert former is not None
        self._suggest_again(former, now_ns)
        if self.current is not None and not former.closed:
            self.current.committed_ns = former.committed_ns

    def _commit(self, suggestion: Suggestion, words: Words, now_ns: int, of: Suggestion | None = None) -> None:
        """Commit to a suggestion; `words` are about it, or about `of`. If this process has closed its configuration for
        another one, that is void, and the configuration goes on; unless it goes back to one that is installed, and
        for which it had closed it (rule 9). A suggestion of what is here already is none (rule 6)."""
        if self._is_present(suggestion):
            self._withdraw(now_ns)
            return
        kept = dict(words) if of is None or of is suggestion else {}
        self.current = current = Commitment(self._process, self.view, suggestion, kept, now_ns)
        if not current.closed:
            current.words.pop(self._process, None)
            current.hear(self._row(suggestion, now_ns))
        foreign = [one for one, origin in suggestion.origins.items() if origin != self.view.id]
        self._asked_ns = {one: self._asked_ns.get(one, now_ns) for one in foreign}
        self._suggest_at_ns = NEVER
        self._made += 1
        self._tell_at_ns = now_ns + max(0, min(self._made, 20) - 4) * self._options.retry_ns // 16
        self._advance(now_ns)

    def _is_present(self, suggestion: Suggestion) -> bool:
        """Whether a suggestion is just the configuration that this process is in."""
        origins = suggestion.origins
        return len(origins) == len(self.view.members) and all(
            origins.get(member) == self.view.id for member in self.view.members
        )

    def _withdraw(self, now_ns: int) -> None:
        """Be committed to nothing, go on in this configuration, and suggest nothing for a while."""
        self.current = None
        self._asked_ns = {}
        self._name_cuts(set(self._unheard))
        self._tell_at_ns = NEVER
        self._suggest_at_ns = NEVER
        self._wait_until_ns = now_ns + min(WAIT_NS_MAX, self._options.gather_ns << min(self._withdrawals, 20))
        self._withdrawals += 1

    def _row(self, suggestion: Suggestion, now_ns: int) -> int:
        """The members of a suggestion that this process hears itself, as bits by rank."""
        row = 1 << suggestion.view.rank(self._process)
        for rank, member in enumerate(suggestion.view.members):
            own = self.view.rank(member)
            is_mate = own >= 0 and suggestion.origins[member] == self.view.id
            if (is_mate and self._suspicion.is_heard(own, now_ns)) or self._around.hears(member, now_ns):
                row |= 1 << rank
        return row

    def _advance(self, now_ns: int) -> None:
        """Close the configuration if all have committed and hear each other; give the suggestion up if K lacks
        something that is here."""
        current = self.current
        assert current is not None
        if not current.closed and current.is_agreed():
            current.close(self._held(), now_ns)
            self._closings += 1
            self._closed_number = max(self._closed_number, current.suggestion.number)
            self._tell_at_ns = now_ns
        if current.is_decided() and not fits(self._held(), current.cut()):
            self._suggest_again(current, now_ns)

    def _held(self) -> list[int]:
        """By rank in this configuration, how many messages are here."""
        assert self._end is not None
        return [held.pairs[-1][1] if held.pairs else 0 for held in self._end.holdings()]

    def _suggest_again(self, current: Commitment, now_ns: int) -> None:
        """Suggest the same once more: closing has come to nothing, so the configuration goes on meanwhile."""
        former = current.suggestion
        self._number += 1
        members = list(zip(former.view.members, former.view.addresses, strict=True))
        again = Suggestion(self._number, self._process, members, former.origins, former.rows)
        self._commit(again, {}, now_ns)

    def is_decided(self) -> bool:
        """Whether the next configuration is known."""
        return self.current is not None and self.current.is_decided()

    def bounds(self) -> list[int] | None:
        """By rank in this configuration, up to where messages may be taken in; None while it is not closed."""
        return None if self.current is None else self.current.bounds()

    def suspects(self) -> set[int]:
        """The ranks of members to whom the link is taken to be cut."""
        return {self.view.rank(other) for other in self._given_up} - {-1}

    def _own_commit(self, current: Commitment) -> Commit:
        return Commit(self._process, self._address, current.suggestion, current.words, False)
