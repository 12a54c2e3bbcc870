"""Names and figures as people read them."""

import pytest

from antiphon.report.rows import reading_order
from antiphon.report.words import clipped, duration, message_name, numbers, printable


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        (7, 7, "7"),
        (4, 9, "4–9"),
        (9, 10, "9–10"),
        (98, 101, "98–101"),
        (5023, 5029, "5023–29"),
        (5023, 5123, "5023–123"),
    ],
)
def test_a_run_of_numbers_repeats_no_more_digits_than_it_must(first: int, last: int, text: str) -> None:
    assert numbers(first, last) == text


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 ns"),
        (412, "412 ns"),
        (1_000, "1.00 µs"),
        (12_345_678, "12.3 ms"),
        (999_999, "1.00 ms"),
        (999_999_999, "1.00 s"),
        (61_500_000_000, "61.5 s"),
        (125_000_000_000, "2 min 5 s"),
    ],
)
def test_a_duration_has_three_digits_that_matter(time_ns: int, text: str) -> None:
    assert duration(time_ns) == text


def test_what_could_disturb_a_terminal_or_a_page_is_replaced() -> None:
    assert printable("a\x1b[31mb\n\u202ec é") == "a�[31mb��c é"


def test_a_long_name_keeps_both_ends() -> None:
    assert clipped("abcdefghij", 10) == "abcdefghij"
    assert clipped("abcdefghijk", 7) == "abc…ijk"


def test_a_message_of_a_later_incarnation_says_so() -> None:
    assert message_name("p/1", 4, 9) == "p#4–9"
    assert message_name("p/2", 7, 7) == "p/2#7"


def test_names_are_read_as_people_count() -> None:
    processes = ["p10/1", "p2/2", "p2/1", "q/1", "p/1"]
    assert sorted(processes, key=reading_order) == ["p/1", "p2/1", "p2/2", "p10/1", "q/1"]
