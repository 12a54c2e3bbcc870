"""Objects on a group that does what the test says: results, reading, joining, failing, and files."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

import antiphon
from antiphon.toolkit import (
    ObjectDiskError,
    ObjectRestartError,
    ReplicatedDict,
    ReplicatedObject,
    Tools,
    commuting,
    ordered,
)
from antiphon.toolkit.group_copy import GroupCopy
from tests.runtime.cluster import run
from tests.toolkit.hub import Hub, Member
from tests.toolkit.tool_sites import pause


class Tally(ReplicatedObject):
    votes: dict[str, int]
    seen: set[str]

    def __init__(self, place: Any, **options: Any) -> None:
        super().__init__(place, **options)
        self.votes = {}
        self.seen = set()

    @commuting
    def vote(self, name: str, count: int = 1) -> int:
        self.votes[name] = self.votes.get(name, 0) + count
        self.seen.add(name)
        return self.votes[name]

    @ordered
    def withdraw(self, name: str) -> int:
        return self.votes.pop(name)


class Votes(ReplicatedObject):
    def __init__(self, place: Any, **options: Any) -> None:
        super().__init__(place, **options)
        self.total = 0

    @commuting
    def vote(self) -> None:
        self.total += 1


Body = Callable[[Hub, list[Tally]], Coroutine[Any, Any, None]]


def with_tallies(names: str, body: Body, path: Path | None = None) -> None:
    """Run the body with a copy at each of these members, on disk if there is a path."""

    async def main() -> None:
        hub = Hub()
        tallies = [make(member, path) for member in hub.found(names)]
        await asyncio.gather(*(tally.__aenter__() for tally in tallies))
        try:
            await body(hub, tallies)
        finally:
            for tally in tallies:
                await tally.__aexit__(None, None, None)

    run(main)


def make(member: Member, path: Path | None = None, **options: Any) -> Tally:
    if path is not None:
        options |= {"path": path / member.process.name, "founders": "abc"}
    return Tally(member, **options)


def copy_of(tally: Tally) -> GroupCopy:
    assert isinstance(tally._copy, GroupCopy)
    return tally._copy


def test_results_and_exceptions_go_to_the_caller() -> None:
    async def body(hub: Hub, tallies: list[Tally]) -> None:
        one, other = tallies
        assert await one.vote("x") == 1
        assert await other.vote("x", 4) == 5
        with pytest.raises(KeyError):
            await one.withdraw("nobody")
        assert await other.withdraw("x") == 5
        await one.settled()
        assert one.votes == other.votes == {}
        assert one.seen == other.seen == {"x"}
        with pytest.raises(msgspec.ValidationError):
            await one.vote("x", "many")  # type: ignore[arg-type]
        with pytest.raises(antiphon.UsageError):
            one.laggards()

    with_tallies("ab", body)


def test_calls_of_one_turn_share_a_message() -> None:
    async def body(hub: Hub, tallies: list[Tally]) -> None:
        before = len(hub.sent)
        assert sorted(await asyncio.gather(*(tallies[0].vote("x") for _ in range(50)))) == list(range(1, 51))
        assert len(hub.sent) == before + 1

    with_tallies("ab", body)


def test_a_joiner_gets_the_state_with_its_types() -> None:
    async def body(hub: Hub, tallies: list[Tally]) -> None:
        await tallies[0].vote("x", 3)
        async with make(hub.join("c")[0]) as joined:
            assert joined.votes == {"x": 3}
            assert joined.seen == {"x"}
            assert await joined.vote("x") == 4
            await joined.settled()
        assert tallies[1].votes == {"x": 4}

    with_tallies("ab", body)


def test_reading_is_as_fresh_as_wanted() -> None:
    async def body(hub: Hub, tallies: list[Tally]) -> None:
        one, other = tallies
        hub.members[antiphon.ProcessId("b")].is_held = True
        await one.vote("x")
        await other.catch_up("local")
        await other.catch_up("mine")
        assert other.votes == {}
        reading = asyncio.create_task(other.catch_up("agreed"))
        await pause()
        assert not reading.done()
        hub.members[antiphon.ProcessId("b")].release()
        await reading
        assert other.votes == {"x": 1}
        calling = asyncio.create_task(other.vote("x"))
        await asyncio.sleep(0)
        await other.catch_up("mine")
        assert other.votes == {"x": 2}
        assert await calling == 2
        with pytest.raises(antiphon.UsageError, match="local"):
            await one.catch_up("exact")  # type: ignore[arg-type]

    with_tallies("ab", body)


def test_calls_fail_clearly_when_the_membership_is_lost() -> None:
    async def body(hub: Hub, tallies: list[Tally]) -> None:
        one, other = tallies
        member = hub.members[antiphon.ProcessId("b")]
        member.is_held = True
        calling = asyncio.create_task(other.vote("x"))
        await pause()
        hub.expel("b")
        member._events.rotate(1)  # the exclusion overtakes the message, which b will never see
        member.release()
        with pytest.raises(antiphon.ExcludedError):
            await calling
        hub.readmit(member)
        assert await other.vote("y") == 1
        await one.settled()
        assert one.votes == other.votes
        member.end()
        with pytest.raises(antiphon.ClosedError):
            await other.vote("z")

    with_tallies("ab", body)


def test_a_call_that_takes_too_long_says_so() -> None:
    async def body(hub: Hub, tallies: list[Tally]) -> None:
        copy_of(tallies[1])._calls._timeout_s = 0.01
        hub.members[antiphon.ProcessId("b")].is_held = True
        with pytest.raises(TimeoutError, match="may still be executed"):
            await tallies[1].vote("x")

    with_tallies("ab", body)


def test_what_is_no_operation_is_counted_and_dropped() -> None:
    async def body(hub: Hub, tallies: list[Tally]) -> None:
        copy = copy_of(tallies[0])
        for call in (["steal", []], ["vote", ["x", "many"]]):
            with pytest.raises(ValueError, match=r".+"):
                await copy._issue(msgspec.msgpack.encode(call))
        copy.tools.post(copy, b"\xff", order="safe")
        await tallies[0].settled()
        assert tallies[1].strays == 2
        assert tallies[1].votes == {}

    with_tallies("ab", body)


def test_orders_that_promise_too_little_are_refused() -> None:
    async def main() -> None:
        (member,) = Hub().found("a")
        with pytest.raises(antiphon.UsageError, match="withdraw"):
            Tally(member, order="causal")
        with pytest.raises(antiphon.UsageError, match="safe"):
            Tally(member, order="agreed", path="x", founders="a")
        with pytest.raises(antiphon.UsageError, match="founders"):
            Tally(member, path="x")
        async with Votes(member, order="causal") as votes:
            await votes.vote()
            assert votes.total == 1
            with pytest.raises(antiphon.UsageError, match="no agreed state"):
                await votes.catch_up("agreed")

    run(main)


def test_two_objects_share_a_group() -> None:
    async def main() -> None:
        (member,) = Hub().found("a")
        tools = Tools(member)
        one, other = ReplicatedDict(tools, name="one"), ReplicatedDict(tools, name="other")
        async with tools, one, other:
            await one.set("x", 1)
            await other.set("x", 2)
            assert (one["x"], other["x"]) == (1, 2)

    run(main)


# ---- on disk --------------------------------------------------------------------------------------------------------


def test_the_state_outlives_all_members(tmp_path: Path) -> None:
    async def write(hub: Hub, tallies: list[Tally]) -> None:
        for tally in tallies:
            await tally.vote("x", 2)

    async def read(hub: Hub, tallies: list[Tally]) -> None:
        for tally in tallies:
            await tally.catch_up("agreed")
            assert tally.votes == {"x": 6}
            assert tally.seen == {"x"}

    with_tallies("abc", write, tmp_path)
    with_tallies("cb", read, tmp_path)
    with_tallies("abc", read, tmp_path)


def test_the_last_to_go_on_is_waited_for(tmp_path: Path) -> None:
    async def write(hub: Hub, tallies: list[Tally]) -> None:
        await tallies[0].vote("x")
        for gone in ("c", "b"):
            hub.fail(gone)
            await tallies[0].vote("x")

    with_tallies("abc", write, tmp_path)

    async def main() -> None:
        hub = Hub()
        tallies = [make(member, tmp_path) for member in hub.found("bc")]
        begun = [asyncio.create_task(tally.__aenter__()) for tally in tallies]
        while copy_of(tallies[0]).waits_for() != ["a"]:
            await asyncio.sleep(0.01)
        assert not any(task.done() for task in begun)
        async with make(hub.join("a")[0], tmp_path) as back:
            assert back.votes == {"x": 3}
            await asyncio.gather(*begun)
            assert tallies[1].votes == {"x": 3}
            for tally in tallies:
                await tally.__aexit__(None, None, None)

    run(main)


def test_disks_can_be_given_up_by_explicit_word(tmp_path: Path) -> None:
    async def write(hub: Hub, tallies: list[Tally]) -> None:
        await tallies[0].vote("x")
        last = copy_of(tallies[2])
        while not tallies[2].votes or last._reports.get("c", 0) < last._index:  # it is on the third disk as well
            await asyncio.sleep(0.01)

    with_tallies("abc", write, tmp_path)

    async def main() -> None:
        (member,) = Hub().found("c")
        tally = make(member, tmp_path)
        begun = asyncio.create_task(tally.__aenter__())
        while copy_of(tally).waits_for() != ["a", "b"]:
            await asyncio.sleep(0.01)
        with pytest.raises(antiphon.UsageError, match="'g'"):
            await tally.go_on_without(confirm="yes")
        await tally.go_on_without(confirm="g")
        await begun
        assert await tally.vote("x") == 2
        await tally.__aexit__(None, None, None)

    run(main)


def test_a_minority_that_an_operator_had_go_on_is_not_the_last_word(tmp_path: Path) -> None:
    async def body(hub: Hub, tallies: list[Tally]) -> None:
        await tallies[0].vote("x")
        member = hub.members[antiphon.ProcessId("a")]
        member.is_held = True  # a is cut off…
        hub.expel("a")
        member._events.clear()
        assert await tallies[1].vote("x") == 2  # …the others go on…
        hub.fail("b", "c")
        for tally in tallies[1:]:
            await tally.__aexit__(None, None, None)
        hub.members[member.process] = member
        hub.view = antiphon.View(hub.view.id, (member.process,))
        hub.install((member.process,))  # …and fail, and a is told to go on
        member.release()
        with pytest.raises(ObjectRestartError):
            await tallies[0].vote("x")
        while copy_of(tallies[0]).waits_for() != ["b", "c"]:
            await asyncio.sleep(0.01)
        async with make(hub.join("b")[0], tmp_path) as back:
            assert await tallies[0].vote("x") == 3
            await back.catch_up("agreed")
            assert back.votes == {"x": 3}

    with_tallies("abc", body, tmp_path)


def test_a_state_that_is_older_than_the_own_file_is_refused(tmp_path: Path) -> None:
    async def write(hub: Hub, tallies: list[Tally]) -> None:
        for _ in range(3):
            await tallies[2].vote("x")

    async def body(hub: Hub, tallies: list[Tally]) -> None:
        joiner = make(hub.join("c")[0], tmp_path)
        with pytest.raises(antiphon.AntiphonError, match="older disks"):
            await joiner.__aenter__()
        await joiner.__aexit__(None, None, None)

    with_tallies("abc", write, tmp_path)
    for lost in "ab":
        (tmp_path / lost).unlink()  # both disks are lost, which the others cannot know
    with_tallies("ab", body, tmp_path)


def test_a_call_waits_for_enough_disks(tmp_path: Path) -> None:
    async def body(hub: Hub, tallies: list[Tally]) -> None:
        held = [asyncio.Event() for _ in range(2)]
        for tally, event in zip(tallies[1:], held, strict=True):
            hold_disk(tally, event)
        calling = asyncio.create_task(tallies[0].vote("x"))
        reading = asyncio.create_task(tallies[0].catch_up("agreed"))
        while not tallies[0].votes:
            await asyncio.sleep(0.01)
        await pause()
        assert not calling.done()
        assert not reading.done()
        held[0].set()
        assert await calling == 1
        await reading
        held[1].set()

    with_tallies("abc", body, tmp_path)


def hold_disk(tally: Tally, until: asyncio.Event) -> None:
    file = copy_of(tally)._file
    assert file is not None
    sync = file.sync

    async def late() -> None:
        await until.wait()
        await sync()

    file.sync = late  # type: ignore[method-assign]


def test_a_disk_that_fails_ends_the_copy(tmp_path: Path) -> None:
    async def body(hub: Hub, tallies: list[Tally]) -> None:
        async def broken() -> None:
            raise OSError("no space left")

        for other in tallies[1:]:
            hold_disk(other, asyncio.Event())  # two other disks would be enough to acknowledge the call
        file = copy_of(tallies[0])._file
        assert file is not None
        file.sync = broken  # type: ignore[method-assign]
        with pytest.raises(ObjectDiskError, match="no space left"):
            await tallies[0].vote("x")

    with_tallies("abc", body, tmp_path)


def test_files_are_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.toolkit.object_log.COMPACT_BYTES_MIN", 500)

    async def write(hub: Hub, tallies: list[Tally]) -> None:
        for _ in range(100):
            await tallies[0].vote("x")
        await tallies[0].settled()
        assert (tmp_path / "a").stat().st_size < 700

    async def read(hub: Hub, tallies: list[Tally]) -> None:
        assert tallies[1].votes == {"x": 100}

    with_tallies("abc", write, tmp_path)
    with_tallies("abc", read, tmp_path)


def test_all_copies_are_on_disk_or_none(tmp_path: Path) -> None:
    async def body(hub: Hub, tallies: list[Tally]) -> None:
        joiner = make(hub.join("d")[0])
        with pytest.raises(antiphon.AntiphonError, match="give all a `path`, or none"):
            await joiner.__aenter__()
        await joiner.__aexit__(None, None, None)

    with_tallies("abc", body, tmp_path)
