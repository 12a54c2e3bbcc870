"""How many cases a test takes: a few in the suite, many in `make hunt`, for tests that draw their cases themselves.

Such a test has the mark `random`, as those of hypothesis have, so that `make hunt` runs it.
"""

from hypothesis import settings

_HUNT_EXAMPLES = 1000


def is_hunt() -> bool:
    """Whether this is `make hunt`."""
    return settings().max_examples >= _HUNT_EXAMPLES


def seeds(few: int, many: int) -> range:
    """The seeds to try."""
    return range(many if is_hunt() else few)


def fewer(part: int) -> settings:
    """For a hypothesis test whose cases are long: one in so many of the cases that others take."""
    return settings(max_examples=settings().max_examples // part)
