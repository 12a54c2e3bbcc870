"""Errors say what was wrong and what to do, and hold the numbers as attributes."""

from antiphon.kernel.errors import LevelNotOfferedError, MessageTooLargeError


def test_a_level_that_is_not_offered_names_the_ones_that_are_and_the_stacks_that_do() -> None:
    error = LevelNotOfferedError("safe", "plain", ("reliable", "fifo"), ("vector", "domain"))
    assert str(error) == "stack 'plain' offers reliable, fifo, not 'safe'; stacks that do: vector, domain"
    assert (error.level, error.stack) == ("safe", "plain")


def test_a_message_that_is_too_large_is_told_both_sizes() -> None:
    error = MessageTooLargeError(11, 10)
    assert "11 bytes" in str(error)
    assert (error.size, error.size_max) == (11, 10)
