"""This process as a member of one group, as the engine sees it; every stack has its own.

The engine calls `begin_step` before the first thing that a step does to a member and `finish` after the last, reads
its deadline at the end of the step, and forgets the member when it is over.
"""

from typing import Final, final

from antiphon.kernel.credentials import Credentials
from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import Send

MOMENTARY: Final = ("copies_held", "packets_held", "pending_bytes")
"""Statistics that say how things stand, not what has happened: they end with their view or group."""


@final
class PeerState:
    """What this process knows of another member of a view, for those who look at it."""

    __slots__ = ("behind", "is_suspected", "process", "silent_ns", "strain")

    def __init__(self, process: ProcessId, behind: int, silent_ns: int, strain: int, is_suspected: bool) -> None:
        self.process = process
        self.behind = behind
        """Own packets of this view that it has not acknowledged."""
        self.silent_ns = silent_ns
        """How long nothing was heard of it."""
        self.strain = strain
        """How bad the link to it is (parts/suspicion.py)."""
        self.is_suspected = is_suspected


@final
class StabilityMark:
    """A point in the life of one member of one group: what it had sent and delivered, and what it had accepted."""

    __slots__ = ("accepted", "group", "known", "view_id")

    def __init__(self, group: str, view_id: int, known: list[int], accepted: int) -> None:
        self.group = group
        self.view_id = view_id
        self.known = known
        self.accepted = accepted


class Member:
    """One member of one group."""

    __slots__ = (
        "abandoned",
        "armed_ns",
        "author",
        "credentials",
        "due_ns",
        "excluded",
        "group",
        "group_id",
        "over",
        "refused",
        "retiring",
        "serial",
        "stream",
        "touched",
        "unfinished",
    )

    def __init__(self, group: str) -> None:
        self.group = group
        self.group_id = wire_id(group)
        self.over = False
        """This process is no longer a member…"""
        self.excluded = False
        """…and it was the others that ended it, with all that it did there…"""
        self.abandoned = False
        """…or this process gave it up without a word…"""
        self.refused = False
        """…or it has declared the group differently from others, which it still tells whoever asks."""
        self.retiring = False
        """To the application this process is no member any more, but it still takes part in the agreement on the view
        after this one, by which it parts."""
        self.author = ""
        """The process that made the packet which is being received; empty: not known."""
        self.credentials = Credentials()
        """Set by the engine before `start`."""
        # The engine's own notes.
        self.serial = 0
        """Numbers the members of an engine in the order in which they joined."""
        self.stream = group
        """What its events are read by."""
        self.touched = False
        """This step has done something to it."""
        self.unfinished = False
        """`finish` is still to be called in this step."""
        self.due_ns = NEVER
        """Its deadline at the end of the last step that touched it…"""
        self.armed_ns = NEVER
        """…and the time of its entry in the engine's heap, which is no later."""

    # ---- the application's side ------------------------------------------------------------------------------------

    def start(self, contacts: tuple[str, ...], effects: Effects, now_ns: int) -> None:
        """Begin, in the first view or outside."""
        raise NotImplementedError

    def send(self, input: Send, effects: Effects, now_ns: int) -> int:
        """Accept messages from the front, as far as there is room; how many. Raises UsageError."""
        raise NotImplementedError

    def barrier(self, payload: bytes, effects: Effects, now_ns: int) -> int:
        """Accept a barrier; 0 if there is no room. Raises UsageError."""
        raise NotImplementedError

    def leave(self, now_ns: int) -> None:
        """Begin to leave in good order. Raises UsageError where nobody can leave."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Be over at once, without a word to the others."""
        self.over = True
        self.abandoned = True

    def is_stalled(self) -> bool:
        """Whether the group stands still for want of a majority, so that `recover` can have it go on."""
        return False

    def recover(self, effects: Effects, now_ns: int) -> None:
        """Go on with those that can be reached, though they are no majority. Raises UsageError where that makes no
        sense."""
        raise UsageError(
            f"group {self.group!r} does not stand still for want of a majority; there is nothing to recover"
        )

    def pause(self) -> None:
        """Deliver nothing until `resume`."""
        raise NotImplementedError

    def resume(self, effects: Effects, now_ns: int) -> None:
        """Deliver again, first what has gathered meanwhile."""
        raise NotImplementedError

    # ---- the network's side, and time ------------------------------------------------------------------------------

    def begin_step(self, now_ns: int) -> None:
        """Called before the first thing that a step does to this member."""

    def receive(
        self, kind: int, tag: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        """Take one packet for this group. Raises MalformedError, before anything has changed."""
        raise NotImplementedError

    def _check_author(self, view: View, sender: int) -> None:
        """Raise MalformedError if a packet that says to be of the member with this rank was made by another."""
        if self.author and (sender >= len(view.members) or view.members[sender].name != self.author):
            raise MalformedError("author")

    def answer_other_stack(self, stack: int, kind: int, flags: int, data: bytes, effects: Effects) -> None:
        """Tell whoever asks for this group on the stack with this number that it is on another. Raises
        MalformedError."""

    def tick(self, effects: Effects, now_ns: int) -> None:
        """Do what is due."""
        raise NotImplementedError

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Deliver and send what may be delivered and sent, then add what is to be transmitted to the effects."""
        raise NotImplementedError

    def deadline_ns(self) -> int:
        """When to call `tick`; NEVER for a member that is over."""
        raise NotImplementedError

    # ---- questions -------------------------------------------------------------------------------------------------

    def outstanding(self) -> int:
        """Own messages and packets that are not yet known to be stable at every member."""
        raise NotImplementedError

    def held(self) -> int:
        """Packets that have arrived and wait for their place."""
        raise NotImplementedError

    def phase(self) -> int:
        """The phase of the membership (parts/membership/agreement.py)."""
        raise NotImplementedError

    def waits_for(self) -> str:
        """What a process that joins waits for, in words, where its stack knows that."""
        return ""

    def mark(self) -> StabilityMark:
        """All that was sent or delivered here until now, for `is_stable` to ask about later."""
        raise NotImplementedError

    def is_stable(self, mark: StabilityMark, copies: int) -> bool:
        """Whether all that the mark stands for is at so many members beside its sender; 0: at all of them."""
        raise NotImplementedError

    def peers(self, now_ns: int) -> list[PeerState]:
        """What is known of each other member of the view, where the members know of each other."""
        return []

    def last_number(self) -> int:
        """The number of the last message that this process sent to the group, by this or an earlier membership."""
        raise NotImplementedError

    def statistics(self) -> dict[str, int]:
        """Counters by name."""
        raise NotImplementedError

    def situations(self) -> list[int]:
        """How often this member has been in each situation that its stack names, in that order."""
        return []


def add_statistics(totals: dict[str, int], ended: dict[str, int]) -> None:
    """Add to `totals` the statistics of something that has ended, but for those that have ended with it."""
    for name, value in ended.items():
        if name not in MOMENTARY:
            totals[name] = totals.get(name, 0) + value


def add_counts(some: list[int], more: list[int]) -> list[int]:
    """Counts of the same things, added up; those that are missing at the end of a list are 0."""
    longer, shorter = (some, more) if len(some) >= len(more) else (more, some)
    return [count + shorter[place] if place < len(shorter) else count for place, count in enumerate(longer)]
