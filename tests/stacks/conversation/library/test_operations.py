"""Replicated objects: whatever the mix and the network, all copies come to be equal, and then there is silence."""

from random import Random

import pytest

from antiphon.kernel.options import MILLISECOND_NS
from antiphon.parts.message_graph import Mid
from antiphon.stacks.conversation.conversation import Conversation
from antiphon.stacks.conversation.library.operations import Operation, Operations
from antiphon.stacks.conversation.library.talker import Manner
from tests.stacks.conversation.library.stage import Actor, Stage, bad_stage


class Copy:
    """Additions commute; a product, and what is written down, do not."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.sum = 0
        self.seen: list[tuple[int, bytes]] = []
        """The value at each operation that does not commute."""
        self.executed: list[Mid] = []

    def poll(self, now_ns: int) -> None:
        for operation in self.operations.poll(now_ns):
            self.execute(operation)

    def execute(self, operation: Operation) -> None:
        self.executed.append(operation.mid())
        if operation.commutes:
            self.sum += int(operation.payload)
        else:
            self.seen.append((self.sum, operation.payload))
            self.sum = self.sum * 3 % 1_000_003


def copies_of(stage: Stage, manner: Manner) -> list[Copy]:
    copies: list[Copy] = []

    def make(conversation: Conversation, rank: int) -> Actor:
        copy = Copy(Operations(conversation, manner))
        copies.append(copy)
        return Actor(copy.poll, copy.operations.deadline_ns)

    stage.cast(make)
    return copies


def play(seed: int, participants: int, steps: int = 40) -> tuple[Stage, list[Copy]]:
    """Random operations on a bad network, and silence."""
    stage = bad_stage(seed, participants)
    random = Random(seed * 7 + 1)
    manner = Manner(
        window=random.choice([1, 3, 64]),
        ack_every=random.choice([1, 4, 32]),
        ack_delay_ns=random.choice([0, 2, 5]) * MILLISECOND_NS,
        tries=1000,
    )
    copies = copies_of(stage, manner)
    commuting = random.choice([0.0, 0.3, 0.9, 1.0])
    for step in range(steps):
        rank = random.randrange(participants)
        for _ in range(random.choice([1, 1, 1, 6])):
            copies[rank].operations.offer(b"%d" % (step + 1), random.random() < commuting)
        stage.poll(rank)
        if random.random() < 0.6:
            stage.run(random.randrange(4 * MILLISECOND_NS))
    stage.rest()
    return stage, copies


@pytest.mark.parametrize("seed", range(300))
def test_all_copies_become_equal(seed: int) -> None:
    stage, copies = play(seed, 2 + seed % 4)
    offered = sum(stage.hosts[0].image.graph.last) - sum(copy.operations.acks() for copy in copies)
    assert all(len(copy.executed) == len(set(copy.executed)) == offered for copy in copies)
    assert all(copy.sum == copies[0].sum and copy.seen == copies[0].seen for copy in copies)
    assert all(copy.operations.waiting() == copy.operations.outstanding() == 0 for copy in copies)
