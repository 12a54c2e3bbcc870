"""Who is silent for too long: the first two layers of suspicion.

Silence. Each member is heard at least once per heartbeat. How long it may be silent adapts to how long it has been
before: twice its longest gap of late, but not less than `silence_ns_min` and not more than `silence_ns_max`. The
memory of a gap fades by a sixteenth of the time that goes by.

Doubt. A member that is silent for longer is doubted: others are asked whether they hear it. If nobody does within
`doubt_ns`, it is suspected; if somebody does, it is given as long again. Hearing from it ends all doubt.

The third layer, agreement on who is out, is the membership's.
"""

from typing import Final, final

from antiphon.kernel.options import Options

_FADE: Final = 16


def silence_limit_ns(longest_ns: int, options: Options) -> int:
    """How long a member may be silent that was once silent for `longest_ns`."""
    return min(options.silence_ns_max, max(options.silence_ns_min, 2 * longest_ns))


@final
class Suspicion:
    """What this member thinks of the others' silence, by rank."""

    __slots__ = ("_deadline_ns", "_doubted_ns", "_heard_ns", "_longest_ns", "_me", "_options", "suspects")

    def __init__(self, members: int, me: int, now_ns: int, options: Options) -> None:
        self._me = me
        self._options = options
        self._heard_ns = [now_ns] * members
        self._longest_ns = [0] * members
        self._doubted_ns = [0] * members
        self.suspects: set[int] = set()
        self._deadline_ns = -1
        """As it was last worked out, which is never too late: hearing from members only puts it off."""

    def heard(self, rank: int, now_ns: int) -> None:
        """Something came from this member."""
        gap_ns = now_ns - self._heard_ns[rank]
        self._longest_ns[rank] = max(gap_ns, self._longest_ns[rank] - gap_ns // _FADE)
        self._heard_ns[rank] = now_ns
        self._doubted_ns[rank] = 0
        if rank in self.suspects:
            self.suspects.discard(rank)
            self._deadline_ns = -1

    def vouched(self, rank: int, now_ns: int) -> None:
        """Somebody else hears this member."""
        self._heard_ns[rank] = max(self._heard_ns[rank], now_ns - self._options.silence_ns_min // 2)
        self._doubted_ns[rank] = 0
        self.suspects.discard(rank)
        self._deadline_ns = -1

    def hears(self, rank: int, now_ns: int) -> bool:
        """Whether this member was heard lately, so that I can vouch for it."""
        return rank == self._me or now_ns - self._heard_ns[rank] < self._options.silence_ns_min // 2

    def due(self, now_ns: int) -> list[int]:
        """The members that must be doubted from now on. Those doubted for long enough become suspects."""
        doubted: list[int] = []
        self._deadline_ns = -1
        for rank in range(len(self._heard_ns)):
            if rank == self._me or rank in self.suspects:
                continue
            if self._doubted_ns[rank]:
                if now_ns >= self._doubted_ns[rank] + self._options.doubt_ns:
                    self.suspects.add(rank)
            elif now_ns >= self._heard_ns[rank] + silence_limit_ns(self._longest_ns[rank], self._options):
                self._doubted_ns[rank] = now_ns
                doubted.append(rank)
        return doubted

    def deadline_ns(self, never_ns: int) -> int:
        """When `due` may have something to say next."""
        if self._deadline_ns >= 0:
            return self._deadline_ns
        deadline_ns = never_ns
        for rank in range(len(self._heard_ns)):
            if rank == self._me or rank in self.suspects:
                continue
            if self._doubted_ns[rank]:
                due_ns = self._doubted_ns[rank] + self._options.doubt_ns
            else:
                due_ns = self._heard_ns[rank] + silence_limit_ns(self._longest_ns[rank], self._options)
            deadline_ns = min(deadline_ns, due_ns)
        self._deadline_ns = deadline_ns
        return deadline_ns
