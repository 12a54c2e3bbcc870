"""Protocols broken on purpose. Each mutant is a patch: a place, what stands there instead, and what it gets wrong.

They patch the plain-Python core, so they run with ANTIPHON_PURE=1; see hunt.py.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from antiphon.kernel.levels import CAUSAL, FIFO, RELIABLE
from antiphon.parts.acknowledgement import AckTable
from antiphon.parts.exchange import Exchange
from antiphon.parts.incoming import IncomingStream
from antiphon.parts.packet import Acks, DataPacket
from antiphon.parts.pending import PendingQueue
from antiphon.parts.vector_clock import at_most
from antiphon.stacks.registry import DEFAULT
from antiphon.stacks.vector import causal, timestamp
from antiphon.stacks.vector.causal import CausalOrder
from antiphon.stacks.vector.session import ViewSession

QUIET = "quiet"
"""Not a guarantee but the world's own count: all that was accepted is delivered everywhere in the end. What never left
is in no history, so no audit can miss it."""


@dataclass(frozen=True)
class Mutant:
    """One deliberate bug. `breaks`: the guarantees of which at least one must be found broken."""

    name: str
    breaks: tuple[str, ...]
    patches: tuple[tuple[Any, str, Callable[..., Any]], ...]
    stack: str = DEFAULT

    @contextmanager
    def at_large(self) -> Iterator[None]:
        """The bug is in the code for as long as the block lasts."""
        patchers = [patch.object(place, name, replacement) for place, name, replacement in self.patches]
        for patcher in patchers:
            patcher.start()
        try:
            yield
        finally:
            for patcher in patchers:
                patcher.stop()


def _ready_by_fifo_alone(self: CausalOrder, packet: DataPacket) -> bool:
    self._read(packet)
    return True


def _at_most_somewhere(one: list[int], other: list[int]) -> bool:
    return any(a <= b for a, b in zip(one, other, strict=True))


def _encode_without_the_last_change(changed: list[tuple[int, int]], vector: list[int]) -> tuple[int, bytes]:
    if len(changed) < 2:
        return _encode_vector(changed, vector)
    shorter = vector.copy()
    shorter[changed[-1][0]] = 0
    return _encode_vector(changed[:-1], shorter)


_encode_vector = timestamp.encode_vector


def _let_through_by_receipt(self: ViewSession, sender: int, effects: Any, now_ns: int) -> bool:
    """Takes what was acknowledged, that is received, for delivered."""

    def is_ready(order: CausalOrder, packet: DataPacket) -> bool:
        order._read(packet)
        streams = zip(self.exchange.incoming, order.ready, strict=True)
        received = [max(stream.received, ready) for stream, ready in streams]
        return packet.level < CAUSAL or at_most(order.vectors[packet.sender], received)

    with patch.object(CausalOrder, "is_ready", is_ready):
        return _let_through(self, sender, effects, now_ns)


_let_through = ViewSession._let_through


def _let_through_past_gaps(self: ViewSession, sender: int, effects: Any, now_ns: int) -> bool:
    progress = _let_through(self, sender, effects, now_ns)
    stream = self.exchange.incoming[sender]
    if sender != self._me and stream.gap_tries > 1 and self._causal.ready[sender] + 1 not in stream.packets:
        self._causal.ready[sender] += 1
        stream.received = max(stream.received, self._causal.ready[sender])
        while stream.received + 1 in stream.packets:
            stream.received += 1
        stream._watch(now_ns)
        stream.consume()
        return _let_through(self, sender, effects, now_ns) or progress
    return progress


def _held_next_door(self: Exchange, stream: int, number: int) -> bytes | None:
    return _held(self, stream, number + 1)


_held = Exchange._held


def _note_for_everybody(self: AckTable, member: int, first: int, received: list[int], lags: list[int]) -> None:
    _note(self, member, first, received, lags)
    self.own_received = max(row[self._me] for row in self.received)


_note = AckTable.note


def _acks_of_what_is_known(self: Exchange, first: int, count: int) -> Acks:
    acks = _acks(self, first, count)
    for offset in range(count):
        if first + offset != self.me:
            acks.received[offset] = self.incoming[first + offset].known
    return acks


_acks = Exchange._acks


def _deliver_without_learning(self: CausalOrder, sender: int, number: int, level: int, vector: list[int]) -> None:
    self.delivered[sender] = number
    self._learn(sender, number)


def _deliver_early_without_learning(self: CausalOrder, packet: DataPacket) -> None:
    self._learn(packet.sender, packet.number)


def _asked_once(self: IncomingStream, now_ns: int, jitter_ns: int) -> None:
    _asked(self, now_ns + 10**15, jitter_ns)


_asked = IncomingStream.asked


def _receive_fifo_like_reliable(
    self: ViewSession, sender: int, flags: int, level: int, data: bytes, effects: Any, now_ns: int
) -> None:
    held = set(self.exchange.incoming[sender].packets)
    _receive_data(self, sender, flags, level, data, effects, now_ns)
    for number in set(self.exchange.incoming[sender].packets) - held:
        packet = self.exchange.incoming[sender].packets[number]
        if level == FIFO and number > self._causal.ready[sender] and not packet.delivered:
            self._delivery.early(packet, [], effects)


_receive_data = ViewSession._receive_data


def _accept_and_forget(self: PendingQueue, payloads: list[bytes], *rest: Any, **named: Any) -> int:
    """Says yes to everything, and keeps what there is room for."""
    count = _accept(self, payloads, *rest, **named)
    self.accepted += len(payloads) - count
    return len(payloads)


_accept = PendingQueue.accept


def _stale_stamp(self: CausalOrder, level: int) -> tuple[int, bytes]:
    """A burst is taken to go on although something was received in between."""
    return (0, b"") if self.known[self._me] % 2 and level != RELIABLE else _stamp(self, level)


_stamp = CausalOrder.stamp

IS_DUE = (CausalOrder, "is_due", lambda *_: True)
"""Nothing waits for its past to be delivered any more."""

MUTANTS = (
    Mutant("no delay rule", ("causal",), ((CausalOrder, "is_ready", _ready_by_fifo_alone), IS_DUE)),
    Mutant("wrong comparison", ("causal",), ((causal, "at_most", _at_most_somewhere),)),
    Mutant("duplicate not discarded", ("duplication",), ((IncomingStream, "is_duplicate", lambda _, number: False),)),
    Mutant("compression drops a field", ("causal",), ((timestamp, "encode_vector", _encode_without_the_last_change),)),
    Mutant("ack taken for delivery", ("causal",), ((ViewSession, "_let_through", _let_through_by_receipt), IS_DUE)),
    Mutant("gap skipped", ("fifo", "causal", "settled"), ((ViewSession, "_let_through", _let_through_past_gaps),)),
    Mutant("holder resends the wrong packet", ("settled",), ((Exchange, "_held", _held_next_door),)),
    Mutant("stability declared too early", ("settled",), ((AckTable, "note", _note_for_everybody),)),
    Mutant("ack of what was never received", ("settled",), ((Exchange, "_acks", _acks_of_what_is_known),)),
    Mutant(
        "weaker levels leave no trace",
        ("causal",),
        (
            (CausalOrder, "deliver", _deliver_without_learning),
            (CausalOrder, "deliver_early", _deliver_early_without_learning),
        ),
    ),
    Mutant("sent ahead of its own past", ("causal",), ((CausalOrder, "may_send", lambda *_: True),)),
    Mutant("stamp left out at the wrong time", ("causal",), ((CausalOrder, "stamp", _stale_stamp),)),
    Mutant("resend asked for once only", ("settled",), ((IncomingStream, "asked", _asked_once),)),
    Mutant("fifo taken for reliable", ("fifo",), ((ViewSession, "_receive_data", _receive_fifo_like_reliable),)),
    Mutant("accepted message dropped", (QUIET,), ((PendingQueue, "accept", _accept_and_forget),)),
)
