"""The first pass over a history: the summaries of its pieces, and from these its logs.

Audit and graph both begin with it, so they never differ in what came before what. Row groups that cannot be read are
left out, and the logs that they belong to are cut short there. If something was delivered that was never sent, the
pieces concerned are summarised again, so that it is left out of every past.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from antiphon.history.errors import DamagedRowGroupError, UnusableHistoryError
from antiphon.history.reader import Damage
from antiphon.pipeline.audit.logs import ENDLESS, gather_logs
from antiphon.pipeline.audit.order import never_sent
from antiphon.pipeline.audit.pieces import HeldTask, Task, read_pieces
from antiphon.pipeline.audit.rows import Key
from antiphon.pipeline.audit.summary import SUMMARY, Summary, summaries_of, summarise
from antiphon.pipeline.held import FileHistory, RecordedHistory
from antiphon.pipeline.increment import Increment
from antiphon.pipeline.view_rows import Logs
from antiphon.pipeline.workplace import Workplace

Limits = Mapping[str, Mapping[Key, int]]


class FirstPass(NamedTuple):
    """What the first pass gives."""

    history: RecordedHistory
    """Without what cannot be read."""
    summaries: list[Summary]
    logs: Logs


def read_logs(place: Workplace, history: RecordedHistory, increment: Increment | None = None) -> FirstPass:
    """Raises UnusableHistoryError for what is no history, or has no causal order."""
    history, summaries = _first_pass(place, history, increment)
    if isinstance(history, FileHistory):
        place.leave_out({damage.unit for damage in history.files.damages})
    logs, summaries = _logs(place, history, summaries)
    return FirstPass(history, summaries, logs)


def _first_pass(
    place: Workplace, history: RecordedHistory, increment: Increment | None
) -> tuple[RecordedHistory, list[Summary]]:
    """The summaries of all that can be read, and the history without the row groups that cannot."""

    def make(chosen: list[int] | None) -> pa.Table:
        return _summarise(place, chosen, {})

    table = make(None) if increment is None else increment.summaries(make)
    summaries = summaries_of(table)
    if isinstance(history, FileHistory):
        units = history.files.units
        damages = [
            Damage(place.unit(summary["task"], summary["damaged"]), summary["problem"])
            for summary in summaries
            if summary["damaged"] is not None
        ]
        damages.sort(key=lambda damage: units.index(damage.unit))
        history = FileHistory(history.files.without(damages)) if damages else history
    return history, [summary for summary in summaries if summary["damaged"] is None]


def _logs(place: Workplace, history: RecordedHistory, summaries: list[Summary]) -> tuple[Logs, list[Summary]]:
    """The logs; where something was delivered that was never sent, with summaries that leave it out."""
    unfinished = history.unfinished()
    logs = gather_logs(summaries, unfinished)
    limits = {run: beyond for run, of_run in logs.items() if (beyond := never_sent(of_run))}
    if limits:
        chosen = sorted({summary["task"] for summary in summaries if goes_beyond(summary, limits)})
        others = [summary for summary in summaries if summary["task"] not in chosen]
        summaries = others + summaries_of(_summarise(place, chosen, limits))
        logs = gather_logs(summaries, unfinished)
    return logs, summaries


def goes_beyond(summary: Summary, limits: Limits) -> bool:
    """Whether a piece delivers what was never sent: only there do the limits make a difference."""
    own = limits.get(summary["run"], {})
    return any(
        int(entry["ends"][-1]) - 1 > own.get((entry["group"], entry["sender"]), ENDLESS)
        for entry in summary["delivered"]
    )


def _summarise(place: Workplace, chosen: list[int] | None, limits: Limits) -> pa.Table:
    """Rows of SUMMARY for some tasks, or for all."""

    def work(number: int, task: Task) -> Iterator[pa.RecordBatch]:
        return _summaries(task, number, limits)

    table = place.over_tasks(chosen, work, SUMMARY)
    unusable = table.filter(pc.and_(pc.is_valid(table["problem"]), pc.is_null(table["damaged"])))["problem"]
    if len(unusable):
        raise UnusableHistoryError(None, min(unusable.to_pylist()))
    return table


def _summaries(task: Task, place: int, limits: Limits) -> Iterator[pa.RecordBatch]:
    """The summaries of one task. What is damaged or makes the history unusable travels as a row, since exceptions
    travel badly."""
    sound = task
    while True:
        try:
            for piece in read_pieces(sound):  # all is read before the first piece
                yield summarise(piece, place, limits.get(piece.run, {}))
        except DamagedRowGroupError as error:
            assert not isinstance(task, HeldTask)
            assert not isinstance(sound, HeldTask)
            damaged = next(unit for unit in sound if unit.file == str(error.path) and unit.row_group == error.row_group)
            sound = tuple(unit for unit in sound if unit != damaged)
            row = {"task": place, "damaged": task.index(damaged), "problem": error.problem}
            yield pa.RecordBatch.from_pylist([row], SUMMARY)
        except UnusableHistoryError as error:
            names = [] if isinstance(sound, HeldTask) else sorted({Path(unit.file).name for unit in sound})
            where = f" (in {', '.join(names)})" if error.path is None and len(names) > 1 else ""
            yield pa.RecordBatch.from_pylist([{"problem": f"{error}{where}"}], SUMMARY)
            return
        else:
            return
