"""What several observers say, put side by side: the rows of `antiphon top`.

Rates are differences between two answers of the same life of a member, over the time between them by its own clock.
What a member says is taken as it comes: a field that is missing counts as nothing, so that members of different
versions can be looked at together.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, final

UNREACHABLE: Final = "unreachable"
READY: Final = "ready"
NOT_READY: Final = "not ready"
SORTS: Final = ("name", "delivered", "behind", "unread", "lag")
"""What members can be sorted by; all but the name from the largest down."""
REQUIRED: Final = {"name", "process", "time_ns", "groups"}
"""What no observer leaves out of its answer."""

Document = Mapping[str, Any]


@dataclass(slots=True)
class MemberRow:
    """One member, over all groups that were picked."""

    address: str
    """Of its observer."""
    name: str
    state: str
    why: str = ""
    groups: int = 0
    sent_per_s: float = 0.0
    delivered_per_s: float = 0.0
    waits_per_s: float = 0.0
    unread: int = 0
    outbox: int = 0
    outstanding: int = 0
    """What it has sent and some member is not known to have; the outbox included."""
    behind: int = 0
    """The packets that others wait for it to acknowledge, at most."""
    lag_ms: float = 0.0
    suspicions: int = 0


@dataclass(slots=True)
class GroupRow:
    """One group, over all members that answer."""

    name: str
    stack: str
    views: list[int] = field(default_factory=list)
    """The ids of the views that members are in; one, where all is well."""
    size: int = 0
    states: list[str] = field(default_factory=list)
    sent_per_s: float = 0.0
    delivered_per_s: float = 0.0
    """At the member where it is the highest."""
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    """Of the slowest level at the slowest member…"""
    level: str = ""
    """…which is this."""
    stable_p99_ms: float = 0.0
    waits_per_s: float = 0.0
    suspicions: int = 0
    stalls: int = 0


@dataclass(slots=True)
class WaitRow:
    """A member that waits for another's acknowledgements."""

    group: str
    waiting: str
    slow: str
    behind: int
    silent_ms: float
    strain: float
    is_suspected: bool


@dataclass(slots=True)
class BoardView:
    """Everything that is shown."""

    members: list[MemberRow]
    groups: list[GroupRow]
    waits: list[WaitRow]
    events: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@final
class Board:
    """The last two answers of each observer."""

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses
        self._last: dict[str, Document] = {}
        self._before: dict[str, Document] = {}
        self._errors: dict[str, str] = {}

    def take(self, address: str, document: Document) -> None:
        """An observer has answered. Raises ValueError for a document that is none of an observer."""
        if not (document.keys() >= REQUIRED and isinstance(document["groups"], list)):
            raise ValueError("this does not answer as an observer does")
        if address in self._last:
            self._before[address] = self._last[address]
        self._last[address] = document
        self._errors.pop(address, None)

    def lose(self, address: str, why: str) -> None:
        """An observer does not answer."""
        self._errors[address] = why
        self._before.pop(address, None)

    def group_names(self) -> list[str]:
        """All groups that members are in."""
        return sorted({group["name"] for document in self._answers().values() for group in document["groups"]})

    def _answers(self) -> dict[str, Document]:
        return {address: self._last[address] for address in self.addresses if self._is_here(address)}

    def _is_here(self, address: str) -> bool:
        return address in self._last and address not in self._errors

    def view(self, group: str = "", sort: str = SORTS[0]) -> BoardView:
        """What is shown now, of one group or (none named) of all."""
        waits = self._waits(group)
        members = [self._member(address, group, waits) for address in self.addresses]
        members.sort(key=lambda row: row.name)
        if sort != SORTS[0]:
            field_name = {"delivered": "delivered_per_s", "lag": "lag_ms"}.get(sort, sort)
            members.sort(key=lambda row: -getattr(row, field_name))
        return BoardView(members, self._groups(group), waits, self._events(group))

    def _rate(self, address: str, group: str, counter: str) -> float:
        """How fast a counter of a group rises at a member."""
        now, before = self._last.get(address), self._before.get(address)
        if now is None or before is None or now["process"] != before["process"]:
            return 0.0
        seconds = (now["time_ns"] - before["time_ns"]) / 1e9
        rise = count_of(group_of(now, group), counter) - count_of(group_of(before, group), counter)
        return max(0.0, rise / seconds) if seconds > 0 else 0.0

    def _member(self, address: str, picked: str, waits: list[WaitRow]) -> MemberRow:
        last = self._last.get(address)
        name = address if last is None else str(last["name"])
        if last is None or address in self._errors:
            return MemberRow(address, name, UNREACHABLE, self._errors.get(address, "not asked yet"))
        why = "; ".join(f"{reason['group']} {reason['reason']}".strip() for reason in last.get("reasons", ()))
        row = MemberRow(address, name, READY if last.get("ready") else NOT_READY, why)
        row.lag_ms = last.get("loop_lag_ms", 0.0)
        row.behind = max([wait.behind for wait in waits if wait.slow == name], default=0)
        for group in last["groups"]:
            if picked in ("", group["name"]):
                row.groups += 1
                row.sent_per_s += self._rate(address, group["name"], "sent")
                row.delivered_per_s += self._rate(address, group["name"], "delivered")
                row.waits_per_s += self._rate(address, group["name"], "send_waits")
                row.unread += group.get("unread_messages", 0)
                row.outbox += group.get("outbox_messages", 0)
                row.outstanding += group.get("outstanding", 0)
                row.suspicions += group.get("suspicions", 0)
        return row

    def _groups(self, picked: str) -> list[GroupRow]:
        rows: dict[str, GroupRow] = {}
        for address, document in self._answers().items():
            for group in document["groups"]:
                name = group["name"]
                if picked in ("", name):
                    self._add(rows.setdefault(name, GroupRow(name, group["stack"])), address, group)
        for row in rows.values():
            row.views = sorted(set(row.views))
            row.states = sorted(set(row.states))
        return [rows[name] for name in sorted(rows)]

    def _add(self, row: GroupRow, address: str, group: Document) -> None:
        row.views.append(group["view"])
        row.states.append(group["state"])
        row.size = max(row.size, len(group["members"]))
        row.sent_per_s += self._rate(address, row.name, "sent")
        row.delivered_per_s = max(row.delivered_per_s, self._rate(address, row.name, "delivered"))
        row.waits_per_s += self._rate(address, row.name, "send_waits")
        row.suspicions += group.get("suspicions", 0)
        row.stalls += group.get("stalls", 0)
        row.stable_p99_ms = max(row.stable_p99_ms, group.get("stability", {}).get("p99_ms", 0.0))
        for level, times in group.get("latency", {}).items():
            if times["p99_ms"] >= row.p99_ms:
                row.p50_ms, row.p99_ms, row.level = times["p50_ms"], times["p99_ms"], level

    def _waits(self, picked: str) -> list[WaitRow]:
        """Who waits for whom, the longest wait first."""
        rows: list[WaitRow] = []
        for document in self._answers().values():
            for group in document["groups"]:
                if picked in ("", group["name"]):
                    rows += [wait_row(document, group, member) for member in group["members"] if is_waited_for(member)]
        return sorted(rows, key=lambda row: (-row.is_suspected, -row.behind, -row.strain))

    def _events(self, picked: str) -> list[dict[str, Any]]:
        """The last events of all members, the newest last."""
        found = [
            {"member": document["name"], **event}
            for document in self._answers().values()
            for event in document.get("events", ())
            if picked in ("", event["group"])
        ]
        return sorted(found, key=lambda event: int(event["time_ns"]))[-100:]


def is_waited_for(member: Document) -> bool:
    """Whether this member is behind, or hard to hear."""
    return bool(member.get("behind") or member.get("is_suspected") or member.get("strain", 0) >= 1)


def wait_row(document: Document, group: Document, member: Document) -> WaitRow:
    return WaitRow(
        group=group["name"],
        waiting=document["name"],
        slow=member["name"],
        behind=member["behind"],
        silent_ms=member["silent_ms"],
        strain=member["strain"],
        is_suspected=member["is_suspected"],
    )


def group_of(document: Document, name: str) -> Document:
    """What a member says of a group; nothing, if it is not in it."""
    for group in document["groups"]:
        if group["name"] == name:
            found: Document = group
            return found
    return {}


def count_of(group: Document, counter: str) -> int:
    """A counter, over all levels."""
    count = group.get(counter, 0)
    return sum(count.values()) if isinstance(count, dict) else int(count)
