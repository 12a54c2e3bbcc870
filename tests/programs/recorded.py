"""One group whose members record to disk with the real recorder, as `Node(history=…)` does.

What is on disk in the end is what the application did, up to a point: all of it where a program came to its end, all
but the last second where it was killed, and whatever was synced where the power went. The audit of the disks may leave
promises undecided, but finds none broken.
"""

from collections.abc import Iterator, Sequence

from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import Row
from antiphon.history.segments import SUFFIX
from antiphon.pipeline import reference
from antiphon.pipeline.result import BROKEN
from antiphon.testing import Host, Result
from tests.programs.common import Play, enter, names, node_at, read, talk, until_ending

LOST_NS_MAX = 1_000_000_000
RUNS = ("send", "deliver", "receive")


async def main(host: Host) -> int:
    async with node_at(host, history=host.disk / "history", run="run") as node:
        group = await enter(node, host, "group")
        await until_ending(host, talk(host, [group]), read(node, group))
    return host.starts


def events(rows: Sequence[Row]) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Time and event, one for each message. When a message left is told in one row or in two, as the writing falls."""
    for row in rows:
        if row.kind in RUNS:
            for place in range(row.count or 0):
                yield row.time_ns, (row.kind, row.group, row.sender, row.sender_incarnation, (row.number or 0) + place)
        elif row.kind != "depart":
            yield row.time_ns, (row.kind, row.group, row.view, row.members, row.label)


def on_disk(result: Result) -> None:
    """Each log on disk is the beginning of what its process did, and long enough."""
    found: dict[tuple[str, int], list[Row]] = {}
    for disk in result.disks.values():
        if any((disk / "history").glob(f"*{SUFFIX}")):  # none if all its processes were killed before the first write
            for row in HistoryFiles.open(disk / "history").read_rows():
                found.setdefault((row.process, row.incarnation), []).append(row)
    without_power = {fault.split()[4] for fault in result.faults if ": power loss of " in fault}
    for rows in result.rows:
        name, last = rows[0].process, rows[-1]
        kept = [event for _, event in events(found.get((name, rows[0].incarnation), []))]
        done = [(time_ns, event) for time_ns, event in events(rows[:-1])]
        assert kept[: len(done)] == [event for _, event in done[: len(kept)]], f"{name}: the log on disk differs"
        if last.kind == "stop":
            assert len(kept) >= len(done), f"{name} ended, and {len(done) - len(kept)} events are not on disk"
        elif name not in without_power:
            lost = [time_ns for time_ns, _ in done[len(kept) :]]
            assert all(time_ns > last.time_ns - LOST_NS_MAX for time_ns in lost), f"{name} lost more than a second"
    written = [row for rows in found.values() for row in rows]
    if any(row.kind == "start" for row in written):
        broken = [finding for finding in reference.audit(written).findings if finding.verdict == BROKEN]
        assert not broken, f"on disk {broken[0].guarantee} is broken: {broken[0].example}"


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), main), on_disk)
