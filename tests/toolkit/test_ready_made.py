"""The ready-made objects on a group, and the examples of docs/objects.md."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.toolkit import ComponentState, ReplicatedCounter, ReplicatedDict, ReplicatedQueue, ReplicatedSet
from tests.runtime.cluster import run
from tests.toolkit.hub import Hub

GUIDE = Path(__file__).parents[2] / "docs" / "objects.md"


def examples() -> list[str]:
    """The programs in the guide that use a group."""
    blocks = [block.split("```")[0] for block in GUIDE.read_text().split("```python\n")[1:]]
    return [block for block in blocks if "ReplicatedDict" in block]


@pytest.mark.parametrize("place", range(2))
def test_the_examples_of_the_guide_run(place: int, tmp_path: Path) -> None:
    assert len(examples()) == 2
    names: dict[str, Any] = {"ReplicatedDict": ReplicatedDict}
    source = "async def example(group, group_again, file):\n" + textwrap.indent(examples()[place], "    ")
    exec(source, names)

    async def main() -> None:
        (group,), (again,) = Hub().found("a"), Hub().found("a")
        await names["example"](group, again, tmp_path / "prices")

    run(main)


def test_a_dictionary() -> None:
    async def main() -> None:
        member: Any = Hub().found("a")[0]
        async with ReplicatedDict(member) as entries:
            await entries.set("x", [1, "two"])
            assert await entries.set_default("x", 5) == [1, "two"]
            assert not await entries.swap("x", 5, 6)
            assert await entries.swap("y", None, 6)
            await entries.update({"z": 7})
            assert await entries.pop("x") == [1, "two"]
            assert await entries.pop("x", "gone") == "gone"
            assert sorted(entries) == ["y", "z"]
            assert len(entries) == 2
            assert "y" in entries
            assert entries["z"] == await entries.get("z", consistency="mine") == 7
            await entries.clear()
            assert await entries.get("z", "nothing") == "nothing"

    run(main)


def test_a_set_a_counter_and_a_queue_reach_a_joiner() -> None:
    async def main() -> None:
        for kind in (ReplicatedSet, ReplicatedCounter, ReplicatedQueue):
            hub = Hub()
            member: Any = hub.found("a")[0]
            async with kind(member) as one:
                await fill(one)
                joiner: Any = hub.join("b")[0]
                async with kind(joiner) as other:
                    await look(other)

    run(main)


async def fill(made: Any) -> None:
    if isinstance(made, ReplicatedSet):
        assert await made.add("x")
        assert not await made.add("x")
        assert await made.add("y")
        assert await made.remove("x")
        assert not await made.remove("x")
    elif isinstance(made, ReplicatedCounter):
        await made.add(5)
        await made.add(-2)
    else:
        assert await made.put("one") == 1
        assert await made.put("two") == 2
        assert await made.take() == "one"


async def look(made: Any) -> None:
    if isinstance(made, ReplicatedSet):
        assert list(made) == ["y"]
        assert await made.has("y", consistency="agreed")
        assert "x" not in made
        assert len(made) == 1
    elif isinstance(made, ReplicatedCounter):
        assert made.value == await made.get(consistency="agreed") == 3
    else:
        assert list(made) == ["two"]
        assert await made.take() == "two"
        assert await made.take("nothing") == "nothing"
        assert len(made) == 0


def component(last_write: int, **attributes: Any) -> ComponentState[dict[str, Any]]:
    return ComponentState(attributes, (antiphon.ProcessId("a"),), (1,), 1, (last_write, ""))


def test_the_rules_by_which_they_merge() -> None:
    entries = [component(2, entries={"x": 1, "y": 1}), component(1, entries={"x": 2, "z": 2})]
    assert ReplicatedDict.merge_rule(entries) == {"entries": {"x": 1, "y": 1, "z": 2}}
    members = [component(1, members={"x"}), component(2, members={"y"})]
    assert ReplicatedSet.merge_rule(members) == {"members": {"x", "y"}}
    amounts = [component(1, amounts={"a": (2, 7), "b": (1, 1)}), component(2, amounts={"a": (1, 9), "c": (1, 1)})]
    assert ReplicatedCounter.merge_rule(amounts) == {"amounts": {"a": (2, 7), "b": (1, 1), "c": (1, 1)}}
    items = [component(1, items=[("1", "x"), ("2", "y")]), component(2, items=[("2", "y"), ("3", "z")])]
    assert ReplicatedQueue.merge_rule(items) == {"items": [("1", "x"), ("2", "y"), ("3", "z")]}
