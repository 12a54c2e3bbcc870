"""What becomes of a broadcast domain when more is offered than its members can take in (transis-1992, 3.3: a cascade of
omissions is to be avoided), in virtual time.

    python -m tests.stacks.domain.overload

Four members; each takes in CAPACITY packets a second, one after the other, and has room for BUFFER packets that wait;
whatever comes when that is full is lost. Every member offers messages of 1,000 bytes, one a packet, at a fixed rate.
For each load, as a share of what fits (CAPACITY, divided by the others that send): messages delivered per second and
member, the share of packets that was lost, and the copies sent again per message. Once with the network sliding window,
once with members that may have `window_packets` of their own under way and heed nothing else, as protocols do that wait
for negative acknowledgements alone.
"""

import argparse
from dataclasses import dataclass
from unittest.mock import patch

from antiphon.kernel.effects import Delivered
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join, Receive, Send
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.domain.window import NetworkWindow
from tests.stacks.domain.islands import GROUP, SECOND_NS, Islands, Life

MEMBERS = 4
CAPACITY = 2_000
BUFFER = 64
WARM_NS = SECOND_NS
PAYLOAD = bytes(1_000)


@dataclass
class Measured:
    """One load."""

    share: float
    delivered: float
    """Messages per second and member."""
    lost: float
    """The share of the packets that came and were lost."""
    resent: float
    """Copies sent again, per message."""


class Overload(Islands):
    """Members that are slow to take in."""

    def __init__(self, share: float, window_packets: int = 256) -> None:
        super().__init__(0, Options(window_packets=window_packets))
        self.count = MEMBERS
        self.island = [0] * MEMBERS
        self.lives = [None] * MEMBERS
        self.incarnations = [0] * MEMBERS
        names = tuple(f"p{place}" for place in range(MEMBERS))
        self.first = View(1, tuple(ProcessId(name) for name in names), names)
        self.spacing_ns = int(SECOND_NS * (MEMBERS - 1) / (CAPACITY * share))
        self.free_ns = [0] * MEMBERS
        self.waiting = [0] * MEMBERS
        self.came = self.dropped = self.delivered = 0

    def start(self, place: int) -> None:
        process = self.first.members[place]
        life = Life(process, self.new_engine(process))
        self.lives[place] = life
        self.history.append(life)
        self.step(place, Join(group=GROUP, view=self.first, stack="domain", policy="static", address=process.name))

    def transmit(self, source: int, target: int, packet: bytes) -> None:
        if source != target:
            self.at(self.now_ns + MILLISECOND_NS // 10, "come", (target, packet))

    def observe(self, life: Life, event: object) -> None:
        if isinstance(event, Delivered) and self.now_ns > WARM_NS:
            self.delivered += len(event.payloads)

    def happen(self, what: str, about: object) -> None:
        if what == "come":
            assert isinstance(about, tuple)
            target, packet = about
            self.came += 1
            if self.waiting[target] >= BUFFER:
                self.dropped += 1
                return
            self.waiting[target] += 1
            self.free_ns[target] = max(self.free_ns[target], self.now_ns) + SECOND_NS // CAPACITY
            self.at(self.free_ns[target], "take", (target, packet))
        elif what == "take":
            assert isinstance(about, tuple)
            target, packet = about
            self.waiting[target] -= 1
            self.step(target, Receive([packet]))
        elif what == "offer":
            assert isinstance(about, int)
            self.step(about, Send(group=GROUP, payloads=[PAYLOAD], level=CAUSAL))
            self.at(self.now_ns + self.spacing_ns, "offer", about)
        else:
            super().happen(what, about)

    def measure(self, share: float, seconds: float) -> Measured:
        """Run for so long, after a second to warm up."""
        for place in range(MEMBERS):
            self.start(place)
            self.at(place * self.spacing_ns // MEMBERS, "offer", place)
        while self.heap and self.heap[0][0] <= WARM_NS + seconds * SECOND_NS:
            self.now_ns, _, what, about = self.pop()
            self.happen(what, about)
        statistics = [life.engine.statistics() for life in self.history]
        resent = sum(one["resends"] for one in statistics)
        rate = self.delivered / seconds / MEMBERS
        return Measured(share, rate, self.dropped / self.came, resent / max(1, self.delivered / MEMBERS))


def _unheeding(self: NetworkWindow, size: int, own: int, now_ns: int) -> bool:
    """As many own packets as the limit are under way, whatever is lost and whatever others send."""
    return own < self._limit_max


def measure(share: float, seconds: float, heeds: bool = True) -> Measured:
    """One load; `heeds`: with the network sliding window."""
    if heeds:
        return Overload(share).measure(share, seconds)
    with patch.object(NetworkWindow, "is_open", _unheeding):
        return Overload(share).measure(share, seconds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    seconds = parser.parse_args().seconds
    print("| offered | delivered | lost | sent again | without: delivered | lost | sent again |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for share in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0):
        cells = []
        for heeds in (True, False):
            one = measure(share, seconds, heeds)
            cells.append(f"{one.delivered:.0f} | {one.lost:.1%} | {one.resent:.2f}")
        print(f"| {share:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
