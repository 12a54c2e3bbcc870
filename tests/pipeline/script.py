"""Histories by hand: one short line per process, so that a test shows the whole run at a glance.

    make_rows(p="s1 d:q1 quiet", q="s1 d:q1 d:p1 quiet")

`s1` sends message 1 to group g, `d:q1` delivers q's message 1, `d:q1-3` three of them as one row; `@h` behind it means
group h, `~fifo` a level other than causal, `>q` one destination, `[text]` a label, `!` a barrier, which is safe. The
end is `quiet`, `crash`, `left`, `stop` (for some other reason) or nothing (cut short). Every process is a member of
every group.

`v2:pq` is a view row: view 2 with the members p and q, of group g unless `@h` follows. Messages are sent and delivered
in the last such view of the line, or the one that `%4` names behind it; before it in view 1, of all whose line does not
begin with `joins`. `leaves` announces that the process leaves; `out@h` notes that it has left group h alone,
`recover@h` that an operator has it go on there without a majority, `untold@h` that it was in views there of which its
application was not told, `apart` that it reads each group by itself. `t:pq` is a transitional row: the view ends, p and
q come along; the policy is then to be `partitionable`.
"""

import re

from antiphon.history.log import MemoryLog
from antiphon.history.schema import BARRIER, LEFT, LEVELS, READS_APART, RECOVERS, UNTOLD, Row
from tests.pipeline.histories import MESSAGE_PROMISES

ALL = " ".join(MESSAGE_PROMISES)
WORD = re.compile(
    r"(s|d:(?P<sender>[a-z]+))(?P<first>\d+)(-(?P<last>\d+))?(@(?P<group>\w+))?(~(?P<level>[\w-]+))?(>(?P<to>\w+))?"
    r"(\[(?P<label>[^]]*)\])?(?P<barrier>!)?(%(?P<view>\d+))?"
)
VIEW = re.compile(r"v(?P<id>\d+):(?P<members>[a-z]*)(@(?P<group>\w+))?")


def make_logs(
    run: str = "r", members: str = "", promises: str = ALL, policy: str = "static", **lines: str
) -> list[MemoryLog]:
    """`members` names processes that have no log."""
    groups = sorted({match["group"] or "g" for line in lines.values() for match in WORD.finditer(line)} | {"g"})
    founders = [name for name, line in lines.items() if not line.startswith("joins")]
    names = [f"{name}/1" for name in sorted([*founders, *members.split()])]
    return [
        _make_log(run, process, line.split(), groups, names, promises.split(), policy)
        for process, line in lines.items()
    ]


def make_rows(
    run: str = "r", members: str = "", promises: str = ALL, policy: str = "static", **lines: str
) -> list[Row]:
    return [row for log in make_logs(run, members, promises, policy, **lines) for row in log.rows()]


def _make_log(
    run: str, process: str, words: list[str], groups: list[str], names: list[str], promises: list[str], policy: str
) -> MemoryLog:
    log = MemoryLog(run=run, process=process, merge=False)
    for group in groups:
        log.start(0, group, "script", policy, LEVELS, promises)
        if f"{process}/1" in names:
            log.view(0, group, 1, names)
    current = dict.fromkeys(groups, 1)
    for time_ns, word in enumerate(words, start=1):
        if view := VIEW.fullmatch(word):
            group = view["group"] or "g"
            current[group] = int(view["id"])
            log.view(time_ns, group, current[group], [f"{member}/1" for member in view["members"]])
            continue
        if word.startswith("t:"):
            log.transitional(time_ns, "g", current["g"], [f"{member}/1" for member in word[2:]])
            continue
        match = WORD.fullmatch(word)
        if match is None:
            _note_or_end(log, time_ns, word)
            continue
        group, label = match["group"] or "g", BARRIER if match["barrier"] else match["label"]
        level, in_view = (
            match["level"] or ("safe" if match["barrier"] else "causal"),
            int(match["view"] or current[group]),
        )
        first, count = int(match["first"]), int(match["last"] or match["first"]) - int(match["first"]) + 1
        if match["sender"]:
            log.deliver(time_ns, group, in_view, match["sender"], 1, first, count, level, 8 * count, label)
        else:
            destinations = (f"{match['to']}/1",) if match["to"] else None
            log.send(time_ns, group, in_view, first, count, level, 8 * count, destinations, label)
    return log


def _note_or_end(log: MemoryLog, time_ns: int, word: str) -> None:
    match word:
        case "quiet":
            log.stop(time_ns)
        case "left":
            log.stop(time_ns, LEFT)
        case "leaves" | "joins":
            log.note(time_ns, word)
        case "apart":
            log.note(time_ns, READS_APART)
        case "stop":
            log.stop(time_ns, "bored")
        case "crash":
            log.crash(time_ns, "killed")
        case _ if word.startswith("recover@"):
            log.note(time_ns, RECOVERS, word.removeprefix("recover@"))
        case _ if word.startswith("untold@"):
            log.note(time_ns, UNTOLD, word.removeprefix("untold@"))
        case _ if word.startswith("out@"):
            log.note(time_ns, LEFT, word.removeprefix("out@"))
        case _:
            raise ValueError(word)
