"""The histories of linked domains, judged together: a message has one name everywhere, and auditors count by it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import antiphon
from antiphon.domain import CommunicationDomain
from antiphon.domain.history import WHOLE, own_view
from antiphon.history.schema import Row
from antiphon.history.segments import segment_file
from antiphon.kernel.identity import ProcessId
from antiphon.pipeline import reference
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import Audit
from antiphon.testing import Host, simulate
from tests.domain.relays import Program, faults_of, play
from tests.pipeline.inprocess import table_of

EVERYWHERE = "domain/A,B,C"
SECLUDED = 1
"""A seed in which a relay is excluded from its domain and comes back."""
Counts = dict[str, tuple[str, int, int]]


@cache
def history() -> tuple[Program, tuple[tuple[Row, ...], ...]]:
    program, result = play(SECLUDED, 8, faults_of(SECLUDED))
    assert result.kept, result.report("")
    return program, result.rows


def counts(audit: Audit) -> Counts:
    return {finding.guarantee: (finding.verdict, finding.checked, finding.violations) for finding in audit.findings}


def both(directory: Path, logs: Sequence[list[Row]]) -> Counts:
    """What both auditors count, which must be the same."""
    directory.mkdir()
    for log in logs:
        pq.write_table(table_of(log), segment_file(directory, log[0].process, log[0].incarnation, 0))
    found = counts(quick_audit(directory))
    assert found == counts(reference.audit(row for log in logs for row in log))
    return found


def linked_rows(log: Sequence[Row]) -> list[Row]:
    """A log without the rows of the groups that the domains consist of."""
    kept = [row for row in log if row.group is None or row.group.startswith("domain/")]
    return [replace(row, index=index) for index, row in enumerate(kept)]


def test_a_message_has_one_name_in_all_domains() -> None:
    _, logs = history()
    handed: dict[tuple[str | None, str | None, int | None, int | None], set[str]] = defaultdict(set)
    for log in logs:
        for row in log:
            if row.kind == "deliver" and row.group == EVERYWHERE:
                for number in range(row.number or 0, (row.number or 0) + (row.count or 0)):
                    handed[row.group, row.sender, row.sender_incarnation, number].add(row.process[0])
    assert len(handed) > 10
    assert set(map(frozenset, handed.values())) == {frozenset("ABC")}


def test_whoever_came_later_is_in_a_view_of_its_own() -> None:
    program, logs = history()
    views: dict[str, set[int | None]] = defaultdict(set)
    for log in logs:
        for row in log:
            if row.kind == "view" and row.group == EVERYWHERE:
                views[f"{row.process}/{row.incarnation}"].add(row.view)
    late = {process for process, ids in views.items() if ids != {WHOLE}}
    assert late
    assert len(late) == sum(not told.complete for told in program.told)
    for process in late:
        name, _, incarnation = process.rpartition("/")
        assert views[process] == {own_view(ProcessId(name, int(incarnation)))}


def test_what_leaves_a_domain_is_safe_in_it() -> None:
    """Rule 7: else a relay that fails could have numbered exports by an order that nobody else has."""
    levels: set[tuple[bool, str | None, str | None]] = set()
    for log in history()[1]:
        for role, carrier in pairwise(log):
            if role.kind == "send" and (role.group or "").startswith("domain/") and carrier.kind == "send":
                levels.add((role.group == f"domain/{role.process[0]}", role.level, carrier.level))
    assert {level for is_local, _, level in levels if not is_local} == {"safe"}
    assert {(asked, level) for is_local, asked, level in levels if is_local} == {
        (level, level) for level in ("causal", "agreed", "safe")
    }


def test_both_auditors_judge_the_order_across_domains(tmp_path: Path) -> None:
    logs = [linked_rows(log) for log in history()[1]]
    kept = both(tmp_path / "kept", logs)
    assert {kept[guarantee][0] for guarantee in ("causal", "total_global", "safe", "settled")} == {"kept"}
    assert kept["total_global"][1] > 30
    place = next(place for place, log in enumerate(logs) if log[0].process == "B3")
    ordered = [row.index for row in logs[place] if row.kind == "deliver" and row.level == "agreed"]
    one, other = next(
        (one, other) for one, other in pairwise(ordered) if logs[place][one].sender != logs[place][other].sender
    )
    first, second = logs[place][one], logs[place][other]
    logs[place][one], logs[place][other] = replace(second, index=one), replace(first, index=other)
    found = both(tmp_path / "broken", logs)
    assert found["total_global"] == ("broken", kept["total_global"][1], 1)


async def claim_names(host: Host) -> list[str]:
    told: list[str] = []
    async with antiphon.Node(host.name, address=host.at()) as node:
        group = await node.join("g", members=host.members(), stack="domain")
        with pytest.raises(antiphon.UsageError) as refused:
            CommunicationDomain(group, "A", ["A", "B,C"])
        told.append(str(refused.value))
        async with CommunicationDomain(group, "A", ["A", "B"]):
            with pytest.raises(antiphon.UsageError) as refused:
                async with CommunicationDomain(group, "A", ["A", "B"]):
                    pass
            told.append(str(refused.value))
        async with CommunicationDomain(group, "A", ["A", "B"]):
            await host.ending.wait()
    return told


def test_names_that_histories_could_not_tell_apart_are_refused() -> None:
    result = simulate({"a": claim_names}, seed=1, faults="none", active_s=1)
    assert result.kept, result.report("")
    assert result.returned["a"] == [
        "the name of a domain is a text without ',', not 'B,C'",
        "this node is in linked domains called 'domain' already; give one of them another `name`, alike in all its "
        "domains",
    ]
