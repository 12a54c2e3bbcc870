"""The bench of commuting operations: it measures both orders, relates them repeat by repeat, and refuses a bad run."""

import asyncio

import pytest

from antiphon.runtime.workers import Object
from bench import commuting
from bench.figures import IncompleteError
from bench.set_member import ADD, AGREED, CLEAR, COMMUTING, ELEMENT, SetCopy


@pytest.mark.processes
def test_a_short_run_has_all_rows_and_copies_that_are_equal() -> None:
    arguments = commuting.parse(["--repeats", "1", "--seconds", "0.2", "--members", "2", "--clients", "1,4"])
    report = asyncio.run(commuting.measure(arguments))
    assert [(result.more["clients_per_member"], result.unit) for result in report.results] == [
        (clients, unit) for clients in (1, 4) for unit in ("operations/s", "operations/s", "ratio")
    ]
    for place in (0, 3):
        ours, theirs, ratio = (result.value for result in report.results[place : place + 3])
        assert theirs > 0
        assert ratio == pytest.approx(ours / theirs, rel=0.01)


def test_ratios_are_of_one_repeat() -> None:
    arguments = commuting.parse(["--clients", "1"])
    repeats: commuting.Repeats = {
        (1, COMMUTING): [{"rate": rate, "cpu_us": 1.0} for rate in (10.0, 60.0, 30.0)],
        (1, AGREED): [{"rate": rate, "cpu_us": 2.0} for rate in (5.0, 6.0, 10.0)],
    }
    results = commuting.results_of(repeats, arguments)
    assert [result.value for result in results] == [30.0, 6.0, 3.0]


def test_copies_that_differ_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(self: commuting.Sets, what: str, **fields: object) -> list[Object]:
        if what == "run":
            return [{"sent": 1, "rate": 1.0, "cpu_s": 0.0}] * 2
        return [{"digest": [1, 2]}, {"digest": [1, 3]}]

    monkeypatch.setattr(commuting.Sets, "all", answer)
    with pytest.raises(IncompleteError, match="differ"):
        asyncio.run(commuting.Sets(commuting.parse([])).measure(COMMUTING, 1))


def test_the_digest_tells_orders_apart() -> None:
    additions = [ELEMENT.pack(ADD, element) for element in (1, 2)]
    copies = [SetCopy() for _ in range(3)]
    for copy, payloads in zip(
        copies,
        ([*additions, CLEAR], [*reversed(additions), CLEAR], [additions[0], CLEAR, additions[1]]),
        strict=True,
    ):
        for payload in payloads:
            copy.apply(payload)
    assert copies[0].digest() == copies[1].digest() != copies[2].digest()
