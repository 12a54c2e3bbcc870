"""What copies of a replicated object in a group tell each other (group_copy.py)."""

import msgspec

from antiphon.toolkit.durability import FileContent, RestartDecision
from antiphon.toolkit.messages import WireProcess
from antiphon.toolkit.operations import OperationCall


class CallPack(msgspec.Struct, array_like=True, tag=0):
    """Calls of one member, and the number of the first."""

    first: int
    calls: list[OperationCall | None]
    """None: a mark, which executes nothing."""


class DiskReport(msgspec.Struct, array_like=True, tag=1):
    """The sender's file is synced up to this index."""

    epoch: int
    index: int


class FileReport(msgspec.Struct, array_like=True, tag=2):
    """What the sender's file holds, told in this view."""

    view_id: int
    content: FileContent


class EpochPromise(msgspec.Struct, array_like=True, tag=3):
    """The sender has promised the epoch, on disk."""

    view_id: int
    epoch: int


class StatePart(msgspec.Struct, array_like=True, tag=4):
    """A part of the winner's state."""

    view_id: int
    index: int
    count: int
    data: bytes


class DisksGivenUp(msgspec.Struct, array_like=True, tag=5):
    """By explicit word: the disks that are missing are not waited for."""


class WinningState(msgspec.Struct, array_like=True):
    """What the winner of a restart sends to all."""

    index: int
    operations: int
    state: bytes


class RestartRound(msgspec.Struct, array_like=True):
    """What is known in one view of a group that comes back from disk; the same at all members."""

    view_id: int
    forced: bool
    known: dict[str, FileContent]
    decision: RestartDecision | None = None
    promised: list[str] = []
    parts: list[bytes] = []


class CopyState(msgspec.Struct, array_like=True):
    """All of it, for a member that joins."""

    has_files: bool
    epoch: int
    index: int
    view_index: int
    operations: int
    bases: list[list[str]]
    reports: dict[str, int]
    members: list[WireProcess]
    restart: RestartRound | None
    state: bytes


CopyMessage = CallPack | DiskReport | FileReport | EpochPromise | StatePart | DisksGivenUp
"""A message of one copy to all."""
