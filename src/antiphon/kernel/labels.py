"""Labels by which the application orders messages (isis-1987, 3.3), for those who send them and for the auditor alike.

A label is a text `comparison=value`. The comparison is a pure function of two values, known to all processes by its
name (kernel/functions.py): below 0 if the first value comes before the second, above 0 if after it, 0 if neither does.
It must be a partial order. Labels of different comparisons are not comparable. Three are ready-made:

clock    whole numbers, as a logical clock gives them
vector   whole numbers with commas between them, as many in each value: no number greater, and one less
none     nothing comes before anything: a minimal broadcast (3.4)

A text without `=` is no such label, and orders nothing.
"""

from typing import Final

from antiphon.kernel.errors import UsageError
from antiphon.kernel.functions import find_function, register_function

SEPARATOR: Final = "="


def compare_clocks(first: bytes, second: bytes) -> int:
    return int(first) - int(second)


def compare_vectors(first: bytes, second: bytes) -> int:
    some = [int(count) for count in first.split(b",")]
    more = [int(count) for count in second.split(b",")]
    if len(some) != len(more):
        raise ValueError("vectors of different length")
    less = greater = 0
    for one, other in zip(some, more, strict=True):
        if one < other:
            less = 1
        elif one > other:
            greater = 1
    return greater - less


def compare_none(first: bytes, second: bytes) -> int:
    return 0


register_function("clock", compare_clocks)
register_function("vector", compare_vectors)
register_function("none", compare_none)


def is_known(label: str) -> bool:
    """Whether the comparison of a label is known here."""
    try:
        find_function(label.partition(SEPARATOR)[0])
    except UsageError:
        return False
    return True


def precedes(first: bytes, second: bytes) -> bool:
    """Whether the first label is comparable with the second and less. What no comparison here can tell is not."""
    name, _, value = first.partition(b"=")
    other, _, other_value = second.partition(b"=")
    if name != other or not first or not second:
        return False
    try:
        return find_function(name.decode())(value, other_value) < 0
    except Exception:  # the application's own function; nothing it does may come out of a step
        return False
