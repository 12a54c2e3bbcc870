"""Messages that are longer than a packet: a layer of its own under the conversation (psync-1989, 6.2).

What is said of a long message is cut into slices of equal length. The first BURST of them leave at once; the rest, and
those that were lost, are what the receivers ask for, BURST at a time, so a long message is sent as fast as it is taken.
A slice names the message and not the packet that it came in: slices that several hosts have sent fit together.

Like the conversation itself, it asks whoever sent the last slice first, and then everybody; after that the message is
given up. It will be asked for again as a whole when it is missed.

Limits: so many messages in parts, and so many bytes of them, as limits.py says; beyond that the one that has waited
longest is given up.
"""

from typing import Final, final

from antiphon.kernel.codec import HEADER_SIZE
from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import Options
from antiphon.parts.message_graph import Mid
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.wire import PART_OVERHEAD, RANGES_MAX, Slicing, encode_part

BURST: Final = 256
ASK_SENDER: Final = 3
ASK_EVERYBODY: Final = 5
EVERYBODY: Final = -1
SECTION_OVERHEAD_MAX: Final = 16 * 1024
"""What is said of a message beside its payload: most of it are its predecessors, at most one per participant."""


def step_for(packet_bytes_max: int) -> int:
    """Return the length of slices."""
    return max(packet_bytes_max - PART_OVERHEAD, HEADER_SIZE)


def parts_of(
    conversation: int,
    tag: int,
    via: int,
    slicing: Slicing,
    ranges: list[tuple[int, int]],
    section: bytes,
    flags: int,
    life: int,
) -> list[bytes]:
    """Return the packets of these slices, BURST at most."""
    parts: list[bytes] = []
    for first, last in ranges:
        for index in range(first, min(last + 1, first + BURST - len(parts))):
            parts.append(encode_part(conversation, tag, via, slicing, index, section, flags, life))
    return parts


@final
class SliceAssembly:
    """A long message of which some slices have arrived."""

    __slots__ = ("at_ns", "bytes", "first_missing", "parts", "slicing", "tries", "via")

    def __init__(self, slicing: Slicing) -> None:
        self.slicing = slicing
        self.parts: dict[int, bytes] = {}
        self.bytes = 0
        self.first_missing = 0
        self.via = 0
        self.at_ns = NEVER
        self.tries = 0

    def missing(self) -> list[tuple[int, int]]:
        """Return the slices to ask for next, BURST at most."""
        while self.first_missing in self.parts:
            self.first_missing += 1
        ranges: list[tuple[int, int]] = []
        left = BURST
        index = self.first_missing
        end = self.slicing.slices()
        while index < end and left:
            if index in self.parts:
                index += 1
                continue
            first = index
            while index < end and left and index not in self.parts:
                index += 1
                left -= 1
            if len(ranges) == RANGES_MAX:
                break
            ranges.append((first, index - 1))
        return ranges

    def whole(self) -> bytes:
        return b"".join([self.parts[index] for index in range(self.slicing.slices())])


@final
class MissingSlices:
    """Slices to ask for."""

    __slots__ = ("ranges", "rank", "slicing")

    def __init__(self, rank: int, slicing: Slicing, ranges: list[tuple[int, int]]) -> None:
        self.rank = rank
        self.slicing = slicing
        self.ranges = ranges


@final
class SliceTransfer:
    """The long messages of a conversation that have arrived in part."""

    __slots__ = ("_assemblies", "_bytes", "_due_ns", "_limits", "_options", "given_up")

    def __init__(self, options: Options, limits: Limits) -> None:
        self._options = options
        self._limits = limits
        self._assemblies: dict[Mid, SliceAssembly] = {}
        """Those that have waited longest come first."""
        self._bytes = 0
        self._due_ns = NEVER
        self.given_up = 0

    def take(self, slicing: Slicing, index: int, part: bytes, via: int, now_ns: int) -> bytes | None:
        """Add one slice; return the whole message if it was the last one."""
        assembly = self._assemblies.get(slicing.mid)
        if assembly is not None and not assembly.slicing.is_like(slicing):
            if slicing.life <= assembly.slicing.life:
                return None
            self._forget(assembly)
            assembly = None
        if assembly is None:
            if slicing.size > self._limits.message_bytes_max + SECTION_OVERHEAD_MAX:
                return None
            assembly = SliceAssembly(slicing)
        elif index in assembly.parts:
            return None
        self._assemblies.pop(slicing.mid, None)
        self._assemblies[slicing.mid] = assembly
        assembly.parts[index] = part
        assembly.bytes += len(part)
        self._bytes += len(part)
        assembly.via = via
        assembly.tries = 0
        assembly.at_ns = now_ns + self._options.gap_delay_ns
        if len(assembly.parts) == slicing.slices():
            self._forget(assembly)
            return assembly.whole()
        self._due_ns = min(self._due_ns, assembly.at_ns)
        self._make_room()
        return None

    def _make_room(self) -> None:
        while self._bytes > self._limits.assembly_bytes_max or len(self._assemblies) > self._limits.assemblies_max:
            self.given_up += 1
            self._forget(next(iter(self._assemblies.values())))

    def _forget(self, assembly: SliceAssembly) -> None:
        if self._assemblies.pop(assembly.slicing.mid, None) is not None:
            self._bytes -= assembly.bytes

    def forget(self, mid: Mid) -> None:
        """Drop the slices of a message that has arrived by another way."""
        assembly = self._assemblies.get(mid)
        if assembly is not None:
            self._forget(assembly)

    def deadline_ns(self) -> int:
        return self._due_ns

    def tick(self, now_ns: int) -> list[MissingSlices]:
        """Return what to ask for now."""
        if now_ns < self._due_ns:
            return []
        questions: list[MissingSlices] = []
        self._due_ns = NEVER
        for assembly in list(self._assemblies.values()):
            if assembly.at_ns <= now_ns:
                if assembly.tries >= ASK_SENDER + ASK_EVERYBODY:
                    self.given_up += 1
                    self._forget(assembly)
                    continue
                rank = assembly.via if assembly.tries < ASK_SENDER else EVERYBODY
                questions.append(MissingSlices(rank, assembly.slicing, assembly.missing()))
                interval_ns = self._options.resend_interval_ns << min(assembly.tries, 10)
                assembly.at_ns = now_ns + min(interval_ns, self._options.resend_interval_ns_max)
                assembly.tries += 1
            self._due_ns = min(self._due_ns, assembly.at_ns)
        return questions
