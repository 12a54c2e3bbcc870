"""Conversations in the history: recorded like groups, and held to their promises by the audit."""

import asyncio
from dataclasses import replace
from pathlib import Path

from antiphon.conversation import Conversation, restart_conversation
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import Row
from antiphon.kernel.options import Options
from antiphon.pipeline.reference import audit
from antiphon.pipeline.result import Audit
from antiphon.runtime import Node
from tests.conversation.test_conversations import Speaker, begin, people
from tests.runtime.cluster import bad_network, run

PROMISED = {"creation", "duplication", "content", "fifo", "causal", "settled"}
OPTIONS = Options(record_digests=True)


def verdicts(found: Audit) -> dict[str, str]:
    return {finding.guarantee: finding.verdict for finding in found.findings}


async def drain(talk: Conversation, until: bytes) -> None:
    while (await talk.receive(timeout_s=10))[1] != until:
        pass


async def talk_much(directory: Path) -> None:
    async with people(("a", "b", "c"), history=directory, options=OPTIONS, faults=bad_network(0.1)) as nodes:
        talks = await begin(nodes)
        await asyncio.gather(*(Speaker(talk, 20).run() for talk in talks))
        for node in nodes:
            await node.close(quiet=True)


def test_a_recorded_conversation_keeps_its_promises(tmp_path: Path) -> None:
    run(lambda: talk_much(tmp_path))
    found = audit(tmp_path)
    assert verdicts(found) == dict.fromkeys(PROMISED, "kept")
    checked = {finding.guarantee: finding.checked for finding in found.findings}
    assert checked["causal"] == 3 * 61


def test_the_audit_sees_a_conversation_that_breaks_them(tmp_path: Path) -> None:
    """A message that one participant receives late, and another that nobody has sent, in an otherwise true history."""
    run(lambda: talk_much(tmp_path))
    rows = HistoryFiles.open(tmp_path).checked().read_rows()
    late = [row for row in rows if row.process == "b" and row.kind == "deliver" and row.sender == "a"][1]
    swapped = [swap(row, late) for row in rows]
    found = verdicts(audit(swapped))
    assert found["fifo"] == found["causal"] == "broken"


def swap(row: Row, late: Row) -> Row:
    """The row, with the message of `late` and that of the delivery right after it from the same sender exchanged."""
    if row.process != late.process or row.kind != "deliver" or row.sender != late.sender or row.number is None:
        return row
    assert late.number is not None
    other = {late.number: late.number + 1, late.number + 1: late.number}.get(row.number, row.number)
    return replace(row, number=other)


def test_a_participant_that_comes_back_is_judged_by_what_it_has(tmp_path: Path) -> None:
    """What its checkpoint held, and what it had said itself, counts as delivered to its next life."""

    async def test() -> None:
        async with people(("a", "b"), history=tmp_path, options=OPTIONS) as nodes:
            a, b = await begin(nodes, keep=True)
            await b.send(b"b1")
            await drain(a, b"b1")
            checkpoint = b.checkpoint()
            await a.send(b"a2")
            await drain(b, b"a2")
            address = nodes[1].address
            await b.close()
            await nodes[1].close()
            async with Node("b", address=address, incarnation=2, history=tmp_path, options=OPTIONS) as back:
                b = await restart_conversation(back, checkpoint)
                await drain(b, b"a2")
                await b.send(b"b2")
                await drain(a, b"b2")
                await nodes[0].close(quiet=True)
                await back.close(quiet=True)

    run(test)
    rows = HistoryFiles.open(tmp_path).checked().read_rows()
    second = [row for row in rows if (row.process, row.incarnation) == ("b", 2)]
    told = [(row.kind, row.sender, row.sender_incarnation, row.number) for row in second if row.number is not None]
    assert told == [
        *(("deliver", "a", 1, 1), ("deliver", "b", 1, 1), ("deliver", "a", 1, 2)),
        *(("send", "b", 2, 1), ("deliver", "b", 2, 1)),
    ]
    found = verdicts(audit(rows))
    assert found == dict.fromkeys(PROMISED, "kept")
