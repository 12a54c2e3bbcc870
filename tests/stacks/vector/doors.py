"""A scene: a process that other groups have let in, and that has not heard of it."""

from antiphon.kernel.causality_domain import CausalityDomain
from tests.table import Table


def at_the_doors(doors: str) -> Table:
    """p3 is in group b with p2, and has been let into the groups `doors` by p1 and p2, but has not heard of it. p1 has
    sent to each of these groups; then p2 has sent to b, and p3 has that."""
    founders = {"b": (1, 2)} | dict.fromkeys(doors, (0, 1))
    table = Table(3, None, "primary", founders, dict.fromkeys(founders, CausalityDomain(resilience=1)))
    table.play(20)
    for door in doors:
        table.come(2, door, 1)
        for member in (0, 1):
            table.cut(member, 2, door)
    table.play(300)
    assert [len(table.views[0][door].members) for door in doors] == [3] * len(doors)
    for door in doors:
        table.send(0, b"question", group=door)
        table.play(5)
    table.send(1, b"answer", group="b")
    table.play(5)
    return table
