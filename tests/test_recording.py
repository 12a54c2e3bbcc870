"""What a node and an engine leave in the history: calls in their order, departures, and what the application had."""

import asyncio
from pathlib import Path
from zlib import crc32

import pytest

from antiphon.history.log import MemoryLog
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import DOMAIN_SCOPE, GROUP_SCOPE, Row
from antiphon.history.start import parse_start
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.effects import Sent
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import Options
from antiphon.recording import ProcessRecorder, digest_of
from antiphon.runtime.node import Node


def rows_of(directory: Path, *kinds: str) -> list[Row]:
    return [row for row in HistoryFiles.open(directory).read_rows() if row.kind in kinds]


def test_digests_are_eight_digits_per_payload() -> None:
    payloads = [b"", b"x", b"xyz"]
    assert digest_of(payloads) == "".join(f"{crc32(payload):08x}" for payload in payloads)
    assert digest_of([b"x"]) == f"{crc32(b'x'):08x}"


def test_calls_are_recorded_in_their_order_over_all_groups(tmp_path: Path) -> None:
    async def test() -> None:
        options = Options(record_digests=True)
        async with Node("p", address="127.0.0.1:0", incarnation=1, history=tmp_path, options=options) as node:
            a = await node.join("a", members={"p": node.address})
            b = await node.join("b", members={"p": node.address})
            for number in range(5):
                await (a if number % 2 == 0 else b).send(b"%d" % number)
            await a._drain()
            await b._drain()

    asyncio.run(asyncio.wait_for(test(), 20))
    calls = [
        (row.group, number)
        for row in rows_of(tmp_path, "send")
        for number in range(row.number or 0, (row.number or 0) + (row.count or 0))
    ]
    assert calls == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)]
    assert [row.digest for row in rows_of(tmp_path, "send")][:2] == [digest_of([b"0"]), digest_of([b"1"])]


def test_start_rows_tell_how_far_causal_order_reaches(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node("p", address="127.0.0.1:0", incarnation=1, history=tmp_path) as node:
            for name, domain in (("a", CausalityDomain()), ("b", CausalityDomain(name="other"))):
                await node.join(name, members={"p": node.address}, domain=domain)
            await node.join("c", members={"p": node.address}, stack="conversation")

    asyncio.run(asyncio.wait_for(test(), 20))
    starts = {row.group: parse_start(row.label) for row in rows_of(tmp_path, "start")}
    assert {group: (facts.scope, facts.domain) for group, facts in starts.items()} == {
        "a": (DOMAIN_SCOPE, "vector main"),
        "b": (DOMAIN_SCOPE, "vector other"),
        "c": (GROUP_SCOPE, ""),
    }


def test_digests_are_recorded_where_they_are_asked_for() -> None:
    log = MemoryLog(run="r", process="p")
    ProcessRecorder(log, digests=False).call("g", [b"x"], CAUSAL, (), 1, 1)
    ProcessRecorder(log).call("g", [b"x"], CAUSAL, (), 1, 2)
    assert [row.digest for row in log.rows()] == [None, digest_of([b"x"])]


def test_what_leaves_without_a_call_is_recorded_as_it_leaves() -> None:
    """A former incarnation left it behind."""
    log = MemoryLog(run="r", process="p")
    recorder = ProcessRecorder(log)
    recorder.depart(Sent("g", 3, 1, 2, CAUSAL, 8), 1)
    recorder.call("g", [b"next"], CAUSAL, (), 4, 2)
    recorder.depart(Sent("g", 3, 3, 1, CAUSAL, 4), 3)
    assert [(row.kind, row.view, row.number, row.count) for row in log.rows()] == [
        ("send", 3, 1, 2),
        ("send", 3, 3, 1),
    ]


def test_a_private_delivery_says_so() -> None:
    log = MemoryLog(run="r", process="p", incarnation=2)
    recorder = ProcessRecorder(log)
    recorder.deliver("g", 1, ProcessId("q", 1), 1, 1, "causal", [b"x"], 0, 1, True, 5)
    recorder.deliver("g", 1, ProcessId("q", 1), 2, 1, "causal", [b"y"], 0, 1, False, 6)
    assert [row.destinations for row in log.rows()] == [("p/2",), None]


def test_a_label_is_kept_with_the_message(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node("p", address="127.0.0.1:0", incarnation=1, history=tmp_path) as node:
            group = await node.join("a", members={"p": node.address})
            await group.send(b"1", label="order 17")
            await group.send(b"2")
            for wrong in ("", "x" * 65, "two\nlines", "barrier", 7):
                with pytest.raises(UsageError, match="label"):
                    await group.send(b"3", label=wrong)  # type: ignore[arg-type]
            await group._drain()

    asyncio.run(asyncio.wait_for(test(), 20))
    labels = [(row.number, row.label) for row in rows_of(tmp_path, "send")]
    assert labels == [(1, "order 17"), (2, None)]
