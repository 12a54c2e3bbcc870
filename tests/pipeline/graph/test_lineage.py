"""Lineages against the slow twin, what names a message, and what a delivery waited for."""

from collections import defaultdict
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antiphon.history.log import MemoryLog
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import LEVELS, Row
from antiphon.history.segments import segment_file
from antiphon.kernel.options import Options
from antiphon.pipeline.explain import MessageName
from antiphon.pipeline.graph.causal import CausalRun
from antiphon.pipeline.graph.critical import DeliveryPath, NotDeliveredError, critical_path
from antiphon.pipeline.graph.lineage import Lineage, lineage
from antiphon.pipeline.graph.names import (
    UnknownMessageError,
    UnknownProcessError,
    find_message,
    find_process,
    full_name,
)
from antiphon.pipeline.graph.rows import RowReader
from antiphon.simulator.draw import draw
from antiphon.simulator.run import SimulationOptions, simulate
from tests.pipeline.graph_twin import Twin, make_twin
from tests.pipeline.histories import rows_of
from tests.pipeline.inprocess import pieces_of, table_of
from tests.pipeline.script import make_rows
from tests.pipeline.test_graph import FIGURE_1, short
from tests.pipeline.test_graph_equality import read_run


class Recorded:
    """A history in files, and its causal order, without Spark."""

    def __init__(self, rows: list[Row], directory: Path) -> None:
        logs: dict[tuple[str, int], list[Row]] = defaultdict(list)
        for row in rows:
            logs[row.process, row.incarnation].append(row)
        for (process, incarnation), own in logs.items():
            pq.write_table(table_of(own), segment_file(directory, process, incarnation, 0), row_group_size=16)
        self.run = read_run(pieces_of(rows, 16))
        self.reader = RowReader(HistoryFiles.open(directory), self.run.name, self.run.logs)

    def lineage(self, name: str, depth: int = 3, limit: int = 20) -> Lineage:
        return lineage(self.run, self.reader, find_message({"r": self.run}, name, None)[1], depth, limit)

    def path(self, name: str, at: str) -> list[DeliveryPath]:
        return critical_path(self.run, self.reader, find_message({"r": self.run}, name, None)[1], f"{at}/1")


def simulated(options: SimulationOptions) -> list[Row]:
    logs = [MemoryLog(run="r", process=name) for name in options.process_names()]
    simulate(options, logs)
    return rows_of(logs)


def expected(twin: Twin, message: MessageName) -> tuple[object, ...]:
    future = {later for later in twin.sent if message in twin.past[later]}
    causes = {cause for effect, cause, _ in twin.edges if effect == message}
    effects = {effect for effect, cause, _ in twin.edges if cause == message}
    stable_ns, last, lacking = twin.stability[message]
    past = twin.past[message]
    certain = past <= twin.sent.keys()
    return causes, effects, len(past), len(future), twin.waves[message], certain, stable_ns, last, lacking


@pytest.mark.parametrize("seed", range(6))
def test_every_lineage_is_that_of_the_twin(seed: int, tmp_path: Path) -> None:
    options = draw(seed, members_max=4)
    options.messages = 4
    rows = simulated(options)
    recorded, twin = Recorded(rows, tmp_path), make_twin(rows)
    for message in islice(twin.sent, 0, None, 3):
        found = recorded.lineage(full_name(message), depth=100, limit=10_000)
        last = None if found.last is None else f"{found.last.process}/{found.last.incarnation}"
        facts = (set(found.causes), set(found.effects), found.past, found.future, found.wave, found.certain)
        assert (*facts, found.stable_ns, last, found.lacking) == expected(twin, message)
        before = {relative.message for relative in found.relatives if relative.step < 0}
        after = {relative.message for relative in found.relatives if relative.step > 0}
        assert before == twin.past[message]
        assert after == {later for later in twin.sent if message in twin.past[later]}
        assert all((link.sent, link.after, True) in twin.edges for link in found.links)
        assert all(relative.past == len(twin.past[relative.message]) for relative in found.relatives)


def test_steps_are_counted_along_the_graph(tmp_path: Path) -> None:
    found = Recorded(make_rows(**FIGURE_1), tmp_path).lineage("a#2")
    steps = [(relative.step, short(relative.message), short(relative.via)) for relative in found.relatives]
    assert steps == [(-2, "c1", "c2"), (-2, "a1", "b1"), (-1, "c2", "a2"), (-1, "b1", "a2")]
    assert (found.wave, found.past, found.future) == (4, 4, 0)
    assert found.lacking == ("a/1",)


def test_the_first_delivery_counts(tmp_path: Path) -> None:
    found = Recorded(make_rows(a="s1 d:a1 quiet", b="d:a1 d:a1 d:a1 d:a1 quiet"), tmp_path).lineage("a#1")
    assert [(row.process, row.time_ns) for row in found.deliveries] == [("b", 1), ("a", 2)]
    assert found.stable_ns == 2


def test_depth_and_limit_keep_the_nearest(tmp_path: Path) -> None:
    recorded = Recorded(make_rows(a="s1-9 d:a1-9 quiet", b="d:a1-9 s1 d:b1 quiet"), tmp_path)
    near = recorded.lineage("a#5", depth=2)
    assert [short(relative.message) for relative in near.relatives] == ["a3", "a4", "a6", "a7"]
    few = recorded.lineage("a#5", depth=9, limit=3)
    assert [relative.step for relative in few.relatives] == [-3, -2, -1, 1, 2, 3]
    assert (few.past, few.future) == (4, 5)


@pytest.fixture
def runs() -> dict[str, CausalRun]:
    one = make_rows(run="one", alice="s1-3@quotes s1@trades quiet", bob="s1@quotes")
    two = make_rows(run="two", alice="s1-2@quotes quiet")
    return {rows[0].run: read_run(pieces_of(rows, 100)) for rows in (one, two)}


@pytest.mark.parametrize(
    ("text", "run", "problem"),
    [
        ("alice", None, "write GROUP:PROCESS#NUMBER, such as quotes:alice#3"),
        ("alice#0", None, "counted from 1"),
        ("alice#x", None, "names no message"),
        ("alise#1", None, "near that are: alice"),
        ("zzz#1", None, "near that are: quotes:alice, quotes:bob, trades:alice"),
        ("alice/2#1", None, "nobody named 'alice/2' sent anything; near that are: alice"),
        ("alice#1", "one", "may be any of quotes:alice#1, trades:alice#1; name the group"),
        ("quotes:alice#1", None, "lies in several runs: one, two; choose by --run"),
        ("quotes:alice#9", "one", "alice sent 3 messages to quotes; name a number from 1 to 3"),
        ("bob#2", None, "bob sent 1 message to quotes, and its log is cut short there"),
        ("alice#1", "three", "there is no run 'three' in the history; its runs are: one, two"),
    ],
)
def test_what_names_no_message_is_refused_with_what_comes_near(
    runs: dict[str, CausalRun], text: str, run: str | None, problem: str
) -> None:
    with pytest.raises(UnknownMessageError) as error:
        find_message(runs, text, run)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("text", "run", "name"),
    [
        ("quotes:alice#1", "two", "quotes:alice#1"),
        ("quotes:alice/1#3", None, "quotes:alice#3"),
        ("alice#3", None, "quotes:alice#3"),
        ("trades:alice#1", None, "trades:alice#1"),
        ("bob/1#1", "one", "quotes:bob#1"),
    ],
)
def test_a_name_that_fits_one_message_is_enough(
    runs: dict[str, CausalRun], text: str, run: str | None, name: str
) -> None:
    assert full_name(find_message(runs, text, run)[1]) == name


def test_a_process_that_is_not_there_is_refused(runs: dict[str, CausalRun]) -> None:
    assert find_process(runs["one"], "bob") == find_process(runs["one"], "bob/1") == "bob/1"
    with pytest.raises(UnknownProcessError, match="there is: bob"):
        find_process(runs["one"], "bop")


def test_an_incarnation_from_the_clock_goes_by_its_name_if_it_is_the_only_one() -> None:
    lives = (1_794_926_400_123, 1_794_926_400_456)

    def run_of(*incarnations: int) -> CausalRun:
        rows: list[Row] = []
        for incarnation in incarnations:
            log = MemoryLog(run="r", process="alice", incarnation=incarnation, merge=False)
            log.start(0, "quotes", "script", "primary", LEVELS, [])
            log.view(0, "quotes", 1, [f"alice/{incarnation}"])
            log.send(1, "quotes", 1, 1, 1, "causal", 1, None, None, None)
            log.stop(2)
            rows += log.rows()
        return read_run(pieces_of(rows, 100))

    one = run_of(lives[0])
    for text in ("alice#1", "quotes:alice#1", "alice~mwksu263#1", f"alice/{lives[0]}#1"):
        assert full_name(find_message({"r": one}, text, None)[1]) == "quotes:alice~mwksu263#1"
    assert find_process(one, "alice") == find_process(one, "alice~mwksu263") == f"alice/{lives[0]}"
    both = run_of(*lives)
    with pytest.raises(UnknownMessageError, match="may be any of quotes:alice~mwksu263#1, quotes:alice~"):
        find_message({"r": both}, "alice#1", None)
    with pytest.raises(UnknownProcessError, match="may be any of alice~mwksu263, alice~"):
        find_process(both, "alice")


def timeline(level: str) -> list[Row]:
    """a sends at 0 and 100 µs, b at 200. At c: a's first is lost and comes at 900, the others come within 100 µs."""
    logs = {name: MemoryLog(run="r", process=name, merge=False) for name in "abc"}
    for log in logs.values():
        log.start(0, "g", "toy", "static", (level,), ())
        log.view(0, "g", 1, ["a/1", "b/1", "c/1"])
    logs["a"].send(0, "g", 1, 1, 1, level, 8)
    logs["a"].send(100, "g", 1, 2, 1, level, 8)
    for number, time_ns in ((1, 50), (2, 150)):
        logs["b"].receive(time_ns, "g", 1, "a", 1, number, 1, level, 8)
        logs["b"].deliver(time_ns, "g", 1, "a", 1, number, 1, level, 8)
    logs["b"].send(200, "g", 1, 1, 1, level, 8)
    for time_ns, sender, number in ((180, "a", 2), (260, "b", 1), (900, "a", 1)):
        logs["c"].receive(time_ns, "g", 1, sender, 1, number, 1, level, 8)
    logs["a"].receive(300, "g", 1, "b", 1, 1, 1, level, 8)
    for time_ns, sender, number in ((910, "a", 1), (920, "a", 2), (1000, "b", 1)):
        logs["c"].deliver(time_ns, "g", 1, sender, 1, number, 1, level, 8)
    for log in logs.values():
        log.stop(2000)
    return rows_of(list(logs.values()))


def costs(delivery: DeliveryPath) -> list[tuple[str, int, str]]:
    """Kind, cost and what was waited for, of what cost anything."""
    assert all(wait.at_least_ns == wait.at_most_ns for wait in delivery.waits)
    return [
        (wait.kind, wait.at_most_ns, short(wait.message) if wait.message else wait.process or "")
        for wait in delivery.waits
        if wait.at_most_ns
    ]


def test_a_late_cause_is_what_a_causal_message_waited_for(tmp_path: Path) -> None:
    path = Recorded(timeline("causal"), tmp_path).path("b#1", "c")
    assert [short(delivery.message) for delivery in path] == ["b1", "a2", "a1"]
    assert costs(path[0]) == [("link", 60, ""), ("hold-back", 660, "a2"), ("handover", 80, "")]
    assert costs(path[1]) == [("link", 80, ""), ("hold-back", 730, "a1"), ("handover", 10, "")]
    assert costs(path[2]) == [("link", 900, ""), ("handover", 10, "")]


def test_a_fifo_message_waits_for_its_sender_only(tmp_path: Path) -> None:
    recorded = Recorded(timeline("fifo"), tmp_path)
    assert costs(recorded.path("b#1", "c")[0]) == [("link", 60, ""), ("handover", 740, "")]
    assert costs(recorded.path("a#2", "c")[0]) == [("link", 80, ""), ("hold-back", 730, "a1"), ("handover", 10, "")]


def test_a_safe_message_waits_for_the_last_member_to_receive_it(tmp_path: Path) -> None:
    rows = timeline("safe")
    for row in rows:
        if (row.process, row.kind) == ("a", "receive"):
            row.time_ns = 960
    path = Recorded(rows, tmp_path).path("b#1", "c")
    assert costs(path[0]) == [
        ("link", 60, ""),
        ("hold-back", 660, "a2"),
        ("stability", 40, "a/1"),
        ("stability", 40, ""),
    ]


def test_who_received_it_after_the_delivery_was_not_waited_for(tmp_path: Path) -> None:
    rows = timeline("safe")
    for row in rows:
        if (row.process, row.kind) == ("a", "receive"):
            row.time_ns = 1500
    path = Recorded(rows, tmp_path).path("b#1", "c")
    assert costs(path[0]) == [("link", 60, ""), ("hold-back", 660, "a2"), ("stability", 80, "")]


@pytest.mark.parametrize(("second", "waited_ns", "before"), [("agreed", 660, "a2"), ("causal", 650, "a1")])
def test_an_agreed_message_waits_for_its_place(second: str, waited_ns: int, before: str, tmp_path: Path) -> None:
    rows = timeline("agreed")
    for row in rows:
        if (row.sender, row.number) == ("a", 2):
            row.level = second
    for row in rows:  # b knows nothing of a when it sends, so c's wait is one for the total order
        if (row.process, row.kind) == ("b", "deliver"):
            row.kind, row.label = "note", "nothing"
            row.view = row.sender = row.sender_incarnation = row.number = row.count = row.level = row.size = None
    path = Recorded(rows, tmp_path).path("b#1", "c")
    assert costs(path[0]) == [("link", 60, ""), ("order", waited_ns, before), ("order", 740 - waited_ns, "")]


def test_messages_of_one_row_wait_for_each_other(tmp_path: Path) -> None:
    log, sender = MemoryLog(run="r", process="c", merge=False), MemoryLog(run="r", process="a", merge=False)
    for own in (log, sender):
        own.view(0, "g", 1, ["a/1", "c/1"])
    sender.send(0, "g", 1, 1, 2, "causal", 8)
    log.receive(10, "g", 1, "a", 1, 2, 1, "causal", 8)
    log.receive(70, "g", 1, "a", 1, 1, 1, "causal", 8)
    log.deliver(75, "g", 1, "a", 1, 1, 2, "causal", 8)
    path = Recorded(rows_of([log, sender]), tmp_path).path("a#2", "c")
    assert costs(path[0]) == [("link", 10, ""), ("hold-back", 60, "a1"), ("handover", 5, "")]
    assert costs(path[1]) == [("link", 70, ""), ("handover", 5, "")]


def test_what_was_never_delivered_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotDeliveredError, match="a never delivered g:b#1"):
        Recorded(timeline("causal"), tmp_path).path("b#1", "a")


def without_receives(rows: list[Row]) -> list[Row]:
    counters: dict[str, int] = defaultdict(int)
    result = []
    for row in rows:
        if row.kind != "receive":
            result.append(replace(row, index=counters[row.process]))
            counters[row.process] += 1
    return result


@pytest.mark.parametrize("levels", [("causal", "fifo"), ("agreed", "causal"), ("safe", "agreed", "reliable")])
def test_bounds_without_receive_rows_hold_the_exact_split(levels: tuple[str, ...], tmp_path: Path) -> None:
    rows = simulated(
        SimulationOptions(
            members=3,
            messages=8,
            seed=len(levels),
            faults="loss",
            workload="dialogue",
            levels=levels,
            options=Options(record_receives=True),
        )
    )
    twin = make_twin(rows)
    (tmp_path / "exact").mkdir()
    (tmp_path / "bounds").mkdir()
    exact, bounded = Recorded(rows, tmp_path / "exact"), Recorded(without_receives(rows), tmp_path / "bounds")
    held_back = 0
    for message in islice(twin.sent, 0, None, 2):
        for process in ("p1", "p2", "p3"):
            split, bounds = exact.path(full_name(message), process)[0], bounded.path(full_name(message), process)[0]
            assert split.exact
            assert sum(wait.at_most_ns for wait in split.waits) == split.delivered_ns - split.sent_ns
            assert bounds.exact == (message.sender == f"{process}/1")
            for kind in {wait.kind for wait in split.waits}:
                cost = sum(wait.at_most_ns for wait in split.waits if wait.kind == kind)
                own = [wait for wait in bounds.waits if wait.kind == kind]
                assert sum(wait.at_least_ns for wait in own) <= cost <= sum(wait.at_most_ns for wait in own)
            for wait in split.waits:
                if wait.kind == "hold-back" and wait.at_most_ns:
                    assert wait.message in twin.past[message]
                    held_back += 1
    assert held_back > 0
