"""A sample of runs of three domains in a line (transis-1992, section 4)."""

import pytest

from tests.domain.relays import DOMAINS, kills, run


@pytest.mark.parametrize("seed", [0, 3])  # 3: a local message overtook a causal one that stood in line
def test_relays_are_killed_and_replaced_under_load(seed: int) -> None:
    program = run(seed, 8, kills(seed))
    assert {told.domain for told in program.told if told.complete and told.ended} == set(DOMAINS)
    assert any(not told.ended for told in program.told)


def test_three_domains_in_a_line() -> None:
    program = run(1, 6, [])
    sent = {name: to for told in program.told for kind, name, _, to in told.events if kind == "sent"}
    for told in program.told:
        got = {name for kind, name, _, _ in told.events if kind == "got"}
        assert got == {name for name, to in sent.items() if told.domain in to}
