"""Policies: who may go on when a view ends, how the next view is called, and what becomes of views that meet again.

  static         the view is given at the start and never ends
  primary        one chain of views: a next one needs a majority of the last, where exactly half counts if it holds the
                 oldest. Ids count 1, 2, 3…, and there is nothing to merge: who was left behind joins anew. A view
                 that an operator has made without a majority (`recover`) bears an id far above, since the others may
                 have had views of their own: one id never stands for two views
  partitionable  every set of members that hear each other goes on in views of its own, and they merge when they meet

Safe. Under `primary` any two quorums of a view share a member, so at most one view follows it, and its id can be the
next number. Under `partitionable` two views may follow one view, so an id names its origin: its height, that is one
more than that of the highest view it comes from, and below it a digest of those views, of the coordinator and of its
round. Two sides of a partition have different coordinators, and one coordinator never uses a round twice in one view,
so two views share an id only if their digests of 40 bits collide. Ids rise along every path, since heights do.

Live. Under `partitionable` nobody waits for a majority; a set of members goes on as soon as it knows who is in it.
"""

from hashlib import blake2b
from typing import Final, final

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.policies import PARTITIONABLE, PRIMARY, STATIC

_ORIGIN_BITS: Final = 40
RECOVERED_IDS: Final = 1 << 20
"""More views than the others can have had."""
HEIGHT_MAX: Final = (1 << 21) - 1
"""So that ids stay below 2^62."""


class MembershipPolicy:
    """What membership asks about the views of one group."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def may_go_on(self, ranks: set[int], members: int) -> bool:
        """Whether members with these ranks of a view of so many may make the view that follows it."""
        raise NotImplementedError

    def next_id(self, view_id: int, coordinator: ProcessId, round: int) -> int:
        """The id of the view that this round of this coordinator makes after the view."""
        raise NotImplementedError

    def is_next_id(self, view_id: int, proposed: int) -> bool:
        """Whether a view that follows this one can bear the id that is proposed."""
        raise NotImplementedError

    def recovered_id(self, view_id: int, coordinator: ProcessId, round: int) -> int:
        """The same for a view without a majority."""
        return self.next_id(view_id, coordinator, round)

    def merged_id(self, view_ids: list[int], coordinator: ProcessId, round: int) -> int:
        """The id of the view in which these views meet. Asked only where views can part."""
        raise NotImplementedError


@final
class StaticPolicy(MembershipPolicy):
    """The view stays as it is."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(STATIC)

    def may_go_on(self, ranks: set[int], members: int) -> bool:
        return False

    def is_next_id(self, view_id: int, proposed: int) -> bool:
        return False


@final
class PrimaryPolicy(MembershipPolicy):
    """One chain of views, each with a majority of the last."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(PRIMARY)

    def may_go_on(self, ranks: set[int], members: int) -> bool:
        return 2 * len(ranks) > members or (2 * len(ranks) == members and 0 in ranks)

    def next_id(self, view_id: int, coordinator: ProcessId, round: int) -> int:
        return view_id + 1

    def recovered_id(self, view_id: int, coordinator: ProcessId, round: int) -> int:
        origin = blake2b(f"{view_id}|{coordinator!r}|{round}".encode(), digest_size=3).digest()
        return view_id + RECOVERED_IDS + int.from_bytes(origin, "little") % RECOVERED_IDS

    def is_next_id(self, view_id: int, proposed: int) -> bool:
        return proposed == view_id + 1 or 0 <= proposed - view_id - RECOVERED_IDS < RECOVERED_IDS


@final
class PartitionablePolicy(MembershipPolicy):
    """Views that part and merge."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(PARTITIONABLE)

    def may_go_on(self, ranks: set[int], members: int) -> bool:
        return bool(ranks)

    def next_id(self, view_id: int, coordinator: ProcessId, round: int) -> int:
        return self.merged_id([view_id], coordinator, round)

    def is_next_id(self, view_id: int, proposed: int) -> bool:
        return height_of(proposed) > height_of(view_id)

    def merged_id(self, view_ids: list[int], coordinator: ProcessId, round: int) -> int:
        height = 1 + max([height_of(view_id) for view_id in view_ids])
        assert height <= HEIGHT_MAX, "a group has had more views than ids can count"
        origin = f"{sorted(view_ids)}|{coordinator!r}|{round}"
        digest = blake2b(origin.encode(), digest_size=_ORIGIN_BITS // 8).digest()
        return (height << _ORIGIN_BITS) + int.from_bytes(digest, "little")


def height_of(view_id: int) -> int:
    """How many views lie, at most, between a first view and this one, under `partitionable`. A first view bears a small
    number, as everywhere, and has the height 0."""
    return view_id >> _ORIGIN_BITS


STATIC_POLICY: Final = StaticPolicy()
PRIMARY_POLICY: Final = PrimaryPolicy()
PARTITIONABLE_POLICY: Final = PartitionablePolicy()
