"""One process that is attached to a site, as the site sees it (site.py).

What the process asks for waits in its inbox, in order, until the group of sites takes it. What it is told is counted:
when it has OWED_BYTES_MAX bytes of messages that it has not taken, its site delivers nothing to anybody until it has
taken half of them, so senders wait for it in the end. One that is silent for `silence_ns_max` has failed.

Limits: a process keeps within UNSENT_BYTES_MAX bytes that have not left (attachment.py); one that brings much more, and
a message beside, is given up.
"""

from collections import deque
from typing import Final, final

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.parts.member import StabilityMark
from antiphon.stacks.label.site_frames import STABLE, encode_frame

OWED_BYTES_MAX: Final = 1024 * 1024


@final
class AttachedProcess:
    """One process and its link."""

    __slots__ = (
        "_inbox_bytes", "_inbox_bytes_max", "_owed", "_taken", "entered", "handled", "heard_ns", "inbox", "is_gone",
        "link", "mark", "marked", "ordered", "out", "position", "process", "said_ns", "settled",
    )  # fmt: skip

    def __init__(self, link: int, process: ProcessId, options: Options, now_ns: int) -> None:
        self.link = link
        self.process = process
        self.inbox: deque[bytes] = deque()
        self._inbox_bytes = 0
        self._inbox_bytes_max = OWED_BYTES_MAX + options.message_bytes_max
        self.is_gone = False
        """Its link is down: it has failed, when all that it has asked for is done."""
        self.entered: set[int] = set()
        """The groups that it has asked to enter, and not to leave."""
        self.handled = 0
        """The last ticket that the group of sites has taken…"""
        self.marked = 0
        """…the last that `mark` stands for…"""
        self.settled = 0
        """…and the last that is stable."""
        self.mark: StabilityMark | None = None
        self.ordered = 0
        """Ordered broadcasts and GBCASTs of the process that are under way in other clusters (clusters.py)."""
        self.position: list[int] = []
        """How much other clusters have to do before what `mark` stands for is stable."""
        self._owed = 0
        self._taken = 0
        self.heard_ns = now_ns
        self.said_ns = now_ns
        self.out: list[bytes] = []

    def put(self, frame: bytes) -> bool:
        """Keep what the process asks for; whether there is room."""
        self.inbox.append(frame)
        self._inbox_bytes += len(frame)
        return self._inbox_bytes <= self._inbox_bytes_max

    def done(self) -> None:
        """The first of the inbox is done."""
        self._inbox_bytes -= len(self.inbox.popleft())

    def deliver(self, frame: bytes) -> None:
        """Tell a message, or a GBCAST."""
        self.out.append(frame)
        self._owed += len(frame)

    def take(self, taken: int) -> None:
        """So many bytes were handed to its application."""
        self._taken = min(max(self._taken, taken), self._owed)

    def owes(self, most: int) -> bool:
        """Whether it has more than so many bytes that it has not taken."""
        return self._owed - self._taken > most

    def settle(self) -> None:
        """What the mark stands for is stable."""
        self.mark = None
        self.position = []
        self.settled = self.marked
        self.out.append(encode_frame(STABLE, self.settled))


@final
class Handed:
    """Something of a process that the group of sites has taken, under a number of the site's, and that has not left."""

    __slots__ = ("attached", "group", "number", "ticket")

    def __init__(self, number: int, attached: AttachedProcess, group: int, ticket: int) -> None:
        self.number = number
        self.attached = attached
        self.group = group
        self.ticket = ticket
