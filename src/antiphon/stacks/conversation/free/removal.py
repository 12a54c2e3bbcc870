"""Taking a participant out of a conversation, and in again, so that all mask alike (psync-1989, 3.2.4 and 5).

Remove. Who suspects somebody stops listening to it and says so in the conversation: a vote, which names all that its
sender wants out and how many messages of each are in its image. Who hears a vote of somebody it does not suspect joins
in, and votes itself. A set is decided when everybody outside it has voted for exactly that set, and they are a majority
of all participants, or half of them with the first one. Then, and when the messages that the votes count are all here,
its members are masked out; nothing else of theirs is ever taken.

Add. Who was removed comes back in a new life, by restart. When a participant asks for it, all that take part say that
it is to be in; when all have, it is masked in, here. Who is back sends nothing before it has received all of that. It
may be back before it knows that it was removed, and send: such messages are not taken, and when it learns of its
removal it has gone astray, and comes back once more.

Safety. All mask alike: what is decided follows from messages alone, and two sets that are decided have a voter in
common, whose votes only grow, so one contains the other; who decides the smaller one takes part in the larger. At the
same place: when a host masks somebody out it has all messages of it that any voter had when it voted; voters take
nothing more of it but what another's vote counts or another's message needs, which is among these. So no message of it
comes later, and a wave that is complete without it stays so: stability is not fooled. A message that became stable
without the one that is added precedes, where somebody's consent is still missing, that very consent, or it would not be
stable there. So it precedes all that the one that is back sends, which therefore belongs to later waves.

Liveness. If those outside the union of all suspicions are a majority, run, and reach each other, each vote reaches all
of them, so they all come to vote for that union. Suspicions that no majority escapes stay undecided: nobody is masked
out, nothing becomes stable, and the application has to end the conversation.

A wrong suspicion. Who was removed learns it: from the votes, if it gets them; else from the answers of a majority to
its questions. It takes no part any more and may come back as above. Who finds that it has more of a removed participant
than was decided, because it failed and came back between its vote and the decision, has diverged: it comes back, too.

Deviations: the paper refers to protocols elsewhere; these are ours. It lets any subset go on; ours must be a majority.
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import NUMBER_MAX
from antiphon.parts.message_graph import GraphView, MessageGraph

OUT: Final = 1
IN: Final = 2
_HEAD: Final = Struct("<BH")
_ENTRY: Final = Struct("<HQQ")

Lives = dict[int, int]
"""Participants by rank, each in a life."""


def encode_change(kind: int, entries: list[tuple[int, int, int]]) -> bytes:
    """Return the bytes of a change: for each participant its rank, its incarnation, and how many messages of it
    count."""
    return _HEAD.pack(kind, len(entries)) + b"".join([_ENTRY.pack(*entry) for entry in entries])


def decode_change(payload: bytes, participants: int) -> tuple[int, list[tuple[int, int, int]]]:
    """Return the entries of a change. Raises MalformedError."""
    if len(payload) < _HEAD.size:
        raise MalformedError("length")
    kind, count = _HEAD.unpack_from(payload)
    if kind not in (OUT, IN) or len(payload) != _HEAD.size + _ENTRY.size * int(count):
        raise MalformedError("length")
    entries: list[tuple[int, int, int]] = []
    for place in range(count):
        rank, life, number = _ENTRY.unpack_from(payload, _HEAD.size + _ENTRY.size * place)
        if rank >= participants or number > NUMBER_MAX or life > NUMBER_MAX:
            raise MalformedError("rank")
        entries.append((int(rank), int(life), int(number)))
    return int(kind), entries


@final
class Removal:
    """Which participants are removed or admitted again, as one participant knows it."""

    __slots__ = (
        "_decided",
        "_graph",
        "_joined",
        "_joining",
        "_life",
        "_me",
        "_notices",
        "_out_before",
        "_removed_in",
        "_said_in",
        "_votes",
        "added",
        "counted",
        "is_back",
        "is_out",
        "outside",
        "removed",
        "suspects",
        "to_ask_in",
        "vote_due",
    )

    def __init__(self, graph: MessageGraph, me: int, life: int) -> None:
        self._graph = graph
        self._me = me
        self._life = life
        self.suspects: Lives = {}
        """Whom this participant wants out, those that are out included."""
        self.removed: Lives = {}
        """Who is out."""
        self.added = [0] * graph.participants
        """By rank: the life in which it was added again."""
        self.counted: dict[tuple[int, int], int] = {}
        """By rank and life of one who is to be out: how many of its messages count."""
        self._votes: list[Lives] = [{} for _ in range(graph.participants)]
        self._decided: Lives = {}
        """Whom all others have voted out, in its latest life of which they have."""
        self._joining: dict[tuple[int, int], dict[int, int]] = {}
        """By rank and life of one who is to be in: who has said so, and with which message."""
        self._joined: dict[int, int] = {}
        """The messages by which this participant was let in again, which it has to receive."""
        self._said_in: set[tuple[int, int]] = set()
        self.vote_due = False
        self.to_ask_in: list[tuple[int, int]] = []
        self.is_back = False
        """This participant has come back by restart."""
        self.outside = False
        """A former life of this participant was removed, and it was not added since."""
        self.is_out = False
        """This participant, in this life, was removed."""
        self._notices: set[int] = set()
        self._out_before: Lives = {}
        """Who is in again, and the life in which it was removed."""
        self._removed_in = 0
        """The life in which this participant was removed."""

    # ---- what the application asks for -----------------------------------------------------------------------------

    def suspect(self, rank: int, life: int) -> bool:
        """Want a participant removed; return whether that is new."""
        if rank == self._me:
            raise UsageError("a participant cannot remove itself; close the conversation instead")
        if self._in_force(self.suspects).get(rank, -1) >= life:
            return False
        self.suspects[rank] = life
        self.vote_due = True
        return True

    def ask_in(self, rank: int, life: int) -> None:
        """Want a participant admitted again."""
        if rank not in self.removed or life <= self.removed[rank]:
            raise UsageError("only who was removed, and is back in a new life, can be added again")
        self._want_in(rank, life)

    def _want_in(self, rank: int, life: int) -> None:
        if (rank, life) not in self._said_in:
            self._said_in.add((rank, life))
            self.to_ask_in.append((rank, life))

    def is_open(self) -> bool:
        """Return whether a vote or a consent may be due, or a change be decided."""
        return self.is_due() or bool(self._decided or self._joining)

    def is_due(self) -> bool:
        """Return whether a vote or a consent is to be sent."""
        return self.vote_due or bool(self.to_ask_in)

    def vote(self) -> bytes:
        """Return the vote to send: whom this participant wants removed, and how many messages of each are here."""
        self.vote_due = False
        suspects = self._in_force(self.suspects)
        return encode_change(OUT, [(rank, life, self._graph.last[rank]) for rank, life in sorted(suspects.items())])

    def consent(self) -> bytes:
        """Return the consent to send: whom this participant wants admitted again."""
        rank, life = self.to_ask_in.pop(0)
        return encode_change(IN, [(rank, life, 0)])

    # ---- what is said in the conversation --------------------------------------------------------------------------

    def take(self, sender: int, number: int, payload: bytes) -> None:
        """Process an attached message about who takes part."""
        kind, entries = decode_change(payload, self._graph.participants)
        if kind == IN:
            for rank, life, _ in entries:
                self._joining.setdefault((rank, life), {}).setdefault(sender, number)
                if sender == self._me:
                    self._said_in.add((rank, life))
            return
        self._votes[sender] = {rank: life for rank, life, _ in entries}
        for rank, life, count in entries:
            self.counted[rank, life] = max(self.counted.get((rank, life), 0), count)
        self._see_what_is_decided()
        if sender == self._me:
            self.suspects.update(self._votes[sender])
            self._drop_empty_vote()
        elif sender not in self._in_force(self.suspects) and not self.outside:
            for rank, life in self._in_force(self._votes[sender]).items():
                if rank != self._me and self._in_force(self.suspects).get(rank, -1) < life:
                    self.suspects[rank] = life
                    self.vote_due = True

    def _in_force(self, lives: Lives) -> Lives:
        """Return the votes without those against participants that were admitted again in a later incarnation."""
        return {rank: life for rank, life in lives.items() if life >= self.added[rank]}

    def _drop_empty_vote(self) -> None:
        """Cancel the vote that is due if it would repeat the last one, cast in a former life or before an admission."""
        self.vote_due = self.vote_due and self._in_force(self.suspects) != self._in_force(self._votes[self._me])

    def _see_what_is_decided(self) -> None:
        """Evaluate the votes after each one: many messages may be attached at once, among them later votes, cast when
        somebody was admitted again."""
        for votes in self._votes:
            chosen = self._in_force(votes)
            if chosen and self._is_decided(chosen):
                self._decided.update(chosen)

    def outnumbers(self, ranks: set[int]) -> bool:
        """Return whether these are more than half of the participants that were not removed, or half of them with the
        first."""
        staying = [rank for rank in range(self._graph.participants) if rank not in self.removed]
        count = len([rank for rank in staying if rank in ranks])
        return 2 * count > len(staying) or (2 * count == len(staying) and staying[0] in ranks)

    def newly_removed(self) -> list[int]:
        """Return the participants that are removed from now on: those whose removal is decided and whose messages that
        count are all here."""
        fresh = {rank: life for rank, life in self._in_force(self._decided).items() if self._is_news(rank, life)}
        if any(self._graph.last[rank] < self.counted[rank, life] for rank, life in fresh.items()):
            return []
        return [rank for rank, life in fresh.items() if self._remove(rank, life)]

    def _is_news(self, rank: int, life: int) -> bool:
        if rank == self._me:
            return not self.is_out and (not self.outside or life > self._removed_in)
        return self.removed.get(rank, -1) < life

    def _is_decided(self, chosen: Lives) -> bool:
        voters = {rank for rank in range(self._graph.participants) if rank not in chosen}
        return self._is_majority(voters) and all(self._in_force(self._votes[rank]) == chosen for rank in voters)

    def _is_majority(self, ranks: set[int]) -> bool:
        all_count = self._graph.participants
        return 2 * len(ranks) > all_count or (2 * len(ranks) == all_count and 0 in ranks)

    def _remove(self, rank: int, life: int) -> bool:
        """Note a removal; return whether the participant has to be masked out, which holds for all but this one."""
        if rank == self._me:
            self.is_out = self._is_mine(life)
            self.outside = True
            self._removed_in = life
            return False
        self.removed[rank] = life
        self.suspects[rank] = life
        return True

    def _is_mine(self, life: int) -> bool:
        """Return whether the removal is of this participant in its present incarnation. Others may not know that
        incarnation yet, if it has not restarted."""
        return life >= self._life or not self.is_back

    def has_diverged(self, rank: int, lives: list[tuple[int, int]]) -> bool:
        """Return whether messages of a removed participant are here that do not count. `lives`: the number of the first
        message of each of its incarnations; those that it sent after it was admitted again may be here already."""
        last = self._graph.last[rank]
        for number, life in lives:
            if life > self._out_in(rank) and self._was_let_in(rank, number, life):
                last = number - 1
                break
        return last > self.counted[rank, self._out_in(rank)]

    def is_astray(self, lives: list[tuple[int, int]]) -> bool:
        """Return whether this participant sent messages that nobody takes, before it knew that a former life of it was
        removed."""
        return self.outside and not self.is_out and bool(self._removed_in) and self.has_diverged(self._me, lives)

    def _out_in(self, rank: int) -> int:
        return self._removed_in if rank == self._me else self.removed[rank]

    def _was_let_in(self, rank: int, number: int, life: int) -> bool:
        """Return whether the first message of an incarnation follows all messages that admitted it, or an earlier one,
        again."""
        node = self._graph.node((rank, number))
        if node is None:
            return True  # it was stable, and is forgotten
        for let_in, entry in self._entries(rank, self._out_in(rank)):
            if let_in <= life and all(node.past[other] >= own for other, own in entry.items()):
                return True
        return False

    def _entries(self, rank: int, out_in: int) -> list[tuple[int, dict[int, int]]]:
        """In which lives one that was removed in this life was let in, and by which messages of those that take part.

        It may be let in in two lives at the same time: to follow one of the two is enough. Where it was masked in by
        the other one, that came before this one was complete, and so precedes one of its messages what had become
        stable till then.
        """
        return [
            (life, {other: own for other, own in said.items() if other != rank and other not in self.removed})
            for (one, life), said in self._joining.items()
            if one == rank and life > out_in and self._all_want_in(rank, said)
        ]

    def entries(self, rank: int) -> list[tuple[int, dict[int, int]]]:
        """Return the same for a participant that is admitted again."""
        return self._entries(rank, self._out_before.get(rank, 0))

    def _all_want_in(self, rank: int, said: dict[int, int]) -> bool:
        ranks = range(self._graph.participants)
        return all(one in said for one in ranks if one != rank and one not in self.removed)

    def newly_added(self) -> list[int]:
        """Return the participants that are admitted again from now on. A participant also wants admitted whom others
        want admitted, once it knows of the removal."""
        result: list[int] = []
        for (rank, life), said in list(self._joining.items()):
            if rank in self.removed and life > self.removed[rank] and not self.outside:
                self._want_in(rank, life)
            out_in = self._removed_in if rank == self._me else self.removed.get(rank, life)
            if life <= out_in or self.added[rank] >= life or (rank == self._me and not self.outside):
                continue
            if self._all_want_in(rank, said):
                self.added[rank] = life
                self._out_before[rank] = out_in
                self.removed.pop(rank, None)
                self.suspects.pop(rank, None)
                self._drop_empty_vote()
                if rank == self._me:
                    self._joined = dict(said)
                result.append(rank)
        return result

    def may_speak(self, view: GraphView) -> bool:
        """Return whether this participant takes part, and has received the messages that admitted it."""
        if self.outside and self._joined and all(view.received[rank] >= one for rank, one in self._joined.items()):
            self.outside = False
            self._joined = {}
        return not self.outside and not self.is_out

    def notice(self, rank: int, life: int) -> None:
        """Note that somebody told this participant of its removal in this incarnation."""
        if self._is_mine(life):
            self._notices.add(rank)
            if self._is_majority(self._notices):
                self.is_out = self.outside = True
