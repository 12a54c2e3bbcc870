"""What is to leave for which member, and when: now, ahead of others, or lazily, with company (isis-1987, 3.5, 4.3.2).

A broadcast below `agreed` may wait `lazy_ns` at its sender for others to travel with it. Whatever leaves for a member
takes along what waits for it, since that came before; only a labelled broadcast leaves ahead of own ones that do not
precede it (pool.py). Answers to a member's broadcasts go first in what leaves for it.
"""

from typing import final

from antiphon.kernel.effects import NEVER
from antiphon.stacks.label.item import MESSAGES, Item
from antiphon.stacks.label.link import LabelLink
from antiphon.stacks.label.pool import MessagePool
from antiphon.stacks.label.traffic import LabelTraffic


@final
class TransferSchedule:
    """What one member is to send in one view."""

    __slots__ = (
        "_answers", "_due", "_labelled", "_lazy", "_lazy_ns", "_links", "_me", "_pool", "_traffic", "lazy_at_ns",
    )  # fmt: skip

    def __init__(self, me: int, links: list[LabelLink], pool: MessagePool, traffic: LabelTraffic, lazy_ns: int) -> None:
        self._me = me
        self._links = links
        self._pool = pool
        self._traffic = traffic
        self._due: dict[int, Item] = {}
        """By member, the last own broadcast that is to leave for it…"""
        self._labelled: dict[int, list[Item]] = {}
        """…and those with labels, which may leave ahead of others…"""
        self._lazy: dict[int, Item] = {}
        """…and the last that may wait for company, until…"""
        self.lazy_at_ns = NEVER
        self._lazy_ns = lazy_ns
        self._answers: dict[int, list[bytes]] = {}
        """By member, priorities and the like for its broadcasts."""

    def answer(self, rank: int, frame: bytes) -> None:
        """Have an answer leave for a member."""
        self._answers.setdefault(rank, []).append(frame)

    def drop_answers(self) -> None:
        """The view has ended: nobody waits for answers."""
        self._answers = {}

    def put(self, item: Item, now_ns: int) -> None:
        """Keep an own broadcast and have it leave for all that are to have it, now or lazily."""
        self._pool.add(item, self._me)
        reach = self._pool.reach(item)
        is_prompt = item.kind != MESSAGES or item.is_ordered() or item.is_abcast() or bool(item.label)
        is_lazy = self._lazy_ns > 0 and not is_prompt
        if is_lazy and self.lazy_at_ns == NEVER:
            self.lazy_at_ns = now_ns + self._lazy_ns
        for rank in range(len(self._links)):
            if rank == self._me or not reach >> rank & 1:
                continue
            if item.label:
                self._labelled.setdefault(rank, []).append(item)
            elif is_lazy:
                self._lazy[rank] = item
            else:
                self._due[rank] = item
                self._lazy.pop(rank, None)

    def transfer_all(self, now_ns: int) -> None:
        """Send what is due to each member whose link has room."""
        if self.lazy_at_ns <= now_ns:
            self._due.update(self._lazy)
            self._lazy = {}
            self.lazy_at_ns = NEVER
        for rank, link in enumerate(self._links):
            if rank == self._me or not (rank in self._due or rank in self._answers or rank in self._labelled):
                continue
            if not link.has_room():
                continue
            frames = self._answers.pop(rank, [])
            items: list[Item] = []
            for labelled in self._labelled.pop(rank, []):
                items += self._pool.take_for(rank, labelled)
            last = self._due.pop(rank, None)
            if last is not None:
                items += self._pool.take_for(rank, last)
            self._traffic.transfer(rank, frames, items, now_ns)
