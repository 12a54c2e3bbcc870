"""The root of a hierarchy: which leaf is in charge, and how a newcomer finds it."""

import asyncio

import pytest

from antiphon import ProcessId, UsageError
from antiphon.toolkit import HierarchyRoot, NoLeafError, find_leaf
from antiphon.toolkit.frames import read_frame, split_host
from antiphon.toolkit.hierarchy_root import LeafDirectory, LeafFinder, LeafPlace, LeafState
from tests.runtime.cluster import run, until
from tests.toolkit.test_hierarchy import enter, leaves

KEYS = [b"key %d" % number for number in range(300)]


def state(leaf: str, size: int) -> LeafState:
    return LeafState(leaf, [f"{leaf}:{number}" for number in range(size)], [(f"{leaf}0", 1), (f"{leaf}1", 1)])


def directory(*states: LeafState) -> LeafDirectory:
    made = LeafDirectory()
    for each in states:
        made.learn(each)
    return made


def leaf_of(made: LeafDirectory, key: bytes | None) -> str:
    place = made.find(key)
    assert place is not None
    return place.leaf


def test_without_a_key_the_smallest_leaf_is_named() -> None:
    assert LeafDirectory().find(None) is None
    made = directory(state("x", 3), state("y", 2), state("z", 2))
    assert made.find(None) == LeafPlace("y", ["y:0", "y:1"])
    made.learn(state("y", 4))
    assert leaf_of(made, None) == "z"


def test_the_order_of_learning_does_not_matter_and_a_new_leaf_moves_only_its_own_keys() -> None:
    made = directory(state("x", 1), state("y", 2), state("z", 3))
    same = directory(state("z", 1), state("x", 2), state("y", 3))
    before = {key: leaf_of(made, key) for key in KEYS}
    assert before == {key: leaf_of(same, key) for key in KEYS}
    assert {list(before.values()).count(leaf) > 50 for leaf in "xyz"} == {True}
    made.learn(state("w", 1))
    moved = {key for key in KEYS if leaf_of(made, key) != before[key]}
    assert moved
    assert {leaf_of(made, key) for key in moved} == {"w"}
    made.keep([ProcessId("x1"), ProcessId("y0"), ProcessId("z0"), ProcessId("stranger")])
    assert {key: leaf_of(made, key) for key in KEYS} == before


def test_a_newcomer_is_mapped_to_a_leaf_and_joins_it() -> None:
    async def test() -> None:
        async with leaves("abc", "de") as (first, second):
            representatives = [*first[:2], *second]
            await until(lambda: all(len(place.hierarchy.leaves) == 2 for place in representatives))
            await until(lambda: {len(place.hierarchy.leaves["leaf abc"]) for place in representatives} == {3})
            assert first[2].hierarchy.leaves == {}  # it is no representative
            for key in KEYS[:20]:
                assert len({repr(place.hierarchy.find_leaf(key)) for place in representatives}) == 1
            async with HierarchyRoot(first[0].hierarchy) as one, HierarchyRoot(second[1].hierarchy) as other:
                roots = ["127.0.0.1:1", one.address, other.address]  # the first one is not there
                place = await find_leaf(roots)
                assert place.leaf == "leaf de"
                assert place.contacts == [member.node.address for member in second]
                assert await find_leaf(roots, key=b"k") == first[0].hierarchy.find_leaf(b"k")
                newcomer = await enter("f", place.leaf, second, first)
                second.append(newcomer)
                await until(lambda: len(first[0].hierarchy.leaves["leaf de"]) == 3)
                assert (await find_leaf(roots)).leaf == "leaf abc"  # equal sizes: by name
                await newcomer.hierarchy.send_all(b"hello")
                await until(lambda: all(len(member.far) == 1 for member in (*first, *second)))

    run(test)


def test_what_a_root_cannot_answer() -> None:
    class Empty(LeafFinder):
        def find_leaf(self, key: bytes | None = None) -> LeafPlace | None:
            return None

    async def test() -> None:
        with pytest.raises(UsageError, match="a list of addresses"):
            await find_leaf("127.0.0.1:1")
        with pytest.raises(UsageError, match="shorten it"):
            await find_leaf(["127.0.0.1:1"], key=bytes(5000))
        with pytest.raises(NoLeafError, match=r"127\.0\.0\.1:1"):
            await find_leaf(["127.0.0.1:1"])
        async with HierarchyRoot(Empty()) as root:
            with pytest.raises(NoLeafError, match="knows no leaf yet"):
                await find_leaf([root.address])
            with pytest.raises(UsageError, match="no root can be opened"):
                async with HierarchyRoot(Empty(), address=root.address):
                    pass
            reader, writer = await asyncio.open_connection(*split_host(root.address))
            writer.write(b"\0\0\0\1\xff")
            assert await reader.read() == b""
            writer.close()
            assert await _is_open(root.address)

    async def _is_open(address: str) -> bool:
        reader, writer = await asyncio.open_connection(*split_host(address))
        writer.write(b"\0\0\0\x08\x92\xa5which\xc0")
        answer = await read_frame(reader)
        writer.close()
        return b"none" in answer

    run(test)
