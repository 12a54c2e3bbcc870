"""What the measuring programs make of their figures: percentiles, shapes, bounds. How fast it all is, is not tested."""

import argparse
import json
from pathlib import Path
from random import Random

import pytest

from antiphon import Batch, Options, ProcessId
from bench import latency, local, paper, recording, scaling, stall
from bench.figures import IncompleteError, Report, Result, percentile, run, spread, table
from bench.member import STAMP, Gaps, Serials, Stamps, chunk_of
from bench.paper_figures import DESTINATIONS, LAYERS_MS, LOCAL_US, REPLIES_MS, SIZES, STREAMS


def batch(number: int, payloads: list[bytes], sender: str = "p2") -> Batch:
    return Batch(payloads=payloads, sender=ProcessId(sender), number=number, order="causal", group="g", view_id=1)


@pytest.mark.parametrize(
    ("percent", "expected"), [(0.0, 1), (1.0, 1), (50.0, 50), (99.0, 99), (99.9, 100), (100.0, 100)]
)
def test_a_percentile_is_one_of_the_values(percent: float, expected: int) -> None:
    values = list(range(1, 101))
    Random(1).shuffle(values)
    assert percentile(values, percent) == expected


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(IncompleteError, match="no values"):
        percentile([], 50)


def test_a_spread_is_relative_to_the_median() -> None:
    assert spread([9.0, 10.0, 12.0]) == 0.3
    assert spread([0.0]) == 0.0


def test_a_table_lines_up() -> None:
    assert table(["", "n"], [["long name", 1234], ["x", 0.5]]).splitlines() == [
        "               n",
        "long name  1,234",
        "x            0.5",
    ]


def report_of(value: float) -> Report:
    result = Result(
        workload="w", order="causal", size=64, members=3, value=value, unit="u", spread=0.0, more={"paper": 2}
    )
    return Report("name", [result], "in words", {"picture": "<svg/>"})


def test_a_report_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def measure(_: argparse.Namespace) -> Report:
        return report_of(1.5)

    assert run(measure, argparse.Namespace(json=True, out=tmp_path)) == 0
    [result] = json.loads(capsys.readouterr().out)["results"]
    assert result.keys() >= {"system", "workload", "order", "size", "members", "value", "unit", "spread"}
    assert result["paper"] == 2
    assert json.loads((tmp_path / "name.json").read_text())["results"] == [result]
    assert (tmp_path / "picture.svg").read_text() == "<svg/>"


def test_an_incomplete_run_is_not_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def measure(_: argparse.Namespace) -> Report:
        raise IncompleteError("a message is missing")

    assert run(measure, argparse.Namespace(json=True, out=tmp_path)) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "a message is missing" in shown.err
    assert not list(tmp_path.iterdir())


# ---- what members check --------------------------------------------------------------------------------------------


def test_gaps_are_noticed_per_sender() -> None:
    gaps = Gaps()
    gaps.take(batch(5, [b"", b""]))
    gaps.take(batch(1, [b""], "p3"))
    gaps.take(batch(7, [b""]))
    with pytest.raises(IncompleteError, match="message 9 of p2/1 came where 8 was due"):
        gaps.take(batch(9, [b""]))
    with pytest.raises(IncompleteError):
        gaps.take(batch(1, [b""], "p3"))


def test_serial_numbers_begin_at_nought_and_miss_none() -> None:
    serials = Serials()
    serials.take(batch(1, [STAMP.pack(0), STAMP.pack(1)]))
    with pytest.raises(IncompleteError, match="message 3"):
        serials.take(batch(3, [STAMP.pack(3)]))
    with pytest.raises(IncompleteError):
        Serials().take(batch(1, [STAMP.pack(1)]))


def test_ages_are_of_others_and_of_each_so_many_th() -> None:
    stamps = Stamps(ProcessId("p1"), 3)
    stamps.take(batch(1, [STAMP.pack(0)] * 100, "p1"))
    assert stamps.ages_ns == []
    for number in range(1, 30, 2):
        stamps.take(batch(number, [STAMP.pack(0)] * 2))
    assert len(stamps.ages_ns) == 10
    assert min(stamps.ages_ns) > 0


def test_chunks_stay_within_their_limits() -> None:
    assert chunk_of(1) == 256
    assert chunk_of(16 * 1024) == 16
    assert chunk_of(64 * 1024 * 1024) == 1


# ---- the programs --------------------------------------------------------------------------------------------------


def test_round_trips_are_compared_repeat_by_repeat() -> None:
    repeats: list[latency.Times] = [
        {latency.READERS: [3.0], latency.LISTENERS: [2.0], latency.MULTICAST: [1.0], "echo": [2.0]},
        {latency.READERS: [30.0], latency.LISTENERS: [20.0], latency.MULTICAST: [15.0], "echo": [10.0]},
    ]
    results = latency.round_trip_results(repeats)
    ratios = [result.value for result in results if result.unit == "ratio"]
    assert ratios == [2.25, 1.5, 1.0] * 3
    assert "p99.9" in latency.words(results)


def test_proportion_counts_copies() -> None:
    assert scaling.shares([700.0, 350.0, 200.0], [2, 3, 8]) == [1.0, 1.0, 2.0]


def test_the_cost_of_recording_is_the_median_of_the_pairs() -> None:
    pairs = [(90.0, 2.0, 100.0, 1.0), (80.0, 4.0, 100.0, 1.0), (400.0, 4.0, 500.0, 3.0)]
    *_, rates, times = recording.results([recording.Pair(*pair) for pair in pairs], 3)
    assert (rates.value, times.value) == (0.8, 0.5)


def test_the_bound_counts_every_limit() -> None:
    options = Options()
    queue = stall.queue_limits()
    small, large = (stall.limits(options, queue, 3, size) for size in (64, 16 * 1024))
    assert small[0].bytes == 65_536 * (64 + stall.MESSAGE_OBJECT_BYTES)  # here messages are the limit…
    assert large[0].bytes == 2048 * (16 * 1024 + stall.MESSAGE_OBJECT_BYTES)  # …and here bytes
    windows = [sum(limit.bytes for limit in stall.limits(options, queue, count, 64)) for count in (3, 4)]
    assert windows[1] - windows[0] >= 2 * options.window_packets * options.packet_bytes_max


def test_growth_is_above_the_start() -> None:
    samples = [stall.Sample(0.0, (10, 20)), stall.Sample(1.0, (15, 19)), stall.Sample(2.0, (12, 19))]
    shown = stall.Stall(samples, 1, 0, (0, 0))
    assert [shown.growth(rank) for rank in range(2)] == [5, 0]


def test_the_paper_has_a_figure_for_each_number_of_destinations() -> None:
    for rows in (REPLIES_MS, STREAMS):
        for row in [row for of_level in rows.values() for row in of_level.values()]:
            assert len(row) == len(DESTINATIONS)
    assert sum(total for total, _ in LOCAL_US.values()) == 1430
    assert sum(causal for _, causal in LOCAL_US.values()) == 234
    assert sum(LAYERS_MS.values()) == pytest.approx(8.13)


def test_shapes_are_relative_to_one_destination() -> None:
    assert paper.to_one([1.0, 4.0, 6.0]) == [0.25, 1.0, 1.5]


def measured_like_the_paper() -> paper.Measured:
    """As if every figure of ours were a tenth of the paper's."""
    measured = paper.Measured()
    for what, rows in (("replies", REPLIES_MS), ("stream", STREAMS)):
        for level, of_level in rows.items():
            for size, row in of_level.items():
                for count, value in zip(DESTINATIONS, row, strict=True):
                    measured.add((what, level, size, count), value / 10)
    for size in SIZES:
        measured.add(("calls", "none", size, 1), 0.35)
    measured.add(("calls", "none", "null", 7), 2.45)
    measured.local = {step: [(float(total), float(total - causal))] for step, (total, causal) in LOCAL_US.items()}
    measured.layers = {layer: [value] for layer, value in LAYERS_MS.items()}
    return measured


def test_the_same_shape_gives_the_same_shapes() -> None:
    measured = measured_like_the_paper()
    lines = paper.words(measured).splitlines()
    ours = [line.split("ours")[1] for line in lines if "shape, ours" in line]
    papers = [line.split("paper")[1] for line in lines if "shape, paper" in line]
    assert len(ours) == 10
    assert [line.split() for line in ours] == [line.split() for line in papers]
    by_workload = {result.workload: result for result in paper.results(measured)}
    assert by_workload["table IV, send"].more["causality"] == 86
    assert by_workload["table V, causality"].more["paper"] == 0.23
    assert paper.plot(measured).count("<circle") == 6 * 7 * 2


def test_two_engines_in_one_process_ask_and_answer() -> None:
    steps = local.steps_us(200)
    assert list(steps) == list(LOCAL_US)
    assert all(value > 0 for pair in steps.values() for value in pair)
