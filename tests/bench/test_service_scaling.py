"""The engines on the table of bench.service_scaling, and bench.direct, do what they measure."""

from antiphon.kernel.inputs import Send
from antiphon.kernel.levels import AGREED
from bench.direct import spent
from bench.service_scaling import STACK, EngineTable, plot


def test_members_of_groups_at_two_sequencers_enter_and_are_charged_for_their_steps() -> None:
    table = EngineTable(2, 1_000)
    for number, name in enumerate(("p0", "p1", "p2", "p3")):
        table.add(name)
        table.join(name, f"g{number % 2}", number % 2)
        table.run(3)
    table.run(100)
    table.join("p0", "g1", 1)
    table.run(100)
    assert {name: count for name, count in table.joined.items() if name.startswith("p")} == {
        "p0": 2, "p1": 1, "p2": 1, "p3": 1,
    }  # fmt: skip
    before = dict(table.busy_ns)
    table.step("p0", Send(group="g0", stack=STACK, payloads=[b"m"], level=AGREED))
    table.run(10)
    assert all(table.busy_ns[name] > before[name] for name in ("s00", "p0", "p2"))


def test_bodies_by_members_spare_the_sequencer_what_it_would_send() -> None:
    whole, bare = (spent(4, 100_000, is_direct, 0, 0.0)["sequencer sends, bytes"] for is_direct in (False, True))
    assert whole > 4 * 100_000
    assert bare < 1_000


def test_the_plot_has_both_panels() -> None:
    results = [
        {"workload": workload, "sequencers": count, "share": share, "value": 10_000}
        for workload, count, share in (("disjoint", 1, 0.0), ("overlapping", 1, 0.5), ("overlapping", 8, 0.5))
    ]
    assert plot(results).count("<polyline") == 3
