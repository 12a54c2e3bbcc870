"""What views must be like, checked row by row, straight from the definitions of the guarantees."""

from collections import defaultdict
from collections.abc import Sequence

from antiphon.history.schema import LEAVES, Row

Message = tuple[str, int, int]


def view_violations(logs: Sequence[Sequence[Row]]) -> list[str]:
    """The violations of view_agreement, view_sending, view_synchrony, silence and primary in one group's logs."""
    return [
        *_agreement(logs),
        *_sending(logs),
        *_synchrony(logs),
        *_silence(logs),
        *_primary(logs),
    ]


def _name(row: Row) -> str:
    return f"{row.process}/{row.incarnation}"


def _agreement(logs: Sequence[Sequence[Row]]) -> list[str]:
    problems = []
    members: dict[int, tuple[str, ...]] = {}
    for log in logs:
        last = 0
        for row in log:
            if row.kind != "view":
                continue
            assert row.view is not None
            assert row.members is not None
            if members.setdefault(row.view, tuple(row.members)) != tuple(row.members):
                problems.append(f"view_agreement: {_name(row)} has another view {row.view} than others")
            if row.view <= last:
                problems.append(f"view_agreement: {_name(row)} goes from view {last} to {row.view}")
            if _name(row) not in row.members:
                problems.append(f"view_agreement: {_name(row)} is not in its own view {row.view}")
            last = row.view
    return problems


def _sending(logs: Sequence[Sequence[Row]]) -> list[str]:
    problems = []
    sent: dict[Message, int | None] = {}
    for log in logs:
        for row in log:
            if row.kind in ("send", "depart"):
                for number in _numbers(row):
                    sent[(row.process, row.incarnation, number)] = row.view
    for log in logs:
        for row in log:
            if row.kind == "deliver":
                for number in _numbers(row):
                    message = _sender(row), number
                    if sent.get((*message[0], number)) != row.view:
                        problems.append(f"view_sending: {_name(row)} delivers {message} in view {row.view}")
    return problems


def _synchrony(logs: Sequence[Sequence[Row]]) -> list[str]:
    delivered: dict[tuple[int, int], dict[str, set[Message]]] = defaultdict(dict)
    for log in logs:
        view = 0
        here: set[Message] = set()
        for row in log:
            if row.kind == "deliver":
                here |= {(*_sender(row), number) for number in _numbers(row)}
            elif row.kind == "view":
                assert row.view is not None
                if view:
                    delivered[(view, row.view)][_name(row)] = here
                view, here = row.view, set()
    problems = []
    for step, by_process in delivered.items():
        union = set().union(*by_process.values())
        for process, here in by_process.items():
            if here != union:
                problems.append(f"view_synchrony: {process} lacks {sorted(union - here)[:3]} in the step {step}")
    return problems


def _silence(logs: Sequence[Sequence[Row]]) -> list[str]:
    problems = []
    for log in logs:
        members: set[str] = set()
        for row in log:
            if row.kind == "view":
                assert row.members is not None
                members = set(row.members)
            elif row.kind == "deliver" and f"{row.sender}/{row.sender_incarnation}" not in members:
                problems.append(f"silence: {_name(row)} delivers a message of {row.sender}/{row.sender_incarnation}")
    return problems


def _primary(logs: Sequence[Sequence[Row]]) -> list[str]:
    views: dict[int, list[str]] = {}
    left: set[str] = set()
    for log in logs:
        for row in log:
            if row.kind == "view":
                assert row.view is not None
                assert row.members is not None
                views[row.view] = list(row.members)
            elif row.kind == "note" and row.label == LEAVES:
                left.add(_name(row))
    problems = []
    for view, members in views.items():
        before = views.get(view - 1)
        if before is None:
            if view > 1:
                problems.append(f"primary: view {view} has no view before it")
            continue
        together = [member for member in before if member in members or member in left]
        half = 2 * len(together) == len(before) and before[0] in together
        if 2 * len(together) <= len(before) and not half:
            problems.append(f"primary: view {view} has {len(together)} of {len(before)} members of the one before")
    return problems


def _numbers(row: Row) -> range:
    assert row.number is not None
    assert row.count is not None
    return range(row.number, row.number + row.count)


def _sender(row: Row) -> tuple[str, int]:
    assert row.sender is not None
    assert row.sender_incarnation is not None
    return row.sender, row.sender_incarnation
