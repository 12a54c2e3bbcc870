"""A bounded sample of the fuzz; `make fuzz` throws a million."""

import pytest

from tests.fuzz.fuzz import Fuzzer


@pytest.mark.parametrize("seed", range(3))
def test_spoiled_datagrams_harm_nobody(seed: int) -> None:
    fuzzer = Fuzzer(seed)
    fuzzer.throw(10_000, forge=False)
    result = fuzzer.finish()
    statistics = result["statistics"]
    assert isinstance(statistics, dict)
    assert statistics["dropped_checksum"] > 100
    assert statistics["duplicates"] > 10


@pytest.mark.parametrize("seed", range(10))
def test_forged_datagrams_neither_raise_nor_fill_memory(seed: int) -> None:
    Fuzzer(seed).throw(5_000, forge=True)
