"""Finding each other, and beginning: cold starts by contact list, file, name and beacon."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.runtime import AddressError, JoinError, Message, Node
from antiphon.runtime.discovery import ADDRESSES_MAX, Discovery, FileDiscovery, NameDiscovery
from antiphon.runtime.discovery_beacon import (
    ANNOUNCE_S,
    ANNOUNCEMENT_BYTES_MAX,
    MAGIC,
    BeaconDiscovery,
    read_announcement,
)
from antiphon.runtime.discovery_search import Search
from tests.runtime.cluster import run, until
from tests.runtime.places import HASTY, LOOPBACK, Place, founded, talk

FOUND_AFTER_S = 0.3
Ways = Callable[[list[Node]], Sequence[Sequence[str] | Discovery]]
"""The contacts of each node."""


async def started(count: int) -> list[Node]:
    nodes = [
        Node(f"n{number}", address=LOOPBACK, incarnation=1, options=HASTY, linger_s=1.0) for number in range(count)
    ]
    for node in nodes:
        await node.start()
    return nodes


async def cold_start(count: int, ways: Ways, found_after_s: float = FOUND_AFTER_S) -> None:
    """All start at once, and end in one view."""
    nodes = await started(count)
    try:
        joining = (
            node.join("g", contacts=contacts, found_after_s=found_after_s)
            for node, contacts in zip(nodes, ways(nodes), strict=True)
        )
        groups = await asyncio.gather(*joining)
        await until(lambda: all(len(group.view.members) == count for group in groups))
        assert len({group.view.members for group in groups}) == 1
        places = [Place(node, group) for node, group in zip(nodes, groups, strict=True)]
        await talk(places)
    finally:
        await asyncio.gather(*(node.close() for node in nodes))


def test_ten_processes_that_start_at_once_form_one_group() -> None:
    run(lambda: cold_start(10, lambda nodes: [[node.address for node in nodes]] * 10))


def test_a_cold_start_by_file_that_comes_late(tmp_path: Path) -> None:
    file = tmp_path / "members"

    async def test() -> None:
        def ways(nodes: list[Node]) -> Sequence[Discovery]:
            lines = ["# members", "", *(f"{node.address}  # {node.process}" for node in nodes), "nonsense"]
            asyncio.get_running_loop().call_later(0.1, file.write_text, "\n".join(lines))
            return [FileDiscovery(file) for _ in nodes]

        await cold_start(4, ways)

    run(test)


def test_a_cold_start_by_beacon() -> None:
    async def test() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            multicast = f"239.255.74.1:{free.getsockname()[1]}"
        try:
            await cold_start(4, lambda nodes: [BeaconDiscovery(multicast) for _ in nodes], 2 * ANNOUNCE_S)
        except AddressError as error:
            pytest.skip(str(error))

    run(test)


def test_the_first_contact_joins_a_group_that_is_there() -> None:
    async def test() -> None:
        async with founded("ab") as places:
            first = Node("c", address=LOOPBACK, incarnation=1, options=HASTY, linger_s=1.0)
            await first.start()
            contacts = [first.address, *(place.node.address for place in places)]
            places.append(Place(first, await first.join("g", contacts=contacts)))
            await places[2].view("a/1", "b/1", "c/1")
            await talk(places)

    run(test)


def test_only_the_first_contact_founds() -> None:
    async def test() -> None:
        first, second, third = await started(3)
        with pytest.raises(JoinError, match=first.address):
            await second.join("g", contacts=[first.address, second.address], timeout_s=0.5, found_after_s=0.05)
        group = await third.join("g", contacts=[third.address, first.address], found_after_s=0.05)
        assert group.view.members == (ProcessId("n2"),)
        await asyncio.gather(first.close(), second.close(), third.close())

    run(test)


def test_a_group_of_one_contact() -> None:
    run(lambda: cold_start(1, lambda nodes: [[nodes[0].address]]))


def test_a_process_founds_several_groups_by_asking() -> None:
    """Founding changes nothing for the groups that the process is in already."""

    async def test() -> None:
        first, second = await started(2)
        contacts = [first.address, second.address]
        groups = [await first.join(name, contacts=contacts, found_after_s=0.05) for name in "gh"]
        assert [group.view.members for group in groups] == [(first.process,)] * 2
        there = [await second.join(name, contacts=contacts) for name in "gh"]
        for group, other in zip(groups, there, strict=True):
            await group.send(b"x")
            assert await Place(second, other).message() == b"x"
        assert await groups[1].leave()
        await asyncio.gather(first.close(), second.close())

    run(test)


def test_a_group_that_all_have_left_is_founded_again() -> None:
    """In the same life: message numbers and view ids go on where they ended."""

    async def test() -> None:
        (node,) = await started(1)
        seen = []
        for _ in range(2):
            group = await node.join("g", contacts=[node.address], found_after_s=0.05)
            await group.send(b"x")
            async for event in group:
                if isinstance(event, Message):
                    seen.append((event.number, event.view_id))
                    break
            assert await group.leave()
        assert [number for number, _ in seen] == [1, 2]
        assert seen[0][1] < seen[1][1]
        await node.close()

    run(test)


def found(discovery: Discovery) -> list[str]:
    async def look() -> list[str]:
        return list(await discovery.addresses("127.0.0.1:7400"))

    return asyncio.run(look())


def test_what_a_file_says(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "members"
    discovery = FileDiscovery(file)
    assert found(discovery) == []
    file.write_bytes(b"10.0.0.1:7400\r\n\n # none\nhost.example:1 # two\nbad\xff\n:\n[::1]:7400\n")
    assert found(discovery) == ["10.0.0.1:7400", "host.example:1", "[::1]:7400"]
    assert "bad" in caplog.text
    file.write_text("10.0.0.2:7400\n" * (ADDRESSES_MAX + 1))
    assert found(discovery) == ["10.0.0.2:7400"] * ADDRESSES_MAX
    file.unlink()
    assert found(discovery) == []


def test_what_a_name_says() -> None:
    assert "127.0.0.1:7400" in found(NameDiscovery("localhost:7400"))
    assert found(NameDiscovery("no-such-host.invalid:7400")) == []
    with pytest.raises(AddressError):
        NameDiscovery("localhost")


@pytest.mark.parametrize(
    ("data", "address"),
    [
        (MAGIC + b"10.0.0.1:7400", "10.0.0.1:7400"),
        (MAGIC + b"10.0.0.1:0", None),
        (MAGIC + b"localhost:7400", None),
        (MAGIC + b"[::1]:7400", None),
        (MAGIC + b"\xff\xfe", None),
        (MAGIC, None),
        (b"10.0.0.1:7400", None),
        (b"", None),
        (MAGIC + b"10.0.0.1:7400".rjust(ANNOUNCEMENT_BYTES_MAX), None),
    ],
)
def test_what_an_announcement_says(data: bytes, address: str | None) -> None:
    assert read_announcement(data) == address


@pytest.mark.parametrize("multicast", ["127.0.0.1:7400", "[ff02::1]:7400", "239.255.74.0", "host:7400"])
def test_addresses_that_no_beacon_can_use(multicast: str) -> None:
    with pytest.raises(AddressError):
        BeaconDiscovery(multicast)


class Found:
    """Finds what it was told to."""

    def __init__(self, *addresses: str) -> None:
        self.found = addresses

    async def addresses(self, own: str) -> Sequence[str]:
        return self.found

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("contacts", "bound", "own", "is_first", "others"),
    [
        (["127.0.0.1:7401", "127.0.0.1:7400"], "127.0.0.1:7400", "127.0.0.1:7400", False, ["127.0.0.1:7401"]),
        (["127.0.0.1:7400", "127.0.0.1:7401"], "127.0.0.1:7400", "127.0.0.1:7400", True, ["127.0.0.1:7401"]),
        (["127.0.0.1:7400", "127.0.0.1:7401"], "0.0.0.0:7400", "127.0.0.1:7400", True, ["127.0.0.1:7401"]),
        (Found("127.0.0.1:7401", "127.0.0.1:7400"), "127.0.0.1:7400", "127.0.0.1:7400", True, ["127.0.0.1:7401"]),
        (Found("127.0.0.1:7401", "127.0.0.1:7400"), "127.0.0.1:7401", "127.0.0.1:7401", False, ["127.0.0.1:7400"]),
        (["no-such-host.invalid:1", "127.0.0.1:7401"], "127.0.0.1:7400", "127.0.0.1:7400", False, ["127.0.0.1:7401"]),
        (Found("no-such-host.invalid:1"), "127.0.0.1:7400", "127.0.0.1:7400", False, []),
        (Found(), "127.0.0.1:7400", "127.0.0.1:7400", False, []),
        (Found(), "0.0.0.0:7400", "", False, []),
    ],
)
def test_what_a_search_makes_of_what_was_found(
    contacts: Sequence[str] | Discovery, bound: str, own: str, is_first: bool, others: list[str]
) -> None:
    async def test() -> None:
        search = Search(contacts, bound, socket.AF_INET)
        await search.look()
        assert (search.own, search.is_first) == (own, is_first)
        assert [f"{host}:{port}" for host, port, *_ in search.others] == others

    run(test)


def test_contacts_that_cannot_be() -> None:
    async def test() -> None:
        (node,) = await started(1)
        with pytest.raises(AddressError, match="no-such-host"):
            await node.join("g", contacts=["no-such-host.invalid:7400"])
        with pytest.raises(UsageError, match="with contacts it is `primary`"):
            await node.join("g", contacts=Found("127.0.0.1:1"), policy="static")
        with pytest.raises(JoinError, match="nobody was found to ask"):
            await node.join("g", contacts=Found(), timeout_s=0.1)
        await node.close()

    run(test)
