"""The measurements of psync-1989 run, and their figures add up."""

import asyncio

import pytest

from bench import graph_growth, paper_psync
from bench.graph_growth import THRESHOLD, cost_ns, later, measure_case, talk
from bench.paper_psync import HOSTS, TOKEN_MS, WIRES, Passed


@pytest.mark.parametrize("name", graph_growth.TALKS)
@pytest.mark.parametrize("kind", graph_growth.KINDS)
def test_a_talk_goes_on_as_long_as_it_is_wanted(name: str, kind: str) -> None:
    found = measure_case(name, kind, 4, 3000)
    assert found["ends"][-1] >= 3000
    assert len(found["ends"]) == len(found["taken_ns"])
    assert found["nodes"] == (THRESHOLD * 4 if kind == "freed" else found["ends"][-1])
    assert found["bodies"] < 20
    assert found["predecessors"] == {"token": 1, "together": 4}.get(name, pytest.approx(2, abs=1))


def test_a_piece_is_said_again_with_numbers_raised() -> None:
    piece = talk("token", 2)[:3]
    assert piece == [(0, 1, []), (1, 1, [(0, 1)]), (0, 2, [(1, 1)])]
    assert later(piece, [5, 4], (1, 4), "token") == [(0, 6, [(1, 4)]), (1, 5, [(0, 6)]), (0, 7, [(1, 5)])]


def test_the_cost_at_a_size_is_that_of_the_messages_since_the_size_before() -> None:
    ends, taken_ns = [1000, 2000, 3000, 4000, 5000], [5_000_000, 1_000_000, 3_000_000, 1_000_000, 9_000_000]
    assert cost_ns(ends, taken_ns, 1000, "kept") == 5000
    assert cost_ns(ends, taken_ns, 3000, "kept") == 2000
    assert cost_ns(ends, taken_ns, 10_000, "kept") == 5000
    assert cost_ns([1000, 1500, 2000, 3000], [0, 1_000_000, 1_000_000, 8_000_000], 3000, "kept") == 2000
    assert cost_ns([1000, 1500, 2000, 3000], [0, 1_000_000, 1_000_000, 8_000_000], 3000, "collected") == 4000


@pytest.mark.processes
def test_a_token_goes_round_on_every_wire() -> None:
    passed = Passed()
    asyncio.run(paper_psync.pass_token(passed, 2, 1))
    assert set(passed.elapsed_us) == {(wire, 2) for wire in WIRES}
    assert all(value > 0 for values in (*passed.elapsed_us.values(), *passed.cpu_us.values()) for value in values)


def test_both_tables_are_told() -> None:
    passed = Passed()
    for wire in WIRES:
        for hosts in HOSTS if wire in TOKEN_MS else HOSTS[:1]:
            passed.elapsed_us[wire, hosts] = [10.0 * hosts, 20.0 * hosts, 60.0 * hosts]
            passed.cpu_us[wire, hosts] = [5.0 * hosts]
            passed.repairs[wire, hosts] = hosts
    results = paper_psync.results(passed)
    trips = {result.system: result.value for result in results if "table I," in result.workload}
    assert trips == {"UDP": 80.0, "request and reply": 80.0, "antiphon": 80.0, "TCP": 80.0}
    tokens = [(result.system, result.members, result.value) for result in results if "table II" in result.workload]
    assert len(tokens) == 8
    assert ("antiphon", 8, 160.0) in tokens
    words = paper_psync.words(passed)
    assert "8 to 2" in words
    assert "4.00x" in words
    assert "<svg" in paper_psync.plot(passed)
