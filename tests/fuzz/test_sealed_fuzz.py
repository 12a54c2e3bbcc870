"""A bounded sample of what `make sealed-fuzz` does."""

from tests.fuzz.sealed_fuzz import fuzz


def test_bad_bytes_raise_nothing_and_leave_nothing() -> None:
    told = fuzz(1500, 4)
    assert told["late_kib"] - told["early_kib"] < 20_000
