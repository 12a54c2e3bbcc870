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


def find_function(name: str) -> PureFunction:
    """The function of this name. Raises UsageError if there is none."""
    found = _FUNCTIONS.get(name)
    if found is None:
        raise UsageError(f"there is no function {name!r}; make it known by register_function first")
    return found
