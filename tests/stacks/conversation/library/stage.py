"""Routines of the library over the bad network of net.py: each is polled when something comes, and at its deadline."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.conversation.free.conversation import ConversationCore
from tests.stacks.conversation.net import Net

STEPS_MAX = 200_000


@dataclass
class Actor:
    """What one participant runs."""

    poll: Callable[[int], None]
    deadline_ns: Callable[[], int] = lambda: NEVER


@dataclass
class Stage(Net):
    """Participants that run routines of the library."""

    actors: list[Actor] = field(default_factory=list)
    packets: int = 0
    """How many have arrived."""

    def cast(self, make: Callable[[ConversationCore, int], Actor]) -> None:
        """Have each participant run something."""
        self.actors = [make(host, rank) for rank, host in enumerate(self.hosts)]
        for rank in range(self.count):
            self.flush(rank)

    def poll(self, rank: int) -> None:
        if rank not in self.dead:
            self.actors[rank].poll(self.now_ns)
            self.flush(rank)

    def poll_all(self) -> None:
        for rank in range(self.count):
            self.poll(rank)

    def run(self, duration_ns: int) -> None:
        end_ns = self.now_ns + duration_ns
        for _ in range(STEPS_MAX):
            due_ns = self._due_ns()
            if due_ns > end_ns:
                self.now_ns = end_ns
                return
            self.now_ns = max(self.now_ns, due_ns)
            self._step()
        raise AssertionError(f"not at rest after {STEPS_MAX} steps")

    def is_quiet(self) -> bool:
        """Nothing is on the way, and nobody will ever do anything by itself."""
        return self._due_ns() == NEVER

    def rest(self, limit_ns: int = 60_000 * MILLISECOND_NS) -> None:
        """Run until everything is quiet."""
        end_ns = self.now_ns + limit_ns
        for _ in range(STEPS_MAX):
            due_ns = self._due_ns()
            if due_ns == NEVER:
                return
            assert due_ns <= end_ns, "there is no end of it"
            self.now_ns = max(self.now_ns, due_ns)
            self._step()
        raise AssertionError(f"not at rest after {STEPS_MAX} steps")

    def _due_ns(self) -> int:
        living = [rank for rank in range(self.count) if rank not in self.dead]
        return min(
            [self.hosts[rank].replica.deadline_ns() for rank in living]
            + [self.actors[rank].deadline_ns() for rank in living]
            + [flying[0] for flying in self._flying[:1]]
        )

    def _step(self) -> None:
        if self._flying and self._flying[0][0] <= self.now_ns:
            _, _, rank, packet = heapq.heappop(self._flying)
            if rank not in self.dead:
                self.packets += 1
                kind, _, _, via, flags, _ = unseal(packet)
                self.hosts[rank].take(kind, via, flags, packet, self.now_ns)
                self.poll(rank)
            return
        for rank, host in enumerate(self.hosts):
            if rank not in self.dead:
                if host.replica.deadline_ns() <= self.now_ns:
                    host.replica.tick(self.now_ns)
                    self.flush(rank)
                if self.actors[rank].deadline_ns() <= self.now_ns:
                    self.poll(rank)


def bad_stage(seed: int, participants: int) -> Stage:
    """As bad a network as the seed has it."""
    random = Random(seed)
    loss, doubling = random.choice([0, 0.1, 0.35]), random.choice([0, 0.2])
    return Stage(participants, random, loss=loss, doubling=doubling)
