"""The link of a client to one peer of the sequencing service: when to dial, and what was told and heard by it.

A peer says something each `heartbeat_interval_ns`. One that is silent for `silence_ns_max` is given up, and dialled
again. Where others go on in place of a peer (seat_host.py), that must be long before they give up the client, after
`silence_ns_max`: a peer that is silent for `silence_ns_min` is asked; if it says nothing for as long again, or does
not answer a dial for a quarter of `silence_ns_max`, the client looks for its groups elsewhere. It is asked first
because the client itself may have slept: what the peer said lies in the link then, and is read before the answer is
due."""

from typing import Final, final

from antiphon.kernel.calls import Frames
from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.wire import FrameAssembler

_OVERHEAD_BYTES: Final = 1024 * 1024
DIALS_MAX: Final = 3
"""After so many tries in vain the groups of a link are looked for elsewhere."""


def arrival_ns(options: Options, replicas: int) -> int:
    """How long a client whose peer has failed may take to find who goes on in its place, where `replicas` peers may be
    down: it asks, gives up, and may dial others that do not answer either."""
    asking_ns = 2 * options.silence_ns_min + 2 * options.heartbeat_interval_ns
    return asking_ns + replicas * options.silence_ns_max // 4


@final
class ServiceLink:
    """One link, which is dialled again when it breaks."""

    __slots__ = (
        "address",
        "asked_ns",
        "assembler",
        "clock",
        "dial_at_ns",
        "dials",
        "heard_ns",
        "id",
        "is_alone",
        "is_open",
        "is_probing",
        "out",
        "risen",
        "said_ns",
        "synced",
        "syncs",
    )

    def __init__(self, address: str, now_ns: int) -> None:
        self.address = address
        self.id = 0
        """0 while none is dialled."""
        self.is_open = False
        self.dial_at_ns = now_ns
        self.dials = 0
        """Tries since a peer was last there to serve."""
        self.heard_ns = 0
        """When something was last heard, or it was dialled."""
        self.asked_ns = 0
        """When a peer that was silent was last asked whether it is there."""
        self.said_ns = 0
        self.assembler = FrameAssembler(0)
        self.out: list[bytes] = []
        self.is_alone = False
        """The peer is the only one."""
        self.risen: dict[int, None] = {}
        """The groups whose entries of the context have risen since the peer was last told."""
        self.clock = 0
        """The highest stamp that has come by this link."""
        self.syncs = 0
        """How often something was asked for whose answer completes what this link has brought of some group…"""
        self.synced = 0
        """…and how often that was answered."""
        self.is_probing = False

    def up(self, options: Options, risen: dict[int, None], now_ns: int) -> None:
        """It has opened."""
        self.is_open = True
        self.heard_ns = now_ns
        self.assembler = FrameAssembler(options.message_bytes_max + _OVERHEAD_BYTES)
        self.out = []
        self.risen = risen
        self.clock = 0
        self.is_probing = False

    def down(self, options: Options, now_ns: int) -> None:
        """Dial again, after a while that grows."""
        self.id = 0
        self.is_open = False
        self.out = []
        wait_ns = min(options.retry_ns << min(self.dials, 10), options.heartbeat_interval_ns)
        self.dials += 1
        self.dial_at_ns = now_ns + wait_ns

    def send(self, carried: list[bytes]) -> None:
        if self.is_open:
            self.out += carried

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Send what this step has for the peer."""
        if self.out:
            effects.call(Frames(self.id, self.out))
            self.out = []
            self.said_ns = now_ns

    def give_up_ns(self, options: Options, is_replicated: bool) -> int:
        """When it is given up unless something is heard."""
        if not is_replicated:
            return self.heard_ns + options.silence_ns_max if self.is_open else NEVER
        if not self.is_open:
            return self.heard_ns + options.silence_ns_max // 4
        return NEVER if self.asked_ns <= self.heard_ns else self.asked_ns + options.silence_ns_min

    def ask_ns(self, options: Options, is_replicated: bool) -> int:
        """When a silent peer is asked whether it is there."""
        if not self.is_open or not is_replicated or self.asked_ns > self.heard_ns:
            return NEVER
        return self.heard_ns + options.silence_ns_min

    def deadline_ns(self, options: Options, is_replicated: bool) -> int:
        """When it is to be dialled, given up, asked, or kept alive."""
        if not self.id:
            return self.dial_at_ns
        due_ns = min(self.give_up_ns(options, is_replicated), self.ask_ns(options, is_replicated))
        return min(due_ns, self.said_ns + options.heartbeat_interval_ns) if self.is_open else due_ns
