"""The simulated network carries what real ones do: names, multicast, beacons; and disks outlive programs."""

import asyncio

import antiphon
from antiphon.testing import FaultPlan, Host, KillProgram, simulate
from antiphon.testing.fault_plan import draw_plan


async def meet(host: Host) -> list[str]:
    """Nobody knows anybody: who is there is found by beacons; what is for all leaves once."""
    async with antiphon.Node(host.name, address="0.0.0.0:7400", multicast="239.255.74.1:7401") as node:
        group = await node.join("group", contacts=antiphon.BeaconDiscovery(), found_after_s=1.0, timeout_s=20)
        group.listen(lambda event: None)
        await asyncio.sleep(5)
        await group.send(host.name.encode(), order="agreed")
        await host.ending.wait()
        assert node.statistics()["multicasts_sent"] > 0
        return [member.name for member in group.view.members]


def test_members_find_each_other_by_beacons_and_multicast_to_each_other() -> None:
    result = simulate(dict.fromkeys("abc", meet), seed=2, faults="none", active_s=1)
    assert result.kept, result.report("")
    assert {tuple(sorted(members)) for members in result.returned.values()} == {("a", "b", "c")}


async def by_name(host: Host) -> int:
    """Hosts are known by their names, and files are read by worker threads."""
    file = host.disk / "contacts"
    file.write_text("\n".join(f"{name}:7400" for name in host.addresses))
    async with antiphon.Node(host.name, address=host.at(), incarnation=host.starts) as node:
        contacts = antiphon.FileDiscovery(file)
        group = await node.join("group", contacts=contacts, found_after_s=0.5, timeout_s=20)
        group.listen(lambda event: None)
        await host.ending.wait()
        return len(group.view.members)


def test_contacts_by_name_from_a_file() -> None:
    result = simulate(dict.fromkeys("abc", by_name), seed=3, faults="none", active_s=1)
    assert result.kept, result.report("")
    assert result.returned == {"a": 3, "b": 3, "c": 3}


async def remember(host: Host) -> str:
    """Counts its starts in a file."""
    file = host.disk / "starts"
    before = file.read_text() if file.exists() else ""
    await asyncio.to_thread(file.write_text, f"{before}{host.starts}")
    await host.ending.wait()
    return file.read_text()


def test_a_disk_outlives_a_kill() -> None:
    delay = draw_plan("none", ["a"], 1, 1).delay
    kill = KillProgram("a", at_ns=1_000_000_000, restart_ns=100_000_000)
    result = simulate({"a": remember}, seed=1, faults=FaultPlan(delay, [kill], heal_ns=2_000_000_000))
    assert result.returned["a"] == "12"
