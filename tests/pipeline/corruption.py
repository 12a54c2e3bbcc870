"""Ways to spoil a history, drawn by chance. Each takes the rows of a run and gives back rows that are still valid."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

from antiphon.history.schema import BARRIER, LEFT, LEVELS, READS_APART, RECOVERS, STALLED, Row

Corrupt = Callable[[Random, list[Row]], list[Row]]


def swap_deliveries(random: Random, rows: list[Row]) -> list[Row]:
    """Two deliveries of one process change places."""
    log = _log(random, rows, "deliver")
    if len(log) < 2:
        return rows
    one, other = random.sample(log, 2)
    return _replaced(rows, {id(one): _as(one, other), id(other): _as(other, one)})


def move_delivery(random: Random, rows: list[Row]) -> list[Row]:
    """A delivery happens somewhere else in its log, even before what it depends on was sent."""
    log = _log(random, rows, None)
    deliveries = [row for row in log if row.kind == "deliver"]
    if not deliveries:
        return rows
    moved = random.choice(deliveries)
    rest = [row for row in log if row is not moved]
    last = len(rest) - 1 if rest[-1].kind in ("stop", "crash") else len(rest)
    rest.insert(random.randint(min(4, last), last), moved)
    return _with_log(rows, log, rest)


def repeat_delivery(random: Random, rows: list[Row]) -> list[Row]:
    """A process delivers something again, perhaps only a part of it, perhaps more than it was."""
    log = _log(random, rows, "deliver")
    if not log:
        return rows
    chosen = random.choice(log)
    number = max(1, (chosen.number or 1) + random.randint(-2, 1))
    count = 1 if chosen.label else random.randint(1, 3)
    again = replace(chosen, number=number, count=count, digest=None)
    whole = _whole_log(rows, chosen)
    last = len(whole) - 1 if whole[-1].kind in ("stop", "crash") else len(whole)
    return _with_log(rows, whole, [*whole[:last], again, *whole[last:]])


def drop_delivery(random: Random, rows: list[Row]) -> list[Row]:
    """A process never delivers something."""
    log = _log(random, rows, "deliver")
    if not log:
        return rows
    chosen = random.choice(log)
    whole = _whole_log(rows, chosen)
    return _with_log(rows, whole, [row for row in whole if row is not chosen])


def invent_delivery(random: Random, rows: list[Row]) -> list[Row]:
    """A process delivers what nobody sent, or what somebody unknown sent."""
    log = _log(random, rows, "deliver")
    if not log:
        return rows
    chosen = random.choice(log)
    changes = [{"number": random.choice((900, 3, 12))}, {"sender": "stranger"}, {"sender_incarnation": 7}]
    if chosen.label is None:
        changes.append({"count": 5, "digest": None})
    return _replaced(rows, {id(chosen): replace(chosen, **random.choice(changes))})  # type: ignore[arg-type]


def change_level(random: Random, rows: list[Row]) -> list[Row]:
    """A delivery is held to another level."""
    log = _log(random, rows, "deliver")
    if not log:
        return rows
    chosen = random.choice(log)
    return _replaced(rows, {id(chosen): replace(chosen, level=random.choice(LEVELS))})


def cut_log(random: Random, rows: list[Row]) -> list[Row]:
    """The end of a log is lost."""
    log = _log(random, rows, None)
    kept = random.randint(1, len(log))
    return _with_log(rows, log, log[:kept])


def gap_in_log(random: Random, rows: list[Row]) -> list[Row]:
    """Some rows in the middle of a log are lost; the others keep their index."""
    log = _log(random, rows, None)
    first = random.randint(0, len(log) - 1)
    lost = {id(row) for row in log[first : first + random.randint(1, 3)]}
    return [row for row in rows if id(row) not in lost] or rows


def lose_log(random: Random, rows: list[Row]) -> list[Row]:
    """A whole log is lost, unless it is the last."""
    log = _log(random, rows, None)
    lost = {id(row) for row in log}
    return [row for row in rows if id(row) not in lost] or rows


def stop_early(random: Random, rows: list[Row]) -> list[Row]:
    """A process stops for some other reason, or crashes."""
    ends = [row for row in rows if row.kind == "stop"]
    if not ends:
        return rows
    chosen = random.choice(ends)
    other = random.choice((replace(chosen, label="timeout"), replace(chosen, kind="crash", label="killed")))
    return _replaced(rows, {id(chosen): other})


def narrow_send(random: Random, rows: list[Row]) -> list[Row]:
    """Something was meant for a few members only."""
    sends = [row for row in rows if row.kind == "send"]
    if not sends:
        return rows
    chosen = random.choice(sends)
    members = sorted({f"{row.process}/{row.incarnation}" for row in rows})
    destinations = tuple(random.sample(members, random.randint(0, len(members))))
    return _replaced(rows, {id(chosen): replace(chosen, destinations=destinations)})


def change_members(random: Random, rows: list[Row]) -> list[Row]:
    """A process sees other members in a view, or another ranking."""
    views = [row for row in rows if row.kind == "view"]
    if not views:
        return rows
    chosen = random.choice(views)
    members = list(chosen.members or ())
    ways = [members[::-1], members[1:], members[:-1], [*members, "stranger/1"], random.sample(members, len(members))]
    return _replaced(rows, {id(chosen): replace(chosen, members=tuple(random.choice(ways) or members))})


def change_view(random: Random, rows: list[Row]) -> list[Row]:
    """A view row, a delivery or, rarely, a send names another view."""
    kind = random.choice(("view", "view", "deliver", "deliver", "send"))
    chosen = [row for row in rows if row.kind == kind]
    if not chosen:
        return rows
    row = random.choice(chosen)
    return _replaced(rows, {id(row): replace(row, view=max(1, (row.view or 1) + random.choice((-1, 1, 2))))})


def exclude(random: Random, rows: list[Row]) -> list[Row]:
    """Everybody sees a view, rather a later one, without some of its members."""
    views = [row for row in rows if row.kind == "view"]
    if not views:
        return rows
    chosen = random.choice([row for row in views if (row.view or 0) > 1] or views)
    members = chosen.members or ()
    kept = tuple(member for member in members if random.random() < 0.5) or members[-1:]
    alike = [row for row in views if (row.group, row.view) == (chosen.group, chosen.view)]
    return _replaced(rows, {id(row): replace(row, members=kept) for row in alike})


def skip_view(random: Random, rows: list[Row]) -> list[Row]:
    """All views of a group from some id on have a higher one."""
    views = [row for row in rows if row.kind == "view"]
    if not views:
        return rows
    chosen = random.choice(views)
    later = [row for row in rows if row.group == chosen.group and (row.view or 0) >= (chosen.view or 0)]
    return _replaced(rows, {id(row): replace(row, view=(row.view or 0) + 1) for row in later})


def move_view(random: Random, rows: list[Row]) -> list[Row]:
    """A process changes its view somewhere else in its log, or not at all."""
    log = _log(random, rows, None)
    views = [row for row in log if row.kind == "view"]
    if not views:
        return rows
    moved = random.choice(views)
    rest = [row for row in log if row is not moved]
    last = len(rest) - 1 if rest and rest[-1].kind in ("stop", "crash") else len(rest)
    if random.random() < 0.7:
        rest.insert(random.randint(0, last), moved)
    return _with_log(rows, log, rest)


def forget_notes(random: Random, rows: list[Row]) -> list[Row]:
    """Nobody says that it leaves."""
    spoken = [row for row in rows if row.kind == "note"]
    return _replaced(rows, {id(row): replace(row, label="hums") for row in spoken})


def swap_neighbours(random: Random, rows: list[Row]) -> list[Row]:
    """Two deliveries of a process that follow each other in a group change places, one of them agreed or safe."""
    pairs = [
        pair
        for group in sorted({row.group or "" for row in rows})
        for pair in pairwise(row for row in _log(random, rows, "deliver") if row.group == group)
        if {row.level for row in pair} & {"agreed", "safe"}
    ]
    if not pairs:
        return rows
    one, other = random.choice(pairs)
    return _replaced(rows, {id(one): _as(one, other), id(other): _as(other, one)})


def drop_safe(random: Random, rows: list[Row]) -> list[Row]:
    """A process never delivers something safe."""
    safe = [row for row in rows if row.kind == "deliver" and row.level == "safe"]
    if not safe:
        return rows
    chosen = random.choice(safe)
    whole = _whole_log(rows, chosen)
    return _with_log(rows, whole, [row for row in whole if row is not chosen])


def change_barrier(random: Random, rows: list[Row]) -> list[Row]:
    """A message is a barrier, or no longer one, to all that deliver it or to one of them."""
    deliveries = [row for row in rows if row.kind == "deliver" and row.count == 1]
    if not deliveries:
        return rows
    chosen = random.choice(deliveries)
    alike = [row for row in deliveries if _message(row) == _message(chosen)] if random.random() < 0.8 else [chosen]
    label = None if chosen.label == BARRIER else BARRIER
    return _replaced(rows, {id(row): replace(row, label=label) for row in alike})


def leave_one_group(random: Random, rows: list[Row]) -> list[Row]:
    """A process notes somewhere that it has left one of its groups."""
    log = _log(random, rows, None)
    groups = sorted({row.group for row in log if row.group is not None})
    if not groups:
        return rows
    last = len(log) - 1 if log[-1].kind in ("stop", "crash") else len(log)
    place = random.randint(min(1, last), last)
    note = Row(log[0].run, log[0].process, log[0].incarnation, 0, log[place - 1].time_ns, "note", random.choice(groups))
    return _with_log(rows, log, [*log[:place], replace(note, label=LEFT), *log[place:]])


def lose_message(random: Random, rows: list[Row]) -> list[Row]:
    """A process crashes; one of its messages, and perhaps all later ones, are delivered by a few only."""
    sends = [row for row in rows if row.kind == "send"]
    if not sends:
        return rows
    sent = random.choice(sends)
    end = [row for row in _whole_log(rows, sent) if row.kind in ("stop", "crash")]
    rows = _replaced(rows, {id(row): replace(row, kind="crash", label="killed") for row in end})
    lost = {
        _message(row)
        for row in _whole_log(rows, sent)
        if row.kind == "send" and (row.number or 0) >= (sent.number or 0)
    }
    lost = lost if random.random() < 0.7 else {_message(sent)}
    for log in {(row.process, row.incarnation): _whole_log(rows, row) for row in rows}.values():
        if random.random() < 0.8:
            rows = _with_log(rows, log, [row for row in log if row.kind != "deliver" or _message(row) not in lost])
    return rows


def change_content(random: Random, rows: list[Row]) -> list[Row]:
    """A process is handed something else than was sent, or its log does not say what."""
    log = [row for row in _log(random, rows, "deliver") if row.digest is not None]
    if not log:
        return rows
    chosen = random.choice(log)
    assert chosen.digest is not None
    place = random.randrange(len(chosen.digest))
    other = chosen.digest[:place] + ("0" if chosen.digest[place] != "0" else "1") + chosen.digest[place + 1 :]
    changes = [{"digest": other}, {"size": 9}, {"digest": None}, {"size": 9, "digest": None}]
    return _replaced(rows, {id(chosen): replace(chosen, **random.choice(changes))})  # type: ignore[arg-type]


def leave_later(random: Random, rows: list[Row]) -> list[Row]:
    """Messages leave some time after the call, in the same view, or in two parts, or never."""
    sends = [row for row in rows if row.kind == "send" and row.view is not None]
    if not sends:
        return rows
    sent = random.choice(sends)
    log = _whole_log(rows, sent)
    place = next(at for at, row in enumerate(log) if row is sent)
    ends = [at for at, row in enumerate(log) if at > place and (row.kind in ("stop", "crash", "view"))]
    last = ends[0] if ends else len(log)
    depart = replace(sent, kind="depart", level=None, label=None, destinations=None, size=None, digest=None)
    number, count = sent.number or 1, sent.count or 1
    cut = random.randint(0, count)
    parts = [replace(depart, count=cut), replace(depart, number=number + cut, count=count - cut)]
    leaving = [part for part in parts if part.count and random.random() < 0.9]
    at = random.randint(place + 1, last)
    after = [*log[:place], replace(sent, view=None), *log[place + 1 : at], *leaving, *log[at:]]
    return _with_log(rows, log, after)


def stand_still(random: Random, rows: list[Row]) -> list[Row]:
    """A group has no majority for a while, by the log of one process."""
    log = _log(random, rows, None)
    groups = sorted({row.group for row in log if row.group is not None})
    if not groups:
        return rows
    last = len(log) - 1 if log[-1].kind in ("stop", "crash") else len(log)
    place = random.randint(min(1, last), last)
    note = Row(log[0].run, log[0].process, log[0].incarnation, 0, log[place - 1].time_ns, "note", random.choice(groups))
    rows = _with_log(rows, log, [*log[:place], replace(note, label=STALLED), *log[place:]])
    return leave_later(random, leave_later(random, rows))


def read_apart(random: Random, rows: list[Row]) -> list[Row]:
    """A process reads each group by itself from some row on."""
    log = _log(random, rows, None)
    last = len(log) - 1 if log[-1].kind in ("stop", "crash") else len(log)
    place = random.randint(min(1, last), last)
    note = Row(log[0].run, log[0].process, log[0].incarnation, 0, log[place - 1].time_ns, "note", label=READS_APART)
    return _with_log(rows, log, [*log[:place], note, *log[place:]])


def forget_destinations(random: Random, rows: list[Row]) -> list[Row]:
    """A log of version 1 does not say for whom messages were that it delivered."""
    log = _log(random, rows, "deliver")
    return _replaced(rows, {id(row): replace(row, destinations=()) for row in log})


def part_domains(random: Random, rows: list[Row]) -> list[Row]:
    """The start rows put the groups into different causality domains, or contradict each other."""
    groups = sorted({row.group for row in rows if row.kind == "start" and row.group})
    choices: list[dict[str, str]] = [
        {"scope": "causality domain", "domain": "a"},
        {"scope": "causality domain", "domain": "b"},
        {"scope": "group"},
        {"scope": "all groups"},
    ]
    of_group = {group: random.choice(choices) for group in groups}
    changed = {}
    for row in rows:
        if row.kind == "start" and row.group:
            said = random.choice(choices) if random.random() < 0.05 else of_group[row.group]
            facts = json.loads(row.label or "") | {"scope": "group"} | said
            changed[id(row)] = replace(row, label=json.dumps(facts))
    return _replaced(rows, changed)


def recover(random: Random, rows: list[Row]) -> list[Row]:
    """Some of those that go from a view to the next are said to do so on an operator's word: most often into a view of
    their own, in which few others are."""
    steps: dict[tuple[str | None, int | None, int | None], list[tuple[Row, Row]]] = {}
    for process in dict.fromkeys((row.process, row.incarnation) for row in rows):
        views = [row for row in rows if (row.process, row.incarnation) == process and row.kind == "view"]
        for group in {row.group for row in views}:
            for one, other in pairwise(sorted((row for row in views if row.group == group), key=lambda row: row.index)):
                steps.setdefault((group, one.view, other.view), []).append((one, other))
    if not steps:
        return rows
    step = random.choice(sorted(steps, key=repr))
    chosen = random.sample(steps[step], random.randint(1, len(steps[step])))
    members = tuple(f"{other.process}/{other.incarnation}" for _, other in chosen)
    forks = random.random() < 0.8
    for one, other in chosen:
        log = sorted(_whole_log(rows, one), key=lambda row: row.index)
        begin, end = log.index(one), log.index(other)
        at = random.randint(begin + 1, end)
        changed = replace(other, view=1000 + (other.view or 0), members=members) if forks else other
        note = Row(one.run, one.process, one.incarnation, 0, one.time_ns, "note", group=one.group, label=RECOVERS)
        told = [note] if random.random() < 0.7 else []
        rows = _with_log(rows, log, [*log[:at], *told, *log[at:end], changed, *log[end + 1 :]])
    return rows


def move_transitional(random: Random, rows: list[Row]) -> list[Row]:
    """A process is told somewhere else that its view ends, or never, or twice."""
    log = _log(random, rows, None)
    found = [row for row in log if row.kind == "transitional"]
    if not found:
        return rows
    moved = random.choice(found)
    rest = [row for row in log if row is not moved] if random.random() < 0.8 else list(log)
    last = len(rest) - 1 if rest[-1].kind in ("stop", "crash") else len(rest)
    if random.random() < 0.7:
        rest.insert(random.randint(0, last), moved)
    return _with_log(rows, log, rest)


def change_companions(random: Random, rows: list[Row]) -> list[Row]:
    """A process, or everybody, is told of other companions."""
    found = [row for row in rows if row.kind == "transitional"]
    if not found:
        return rows
    chosen = random.choice(found)
    members = list(chosen.members or ())
    other = tuple(random.choice((members[1:], members[::-1], [*members, "stranger/1"])) or members)
    alike = [row for row in found if row.view == chosen.view] if random.random() < 0.3 else [chosen]
    return _replaced(rows, {id(row): replace(row, members=other) for row in alike})


def drop_behind(random: Random, rows: list[Row]) -> list[Row]:
    """A process lacks something that was delivered behind a transitional row."""
    log = _log(random, rows, None)
    behind, late = [], False
    for row in log:
        late = row.kind == "transitional" or (late and row.kind != "view")
        if late and row.kind == "deliver":
            behind.append(row)
    if not behind:
        return rows
    chosen = random.choice(behind)
    return _with_log(rows, log, [row for row in log if row is not chosen])


def stay_apart(random: Random, rows: list[Row]) -> list[Row]:
    """A process never gets to its last view."""
    log = _log(random, rows, None)
    views = [at for at, row in enumerate(log) if row.kind == "view"]
    if len(views) < 2:
        return rows
    kept = [row for at, row in enumerate(log) if at < views[-1] or row.kind in ("stop", "crash")]
    return _with_log(rows, log, kept)


CORRUPTIONS: tuple[Corrupt, ...] = (
    *(swap_deliveries, move_delivery, repeat_delivery, drop_delivery, invent_delivery, change_level),
    *(cut_log, gap_in_log, lose_log, stop_early, narrow_send),
    *(change_members, change_view, exclude, skip_view, move_view, forget_notes),
    *(swap_neighbours, drop_safe, change_barrier, leave_one_group, lose_message),
    *(change_content, leave_later, forget_destinations, stand_still, read_apart, part_domains),
)

OF_PARTING: tuple[Corrupt, ...] = (
    *(move_transitional, change_companions, drop_behind, stay_apart, move_view, drop_delivery, swap_neighbours),
    *(drop_safe, move_delivery, repeat_delivery, lose_log, cut_log, stop_early, change_view, lose_message),
)


OF_ORDER: tuple[Corrupt, ...] = (swap_neighbours, swap_deliveries, drop_safe, change_barrier, stop_early, cut_log)
OF_STALLS: tuple[Corrupt, ...] = (stand_still, read_apart, leave_later, swap_deliveries, drop_delivery)
OF_DOMAINS: tuple[Corrupt, ...] = (part_domains, swap_deliveries, move_delivery, drop_delivery, lose_message, cut_log)
OF_LOST_LOGS: tuple[Corrupt, ...] = (lose_log, cut_log, leave_later, forget_destinations, drop_delivery)
OF_RECOVERIES: tuple[Corrupt, ...] = (recover, recover, drop_delivery, drop_safe, swap_neighbours, stop_early)
OF_LOSS: tuple[Corrupt, ...] = (lose_message, drop_delivery, leave_one_group, narrow_send, change_level)


def _message(row: Row) -> tuple[str | None, str | None, int | None, int | None]:
    """The first message of a row."""
    return row.group, row.sender, row.sender_incarnation, row.number


def _whole_log(rows: list[Row], of: Row) -> list[Row]:
    return [row for row in rows if (row.run, row.process, row.incarnation) == (of.run, of.process, of.incarnation)]


def _log(random: Random, rows: list[Row], kind: str | None) -> list[Row]:
    """The rows of one log, of one kind."""
    log = _whole_log(rows, random.choice(rows))
    return [row for row in log if kind is None or row.kind == kind]


def _as(place: Row, content: Row) -> Row:
    return replace(content, index=place.index, time_ns=place.time_ns)


def _replaced(rows: list[Row], by: dict[int, Row]) -> list[Row]:
    return [by.get(id(row), row) for row in rows]


def _with_log(rows: list[Row], before: list[Row], after: list[Row]) -> list[Row]:
    """The rows with one log put in place of another, numbered anew if it had no gap."""
    gone = {id(row) for row in before}
    return [row for row in rows if id(row) not in gone] + [replace(row, index=i) for i, row in enumerate(after)]
