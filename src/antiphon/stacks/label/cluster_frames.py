"""What travels between clusters of sites, and what the sites of a cluster tell each other of it (clusters.py).

site ──▶ site of another cluster, by a link
  CLUSTER   from u64 | to u64 | configuration u64: the first frame; the places of the two clusters among all
  CARRY     epoch u64 | number u64 | times: u64 each | body
  BEAT      nothing
and back
  EXECUTED  epoch u64 | number u64: up to this one, what the other cluster has sent is done here
  BEAT      nothing

site ──▶ sites of its cluster, as `safe` messages to all of them
  OUT       level u8 | message: of a process, to members in other clusters, too
  IN        cluster u64 | a frame CARRY of that cluster
  OVER      cluster u64 | epoch u64 | number u64: that cluster has done all up to this one
  RECORD    record (site_frames.py)
  QUIET     view u64: nothing of a process of this site is under way, and nothing will leave before that view

  body      CAST, ORDER, ORDERED: level u8 | site | message
            PROPOSE: site | record
            LOCK, LOCKED: view u64
            INSTALL: view u64 | (site | size u32 | record) each
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId
from antiphon.kernel.levels import ABCAST, CAUSAL_TOTAL
from antiphon.stacks.label.guests import encode_identity
from antiphon.stacks.label.site_frames import SiteReader, SiteRecord, encode_frame, read_message, read_records

CLUSTER: Final = 72
CARRY: Final = 73
EXECUTED: Final = 9

OUT: Final = 4
IN: Final = 5
OVER: Final = 6
RECORD: Final = 7
QUIET: Final = 8

CAST: Final = 1
ORDER: Final = 2
ORDERED: Final = 3
PROPOSE: Final = 4
LOCK: Final = 5
LOCKED: Final = 6
INSTALL: Final = 7

CLUSTERS_MAX: Final = 16
"""A message between clusters bears a number for each pair of them."""

_U32: Final = Struct("<I")


@final
class Carried:
    """A message from one cluster to another."""

    __slots__ = ("body", "epoch", "number", "times")

    def __init__(self, epoch: int, number: int, times: list[int], body: bytes) -> None:
        self.epoch = epoch
        """The life of the cluster that sent it…"""
        self.number = number
        """…and its place among what that has sent to this one."""
        self.times = times
        """By pair of clusters, how many messages had gone from one to the other when it left, itself included."""
        self.body = body

    def encode(self) -> bytes:
        return encode_frame(CARRY, self.epoch, self.number, *self.times) + self.body


def read_carried(reader: SiteReader, clusters: int) -> Carried:
    """Raises MalformedError, also if the body cannot be read."""
    epoch, number = reader.number(), reader.number()
    times = [reader.number() for _ in range(clusters * clusters)]
    carried = Carried(epoch, number, times, reader.rest())
    if not epoch or not number:
        raise MalformedError("number")
    read_body(carried.body)
    return carried


@final
class ClusterBody:
    """What one cluster tells another; which fields count depends on the kind."""

    __slots__ = ("kind", "level", "message", "records", "site", "view")

    def __init__(
        self,
        kind: int,
        level: int = 0,
        site: ProcessId | None = None,
        message: bytes = b"",
        view: int = 0,
        records: tuple[tuple[ProcessId, SiteRecord], ...] = (),
    ) -> None:
        self.kind = kind
        self.level = level
        self.site = site
        self.message = message
        self.view = view
        self.records = records

    def encode(self) -> bytes:
        if self.kind in (CAST, ORDER, ORDERED):
            assert self.site is not None
            return b"".join([bytes([self.kind, self.level]), encode_identity(self.site), self.message])
        if self.kind in (LOCK, LOCKED):
            return encode_frame(self.kind, self.view)
        head = encode_frame(self.kind, self.view) if self.kind == INSTALL else bytes([self.kind])
        parts = [head]
        for site, record in self.records:
            data = record.encode()
            parts += [encode_identity(site), _U32.pack(len(data)), data]
        return b"".join(parts)


def read_body(data: bytes) -> ClusterBody:
    """Raises MalformedError."""
    reader = SiteReader(data)
    kind = reader.u8()
    if kind in (CAST, ORDER, ORDERED):
        level, site, message = read_level(reader), reader.process(), reader.rest()
        read_message(SiteReader(message))
        return ClusterBody(kind, level, site, message)
    if kind in (LOCK, LOCKED):
        view = reader.number()
        reader.end()
        return ClusterBody(kind, view=view)
    if kind not in (PROPOSE, INSTALL):
        raise MalformedError("kind")
    view = reader.number() if kind == INSTALL else 0
    return ClusterBody(kind, view=view, records=tuple(read_site_records(reader)))


def read_level(reader: SiteReader) -> int:
    """Raises MalformedError."""
    level = reader.u8()
    if level > ABCAST or level == CAUSAL_TOTAL:
        raise MalformedError("level")
    return level


def read_site_records(reader: SiteReader) -> list[tuple[ProcessId, SiteRecord]]:
    """Raises MalformedError."""
    found: list[tuple[ProcessId, SiteRecord]] = []
    while not reader.is_over():
        site = reader.process()
        found += [(site, record) for record in read_records(reader.blob(reader.u32()))]
    return found


def encode_numbers_of(numbers: list[int]) -> bytes:
    """A list of numbers of a state, none above NUMBER_MAX."""
    assert all(0 <= number <= NUMBER_MAX for number in numbers)
    return encode_frame(0, *numbers)[1:]


def encode_blob(data: bytes) -> bytes:
    return _U32.pack(len(data)) + data
