"""Whether this participant was left behind: others have other messages, or none of those that it lacks.

Two messages of one number exist where a participant came back, gave numbers again, and somebody had seen the former
ones (recovery.py). Whoever meets a message under a number that it has of another life tells everybody which life it has
(FORKED); those that have the other one have met it by that, and tell everybody in turn, but each only when it hears
this of somebody for the first time; later it just answers. So whichever side notices the fork, each hears of all that
have the other message. Of the two sides, the one that more than half of the participants contradict was left behind,
and learns it; half of them with the first is enough. The others, who hear of it from few, go on.

Somebody that was masked out may lack what became stable without it: where messages are not kept, their bodies are gone.
Whoever it asks says so (FORGOTTEN). If all that it listens to, or more than half, have said so since something last
came, it was left behind, too.
"""

from typing import final


@final
class Fork:
    """What others have told this participant about messages that it has, or lacks."""

    __slots__ = ("contradicting", "forgotten", "left_behind", "reused")

    def __init__(self) -> None:
        self.contradicting: set[int] = set()
        """Ranks of those that have another message under a number of this one."""
        self.forgotten: set[int] = set()
        """Ranks of those that have nothing of what is lacking here."""
        self.left_behind = False
        self.reused = False
        """Whether messages of this participant's present life were seen that it has not sent."""

    def contradicts(self, rank: int) -> bool:
        """Note that a participant has another message under some number; return whether that is new."""
        is_new = rank not in self.contradicting
        self.contradicting.add(rank)
        return is_new
