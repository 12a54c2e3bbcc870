"""What the driver puts together between the passes: runs, and what it must take a second look for.

`look` is how rows are seen that the summaries do not hold; nothing here knows of Spark.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from antiphon.history.start import parse_start
from antiphon.pipeline.audit import lost, total
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.order import Order, close, make_order
from antiphon.pipeline.audit.second_look import LogName, Look, RowQuery, Sights
from antiphon.pipeline.audit.total import Placed, Positions, Tangle
from antiphon.pipeline.audit.view_intervals import GroupIntervals, view_intervals_by_group
from antiphon.pipeline.domains import domains_of
from antiphon.pipeline.guarantees import CAUSAL, TOTAL
from antiphon.pipeline.promises import Promises

Placement = tuple[str, str, str, int, Placed]
"""Run, group, process, first row of a piece, and which positions it goes through."""


@dataclass
class RunFacts:
    """Everything that the driver knows of a run."""

    logs: Mapping[str, LogFacts]
    order: Order
    stays: Mapping[str, GroupIntervals]
    """By group: who was in which views, and what it delivered there."""
    positions: dict[str, dict[int, Positions]] = field(default_factory=dict)
    """By group and key: an order of the agreed and safe messages that the logs are compared with."""


def prepare(logs: Mapping[str, Mapping[str, LogFacts]], promises: Promises, look: Look) -> dict[str, RunFacts]:
    """All runs, ready for the second pass."""
    runs = {name: _make_run(name, of_run) for name, of_run in logs.items()}
    missing = {
        name: lost.find(run.order, run.logs, run.stays) for name, run in runs.items() if promises.in_run(CAUSAL, name)
    }
    models = {
        (name, group): total.models(stays, run.logs)
        for name, run in runs.items()
        if promises.in_run(TOTAL, name)
        for group, stays in run.stays.items()
        if promises.holds(TOTAL, name, group)
    }
    wishes: dict[LogName, list[RowQuery]] = defaultdict(list)
    for (name, group), of_group in models.items():
        for process, wish in total.model_wishes(group, of_group):
            wishes[name, process].append(wish)
    sights = look(wishes) if wishes else {}
    for (name, group), of_group in models.items():
        found = total.positions(runs[name].order, of_group, sights.get((name, group), {}))
        if found is not None:
            runs[name].positions[group] = found
    _note_lost(runs, missing, look)
    return runs


def _make_run(name: str, logs: Mapping[str, LogFacts]) -> RunFacts:
    starts = [(row["group"], row["label"]) for log in logs.values() for piece in log.pieces for row in piece["starts"]]
    order = make_order(name, logs, domains_of((group, parse_start(label)) for group, label in starts))
    close(order)
    return RunFacts(logs, order, view_intervals_by_group(logs))


def _note_lost(runs: Mapping[str, RunFacts], missing: Mapping[str, lost.Lost], look: Look) -> None:
    wishes: dict[LogName, list[RowQuery]] = defaultdict(list)
    for name, of_run in missing.items():
        for process, wish in lost.wishes(runs[name].order, runs[name].logs, of_run):
            wishes[name, process].append(wish)
    sights = look(wishes) if wishes else {}
    for name, of_run in missing.items():
        seen = [each for (run, _), by_process in sights.items() if run == name for each in by_process.items()]
        lost.note(runs[name].order, runs[name].logs, of_run, seen)


def find_tangles(
    runs: Mapping[str, RunFacts], placements: Iterable[Placement], look: Look
) -> dict[str, dict[str, Tangle]]:
    """By run and group: where positions do not rise along all logs, what is in no order."""
    pieces: dict[tuple[str, str], list[tuple[str, int, Placed]]] = defaultdict(list)
    for run, group, process, index, placed in placements:
        pieces[run, group].append((process, index, placed))
    doubtful = [place for place, own in pieces.items() if not total.rises(own)]
    wishes: dict[LogName, list[RowQuery]] = defaultdict(list)
    for name, group in doubtful:
        for process, wish in total.all_wishes(group, runs[name].logs):
            wishes[name, process].append(wish)
    sights: Sights = look(wishes) if wishes else {}
    result: dict[str, dict[str, Tangle]] = defaultdict(dict)
    for name, group in doubtful:
        result[name][group] = total.tangle(runs[name].order, group, sights[name, group])
    return result
