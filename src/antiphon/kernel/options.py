"""The limits and rhythms of a group. All members of a group must run it with the same limits.

Every queue in the core is bounded by one of these; beside each stands what happens at the limit.
"""

from dataclasses import dataclass, field
from typing import Final

from antiphon.kernel.wire_versions import VERSION

MILLISECOND_NS: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Options:
    """How one group behaves; the defaults suit a local network."""

    packet_bytes_max: int = 1400
    """No packet is longer, so that none is cut up on the way. Longer messages travel in fragments."""
    message_bytes_max: int = 64 * 1024 * 1024
    """A longer message is refused at the call."""
    pending_bytes_max: int = 4 * 1024 * 1024
    """Payload bytes accepted from the application and not yet in packets. At the limit the sender waits."""
    window_packets: int = 1024
    """Packets of one sender that some member has not yet consumed. At the limit the sender waits.
    It also bounds what a member holds for one sender: hold-back and resend copies alike."""

    arriving_bytes_max: int = 12 * 1024 * 1024
    """Bytes of all other members together that may be on the way to one: what its socket holds. Where there are so many
    members that their windows come to more, each sender keeps to its share; where packets are lost, to less."""

    ack_every_packets: int = 64
    """A receiver acknowledges at the latest after so many new packets…"""
    ack_delay_ns: int = 5 * MILLISECOND_NS
    """…or so long after the first of them…"""
    ack_gap_ns: int = MILLISECOND_NS // 2
    """…or at once, where a message may wait for that: a few such acks may follow each other, and in the long run there
    are four in this time, or fewer where there are many members (parts/ack_budget.py)."""
    gap_delay_ns: int = 2 * MILLISECOND_NS
    """A gap younger than this may still be mere reordering: no resend is asked for."""
    resend_interval_ns: int = 10 * MILLISECOND_NS
    """Between two requests for the same gap; doubles with each try…"""
    resend_interval_ns_max: int = 160 * MILLISECOND_NS
    """…up to this."""
    probe_interval_ns: int = 20 * MILLISECOND_NS
    """While own packets are not stable and nothing else goes out, how soon members are asked for acks; doubles…"""
    heartbeat_interval_ns: int = 200 * MILLISECOND_NS
    """…up to this, which is also the heartbeat of an idle member."""

    silence_ns_min: int = 1000 * MILLISECOND_NS
    """A member silent for less than this is never doubted…"""
    silence_ns_max: int = 10_000 * MILLISECOND_NS
    """…and one silent for longer always; between the two, its own past decides (parts/suspicion.py)."""
    doubt_ns: int = 300 * MILLISECOND_NS
    """How long others have to vouch for a member that is doubted."""
    retry_ns: int = 50 * MILLISECOND_NS
    """Between two tries to get an answer in a change of view, or to be let in."""
    gather_ns: int = 50 * MILLISECOND_NS
    """Who asks to join waits this long for others, so that many joins make few views."""

    record_receives: bool = False
    """Report each first arrival of a packet as an event, for the recording level `receive`."""

    record_digests: bool = False
    """Record a digest of each payload, as it is sent and as it is handed over, so that the audit can compare them."""

    wire_version: int = VERSION
    """The highest version of packets to send and to read. All members of a group can be of this release or of the one
    before; to stay with the packets of the one before, so that one can still go back to it, name its version here."""

    sealed: bool = False
    """Packets travel under a seal, which covers them, so they need no checksum. A node sets this by itself."""

    of_stacks: dict[str, int] = field(default_factory=dict, hash=False)
    """Options that one stack alone reads, by its name and theirs: `{"stack.option": 5}`. What each means, and what it
    is by default, stands in the stack's `offers.py`. One that no stack has is refused."""

    def numbers_max(self) -> int:
        """How far the numbers of a sender may be ahead of what all have consumed: its window, and some packets more for
        telling the total order, without which what fills the window might never be consumed."""
        return self.window_packets + 1 + self.window_packets // 32

    @staticmethod
    def local() -> "Options":
        """For members on one machine, which talk over its loopback: packets as long as a datagram may be, since
        nothing on that way cuts them up, and fewer of them on the way. A node that is bound to a loopback address takes
        these if it is given none."""
        return Options(packet_bytes_max=60_000, window_packets=128)

    @staticmethod
    def fast() -> "Options":
        """A profile for quick detection: a member that dies is given up after about a quarter of a second.

        It asks for a local network and for machines with time to spare. Nobody can tell a dead process from one that
        does nothing for 210 ms (`silence_ns_min` + `doubt_ns`): a process that the scheduler, its disk, its garbage
        collector or a long computation holds up for so long is given up wrongly, and has to come back as a new
        incarnation. Members that are often held up are given longer, by their own past, up to `silence_ns_max`. An idle
        member sends a heartbeat each 30 ms instead of each 200 ms to every other.
        """
        return Options(
            heartbeat_interval_ns=30 * MILLISECOND_NS,
            silence_ns_min=150 * MILLISECOND_NS,
            silence_ns_max=1500 * MILLISECOND_NS,
            doubt_ns=60 * MILLISECOND_NS,
            retry_ns=20 * MILLISECOND_NS,
            gather_ns=20 * MILLISECOND_NS,
        )
