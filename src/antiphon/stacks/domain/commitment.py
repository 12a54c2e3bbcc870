"""The suggestion that a process is committed to, and what is known of the others' commits to it: whether all hear each
other, whether all have closed their configurations, and which messages of this one count (transis-1992, 5.1 and 5.2).

K. The paper's cut is the union of the pasts of each survivor's first message that follows all of SP. Here that message
is the word by which a process says that it has closed its configuration, and its past is told by numbers: how many
messages of each member are in its graph, which is enough, since a graph has no gaps. K is the union over those that
come along, `cut`.

What may be taken in after closing, `bounds`: of those that come along, and whose word is not known yet, everything they
are heard to have sent, because a member that has closed sends nothing more; of whoever else, suspects among them, what
somebody that comes along is known to hold. All of it is of K, unless somebody has given the suggestion up and goes on;
then K, as it is decided, lacks some of what is here (`fits`), and this process gives the suggestion up as well.
"""

from typing import final

from antiphon.kernel.identity import NUMBER_MAX, ProcessId, View
from antiphon.stacks.domain.component_messages import Suggestion, Word

Words = dict[ProcessId, Word]


def cut_by(view: View, suggestion: Suggestion, words: Words) -> list[int]:
    """K, by rank in the configuration: how many messages of each member count, by the words on a suggestion that is
    decided."""
    held = [words[one].held for one in view.members if suggestion.origins.get(one) == view.id]
    return [max(counts) for counts in zip(*held, strict=True)]


def fits(here: list[int], cut: list[int]) -> bool:
    """Whether all that is here, of whomever, is of this cut."""
    return all(count <= end for count, end in zip(here, cut, strict=True))


@final
class Commitment:
    """One process's commitment to one suggestion."""

    __slots__ = ("_process", "_view", "closed", "committed_ns", "suggestion", "took_ns", "words")

    def __init__(self, process: ProcessId, view: View, suggestion: Suggestion, words: Words, now_ns: int) -> None:
        self._process = process
        self._view = view
        self.suggestion = suggestion
        self.words = words
        self.closed = self.is_decided()
        """Whether this process has closed its configuration. At the beginning only if it goes back to a suggestion that
        is installed, for which it had closed it."""
        self.committed_ns = now_ns
        """Since when this process is committed, or has closed its configuration."""
        self.took_ns = 0
        """How long it took from the one to the other."""

    # ---- words -----------------------------------------------------------------------------------------------------

    def hear(self, row: int) -> bool:
        """This process hears these members of the suggestion, by bits; whether these are all, and were not before."""
        own = self.words.get(self._process)
        if own is None:
            self.words[self._process] = Word([], row)
            return False
        if self.closed or own.heard | row == own.heard:
            return False
        own.heard |= row
        return own.heard == self.everybody()

    def learn(self, words: Words) -> None:
        """More words of others have come."""
        for process, word in words.items():
            before = self.words.get(process)
            if process == self._process:
                continue
            if before is None or (word.held and not before.held):
                self.words[process] = word
            elif not before.held:
                before.heard |= word.heard

    def close(self, held: list[int], now_ns: int) -> None:
        """This process closes its configuration, of which it holds this much."""
        self.closed = True
        self.took_ns = now_ns - self.committed_ns
        self.committed_ns = now_ns
        self.words[self._process] = Word(held, self.everybody())

    # ---- questions -------------------------------------------------------------------------------------------------

    def everybody(self) -> int:
        """All members of the suggestion, by bits."""
        return (1 << len(self.suggestion.view.members)) - 1

    def has_all_words(self) -> bool:
        """Whether all members are known to be committed."""
        return len(self.words) == len(self.suggestion.view.members)

    def is_agreed(self) -> bool:
        """Whether, besides, all are known to hear each other."""
        everybody = self.everybody()
        return self.has_all_words() and all(word.heard == everybody for word in self.words.values())

    def is_decided(self) -> bool:
        """Whether all members are known to have closed what they come from."""
        return self.has_all_words() and all(word.held for word in self.words.values())

    def holds_up(self, long: bool) -> set[ProcessId]:
        """Those that the next step waits for: that have not committed; that this process does not hear, or, if it has
        waited for `long`, that do not hear others and have not said that these links are cut; that have not closed; or,
        if all have, all, since nobody seems to have what is missing."""
        members = self.suggestion.view.members
        if self.closed:
            decided = self.is_decided()
            result = {one for one in members if decided or one not in self.words or not self.words[one].held}
        elif not self.has_all_words():
            result = {one for one in members if one not in self.words}
        else:
            unheard = self._unheard()
            result = {other for one, other in unheard if one == self._process}
            if long and not result:
                result = {one for one, _ in unheard}
        return result - {self._process}

    def _unheard(self) -> set[tuple[ProcessId, ProcessId]]:
        """The pairs of members of which the first has committed and does not hear the second."""
        members = self.suggestion.view.members
        pairs: set[tuple[ProcessId, ProcessId]] = set()
        for one, word in self.words.items():
            pairs |= {(one, other) for rank, other in enumerate(members) if not word.heard >> rank & 1}
        return pairs

    def patience_ns(self, least_ns: int, most_ns: int) -> int:
        """How long the next step may take, which needs a trip or two: within these limits, twice as long as the last
        one took."""
        return min(max(least_ns, 2 * self.took_ns), most_ns)

    def lacks_foreign_alone(self) -> bool:
        """Whether all have committed, and all that do not hear each other come from different configurations."""
        if self.closed or not self.has_all_words():
            return False
        origins = self.suggestion.origins
        return all(origins[one] != origins[other] for one, other in self._unheard())

    # ---- messages --------------------------------------------------------------------------------------------------

    def mates(self) -> list[int]:
        """The ranks, in this configuration, of those that go on together by the suggestion."""
        origins = self.suggestion.origins
        return [rank for rank, one in enumerate(self._view.members) if origins.get(one) == self._view.id]

    def cut(self) -> list[int]:
        """By rank in this configuration, how many messages count (K), once the suggestion is decided."""
        return cut_by(self._view, self.suggestion, self.words)

    def bounds(self) -> list[int] | None:
        """By rank in this configuration, up to where messages may be taken in; None while it is not closed."""
        if not self.closed:
            return None
        mates = self.mates()
        held = [self.words[self._view.members[rank]].held for rank in mates]
        known = [max(counts) for counts in zip(*[counts for counts in held if counts], strict=True)]
        for rank, counts in zip(mates, held, strict=True):
            known[rank] = counts[rank] if counts else NUMBER_MAX
        return known
