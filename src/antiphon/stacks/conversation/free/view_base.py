"""What a checkpoint holds of the graph, so that nothing before it is needed to come back (psync-1989, 5.1 and 3.3).

A message that is sent after the checkpoint names as predecessors messages that were not stable then, or the last of
somebody's (parts/message_graph.py). So these are all of the nodes that the graph of a participant that comes back has
to have; for each of them the context and the wave are written down, and for the rest how many there are. Then it is
the same whether the others still have what came before, or have forgotten it.

Beside the nodes: from which number on the messages of each participant are of which life, and the messages about who
takes part, which are few and from which removals and admissions follow (removal.py).

    CRC-32 of the rest u32 | count u16 | stable wave u64
    | (received u64, stable u64, marks u16, (number u64, life u64) each) per participant
    | nodes u32, (wave u64, past u64 per participant, length u32, section) each
    | changes u32, (sender u16, number u64, length u32, payload) each
"""

import struct
from struct import Struct
from typing import Final, final
from zlib import crc32

from antiphon.kernel.errors import MalformedError
from antiphon.parts.message_graph import GraphError, GraphNode, GraphView, MessageGraph, Mid
from antiphon.stacks.conversation.free.wire import read_section

_HEAD: Final = Struct("<HQ")
_PARTICIPANT: Final = Struct("<QQH")
_MARK: Final = Struct("<QQ")
_COUNT: Final = Struct("<I")
_CHANGE: Final = Struct("<HQI")

Change = tuple[int, int, bytes]
"""Sender, number and payload of a message about who takes part."""


@final
class ViewBase:
    """The part of a graph at which a participant comes back."""

    __slots__ = ("changes", "marks", "nodes", "received", "stable_to", "stable_wave")

    def __init__(
        self,
        received: list[int],
        stable_to: list[int],
        stable_wave: int,
        marks: list[list[tuple[int, int]]],
        nodes: list[tuple[int, list[int], bytes]],
        changes: list[Change],
    ) -> None:
        self.received = received
        self.stable_to = stable_to
        self.stable_wave = stable_wave
        self.marks = marks
        self.nodes = nodes
        """Wave, past and section of each, predecessors first."""
        self.changes = changes


def base_of(
    graph: MessageGraph, view: GraphView, marks: list[list[tuple[int, int]]], changes: list[Change]
) -> ViewBase | None:
    """Return the base of a view; None if a body that it needs is gone, since the conversation is not kept."""
    nodes: list[GraphNode] = []
    stable_to: list[int] = []
    for rank in range(graph.participants):
        received = view.received[rank]
        stable_to.append(min(graph.stable_to[rank], received))
        for number in range(max(1, min(stable_to[rank] + 1, received)), received + 1):
            node = graph.node((rank, number))
            if node is None or node.body is None:
                return None
            nodes.append(node)
    nodes.sort(key=_wave)
    return ViewBase(
        list(view.received),
        stable_to,
        graph.stable_wave,
        [[mark for mark in own if mark[0] <= view.received[rank]] for rank, own in enumerate(marks)],
        [(node.wave, node.past, node.body or b"") for node in nodes],
        [change for change in changes if change[1] <= view.received[change[0]]],
    )


def _wave(node: GraphNode) -> int:
    return node.wave


def encode_base(base: ViewBase) -> bytes:
    """Return the bytes of a base."""
    parts = [_HEAD.pack(len(base.received), base.stable_wave)]
    for received, stable, marks in zip(base.received, base.stable_to, base.marks, strict=True):
        parts.append(_PARTICIPANT.pack(received, stable, len(marks)))
        parts += [_MARK.pack(number, life) for number, life in marks]
    past_of = Struct(f"<Q{len(base.received)}QI")
    parts.append(_COUNT.pack(len(base.nodes)))
    for wave, past, section in base.nodes:
        parts += [past_of.pack(wave, *past, len(section)), section]
    parts.append(_COUNT.pack(len(base.changes)))
    for sender, number, payload in base.changes:
        parts += [_CHANGE.pack(sender, number, len(payload)), payload]
    data = b"".join(parts)
    return _COUNT.pack(crc32(data)) + data


def decode_base(data: bytes, participants: int) -> ViewBase:
    """Return a base. Raises MalformedError."""
    try:
        if int(_COUNT.unpack_from(data)[0]) != crc32(data[_COUNT.size :]):
            raise MalformedError("checksum")
        base = _decode(data[_COUNT.size :], participants)
    except struct.error:
        raise MalformedError("length") from None
    ranks = [sender for sender, _, _ in base.changes]
    if any(rank >= participants for rank in ranks):
        raise MalformedError("rank")
    return base


def _decode(data: bytes, participants: int) -> ViewBase:
    count, stable_wave = _HEAD.unpack_from(data)
    if count != participants:
        raise MalformedError("participants")
    position = _HEAD.size
    received: list[int] = []
    stable_to: list[int] = []
    marks: list[list[tuple[int, int]]] = []
    for _ in range(participants):
        own, stable, mark_count = _PARTICIPANT.unpack_from(data, position)
        position += _PARTICIPANT.size
        received.append(int(own))
        stable_to.append(int(stable))
        found: list[tuple[int, int]] = []
        for _ in range(mark_count):
            number, life = _MARK.unpack_from(data, position)
            found.append((int(number), int(life)))
            position += _MARK.size
        marks.append(found)
    past_of = Struct(f"<Q{participants}QI")
    nodes: list[tuple[int, list[int], bytes]] = []
    node_count = int(_COUNT.unpack_from(data, position)[0])
    position += _COUNT.size
    for _ in range(node_count):
        fields = past_of.unpack_from(data, position)
        position += past_of.size
        size = int(fields[-1])
        nodes.append((int(fields[0]), [int(own) for own in fields[1:-1]], data[position : position + size]))
        position += size
    changes: list[Change] = []
    change_count = int(_COUNT.unpack_from(data, position)[0])
    position += _COUNT.size
    for _ in range(change_count):
        sender, number, size = _CHANGE.unpack_from(data, position)
        position += _CHANGE.size
        changes.append((int(sender), int(number), data[position : position + int(size)]))
        position += int(size)
    if position != len(data):
        raise MalformedError("length")
    return ViewBase(received, stable_to, int(stable_wave), marks, nodes, changes)


def begin_at(graph: MessageGraph, view: GraphView, base: ViewBase, leaves: list[Mid]) -> None:
    """Start an empty graph, and the view of it, at a base. Raises MalformedError."""
    found: dict[Mid, GraphNode] = {}
    for wave, past, section in base.nodes:
        added = read_section(section, graph.participants)
        predecessors = [found[mid] for mid in added.predecessors if mid in found]
        found[added.mid()] = GraphNode(added.sender, added.number, predecessors, past, wave, section)
    try:
        graph.begin_at(list(found.values()), list(base.received), list(base.stable_to), base.stable_wave, leaves)
    except GraphError as error:
        raise MalformedError(error.problem) from None
    latest = [found[rank, number] for rank, number in enumerate(base.received) if number]
    view.begin_at(latest, [found[leaf] for leaf in leaves])
