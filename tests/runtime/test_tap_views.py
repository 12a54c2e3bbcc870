"""What a run with changing views leaves behind passes the audit, in the order in which the applications saw it."""

from pathlib import Path

from antiphon.history.reader import HistoryFiles
from antiphon.pipeline import reference
from antiphon.runtime import Excluded
from tests.runtime.cluster import run, until
from tests.runtime.places import Place, Walls, everyone, founded, talk


def test_a_run_with_changing_views_is_recorded(tmp_path: Path) -> None:
    async def test() -> None:
        walls = Walls()
        async with founded("abcd", history=tmp_path, faults=walls.faults) as places:
            await talk(places)
            walls.between(places[:3], places[3:])
            await everyone(places[:3], "a/1", "b/1", "c/1")
            walls.between()
            await places[3].until(Excluded)
            places.append(await places[0].join("e", history=tmp_path, faults=walls.faults, linger_s=0.5))
            trio = [*places[:3], places[4]]
            await everyone(trio, "a/1", "b/1", "c/1", "e/1")
            await talk(trio)
            assert await places[0].group.leave()
            await everyone(trio[1:], "b/1", "c/1", "e/1")

    run(test)
    rows = list(HistoryFiles.open(tmp_path).read_rows())
    last = {row.process: (row.kind, row.label) for row in rows}
    assert last["d"] == ("crash", "excluded")
    assert {last[name] for name in "abce"} == {("stop", "left")}
    assert {row.process for row in rows if (row.kind, row.label) == ("note", "leaves")} == set("abce")
    views: dict[str, list[tuple[int | None, tuple[str, ...] | None]]] = {name: [] for name in "abcde"}
    for row in rows:
        if row.kind == "view":
            views[row.process].append((row.view, row.members))
    assert views["a"] == [
        (1, ("a/1", "b/1", "c/1", "d/1")),
        (2, ("a/1", "b/1", "c/1")),
        (3, ("a/1", "b/1", "c/1", "e/1")),
    ]
    assert views["b"][:3] == views["a"]
    assert views["d"] == views["a"][:1]
    assert views["e"][0] == views["a"][2]
    assert ("a", "d/1") in {(row.process, row.label) for row in rows if row.kind == "suspect"}
    starts = [row for row in rows if row.kind == "start"]
    assert [row.process for row in starts] == list("abcde")
    assert all('"policy":"primary"' in (row.label or "") for row in starts)
    assert reference.audit(tmp_path).verdict == "kept"
    audit = reference.audit(
        tmp_path, promise=("view_agreement", "view_synchrony", "view_sending", "primary", "silence")
    )
    assert audit.verdict == "kept", audit.findings
    assert all(finding.checked for finding in audit.findings)


def test_a_view_stands_in_the_history_where_the_application_reads_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with founded(history=tmp_path) as places:
            await places[0].group.send_many([b"one", b"two"])
            for place in places[1:]:
                assert (await place.message(), await place.message()) == (b"one", b"two")
            assert await places[2].group.leave()
            await places[1].view("a/1", "b/1")
            # The oldest has read nothing so far, though the engine has been in the second view for long.
            assert places[0].group.view.id == 2
            assert await places[0].message() == b"one"
            await places[0].node.close()

    run(test)
    seen: dict[str, list[tuple[str, int | None]]] = {"a": [], "b": []}
    for row in HistoryFiles.open(tmp_path).read_rows():
        if row.process in seen and row.kind in ("view", "deliver"):
            seen[row.process] += [(row.kind, row.view)] * (row.count or 1)
    assert seen["a"] == [("view", 1), ("deliver", 1)]  # it has not got as far as the second view
    assert seen["b"][:4] == [("view", 1), ("deliver", 1), ("deliver", 1), ("view", 2)]


def test_who_leaves_one_group_and_stays_in_another_says_which(tmp_path: Path) -> None:
    async def test() -> None:
        async with founded(history=tmp_path) as places:
            node = places[2].node
            group = await node.join("h", members={"c": node.address}, policy="primary")
            assert await places[2].group.leave()
            await group.send(b"x")
            await group.close()
            await everyone(places[:2], "a/1", "b/1")
            places[2].kill()

    run(test)
    rows = [row for row in HistoryFiles.open(tmp_path).read_rows() if row.process == "c"]
    notes = [(row.group, row.label) for row in rows if row.kind == "note"]
    assert notes == [(None, "reads each group apart"), ("g", "leaves"), ("g", "left"), ("g", "left")]
    assert (rows[-1].kind, rows[-1].label) == ("stop", "killed")


def test_views_are_recorded_though_nobody_reads_of_them(tmp_path: Path) -> None:
    async def test() -> None:
        async with founded(history=tmp_path) as places:
            await places[0].group.close()
            assert await places[2].group.leave()
            await places[1].view("a/1", "b/1")

            def at(place: Place) -> int:
                return place.group.view.id

            await until(lambda: at(places[0]) == 2)
            places.append(await places[1].join("d", history=tmp_path, linger_s=0.5))
            await until(lambda: at(places[0]) == at(places[1]) == 3)
            for place in (places[0], places[1]):
                place.kill()

    run(test)
    views: dict[str, list[int | None]] = {name: [] for name in "abcd"}
    for row in HistoryFiles.open(tmp_path).read_rows():
        if row.kind == "view":
            views[row.process].append(row.view)
    assert views == {"a": [1, 2, 3], "b": [1, 2, 3], "c": [1], "d": [3]}
