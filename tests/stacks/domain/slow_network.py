"""Islands on a network that takes long: every packet is under way for a given time, and none is lost."""

from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.options import MILLISECOND_NS
from tests.stacks.domain.islands import Islands

MEMBERS = 5


class SlowIslands(Islands):
    """Five founders; a packet takes `delay_ms`, and up to a tenth more."""

    def __init__(self, seed: int, delay_ms: int) -> None:
        super().__init__(seed)
        self._delay_ns = delay_ms * MILLISECOND_NS
        self.count = MEMBERS
        self.island = [0] * MEMBERS
        self.lives = [None] * MEMBERS
        self.incarnations = [0] * MEMBERS
        names = tuple(f"p{place}" for place in range(MEMBERS))
        self.first = View(1, tuple(ProcessId(name) for name in names), names)
        for place in range(MEMBERS):
            self.start(place)

    def transmit(self, source: int, target: int, packet: bytes) -> None:
        if source != target and self.island[source] == self.island[target]:
            delay_ns = self._delay_ns + self.random.randrange(self._delay_ns // 10)
            self.at(self.now_ns + delay_ns, "packet", (source, target, packet))

    def play(self, milliseconds: int) -> None:
        """Have so much time go by."""
        until_ns = self.now_ns + milliseconds * MILLISECOND_NS
        while self.heap and self.heap[0][0] <= until_ns:
            self.now_ns, _, what, about = self.pop()
            self.happen(what, about)
        self.now_ns = until_ns

    def merge(self, limit_ms: int) -> int:
        """Heal, and send a little; how many milliseconds it takes until all are in one configuration."""
        self.island = [0] * MEMBERS
        for taken_ms in range(0, limit_ms, 100):
            if self.is_one():
                return taken_ms
            if taken_ms % 500 == 0:
                self.send(taken_ms // 500 % MEMBERS)
            self.play(100)
        return limit_ms
