"""Campaigns: chunks that are complete or not there, resuming, refusals, what is kept of failing seeds, the page."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.cli.simulated import SimulatedSeeds, program_digest
from antiphon.history.log import MemoryLog
from antiphon.kernel.errors import UsageError
from antiphon.pipeline import reference
from antiphon.pipeline.campaign.campaign import keep, run_campaign
from antiphon.pipeline.campaign.chunks import (
    Campaign,
    chunk_file,
    missing_chunks,
    open_directory,
    read_chunk,
    write_chunk,
)
from antiphon.pipeline.campaign.contract import Script
from antiphon.pipeline.campaign.failing import FailingSeed, choose, keep_failing
from antiphon.pipeline.campaign.judge import MISTAKE, REST, judge
from antiphon.pipeline.campaign.outcome import outcomes_of, table_of
from antiphon.pipeline.campaign.seeds import outcome_of, run_chunk
from antiphon.pipeline.campaign.shrink import shrink
from antiphon.pipeline.campaign.summary import Summary, summary_document
from antiphon.pipeline.campaign.tally import CampaignTally, Histogram
from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN
from antiphon.report.campaign import campaign_page

PLAN = Campaign(stack="vector", workload="static", first=10, end=17, program="p", chunk_seeds=3)


@dataclass
class InvertedRun:
    """A run of the shape that the judge expects."""

    logs: list[MemoryLog]
    groups: list[str] = field(default_factory=lambda: ["g"])
    excused: list[str] = field(default_factory=list)
    restless: list[str] = field(default_factory=list)
    mistake: str = ""
    failures: int = 0
    resilience: int = 0
    time_ns: int = 1
    coverage: dict[str, int] = field(default_factory=lambda: {"some": 1})


@dataclass(frozen=True)
class Inverting:
    """A protocol with one fault: who is told #3 of p1 before #2 delivers it so. Even seeds do not meet it."""

    def kind_of(self, seed: int) -> str:
        return "toy"

    def run_seed(self, seed: int) -> InvertedRun:
        return self.run_script(self.script_of(seed))

    def script_of(self, seed: int) -> Script:
        said = [{"kind": "send", "process": "p1", "group": "g", "sizes": [seed] * 3} for _ in range(4)]
        names = [f"p{number}" for number in range(1, 6)]
        odd = [{"kind": "swap", "process": "p2"}] if seed % 2 else []
        return {
            "seed": seed,
            "processes": names,
            "groups": [{"name": "g", "members": names, "founders": names}],
            "domain": {},
            "layers": [{}, {}],
            "actions": said + odd,
        }

    def run_script(self, script: Script) -> InvertedRun:
        names = script["processes"]
        members = [f"{name}/1" for name in names]
        count = sum(len(action["sizes"]) for action in script["actions"] if action["kind"] == "send" and "p1" in names)
        swap = any(action["kind"] == "swap" for action in script["actions"]) and count >= 3 and self.is_met(script)
        logs = []
        for name in names:
            log = MemoryLog(run="toy", process=name, merge=False)
            log.start(0, "g", "vector", "static", ("fifo",), ("creation", "fifo", "settled"))
            log.view(0, "g", 1, members)
            if name == "p1" and count:
                log.send(1, "g", 1, 1, count, "fifo", 0)
            order = [1, 3, 2, *range(4, count + 1)] if swap and name == "p2" else range(1, count + 1)
            for number in order:
                log.deliver(2, "g", 1, "p1", 1, number, 1, "fifo", 0)
            log.stop(3)
            logs.append(log)
        return InvertedRun(logs)

    def is_met(self, script: Script) -> bool:
        return True

    def situations(self) -> tuple[str, ...]:
        return ("some", "none")


@dataclass(frozen=True)
class Racing(Inverting):
    """The same fault as a race: whether it is met hangs on how many there are, and on chance."""

    def is_met(self, script: Script) -> bool:
        return bool((script["seed"] + len(script["processes"])) % 3 == 0)


def summary_of(tally: CampaignTally, kept: Any = (), directory: Path = Path("out")) -> Summary:
    return Summary(
        campaign=PLAN, directory=directory, build="compiled", tally=tally, kept=kept,
        situations=("some", "none"), seeds_now=tally.seeds, elapsed_s=2.0,
    )  # fmt: skip


def test_chunks_cover_each_seed_once() -> None:
    seeds = [seed for chunk in range(PLAN.chunks) for seed in PLAN.seeds_of(chunk)]
    assert seeds == list(range(10, 17))


@pytest.mark.parametrize(("first", "end"), [(3, 3), (5, 2), (0, 10**9)])
def test_seeds_that_make_no_campaign_are_refused(first: int, end: int) -> None:
    with pytest.raises(UsageError):
        replace(PLAN, first=first, end=end)


def test_a_chunk_is_read_as_it_was_written_and_no_longer_missing(tmp_path: Path) -> None:
    open_directory(tmp_path, PLAN)
    assert missing_chunks(tmp_path, PLAN) == [0, 1, 2]
    outcomes = run_chunk(Inverting(), PLAN, tmp_path, 1)
    assert read_chunk(tmp_path, 1) == outcomes
    assert [outcome.seed for outcome in outcomes] == [13, 14, 15]
    assert [outcome.verdict for outcome in outcomes] == [BROKEN, KEPT, BROKEN]
    assert missing_chunks(tmp_path, PLAN) == [0, 2]


def test_a_chunk_that_is_being_written_is_missing(tmp_path: Path) -> None:
    open_directory(tmp_path, PLAN)
    file = chunk_file(tmp_path, 0)
    file.with_name(f"{file.name}.123.partial").write_bytes(b"half")
    assert missing_chunks(tmp_path, PLAN) == [0, 1, 2]


def test_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    open_directory(tmp_path, PLAN)
    chunk_file(tmp_path, 0).write_bytes(b"PAR1 and no more")
    with pytest.raises(UsageError, match=r"chunk-000000\.parquet cannot be read .* will be run again"):
        read_chunk(tmp_path, 0)


def test_another_campaign_in_the_directory_is_refused(tmp_path: Path) -> None:
    open_directory(tmp_path, PLAN)
    open_directory(tmp_path, PLAN)
    with pytest.raises(UsageError, match="another campaign: workload static and not churn, end 17 and not 18"):
        open_directory(tmp_path, replace(PLAN, workload="churn", end=18))
    with pytest.raises(UsageError, match="another version of the program"):
        open_directory(tmp_path, replace(PLAN, program="q"))


def test_a_directory_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="something else than a campaign"):
        open_directory(tmp_path, PLAN)


def test_the_program_is_the_same_twice_and_decides() -> None:
    assert program_digest() == program_digest()


def test_outcomes_survive_their_table() -> None:
    outcomes = [outcome_of(SimulatedSeeds("all"), seed) for seed in (1, 3)]
    assert [outcome.kind for outcome in outcomes] == ["static", "adversarial"]
    assert all(outcome.coverage and outcome.events > 10 for outcome in outcomes)
    assert outcomes_of(table_of(outcomes)) == outcomes


def test_the_judge_tells_rest_and_mistakes_apart() -> None:
    run = InvertedRun([], restless=["g"], mistake="AssertionError: no")
    judgement = judge(run)
    assert judgement.broken == [MISTAKE, REST]
    assert judgement.verdict == BROKEN


def against_causes() -> list[MemoryLog]:
    """p3 delivers the answer of p2 before what p1 had asked."""
    logs = [MemoryLog(run="r", process=name, merge=False) for name in ("p1", "p2", "p3")]
    for log in logs:
        log.start(0, "g", "vector", "static", ("causal",), ("causal", "settled"))
        log.view(0, "g", 1, ["p1/1", "p2/1", "p3/1"])
    logs[0].send(1, "g", 1, 1, 1, "causal", 0)
    for log in logs[:2]:
        log.deliver(2, "g", 1, "p1", 1, 1, 1, "causal", 0)
    logs[1].send(3, "g", 1, 1, 1, "causal", 0)
    for log in logs:
        log.deliver(4, "g", 1, "p2", 1, 1, 1, "causal", 0)
    logs[2].deliver(5, "g", 1, "p1", 1, 1, 1, "causal", 0)
    for log in logs:
        log.stop(6)
    return logs


@pytest.mark.parametrize(
    ("resilience", "failures", "restless", "beyond", "broken"),
    [
        (1, 2, [], True, []),
        (1, 1, [], False, ["causal"]),
        (0, 9, [], False, ["causal"]),
        (1, 2, ["g"], True, [REST]),
    ],
)
def test_causal_order_beyond_the_resilience_is_told_apart(
    resilience: int, failures: int, restless: list[str], beyond: bool, broken: list[str]
) -> None:
    run = InvertedRun(against_causes(), resilience=resilience, failures=failures, restless=restless)
    judgement = judge(run)
    assert (judgement.beyond_resilience, judgement.broken) == (beyond, broken)


def test_shrinking_finds_the_smallest_run() -> None:
    toy = Inverting()
    shrunk = shrink(toy, toy.script_of(7), "fifo")
    assert shrunk is not None
    assert shrunk.is_minimal
    assert shrunk.judgement.broken == ["fifo"]
    assert shrunk.script["processes"] == ["p1", "p2"]
    said = [action for action in shrunk.script["actions"] if action["kind"] == "send"]
    assert sum(len(action["sizes"]) for action in said) == 3
    assert {size for action in said for size in action["sizes"]} == {0}
    assert len(shrunk.script["layers"]) == 1


def test_shrinking_a_race_tries_other_seeds_of_chance() -> None:
    """With any process less, or two, this seed does not meet the fault."""
    racing = Racing()
    script = racing.script_of(7)
    shrunk = shrink(racing, script, "fifo")
    assert shrunk is not None
    assert len(script["processes"]) == 5
    assert shrunk.script["processes"] == ["p1", "p2"]
    assert judge(racing.run_script(shrunk.script)).broken == ["fifo"]
    assert shrunk.is_minimal


def test_shrinking_stops_at_its_budget_with_what_it_has() -> None:
    toy = Inverting()
    shrunk = shrink(toy, toy.script_of(7), "fifo", runs_max=3)
    assert shrunk is not None
    assert (shrunk.runs, shrunk.is_minimal) == (3, False)
    assert shrunk.judgement.broken == ["fifo"]


def test_what_does_not_fail_is_not_shrunk() -> None:
    toy = Inverting()
    assert shrink(toy, toy.script_of(8), "fifo") is None


def test_the_failing_seeds_that_are_kept_show_each_guarantee() -> None:
    seeds = [
        FailingSeed(seed=seed, kind="k", guarantee=guarantee, verdict=BROKEN, events=events, explanation="")
        for seed, guarantee, events in ((1, "fifo", 9), (2, "fifo", 5), (3, "causal", 50), (4, "fifo", 7))
    ]
    assert [chosen.seed for chosen in choose(seeds, 3)] == [3, 2, 4]
    assert choose(seeds, 0) == []


def test_a_failing_seed_is_kept_whole_and_small(tmp_path: Path) -> None:
    failing = FailingSeed(seed=7, kind="toy", guarantee="fifo", verdict=BROKEN, events=1, explanation="")
    kept = keep_failing(Inverting(), tmp_path, failing, 200)
    folder = tmp_path / "failing" / "toy-7"
    assert reference.audit(folder / "history").events == kept.events
    small = reference.audit(folder / "shrunk" / "history")
    assert small.events == kept.shrunk_events
    assert small.verdict == BROKEN
    assert kept.shrunk_events is not None
    assert kept.shrunk_events <= kept.events / 4
    assert "p2 delivered p1#3" in kept.explanation
    compile((folder / "test_toy_7.py").read_text(), "test_toy_7.py", "exec")
    assert keep_failing(Inverting(), tmp_path, failing, 1) == kept  # not made again


def test_the_bins_of_a_histogram_hold_what_falls_into_them() -> None:
    histogram = Histogram()
    values = (0, 1, 3, 999, 1000, 123_456)
    for value in values:
        histogram.add(value)
    assert (histogram.zeros, histogram.total, histogram.most) == (1, sum(values), 123_456)
    for bin, count in histogram.bins.items():
        low, high = histogram.bounds(bin)
        assert sum(low <= value * (1 + 1e-12) and value < high * (1 - 1e-12) for value in values) == count


def test_the_page_tells_all_and_loads_nothing(tmp_path: Path) -> None:
    tally = CampaignTally()
    toy = Inverting()
    for seed in range(10, 17):
        outcome = outcome_of(toy, seed)
        tally.add(replace(outcome, explanation="<script>alert(1)</script>") if seed == 11 else outcome)
    kept = [keep_failing(toy, tmp_path, failing, 100) for failing in choose(tally.failing, 1)]
    page = campaign_page(summary_of(tally, kept))
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "antiphon campaign --stack vector --workload static --seeds 11:12" in page
    assert f"pytest failing/{kept[0].name}/{kept[0].test}" in page
    assert "1 of them no seed has reached" in page
    document = summary_document(summary_of(tally, kept))
    assert (document["verdict"], document["seeds"], document["broken"]) == (BROKEN, 7, 3)
    assert document["never_reached"] == ["none"]
    assert json.loads(json.dumps(document)) == document


@pytest.mark.spark
def test_a_campaign_on_spark_runs_only_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    plan = Campaign(stack="vector", workload="all", first=0, end=10, program="p", chunk_seeds=4)
    simulator = SimulatedSeeds("all")
    open_directory(tmp_path, plan)
    marked = [
        replace(outcome_of(simulator, seed), verdict=UNKNOWN, unknown=["causal"], explanation="made before")
        for seed in plan.seeds_of(1)
    ]
    write_chunk(tmp_path, 1, marked)
    told: list[tuple[int, int]] = []
    tally, seeds_now = run_campaign(
        plan, tmp_path, simulator, spark, lambda tally, before: told.append((tally.seeds, before))
    )
    assert (tally.seeds, seeds_now) == (10, 6)
    assert tally.verdicts == {KEPT: 6, UNKNOWN: 4}, "the chunk that was there is taken as it is"
    assert told[0] == (4, 4)
    assert told[-1] == (10, 4)
    assert keep(tally, tmp_path, simulator, spark, 0, 1) == []
    table = pq.read_table(tmp_path / "results")
    assert sorted(table["seed"].to_pylist()) == list(range(10))
    # The same seeds here and in the executors: the same outcomes, but for the time they took.
    mine = outcome_of(simulator, 9)
    theirs = next(outcome for outcome in read_chunk(tmp_path, 2) if outcome.seed == 9)
    assert replace(theirs, simulation_ns=0, audit_ns=0) == replace(mine, simulation_ns=0, audit_ns=0)
