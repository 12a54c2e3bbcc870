"""However much a history holds, the page stays small, and what it leaves out is said."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from antiphon.history.log import MemoryLog
from antiphon.history.schema import LEVELS
from antiphon.history.segments import segment_file
from antiphon.pipeline.result import Audit
from antiphon.report.html import write_report
from tests.report.sample import Sample, broken, kept, observation

PAGE_BYTES_MAX: Final = 4_000_000
NAMES: Final = [f"process-with-a-long-name-number-{number}" for number in range(70)]


def wild_logs() -> list[MemoryLog]:
    """Long names, many processes, groups, views, suspicions and notes, none like the other."""
    logs = [MemoryLog(run="r", process=name, merge=False) for name in NAMES]
    members = [f"{name}/1" for name in NAMES]
    for step in range(250):
        for place, log in enumerate(logs):
            group, now_ns = f"group-{step % 12}", 1_000_000 * step + place
            if step % 3 == 0:
                log.view(now_ns, group, step + 1, members[: 1 + step % 70])
            elif step % 3 == 1:
                log.note(now_ns, f"{place} {step} " + "noted " * 50)
                log.suspect(now_ns, group, step, members[(place + step) % 70])
            else:
                log.send(now_ns, group, step, 1 + step // 12, 1, LEVELS[step % 5], 1)
                log.deliver(
                    now_ns + 2 ** (step % 40), group, step, NAMES[place - 1], 1, 1 + step // 12, 1, LEVELS[step % 5], 1
                )
    return logs


def test_a_wild_history_makes_a_page_of_a_few_megabytes(tmp_path: Path) -> None:
    history = tmp_path / "history"
    history.mkdir()
    for log in wild_logs():
        log.stop(10**9)
        pq.write_table(log.table(), segment_file(history, log.process, 1, 0))
    members = tuple(observation(name, group=f"group-{at}", run="r") for name in NAMES for at in range(12))
    audit = Audit(verdict="kept", events=1, rows=1, runs=1, findings=(kept("fifo"),), observations=members)
    file = tmp_path / "report.html"
    write_report(audit, history, file)
    text = file.read_text()
    assert len(text.encode()) < PAGE_BYTES_MAX
    assert "The first 500 of 840 members are listed." in text
    assert "6 other processes are left out." in text
    assert "suspicions and notes are left out." in text
    assert "There are too many processes to tell them apart here." in text


def test_of_many_runs_one_is_shown_and_that_is_said(tmp_path: Path) -> None:
    sample = Sample("a", "b")
    sample.multicast("a")
    file = tmp_path / "report.html"
    write_report(replace(sample.audit(kept("fifo")), runs=700), sample.write(tmp_path), file)
    assert "Run “run-1”, one of 700" in file.read_text()


def test_a_counterexample_that_is_not_in_the_history_leaves_the_words(tmp_path: Path) -> None:
    sample = Sample("a", "b")
    sample.multicast("a")
    finding = broken("fifo", "gone", ("nobody/1", 3))
    file = tmp_path / "report.html"
    write_report(sample.audit(finding), sample.write(tmp_path), file)
    assert ": gone" in file.read_text()
    assert "<figure>" not in file.read_text()
