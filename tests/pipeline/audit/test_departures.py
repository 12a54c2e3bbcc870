"""In which order a process sent, where messages left in another order than they were called for."""

from dataclasses import replace

import pytest

from antiphon.history.log import MemoryLog
from antiphon.history.schema import DOMAIN_SCOPE, LEVELS, READS_APART, STALLED, Row
from antiphon.pipeline import reference
from tests.pipeline.inprocess import count, counts_of


def overtaken(stalled: bool) -> list[Row]:
    """p calls for one message to a, then one to b; the second leaves first, and q is handed it first."""
    logs = {name: MemoryLog(run="r", process=name) for name in ("p", "q")}
    for log in logs.values():
        for group in ("a", "b"):
            log.start(0, group, "toy", "primary", LEVELS, ("causal", "settled"))
            log.view(0, group, 1, ["p/1", "q/1"])
    p, q = logs["p"], logs["q"]
    if stalled:
        p.note(1, STALLED, "a")
    p.send(2, "a", None, 1, 1, "causal", 4)
    p.send(3, "b", None, 1, 1, "causal", 4)
    p.depart(4, "b", 1, 1, 1, 4)
    p.deliver(5, "b", 1, "p", 1, 1, 1, "causal", 4)
    q.deliver(5, "b", 1, "p", 1, 1, 1, "causal", 4)
    for log in logs.values():
        log.view(6, "a", 2, ["p/1", "q/1"])
    p.depart(7, "a", 2, 1, 1, 4)
    for log in logs.values():
        log.deliver(8, "a", 2, "p", 1, 1, 1, "causal", 4)
        log.stop(9)
    return [row for log in logs.values() for row in log.rows()]


@pytest.mark.parametrize("stalled", [False, True])
def test_what_leaves_in_another_order_than_it_was_called_for(stalled: bool) -> None:
    """That breaks causal order, also where the group of the first one stood still: what is causal waits for it."""
    rows = overtaken(stalled)
    found = counts_of(reference.audit(rows))
    assert found == {"causal": (2, 0, 4, 1), "settled": (0, 0, 4, 0)}
    for piece_rows in (1, 3, 100):
        assert count(rows, piece_rows=piece_rows) == found


def planted(line: str, domains: str = "aaa") -> list[Row]:
    """p's log by hand: groups a, b and c. q delivers what is sent to b and c as it leaves, answers each in b, and r
    delivers these answers; what is sent to a comes to both in the end. An answer follows whatever p sent before.

    `a` calls for a message to group a at causal, `a-` at fifo; `>a` lets all leave that waits in a; `stall` notes that
    a stands still (`stall:b`: b), `view` ends that. `domains` are those of a, b and c.
    """
    logs = {name: MemoryLog(run="r", process=name) for name in "pqr"}
    for log in logs.values():
        for group, domain in zip("abc", domains, strict=True):
            log.start(0, group, "toy", "primary", LEVELS, ("causal",), DOMAIN_SCOPE, domain)
            log.view(0, group, 1, ["p/1", "q/1", "r/1"])
    p, q, r = logs.values()
    called, left, answers, views = dict.fromkeys("abc", 0), dict.fromkeys("abc", 0), 0, dict.fromkeys("abc", 1)
    levels: dict[tuple[str, int], str] = {}
    for time_ns, word in enumerate(line.split(), start=1):
        group = word.strip(">-")
        verb, _, named = word.partition(":")
        if verb == "stall":
            p.note(time_ns, STALLED, named or "a")
        elif verb == "view":
            views[named or "a"] += 1
            for log in logs.values():
                log.view(time_ns, named or "a", views[named or "a"], ["p/1", "q/1", "r/1"])
        elif word.startswith(">"):
            for number in range(left[group] + 1, called[group] + 1):
                level = levels[group, number]
                view = views[group]
                p.depart(time_ns, group, view, number, 1, 4)
                for log in (q, r) if group == "a" else (q,):
                    log.deliver(time_ns, group, view, "p", 1, number, 1, level, 4)
                if group != "a":
                    answers += 1
                    q.send(time_ns, "b", views["b"], answers, 1, "causal", 4)
                    r.deliver(time_ns, group, view, "p", 1, number, 1, level, 4)
                    r.deliver(time_ns, "b", views["b"], "q", 1, answers, 1, "causal", 4)
            left[group] = called[group]
        else:
            called[group] += 1
            levels[group, called[group]] = "fifo" if word.endswith("-") else "causal"
            p.send(time_ns, group, None, called[group], 1, levels[group, called[group]], 4)
    for log in logs.values():
        log.stop(1000)
    return [row for log in logs.values() for row in log.rows()]


@pytest.mark.parametrize(
    ("line", "domains", "violations"),
    [
        ("a >a b- >b", "aaa", 0),  # nothing is overtaken
        ("a b- >b >a", "aaa", 1),  # nothing stands still: r's answer from q comes before what p called for first
        ("a stall b- >b view >a", "aaa", 0),  # a call below causal does not wait for a group that stands still
        ("stall a b- >b view >a", "aaa", 0),  # wherever the call was
        ("a stall b >b view >a", "aaa", 3),  # a causal one does: q's and r's delivery of it, and the answer, are early
        ("a b- >b stall view >a", "aaa", 1),  # it left before a stood still
        ("a stall view b- >b >a", "aaa", 1),  # and here afterwards
        ("a stall c b- >b view >a >c", "aaa", 1),  # the causal call to c waits, and what follows waits for that
        ("a stall c >c b- >b view >a", "aab", 0),  # c is of another domain, and in order with nothing here
        ("a stall c >c b- >b view >a", "aaa", 4),  # c was early, and what follows it had to wait as well
        ("a stall c- >c b- >b view >a", "aaa", 0),
        ("a stall a- b- >b view >a", "aaa", 0),  # two that wait
        ("a stall a b- >b view >a", "aaa", 0),
        ("a b- c- stall stall:b >c view:b >b view >a", "aaa", 0),  # b was overtaken itself, and still overtakes a
        ("a- stall b stall:b c- view:b >b >c", "aaa", 0),  # what never left was not sent before anything
        ("a b- c- stall:b >c view:b >b >a", "aaa", 2),  # but a goes on
        ("a stall b- >b view b >b >a", "aaa", 3),  # the group goes on: nothing excuses the second
    ],
)
def test_only_calls_below_causal_overtake_what_waits_in_a_group_that_stands_still(
    line: str, domains: str, violations: int
) -> None:
    rows = planted(line, domains)
    found = counts_of(reference.audit(rows))
    for piece_rows in (1, 3, 100):
        assert count(rows, piece_rows=piece_rows) == found
    assert found["causal"][0] == violations


@pytest.mark.parametrize(("reader", "violations"), [("p", 1), ("q", 1), ("pq", 0)])
def test_order_between_groups_is_not_promised_to_who_reads_each_apart(reader: str, violations: int) -> None:
    rows = overtaken(stalled=False)
    for process in reader:
        place = next(row for row in rows if row.process == process and row.kind == "start")
        rows = [row if row.process != process else replace(row, index=row.index + 1) for row in rows]
        rows.append(Row("r", process, 1, 0, place.time_ns, "note", label=READS_APART))
    found = counts_of(reference.audit(rows))
    assert found["causal"] == (violations, 0, 4, violations)
    for piece_rows in (1, 3, 100):
        assert count(rows, piece_rows=piece_rows) == found
