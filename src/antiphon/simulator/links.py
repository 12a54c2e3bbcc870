"""Simulated links: whole frames between two incarnations, in order, over the same bad network as packets.

A link stands for a TCP connection. Frames that were given to one end travel to the other in batches, one batch under
way at a time, so they cannot overtake each other. A batch that the network loses is sent again, more and more slowly;
after `_TRIES_MAX` losses in a row the link breaks. Damage and duplication, which TCP repairs, do not show.

A link ends when an end hangs up (after all that was given to it before), when it breaks, or when the incarnation at an
end is gone. What was delivered until then is a prefix of what was sent. Each end that has not hung up itself is told so
once, after the last frames.

What a link wants of the world is put into `outcomes` (for an incarnation, at a time) and `timers` (call `advance`),
which the world takes out after each call.
"""

from random import Random
from typing import Final, final

from antiphon.faults import Fault, fly
from antiphon.kernel.calls import LINK_BYTES_MAX, accepted_link, stack_of_token
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.outcomes import CallOutcome, LinkDown, LinkFrames, LinkRoom, LinkUp

_RETRY_NS: Final = 200 * MILLISECOND_NS
_TRIES_MAX: Final = 6
"""The link breaks after so many losses in a row: 12.4 seconds, since each try waits twice as long as the one before."""


@final
class LinkEnd:
    """One end of a link, and what travels from it to the other end."""

    __slots__ = (
        "bytes_queued",
        "frames",
        "id",
        "is_full",
        "is_open",
        "process",
        "told_ns",
        "tries",
        "under_way",
    )

    def __init__(self, process: ProcessId, id: int) -> None:
        self.process = process
        self.id = id
        """By which the stack of this process knows the link."""
        self.frames: list[bytes] = []
        """Given to this end, and not under way yet."""
        self.under_way: list[bytes] = []
        self.bytes_queued = 0
        self.is_full = False
        self.is_open = True
        """This end takes and is told frames: it has neither hung up nor been told that the link is down."""
        self.tries = 0
        self.told_ns = 0
        """When it was last told something: what follows comes no earlier."""


@final
class SimulatedLink:
    """Two ends, the dialling one first."""

    __slots__ = ("ends", "is_up")

    def __init__(self, dialling: LinkEnd, listening: LinkEnd) -> None:
        self.ends = (dialling, listening)
        self.is_up = True
        """Frames can still travel."""


@final
class SimulatedLinks:
    """All links of a world."""

    def __init__(self, layers: list[Fault], seed: int) -> None:
        self.outcomes: list[tuple[int, ProcessId, CallOutcome]] = []
        self.timers: list[tuple[int, int]] = []
        self._layers = layers
        self._random = Random(f"{seed}/frames")
        self._listening: dict[tuple[ProcessId, int], int] = {}
        """The token of the last Listen, by process and stack."""
        self._accepted: dict[ProcessId, int] = {}
        self._links: list[SimulatedLink] = []
        self._of: dict[tuple[ProcessId, int], tuple[int, int]] = {}
        """Number of the link and of the end, by what the stack knows it by."""

    # ---- what stacks want ------------------------------------------------------------------------------------------

    def listen(self, process: ProcessId, token: int) -> None:
        """Accept links for this process, on the stack that made the token."""
        self._listening[process, stack_of_token(token)] = token

    def dial(self, now_ns: int, process: ProcessId, id: int, other: ProcessId | None) -> None:
        """Open a link to the incarnation that runs where this process has dialled, if any."""
        token = 0 if other is None else self._listening.get((other, stack_of_token(id)), 0)
        delay_ns = -1 if other is None else self._delay_ns(now_ns, process, other)
        if other is None or not token or delay_ns < 0:
            wait_ns = _RETRY_NS if delay_ns < 0 else 2 * delay_ns
            self.outcomes.append((now_ns + wait_ns, process, LinkDown(id, "nobody listens there")))
            return
        count = self._accepted.get(other, 0) + 1
        self._accepted[other] = count
        accepted = accepted_link(token, count)
        self._of[process, id] = (len(self._links), 0)
        self._of[other, accepted] = (len(self._links), 1)
        dialling, listening = LinkEnd(process, id), LinkEnd(other, accepted)
        self._links.append(SimulatedLink(dialling, listening))
        self._tell(now_ns + delay_ns, listening, LinkUp(accepted, process, token))
        self._tell(now_ns + 2 * delay_ns, dialling, LinkUp(id, other))

    def send(self, now_ns: int, process: ProcessId, id: int, frames: list[bytes]) -> None:
        """Send frames by a link; they are lost if it is down."""
        number, side = self._of.get((process, id), (-1, 0))
        if number < 0:
            return
        link = self._links[number]
        end = link.ends[side]
        if not (link.is_up and end.is_open):
            return
        end.frames.extend(frames)
        end.bytes_queued += sum([len(frame) for frame in frames])
        end.is_full = end.is_full or end.bytes_queued >= LINK_BYTES_MAX
        if not end.under_way:
            self._depart(now_ns, number, side)

    def hang(self, now_ns: int, process: ProcessId, id: int) -> None:
        """Close a link from this end, after all that was given to it."""
        number, side = self._of.get((process, id), (-1, 0))
        if number >= 0 and self._links[number].ends[side].is_open:
            end = self._links[number].ends[side]
            end.is_open = False
            if not end.under_way:
                self._finish(now_ns, number, side, "the other end hung up")

    def end_process(self, now_ns: int, process: ProcessId) -> None:
        """The incarnation is gone. Of what was under way from it, all or nothing still arrives."""
        for key in [key for key in self._listening if key[0] == process]:
            del self._listening[key]
        for number, link in enumerate(self._links):
            for side, end in enumerate(link.ends):
                if link.is_up and end.process == process:
                    end.is_open = False
                    end.frames.clear()
                    if not end.under_way or self._random.random() < 0.5:
                        end.under_way.clear()
                        self._finish(now_ns, number, side, "the other end is gone")

    def cut(self, now_ns: int, process: ProcessId) -> None:
        """Break all links of an incarnation, with what is under way on them."""
        for link in self._links:
            if link.is_up and process in (link.ends[0].process, link.ends[1].process):
                self._break(now_ns, link)

    # ---- the way of a batch ----------------------------------------------------------------------------------------

    def advance(self, now_ns: int, timer: int) -> None:
        """A timer has come: a batch arrives, or is tried again."""
        number, side, arrives = timer >> 2, timer >> 1 & 1, timer & 1
        link = self._links[number]
        if not link.is_up:
            return
        if not arrives:
            self._travel(now_ns, number, side)
            return
        end, other = link.ends[side], link.ends[1 - side]
        arrived, end.under_way = end.under_way, []
        if not arrived:
            return
        end.bytes_queued -= sum([len(frame) for frame in arrived])
        if other.is_open:
            self._tell(now_ns, other, LinkFrames(other.id, arrived))
        if end.is_full and end.bytes_queued < LINK_BYTES_MAX // 2:
            end.is_full = False
            if end.is_open:
                self._tell(now_ns, end, LinkRoom(end.id))
        if end.frames:
            self._depart(now_ns, number, side)
        elif not end.is_open:
            self._finish(now_ns, number, side, "the other end hung up")

    def _depart(self, now_ns: int, number: int, side: int) -> None:
        """Put all that waits at this end on its way, as one batch."""
        end = self._links[number].ends[side]
        end.under_way, end.frames = end.frames, []
        end.tries = 0
        self._travel(now_ns, number, side)

    def _travel(self, now_ns: int, number: int, side: int) -> None:
        link = self._links[number]
        end, other = link.ends[side], link.ends[1 - side]
        if not end.under_way:
            return
        delay_ns = self._delay_ns(now_ns, end.process, other.process)
        if delay_ns >= 0:
            self.timers.append((now_ns + delay_ns, number << 2 | side << 1 | 1))
            return
        end.tries += 1
        if end.tries > _TRIES_MAX:
            self._break(now_ns, link)
            return
        self.timers.append((now_ns + (_RETRY_NS << (end.tries - 1)), number << 2 | side << 1))

    def _delay_ns(self, now_ns: int, source: ProcessId, destination: ProcessId) -> int:
        """How long the network takes now, or -1 if it loses what is sent."""
        flights = fly(self._layers, self._random, now_ns, source.name, destination.name, b"")
        return min([delay_ns for delay_ns, _ in flights]) if flights else -1

    def _tell(self, at_ns: int, end: LinkEnd, outcome: CallOutcome) -> None:
        end.told_ns = max(at_ns, end.told_ns)
        self.outcomes.append((end.told_ns, end.process, outcome))

    def _finish(self, now_ns: int, number: int, side: int, reason: str) -> None:
        """This end has ended, and all that it had to send has arrived: tell the other end."""
        link = self._links[number]
        if not link.is_up:
            return
        link.is_up = False
        other = link.ends[1 - side]
        if other.is_open:
            other.is_open = False
            delay_ns = max(0, self._delay_ns(now_ns, link.ends[side].process, other.process))
            self._tell(now_ns + delay_ns, other, LinkDown(other.id, reason))

    def _break(self, now_ns: int, link: SimulatedLink) -> None:
        """Nothing gets through: both ends are told, and what is still queued is lost."""
        link.is_up = False
        for end in link.ends:
            if end.is_open:
                end.is_open = False
                self._tell(now_ns, end, LinkDown(end.id, "the network does not answer"))
