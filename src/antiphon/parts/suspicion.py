"""What one member makes of the others' silence: the first two layers of suspicion.

Silence. Each member is heard at least once per heartbeat. How long it may be silent adapts to how long it has been
before: twice its longest gap of late, but not less than `silence_ns_min` and not more than `silence_ns_max`. The
memory of a gap fades by a sixteenth of the time that goes by.

Doubt. A member that is silent for longer than its limit is doubted: the others are told, and say what they hear
(membership/reachability.py). If none of them hears it within `doubt_ns`, it is lost. Hearing from it ends all doubt.

Answers. To be heard is not enough. A member that was asked something in a change of view and does not answer, or that
acknowledges nothing of what it was sent, makes its link as bad as one that is silent makes it; `silence_ns_max` without
an answer counts as twice the limit of silence. So go members that get small packets only, and a process that began
again under the identity of a member: it lacks what its former life had, and nobody has it any more.

Strain. How bad the link to a member is, in eighths of what is tolerated: from STRAINED on it is doubted; from CUT on,
twice the limit, the link is taken to be cut, whatever others hear. The strain of all links from one member is its row
of the reachability matrix; HEARD is added for each member that was heard within half of `silence_ns_min`.

Return. When somebody is heard after a long silence it may have been the link of this process that was down. Then the
other silent ones are about to be heard too, and are given two retries to answer before a change of view is proposed
without them (membership/agreement.py): else a member that was cut off goes on with whoever answers it first, and fells
the others.

A process that stood still did not listen: the time that it stood still is nobody's silence.

The third layer, agreement on who is out, is the membership's.
"""

from typing import Final, final

from antiphon.kernel.options import Options

_FADE: Final = 16
STRAINED: Final = 8
CUT: Final = 16
STRAIN_MAX: Final = 127
HEARD: Final = 128


def silence_limit_ns(longest_ns: int, options: Options) -> int:
    """How long a member may be silent that was once silent for `longest_ns`."""
    return min(options.silence_ns_max, max(options.silence_ns_min, 2 * longest_ns))


@final
class Suspicion:
    """How long each other member has been silent or has owed an answer, by rank, and who is lost."""

    __slots__ = (
        "_asked_ns",
        "_deadline_ns",
        "_doubted_ns",
        "_heard_ns",
        "_longest_ns",
        "_me",
        "_options",
        "_returned_ns",
        "_unacked_ns",
        "_wanted",
        "lost",
    )

    def __init__(self, members: int, me: int, now_ns: int, options: Options) -> None:
        self._me = me
        self._options = options
        self._heard_ns = [now_ns] * members
        self._longest_ns = [0] * members
        self._doubted_ns = [0] * members
        self._asked_ns = [-1] * members
        """Since when each owes an answer; -1: it owes none."""
        self._unacked_ns = [-1] * members
        """Since when each has acknowledged nothing of what it should; -1: it has."""
        self._wanted = [0] * members
        """How many packets each should acknowledge next."""
        self._returned_ns = -1
        """When somebody was last heard after a long silence; -1: never."""
        self.lost: set[int] = set()
        """Silent for longer than the limit, and nobody vouched for them while they were doubted."""
        self._deadline_ns = -1
        """As it was last worked out, which is never too late: hearing from members only puts it off."""

    def heard(self, rank: int, now_ns: int) -> None:
        """Something came from this member."""
        gap_ns = now_ns - self._heard_ns[rank]
        self._longest_ns[rank] = max(gap_ns, self._longest_ns[rank] - gap_ns // _FADE)
        if 2 * min(gap_ns, now_ns - self._returned_ns) >= self._options.silence_ns_min:
            self._returned_ns = now_ns
        self._heard_ns[rank] = now_ns
        self._doubted_ns[rank] = 0
        if rank in self.lost:
            self.lost.discard(rank)
            self._deadline_ns = -1

    def are_returning(self, now_ns: int) -> bool:
        """Whether somebody came back just now, so that others may be about to. At least half of the time it is not so,
        however many links flap."""
        patience_ns = min(2 * self._options.retry_ns, self._options.silence_ns_min // 4)
        return self._returned_ns >= 0 and now_ns < self._returned_ns + patience_ns

    def longest_gap_ns(self, rank: int) -> int:
        """How long this member has been silent at most, of late."""
        return self._longest_ns[rank]

    def expect_gap(self, rank: int, longest_ns: int) -> None:
        """This member was once silent for so long in a view before."""
        self._longest_ns[rank] = longest_ns
        self._deadline_ns = -1

    def asked(self, rank: int, now_ns: int) -> None:
        """This member owes an answer from now on, if it owed none before."""
        if self._asked_ns[rank] < 0:
            self._asked_ns[rank] = now_ns

    def answered(self, rank: int) -> None:
        """This member owes no answer any more."""
        self._asked_ns[rank] = -1

    def acknowledged(self, rank: int, received: int, sent: int, now_ns: int) -> None:
        """This member says that it has so many of the packets that were sent to all."""
        if received >= self._wanted[rank] or rank == self._me:
            self._wanted[rank] = sent
            self._unacked_ns[rank] = -1
        elif self._unacked_ns[rank] < 0:
            self._unacked_ns[rank] = now_ns

    def unacknowledged_ns(self, rank: int, now_ns: int) -> int:
        """For how long this member has acknowledged nothing of what it should."""
        return now_ns - self._unacked_ns[rank] if self._unacked_ns[rank] >= 0 else 0

    def stood_still(self, for_ns: int) -> None:
        """Do not count this time as silence of the others: this process did not run, and so did not listen."""
        for rank in range(len(self._heard_ns)):
            self._heard_ns[rank] += for_ns
            if self._asked_ns[rank] >= 0:
                self._asked_ns[rank] += for_ns
            if self._unacked_ns[rank] >= 0:
                self._unacked_ns[rank] += for_ns
            if self._doubted_ns[rank]:
                self._doubted_ns[rank] += for_ns
        self._deadline_ns = -1

    def strain(self, rank: int, now_ns: int) -> int:
        """How bad the link to this member is; see the top of this file."""
        if rank == self._me:
            return 0
        options = self._options
        silent_ns = now_ns - self._heard_ns[rank]
        strain = STRAINED * silent_ns // silence_limit_ns(self._longest_ns[rank], options)
        for since_ns in (self._asked_ns[rank], self._unacked_ns[rank]):
            if since_ns >= 0:
                strain = max(strain, CUT * (now_ns - since_ns) // options.silence_ns_max)
        return min(strain, STRAIN_MAX)

    def silent_ns(self, rank: int, now_ns: int) -> int:
        """How long nothing has come from this member."""
        return 0 if rank == self._me else now_ns - self._heard_ns[rank]

    def is_heard(self, rank: int, now_ns: int) -> bool:
        """Whether this member was heard lately, so that one can vouch for it."""
        return rank == self._me or 2 * (now_ns - self._heard_ns[rank]) < self._options.silence_ns_min

    def row(self, now_ns: int) -> bytes:
        """The strain of the link to each member, by rank, and whether it was heard lately."""
        row = bytearray(len(self._heard_ns))
        for rank in range(len(row)):
            row[rank] = self.strain(rank, now_ns) + (HEARD if self.is_heard(rank, now_ns) else 0)
        return bytes(row)

    def due(self, now_ns: int, vouched: set[int]) -> bool:
        """Doubt silent members, and give up those that nobody has vouched for in time; return whether one is newly
        doubted."""
        doubts = False
        self._deadline_ns = -1
        for rank in range(len(self._heard_ns)):
            if rank == self._me or rank in self.lost:
                continue
            if self._doubted_ns[rank]:
                if now_ns >= self._doubted_ns[rank] + self._options.doubt_ns:
                    if rank in vouched:
                        self._doubted_ns[rank] = now_ns
                    else:
                        self.lost.add(rank)
            elif now_ns >= self._heard_ns[rank] + silence_limit_ns(self._longest_ns[rank], self._options):
                self._doubted_ns[rank] = now_ns
                doubts = True
        return doubts

    def doubted(self) -> list[int]:
        """Those that are silent for longer than the limit, lost or not."""
        return [rank for rank, since_ns in enumerate(self._doubted_ns) if since_ns]

    def deadline_ns(self, never_ns: int) -> int:
        """When `due` may have something to say next."""
        if self._deadline_ns >= 0:
            return self._deadline_ns
        deadline_ns = never_ns
        for rank in range(len(self._heard_ns)):
            if rank == self._me or rank in self.lost:
                continue
            if self._doubted_ns[rank]:
                due_ns = self._doubted_ns[rank] + self._options.doubt_ns
            else:
                due_ns = self._heard_ns[rank] + silence_limit_ns(self._longest_ns[rank], self._options)
            deadline_ns = min(deadline_ns, due_ns)
        self._deadline_ns = deadline_ns
        return deadline_ns
