"""A participant that failed comes back into an ongoing conversation (psync-1989, 5).

It tells all that it is back, in which life (RS). Each host answers with the messages that are the leaves of its image,
and names them. What leads to them is asked for like anything that was lost, so the image is built again. It is whole
when everybody has answered and all the leaves that were named are here; then the participant's view begins at the
leaves of its checkpoint. From there on it receives again what it had received since. Without leaves it begins at the
very beginning, and runs again from its initial state: what it says again is in the graph already, and is not sent.

Why waiting for everybody is safe. The participant gives the number of a message again if none of the answers tells of
it. Let a host attach a message of the former life after it has answered: from a packet of a host that has it attached,
in the life in which that host is known to be, or because such a message needs it. Follow it back to the first host that
attached it. That one did so before it answered, so its answer told of the message, and the number is not given again;
or it has failed since, and lost it. Then it is back, in a new life, before it could answer, and it answers only when
everybody has heard of that life: its packets from before are not taken any more (graph_replica.py). One who is back
itself takes nothing from anybody before it knows in which life that one is.

Nothing of the former life can therefore turn up under a number that was given again, but from somebody who has not
answered. Whoever goes on without such a one must have it masked out: if it comes back with such a message, there are
two messages of one number, and it knows that it was left behind.

What was seen must not be lost. A program that acts on a wave when one message of it is stable (4.2) may act on others
that are lost if it fails, its own first of all: nobody else need have them. When it runs again they come at another
place. So to come back by running again, or from a checkpoint, a program takes a wave only when all of it is stable.

Nobody waits for a participant that is ignored: one that is masked out, or of whose removal the image tells. But that is
asked anew each time, never noted: while an image is built again, it tells of a removal before it tells that the same
participant was let in again. Whoever has not answered when the recovery is done, and is listened to from some time on,
is still told in which life this participant is; otherwise it would take none of its messages.

If somebody does not answer, or a leaf of the checkpoint is nowhere to be found, the application may settle for what is
there. Even then it says nothing before a majority of those that take part, itself included, have answered, nor while it
knows of own messages that are not here: else it would give numbers again that most of the others have seen. What it has
then: all that leads to the lowest message that is n-stable is, if fewer than n hosts, the one that is back among them,
have lost what they had (the paper counts the others alone, as if its own image had survived). The recovery tells what
is lacking.

Deviations: a checkpoint also holds the messages of the view that are not stable, since nobody else may have them when
they are needed. The paper names neither lives nor an answer to RS but the leaves themselves, and does not say when an
image is whole. It lets a participant send as soon as it likes; then numbers could be given twice.
"""

from collections.abc import Iterable
from typing import final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import UsageError
from antiphon.kernel.options import Options
from antiphon.parts.message_graph import MessageGraph, Mid
from antiphon.stacks.conversation.free.sender_filter import SenderFilter


class ReplayError(UsageError):
    """A participant that runs again sent something else than in its former life."""

    def __init__(self, mid: Mid) -> None:
        super().__init__(
            f"message {mid[1]} of this participant was something else when it was first sent; to come back by running "
            "again, a program must be deterministic, and get the same messages in the same order (in waves, say)"
        )
        self.mid = mid


@final
class Recovery:
    """The progress of a restarted participant through its recovery."""

    __slots__ = (
        "_at_ns",
        "_goal",
        "_look_at_ns",
        "_me",
        "_options",
        "_sender_filter",
        "_tries",
        "answered",
        "awaiting",
        "complete",
        "done",
        "lacking",
        "leaves",
        "loading",
        "reused",
        "silent",
        "unheard",
    )

    def __init__(
        self, me: int, others: list[int], leaves: list[Mid], options: Options, sender_filter: SenderFilter
    ) -> None:
        self._me = me
        self.answered: set[int] = {me}
        self._options = options
        self._sender_filter = sender_filter
        self.awaiting = set(others)
        """Ranks of those that have not answered."""
        self.unheard = set(others)
        """Ranks of those that are not known to know in which life this participant is."""
        self.leaves = leaves
        """Where the view is to begin; none: at the beginning."""
        self._goal: dict[Mid, None] = {}
        self._at_ns = 0
        self._look_at_ns = 0
        self._tries = 0
        self.loading = False
        """Whether the host's storage is still being read: it may have what nobody else has."""
        self.reused = False
        """Whether messages of this very life were found that it has not sent: its incarnation was used before."""
        self.done = False
        self.complete = False
        """Whether everybody had answered and everything was there."""
        self.silent: list[int] = []
        """Who had not answered when the recovery was done."""
        self.lacking: list[Mid] = []
        """Leaves of the checkpoint, and of others, that were not there then."""

    def answer(self, rank: int, leaves: list[Mid]) -> None:
        """Note the leaves that another host has answered with."""
        self.awaiting.discard(rank)
        self.unheard.discard(rank)
        self.answered.add(rank)
        self._look_at_ns = 0
        for leaf in leaves:
            self._goal[leaf] = None

    def waits_for(self) -> list[int]:
        """Return the ranks of participants that have not answered and are not ignored."""
        return [rank for rank in sorted(self.awaiting) if not self._sender_filter.ignores(rank)]

    def has_told_all_but(self, via: int) -> bool:
        """Return whether all others but `via`, and those that are ignored, know the incarnation of this participant."""
        return all(rank == via or self._sender_filter.ignores(rank) for rank in self.unheard)

    def _missing(self, graph: MessageGraph) -> list[Mid]:
        """Return the leaves that others have named and that are not here, without messages that do not count."""
        self._goal = dict.fromkeys(graph.missing(list(self._goal)))
        sender_filter = self._sender_filter
        return [
            mid for mid in self._goal if not sender_filter.ignores(mid[0]) or mid[1] <= sender_filter.wanted[mid[0]]
        ]

    def missing(self, graph: MessageGraph) -> list[Mid]:
        """Return leaves of the checkpoint, and of others, that are not here."""
        return graph.missing(list(dict.fromkeys([*self.leaves, *self._missing(graph)])))

    def is_whole(self, graph: MessageGraph) -> bool:
        """Return whether all others have answered and all messages that they named are here."""
        if self.loading or self.waits_for():
            return False
        return not self._missing(graph) and not graph.missing(self.leaves)

    def own_lacking(self, graph: MessageGraph) -> list[Mid]:
        """Return own messages of former lives that others have named and that are not here."""
        self._goal = dict.fromkeys(graph.missing(list(self._goal)))
        return [mid for mid in self._goal if mid[0] == self._me]

    def may_speak(self, graph: MessageGraph, removed: Iterable[int]) -> bool:
        """Return whether this participant may send again: a majority of those that were not removed have answered,
        and no own message is lacking."""
        if not self.done or self.reused or self.own_lacking(graph):
            return False
        out = set(removed)
        return 2 * len(self.answered - out) > graph.participants - len(out - {self._me})

    def end(self, graph: MessageGraph) -> None:
        """Stop recovering, and go on with what is here."""
        self.done = True
        self.silent = self.waits_for()
        self.lacking = self.missing(graph)
        self.complete = not self.silent and not self.lacking

    def deadline_ns(self) -> int:
        if self.done and not self.waits_for():
            return self._look_at_ns
        return min(self._at_ns, self._look_at_ns)

    def tick(self, now_ns: int) -> list[int]:
        """Return the participants to tell once more that this one has restarted."""
        if now_ns < self._at_ns:
            return []
        ranks = self.waits_for()
        if self.done and not ranks:
            return []
        interval_ns = self._options.resend_interval_ns << min(self._tries, 10)
        self._at_ns = now_ns + min(interval_ns, self._options.heartbeat_interval_ns)
        self._tries += 1
        return ranks

    def is_stuck(self, graph: MessageGraph, now_ns: int) -> bool:
        """Return whether to ask all participants for what is missing, including what was given up."""
        if now_ns < self._look_at_ns:
            return False
        if self.done and not self.own_lacking(graph):
            self._look_at_ns = NEVER
            return False
        self._look_at_ns = now_ns + self._options.heartbeat_interval_ns
        return bool(self._missing(graph) or graph.missing(self.leaves))

    def seen(self, graph: MessageGraph) -> list[int]:
        """Return how many messages of each participant the view begins with."""
        seen = [0] * graph.participants
        for rank, number in self.leaves:
            node = graph.node((rank, number))
            if node is not None:
                seen = [max(mine, theirs) for mine, theirs in zip(seen, node.past, strict=True)]
                seen[rank] = max(seen[rank], number)
        return seen
