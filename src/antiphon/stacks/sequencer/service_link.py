"""The link of a client to one peer of the sequencing service: when to dial, and what was told and heard by it."""

from typing import Final, final

from antiphon.kernel.calls import Frames
from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.wire import FrameAssembler

_OVERHEAD_BYTES: Final = 1024 * 1024
DIALS_MAX: Final = 3
"""After so many tries in vain the groups of a link are looked for elsewhere."""


@final
class ServiceLink:
    """One link, which is dialled again when it breaks."""

    __slots__ = (
        "address",
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

    def deadline_ns(self, options: Options) -> int:
        """When it is to be dialled, given up, or kept alive."""
        if self.is_open:
            return min(self.heard_ns + options.silence_ns_max, self.said_ns + options.heartbeat_interval_ns)
        return NEVER if self.id else self.dial_at_ns
