"""The names and figures that people read.

A message is written "name#number" and a run of messages "name#4–9"; a process "name", and "name/2" in its second
incarnation. Names come from users, so whatever is not printable (terminal escapes, direction marks, line breaks) is
shown as a replacement character.
"""

from typing import Final

from antiphon.pipeline.explain import process_name

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """The text with each character that would disturb a page or a terminal replaced."""
    return "".join(character if character.isprintable() else REPLACEMENT for character in text)


def clipped(text: str, length_max: int) -> str:
    """The text, its middle left out where it is longer than `length_max`: names tend to differ at their ends."""
    if len(text) <= length_max:
        return text
    tail = (length_max - 1) // 2
    return text[: length_max - 1 - tail] + "…" + text[len(text) - tail :]


def numbers(first: int, last: int) -> str:
    """A run of message numbers: "7", "4–9", "5023–29"."""
    if first == last:
        return str(first)
    low, high = str(first), str(last)
    shared = 0
    if len(low) == len(high) and len(low) > 2:
        while low[shared] == high[shared] and shared < len(low) - 2:
            shared += 1
    return f"{low}–{high[shared:]}"


def message_name(sender: str, first: int, last: int) -> str:
    """A message, or a run of them, as people write it: "b#7", "b#4–9"."""
    return f"{clipped(process_name(sender), 24)}#{numbers(first, last)}"


def duration(time_ns: int) -> str:
    """A span of time with three digits that matter: "412 ns", "1.24 ms", "2 min 5 s"."""
    if time_ns < 1_000:
        return f"{time_ns} ns"
    if time_ns >= 120_000_000_000:
        return f"{time_ns // 60_000_000_000} min {time_ns % 60_000_000_000 // 1_000_000_000} s"
    # A unit is left for the next one where the value would be rounded up to 1000.
    unit, size_ns = ("µs", 1_000) if time_ns < 999_500 else ("ms", 1_000_000) if time_ns < 999_500_000 else ("s", 10**9)
    value = time_ns / size_ns
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
