"""Causality domains: which groups are kept in causal order with each other, and by what rule (isis-1991, 6 and 7.3).

Groups of one domain at one process share one causal order: what a process sends to one group comes after all that it
has sent or delivered in the others. Between domains there is none; `flush` before going from one to the other.

  carry         messages carry the vector times of other groups where they still matter (6.1, 6.3)
  conservative  a process that turns to another group first waits until all it has sent or delivered elsewhere is
                delivered at all members; messages carry the time of their own group only, and the views of others (6.7)
  epochs        messages carry the times of their sender's own groups; around the excluded groups, which break the
                cycles of the overlap graph, a group is flushed where a process turns to it from another (6.7)
"""

from dataclasses import dataclass
from typing import Final

from antiphon.kernel.errors import UsageError

CARRY: Final = "carry"
CONSERVATIVE: Final = "conservative"
EPOCHS: Final = "epochs"
RULES: Final = (CARRY, CONSERVATIVE, EPOCHS)


@dataclass(frozen=True, kw_only=True)
class CausalityDomain:
    """One causality domain. All processes that share groups in it must declare it alike."""

    name: str = "main"
    rule: str = CARRY
    resilience: int = 0
    """k: how many members beside its sender must hold a message before its past may cross into another group. So many
    members may fail at once and no message is lost that another group's messages follow. 0: all members (6.5)."""
    overlaps: tuple[tuple[str, str], ...] = ()
    """Under `carry`: all pairs of groups of the domain that share members, if they are known and will not change. Then
    only times of groups in the same biconnected component travel (6.6)."""
    excluded: tuple[str, ...] = ()
    """Under `epochs`: groups without which the overlap graph has no cycles. None named: all of them, which is safe."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"there is no rule {self.rule!r} for causality domains; choose one of: {', '.join(RULES)}")
        if self.resilience < 0:
            raise UsageError(
                f"the resilience of domain {self.name!r} is {self.resilience}, but it counts members: 0 or more"
            )
        if self.overlaps and self.rule != CARRY:
            raise UsageError(
                f"the overlaps of domain {self.name!r} matter under the rule `carry` only, not `{self.rule}`"
            )
        if self.excluded and self.rule != EPOCHS:
            raise UsageError(f"excluded groups matter under the rule `epochs` only, not `{self.rule}`")
