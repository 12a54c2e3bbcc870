"""The stacks there are, and what each offers: levels for a message, and guarantees that a run can be held to."""

from typing import Final, final

from antiphon.kernel.errors import LevelNotOfferedError, UsageError
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.kernel.policies import PRIMARY

_PROMISES: Final = ("creation", "duplication", "fifo", "causal", "total", "safe", "settled")
_VIEW_PROMISES: Final = (
    "view_agreement", "view_synchrony", "view_sending", "primary", "silence", "group_broadcast",
)  # fmt: skip


@final
class Capabilities:
    """What one stack offers."""

    __slots__ = ("crosses_groups", "levels", "name", "private")

    def __init__(self, name: str, levels: tuple[str, ...], private: bool, crosses_groups: bool) -> None:
        self.name = name
        self.levels = levels
        self.private = private
        """Whether a message can go to one member alone."""
        self.crosses_groups = crosses_groups
        """Whether groups of one causality domain are kept in causal order with each other."""

    def promises(self, policy: str) -> tuple[str, ...]:
        """The guarantees that a group with this policy can be held to."""
        return (*_PROMISES, *_VIEW_PROMISES) if policy == PRIMARY else _PROMISES

    def check_level(self, level: str) -> None:
        """Raises LevelNotOfferedError, which names the stacks that do offer it."""
        if level not in self.levels:
            others = tuple(other.name for other in OFFERS.values() if level in other.levels)
            raise LevelNotOfferedError(level, self.name, self.levels, others)


VECTOR: Final = Capabilities("vector", LEVEL_NAMES, private=True, crosses_groups=True)
CONVERSATION: Final = Capabilities("conversation", LEVEL_NAMES, private=False, crosses_groups=False)
OFFERS: Final = {VECTOR.name: VECTOR, CONVERSATION.name: CONVERSATION}


def offer(stack: str) -> Capabilities:
    """What the stack of this name offers. Raises UsageError if there is none."""
    found = OFFERS.get(stack)
    if found is None:
        raise UsageError(f"there is no stack {stack!r}; the stacks are: {', '.join(OFFERS)}")
    return found
