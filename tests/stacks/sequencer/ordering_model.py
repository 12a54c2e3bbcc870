"""All delivery orders that a sequencing service allows, without running it.

A script accepts messages and changes members. What the rules force each process to deliver before what is computed from
contexts, epochs and stability; everything else the network may reorder as it likes. So the model tells whether *some*
run of the script breaks a promise, and needs no search over arrivals.

A process that is free to do so may deliver two messages in either order. A shortest cycle of several processes' orders
uses each process once (stacks/sequencer/placement.py), so cycles are as short as the number of processes.
"""

from itertools import permutations
from typing import Final

from antiphon.stacks.sequencer.context import Context
from antiphon.stacks.sequencer.placement import Edges, PlacementGraph

AT_ONCE: Final = "at once"
STABLE: Final = "when the leave is stable"
EPOCHS: Final = "when the epoch ends"


class ModelMessage:
    """One accepted message."""

    def __init__(self, place: int, group: int, context: Context, epoch: int, edges: Edges) -> None:
        self.place = place
        """In the order of acceptance, over all sequencers."""
        self.group = group
        self.context = context
        self.epoch = epoch
        self.receivers = [process for process, is_member in edges[group].items() if is_member]
        self.obeyed = {process: [one for one in edges if process in edges[one]] for process in self.receivers}
        """The groups whose numbers each receiver waits for."""


class OrderingModel:
    """A service that keeps groups apart wherever its rule allows that, which is the worst case for the order."""

    def __init__(self, setting: str, removal: str, edges: dict[int, str]) -> None:
        self.placement = PlacementGraph(setting)
        self.removal = removal
        self.numbers: dict[int, int] = {}
        self.messages: list[ModelMessage] = []
        self.stable_before: dict[int, int] = {}
        """By message: every message accepted from this place on comes after it everywhere."""
        for group, processes in edges.items():
            self.placement.create(group)
            self.numbers[group] = 0
            for process in processes:
                self.placement.join(process, group)

    def copy(self) -> "OrderingModel":
        other = OrderingModel(self.placement.setting, self.removal, {})
        other.placement = self.placement.copy()
        other.numbers = dict(self.numbers)
        other.messages = list(self.messages)
        other.stable_before = dict(self.stable_before)
        return other

    def accept(self, *groups: int) -> None:
        for group in groups:
            self.numbers[group] += 1
            shared = next(one for one in self.placement.together() if group in one)
            context = {other: self.numbers[other] for other in self.placement.neighbours(group) if other in shared}
            epoch = self.placement.epochs[group]
            self.messages.append(ModelMessage(len(self.messages), group, context, epoch, self.placement.edges))

    def toggle(self, process: str, group: int) -> None:
        """Join, or leave."""
        if not self.placement.edges[group].get(process, False):
            self.placement.join(process, group)
            return
        self.placement.leave(process, group)
        if self.removal == AT_ONCE:
            self.placement.part(process, group)

    def remove(self, group: int) -> None:
        """What the rule demands before edges of this group are removed happens, and they are."""
        if self.removal == EPOCHS:
            self.placement.advance(group)
            return
        for message in self.messages:
            if message.group == group:
                self.stable_before.setdefault(message.place, len(self.messages))
        for process, is_member in list(self.placement.edges[group].items()):
            if not is_member:
                self.placement.part(process, group)

    # ---- what can happen -------------------------------------------------------------------------------------------

    def forces(self, process: str, first: ModelMessage, second: ModelMessage) -> bool:
        """Whether a rule makes this process deliver `first` before `second`, which was accepted later."""
        if first.group in second.obeyed[process] and second.context.get(first.group, -1) >= first.context[first.group]:
            return True
        if self.removal == EPOCHS and first.epoch < second.epoch:
            return True
        return second.place >= self.stable_before.get(first.place, len(self.messages))

    def free(self, process: str) -> list[int]:
        """For each message, as a set of bits, the messages that this process may deliver after it."""
        mine = [message for message in self.messages if process in message.receivers]
        before = [0] * len(self.messages)
        bits = 0
        for second in mine:
            for first in mine:
                if first.place < second.place and self.forces(process, first, second):
                    before[second.place] |= before[first.place] | 1 << first.place
            bits |= 1 << second.place
        after = [0] * len(self.messages)
        for message in mine:
            after[message.place] = bits & ~before[message.place] & ~(1 << message.place)
        return after

    def cycle(self, length_max: int = 9) -> tuple[str, ...]:
        """Processes whose orders can be a cycle together, or none."""
        processes = sorted({process for message in self.messages for process in message.receivers})
        free = {process: self.free(process) for process in processes}
        for length in range(2, min(length_max, len(processes)) + 1):
            for ring in permutations(processes, length):
                if ring[0] == min(ring) and any(self._closes(start, ring, free) for start in range(len(self.messages))):
                    return ring
        return ()

    def _closes(self, start: int, ring: tuple[str, ...], free: dict[str, list[int]]) -> bool:
        reached = 1 << start
        for process in ring:
            after = free[process]
            following = 0
            while reached:
                lowest = reached & -reached
                following |= after[lowest.bit_length() - 1]
                reached ^= lowest
            reached = following
        return bool(reached >> start & 1)

    def inversion(self) -> tuple[str, ...]:
        """Two processes that can deliver the same two messages in different orders, or none."""
        return self.cycle(2)
