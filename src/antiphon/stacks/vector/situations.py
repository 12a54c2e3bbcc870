"""What can happen on this stack, for the coverage of simulated runs; counted per packet, never per message."""

from typing import Final

from antiphon.stacks.vector.timestamp import FOREIGN, FULL, SPARSE, TOKEN

ORDER_BITS: Final = 16
"""How many combinations of parts an order section can have (timestamp.py)."""

SITUATIONS: Final = (
    "data resent",
    "data with acks",
    "data, a fragment",
    "data in the total order",
    "data that only tells the order",
    "the token moves",
    "status that asks",
    "vector time, changes only",
    "vector time, in full",
    "places in the total order",
    "times of other groups",
)


def with_bit(sections: list[int], bit: int) -> int:
    """How many of the order sections, counted by their bits, have this one."""
    return sum([count for bits, count in enumerate(sections) if bits & bit])


def order_counts(sections: list[int]) -> list[int]:
    """The last four of the situations."""
    return [with_bit(sections, bit) for bit in (SPARSE, FULL, TOKEN, FOREIGN)]
