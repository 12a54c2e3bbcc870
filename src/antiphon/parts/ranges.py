"""Sets of packet numbers as ascending, disjoint ranges: (first, last), both inside."""

from typing import final


@final
class Ranges:
    """A set of numbers that is mostly contiguous."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self.pairs = pairs

    def add(self, number: int) -> None:
        """Add a number above all that are in the set."""
        if self.pairs and self.pairs[-1][1] + 1 == number:
            self.pairs[-1] = (self.pairs[-1][0], number)
        else:
            self.pairs.append((number, number))

    def has(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self.pairs)

    def last(self) -> int:
        """The greatest number, or 0."""
        return self.pairs[-1][1] if self.pairs else 0

    def union(self, other: "Ranges") -> "Ranges":
        """The numbers that are in either."""
        result: list[tuple[int, int]] = []
        for first, last in sorted(self.pairs + other.pairs):
            if result and first <= result[-1][1] + 1:
                result[-1] = (result[-1][0], max(result[-1][1], last))
            else:
                result.append((first, last))
        return Ranges(result)


def runs_of(rank: int, numbers: list[int]) -> list[tuple[int, int, int]]:
    """Ascending packet numbers of one sender as runs: rank, first and last number."""
    result: list[tuple[int, int, int]] = []
    for number in numbers:
        if result and result[-1][2] + 1 == number:
            result[-1] = (rank, result[-1][1], number)
        else:
            result.append((rank, number, number))
    return result
