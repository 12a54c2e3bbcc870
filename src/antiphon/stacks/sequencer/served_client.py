"""What a peer of the sequencing service keeps for one client."""

from typing import final

from antiphon.kernel.identity import ProcessId
from antiphon.stacks.sequencer.acceptance import AcceptanceQueue
from antiphon.stacks.sequencer.wire import FrameAssembler


@final
class ServedClient:
    """What a peer knows of one client."""

    __slots__ = (
        "address",
        "assembler",
        "groups",
        "heard_ns",
        "is_leaving",
        "is_outside",
        "link",
        "numbered",
        "out",
        "process",
        "requests",
    )

    def __init__(self, process: ProcessId, now_ns: int) -> None:
        self.process = process
        self.link = 0
        """0 while there is none."""
        self.address = ""
        """Where it takes bodies from other members, if it does (bodies.py)."""
        self.assembler = FrameAssembler(0)
        self.heard_ns = now_ns
        """When it was last heard, or its link broke."""
        self.groups: dict[int, None] = {}
        """The groups here that owe it something."""
        self.numbered: dict[int, None] = {}
        """The groups that keep the number of its last message."""
        self.requests = AcceptanceQueue()
        """What it wants and has no place yet, in its order."""
        self.is_leaving = False
        """It is excluded, and forgotten at the end of the step."""
        self.is_outside = False
        """Whether it has sent to a group that it was not in."""
        self.out: list[bytes] = []
        """Pieces of frames to be sent at the end of the step."""
