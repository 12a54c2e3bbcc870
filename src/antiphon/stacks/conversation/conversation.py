"""One participant's side of a conversation (psync-1989, 2 and 3): its host's image of the graph, and its view.

A participant sends in the context of all it has sent or received. It receives what the image has and its view has not,
in the order in which it was attached, which is an order of the context. It never receives what it sent itself.

Nothing here waits: `send` says no while too much of our own is not stable, `receive` gives None while nothing is there.
Time comes in by `tick`.
"""

from collections import deque
from hashlib import blake2b
from typing import Final, final

from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.parts.message_graph import GraphView, Mid, Node
from antiphon.stacks.conversation.image import Image
from antiphon.stacks.conversation.wire import (
    ADD,
    ASK,
    RESTART,
    START,
    decode_add,
    decode_ask,
    decode_start,
    encode_restart,
    participants_section,
    payload_of,
    section,
)

EVERYBODY: Final = -1


def conversation_id(opener: ProcessId, number: int) -> int:
    """A 64-bit number for the conversation that a process opens as its so-many-th: no other has it."""
    name = f"{opener.name}/{opener.incarnation}#{number}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def participants_tag(participants: list[ProcessId]) -> int:
    """A 64-bit digest of who takes part."""
    return int.from_bytes(blake2b(repr(participants).encode(), digest_size=8).digest(), "little")


@final
class Conversation:
    """One participant in one conversation."""

    __slots__ = ("_options", "_outstanding", "_unstable_max", "cid", "image", "me", "participants", "restarted", "view")

    def __init__(
        self,
        cid: int,
        participants: list[ProcessId],
        addresses: list[str],
        me: ProcessId,
        options: Options,
        *,
        keep_bodies: bool = False,
    ) -> None:
        if me not in participants:
            raise UsageError(f"{me} is not among the participants of the conversation; name it, too")
        if len(set(participants)) != len(participants):
            raise UsageError("a participant is named twice; name each once")
        self.cid = cid
        self.participants = participants
        self.me = participants.index(me)
        start = participants_section(participants, addresses)
        tag = participants_tag(participants)
        self.image = Image(cid, tag, len(participants), self.me, start, options, keep_bodies=keep_bodies)
        self.view = GraphView(self.image.graph)
        self.restarted: list[int] = []
        """Ranks of participants that have said that they are back, for the application to take."""
        self._options = options
        self._unstable_max = options.window_packets
        self._outstanding: deque[Node] = deque()

    # ---- the application's side ------------------------------------------------------------------------------------

    def may_send(self) -> bool:
        """Whether little enough of our own is still not stable."""
        graph = self.image.graph
        return graph.last[self.me] - graph.stable_to[self.me] < self._unstable_max

    def send(self, payload: bytes) -> Node:
        """Send a message in the context of all that was sent or received here; ask `may_send` first."""
        if not self.may_send():
            raise UsageError(
                f"{self._unstable_max} messages of this participant are not stable; receive before sending"
            )
        predecessors = [leaf.mid() for leaf in self.view.leaves()]
        number = self.image.graph.last[self.me] + 1
        node = self.image.send(predecessors, section(self.me, number, predecessors, payload))
        self.view.add(node)
        return node

    def receive(self) -> tuple[Node, bytes] | None:
        """The earliest message that is not in the view yet, and what it says."""
        if not self._outstanding:
            return None
        node = self._outstanding.popleft()
        self.view.add(node)
        assert node.body is not None, "what is stable was received here"
        return node, payload_of(node.body)

    def resend(self, node: Node) -> None:
        """Send a message once more, unless it is stable."""
        self.image.resend(node)

    def announce_restart(self) -> None:
        """Tell all that this participant is back (5.1)."""
        tag = participants_tag(self.participants)
        self.image.out.append((EVERYBODY, encode_restart(self.cid, tag, self.me)))

    def mids(self, nodes: list[Node]) -> list[Mid]:
        """What names these messages in a checkpoint."""
        return [node.mid() for node in nodes]

    # ---- the network's side ----------------------------------------------------------------------------------------

    def take(self, kind: int, via: int, flags: int, data: bytes, now_ns: int) -> None:
        """One packet of this conversation. Raises MalformedError, before anything has changed."""
        count = len(self.participants)
        if via >= count or via == self.me:
            raise MalformedError("rank")
        if kind in (ADD, START):
            if kind == ADD:
                added = decode_add(data, flags, count)
            else:
                participants, _, added = decode_start(data, flags)
                if participants != self.participants:
                    raise MalformedError("participants")
            self._outstanding.extend(self.image.receive(added, via, now_ns))
        elif kind == ASK:
            wanted, leaves = decode_ask(data, count)
            self.image.receive_ask(wanted, leaves, via, now_ns)
        elif kind == RESTART:
            self.image.receive_restart(via)
            if via not in self.restarted:
                self.restarted.append(via)
        else:
            raise MalformedError("kind")
