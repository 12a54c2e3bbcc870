"""A resource that all programs of a run share and that checks fencing tokens: a number for each item.

`GuardedNumbers` stands outside the group, as a database would: it knows of accesses and their tokens, and of nothing
else. What it admits must look as if one holder had come after the other: every write adds one to what the same holder
has read, no token is used by two holders, and what a holder of a read lock reads does not change while it is admitted.

Apart from that it is told of holders, and knows, as nobody in a real system could, when two members of one view hold
locks that exclude each other: no guard is needed for that not to happen. A member that the others have given up, and
that does not know it yet, is not among them.
"""

from collections.abc import Callable

from antiphon import ProcessId
from antiphon.toolkit import LockClaim, TokenGuard, Tools


class GuardedNumbers:
    """Numbers by item, each behind a guard."""

    def __init__(self, make_guard: Callable[[str], TokenGuard] = lambda item: TokenGuard()) -> None:
        self._make_guard = make_guard
        self.values: dict[str, int] = {}
        self._owners: dict[str, dict[int, str]] = {}
        """By item, the holder of each token that was admitted."""
        self._highest: dict[str, int] = {}
        self.problems: list[str] = []
        self._guards: dict[str, TokenGuard] = {}
        self._holders: list[tuple[LockClaim, Tools]] = []

    def read(self, item: str, token: int, holder: ProcessId) -> int:
        """The number. Raises StaleTokenError."""
        self._admit(item, token, holder)
        return self.values.get(item, 0)

    def write(self, item: str, token: int, holder: ProcessId, value: int) -> None:
        """Replace the number, which must be one less. Raises StaleTokenError."""
        self._admit(item, token, holder)
        before = self.values.get(item, 0)
        if value != before + 1:
            self.problems.append(f"{holder} with token {token} writes {value} to {item!r} over {before}: a lost update")
        self.values[item] = value

    def _admit(self, item: str, token: int, holder: ProcessId) -> None:
        if item not in self._guards:
            self._guards[item] = self._make_guard(item)
        self._guards[item].check(token)
        if token % 2 == 0:
            owner = self._owners.setdefault(item, {}).setdefault(token, repr(holder))
            if owner != repr(holder):
                self.problems.append(f"token {token} of {item!r} was given to {holder} and to {owner}")
            if token < self._highest.get(item, 0):
                self.problems.append(f"token {token} of {item!r} was admitted after a higher one")
        self._highest[item] = max(self._highest.get(item, 0), token)

    def enter(self, claim: LockClaim, tools: Tools) -> None:
        """Note that a lock was granted; a holder in the same view must not exclude it."""
        self._holders = [(other, at) for other, at in self._holders if other.is_held]
        for other, at in self._holders:
            apart = other.item != claim.item or (other.mode == claim.mode == "read")
            together = at.process in tools.view.members and tools.process in at.view.members
            if not apart and together and at.process != tools.process:
                self.problems.append(f"{claim!r} of {tools.process} beside {other!r} of {at.process} in {tools.view}")
        self._holders.append((claim, tools))

    def check(self) -> None:
        assert not self.problems, self.problems[0]
