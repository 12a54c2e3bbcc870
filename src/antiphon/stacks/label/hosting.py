"""The processes that are attached to a site, and their links: the site's half of the process monitor (isis-1987, 4.1).

A process whose link is down, whose frames cannot be taken, or that is silent for `silence_ns_max` is given up: it has
failed, and the site tells so when all that it has handed in is done (rule 4 of site.py).
"""

from typing import Final, final

from antiphon.kernel.calls import Frames, Hang
from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.stacks.label.attached import AttachedProcess
from antiphon.stacks.label.site_frames import (
    ATTACH,
    BARRIER,
    BEAT,
    DEAD,
    ENTER,
    FLUSH,
    LEAVE,
    SEND,
    TAKEN,
    SiteReader,
    encode_frame,
)

PROCESSES_MAX: Final = 1024
"""Further ones are turned away."""


@final
class Hosting:
    """All processes of one site."""

    __slots__ = ("_options", "attached", "by_process", "failing")

    def __init__(self, options: Options) -> None:
        self._options = options
        self.attached: dict[int, AttachedProcess] = {}
        """By link."""
        self.by_process: dict[ProcessId, AttachedProcess] = {}
        self.failing: list[AttachedProcess] = []
        """Those whose link is down, and whose failure is still to be told."""

    def attach(self, link: int, process: ProcessId, is_dead: bool, effects: Effects, now_ns: int) -> None:
        """A process wants to be attached; `is_dead`: the sites know that this life has failed."""
        reason = ""
        if len(self.attached) >= PROCESSES_MAX:
            reason = "the site has as many processes as it can"
        elif process in self.by_process or is_dead:
            reason = "this incarnation was attached before, and is dead"
        if reason:
            effects.call(Frames(link, [bytes([DEAD]) + reason.encode()]))
            effects.call(Hang(link))
            return
        attached = AttachedProcess(link, process, self._options, now_ns)
        self.attached[link] = attached
        self.by_process[process] = attached

    def receive_frames(self, link: int, frames: list[bytes], effects: Effects, now_ns: int) -> None:
        """Take what a process asks for; what cannot be read, or is too much, ends its life."""
        attached = self.attached[link]
        attached.heard_ns = now_ns
        for frame in frames:
            kind = frame[0] if frame else 0
            try:
                if kind == TAKEN:
                    attached.take(SiteReader(frame, 1).number())
                elif kind in (ENTER, LEAVE, SEND, BARRIER, FLUSH):
                    if not attached.put(frame):
                        raise MalformedError("window")
                elif kind not in (ATTACH, BEAT):
                    raise MalformedError("kind")
            except MalformedError as error:
                self.give_up(attached, f"a frame cannot be taken: {error.reason}", effects)
                return

    def link_down(self, link: int) -> None:
        attached = self.attached.pop(link, None)
        if attached is not None:
            self._lose(attached)

    def _lose(self, attached: AttachedProcess) -> None:
        attached.is_gone = True
        attached.out = []
        self.failing.append(attached)

    def give_up(self, attached: AttachedProcess, reason: str, effects: Effects) -> None:
        """Take a process to have failed, and tell it."""
        if self.attached.pop(attached.link, None) is not None:
            frames = [*attached.out, bytes([DEAD]) + reason.encode()]
            effects.call(Frames(attached.link, frames))
            effects.call(Hang(attached.link))
            attached.inbox.clear()
            self._lose(attached)

    def give_up_all(self, reason: str, effects: Effects) -> None:
        for attached in list(self.attached.values()):
            self.give_up(attached, reason, effects)

    def forget(self, attached: AttachedProcess) -> None:
        """The failure of a process has been told."""
        self.failing.remove(attached)
        if self.by_process.get(attached.process) is attached:
            del self.by_process[attached.process]

    def forget_all(self) -> None:
        """The site is dead, and so are all of them."""
        self.by_process = {}
        self.failing = []

    def waiting(self) -> list[AttachedProcess]:
        """Those that have asked for something that is not done."""
        return [each for each in [*self.attached.values(), *self.failing] if each.inbox]

    def owes(self, most: int) -> bool:
        """Whether a process has more than so many bytes that it has not taken."""
        return any(attached.owes(most) for attached in self.attached.values())

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        options = self._options
        deadline_ns = NEVER
        for attached in self.attached.values():
            beat_ns = attached.said_ns + options.heartbeat_interval_ns
            deadline_ns = min(deadline_ns, beat_ns, attached.heard_ns + options.silence_ns_max)
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        for attached in list(self.attached.values()):
            if attached.heard_ns + self._options.silence_ns_max <= now_ns:
                self.give_up(attached, "the process was silent for too long", effects)
            elif attached.said_ns + self._options.heartbeat_interval_ns <= now_ns:
                attached.out.append(encode_frame(BEAT))

    def transmit(self, effects: Effects, now_ns: int) -> None:
        """Send each process what it is told."""
        for attached in self.attached.values():
            if attached.out:
                effects.call(Frames(attached.link, attached.out))
                attached.out = []
                attached.said_ns = now_ns
