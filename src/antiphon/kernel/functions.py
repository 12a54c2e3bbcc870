"""Pure functions that applications hand to stacks by name: comparisons of labels, rules for merging.

All processes that share what such a function decides must have it under the same name, and it must give the same answer
everywhere: it may look at nothing but its arguments.
"""

from collections.abc import Callable
from typing import Final

from antiphon.kernel.errors import UsageError

PureFunction = Callable[[bytes, bytes], int]
"""From two byte strings to a number: below, at or above 0 for a comparison."""

_FUNCTIONS: Final[dict[str, PureFunction]] = {}


def register_function(name: str, function: PureFunction) -> None:
    """Make a function known. Raises UsageError if another one has this name."""
    if _FUNCTIONS.get(name, function) is not function:
        raise UsageError(f"there is another function {name!r}; choose another name")
    _FUNCTIONS[name] = function


def register_comparison(name: str, comparison: PureFunction) -> None:
    """Make a comparison of labels known by a name, in every process that shares a group, before the first message that
    is sent with `label="name=value"`. It gets two values: below 0 if the first comes before the second, above 0 if
    after it, 0 if neither does. It must be a partial order and look at nothing but its arguments."""
    register_function(name, comparison)


def find_function(name: str) -> PureFunction:
    """The function of this name. Raises UsageError if there is none."""
    found = _FUNCTIONS.get(name)
    if found is None:
        raise UsageError(f"there is no function {name!r}; make it known by register_function first")
    return found
