"""Clusters of sites: states and frames as they travel, frames that anybody may have made, and real sockets."""

import asyncio
from random import Random

import pytest

import antiphon
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import CAUSAL
from antiphon.stacks.label.cluster_frames import (
    CAST,
    INSTALL,
    LOCK,
    PROPOSE,
    Carried,
    ClusterBody,
    read_body,
    read_carried,
)
from antiphon.stacks.label.clusters import ClusterListener, SiteCluster, read_cluster
from antiphon.stacks.label.site_frames import ENTERS, SiteMessage, SiteReader, SiteRecord
from tests.runtime.cluster import run
from tests.runtime.places import HASTY, LOOPBACK
from tests.stacks.label.test_site import messages

A, S, T = ProcessId("a", 3), ProcessId("10.0.0.1:7400", 1), ProcessId("10.0.0.2:7400", 1)
MESSAGE = SiteMessage(7, A, 1, (), [b"m"]).encode()


def busy() -> SiteCluster:
    """A cluster with something in each of its queues."""
    cluster = SiteCluster(1, 3, ClusterListener())
    cluster.found(40, (S, T))
    cluster._carry({0, 1, 2}, ClusterBody(CAST, CAUSAL, S, MESSAGE))
    cluster.propose(S, SiteRecord(ENTERS, 7, A))
    cluster.take_in(0, Carried(9, 1, [0] * 9, ClusterBody(LOCK, view=41).encode()))
    late = [0] * 9
    late[2 * 3 + 1] = 5
    cluster.take_in(0, Carried(9, 2, late, ClusterBody(CAST, CAUSAL, S, MESSAGE).encode()))
    cluster.take_over(2, 6, 1)
    return cluster


def test_a_state_is_read_as_it_was_written() -> None:
    cluster = busy()
    assert [len(queue) for queue in cluster.waiting] == [1, 0, 0]
    assert [len(queue) for queue in cluster.out] == [2, 0, 0]
    assert cluster.unquiet == {S, T}
    data = cluster.encode()
    assert read_cluster(SiteReader(data), 1, 3, ClusterListener()).encode() == data
    for length in range(len(data)):
        with pytest.raises(MalformedError):
            read_cluster(SiteReader(data[:length]), 1, 3, ClusterListener())


def test_a_message_that_comes_twice_counts_once() -> None:
    cluster = SiteCluster(1, 3, ClusterListener())
    cluster.found(40, (S,))
    frame = Carried(9, 1, [0] * 9, ClusterBody(CAST, CAUSAL, S, MESSAGE).encode())
    cluster.take_in(0, frame)
    cluster.take_in(0, frame)
    cluster.take_in(0, Carried(9, 3, [0] * 9, frame.body))
    assert cluster.executed == [1, 0, 0]


def test_a_message_of_another_life_of_a_cluster_does_not_count() -> None:
    cluster = SiteCluster(1, 3, ClusterListener())
    cluster.found(40, (S,))
    body = ClusterBody(CAST, CAUSAL, S, MESSAGE).encode()
    cluster.take_in(0, Carried(9, 1, [0] * 9, body))
    cluster.take_in(0, Carried(10, 2, [0] * 9, body))
    assert cluster.executed == [1, 0, 0]
    cluster._carry({0, 2}, ClusterBody(CAST, CAUSAL, S, MESSAGE))
    cluster.take_over(0, 10, 1)
    assert len(cluster.out[0]) == 1


def test_a_lock_waits_for_all_sites_and_for_no_site_that_is_gone() -> None:
    cluster = busy()
    before = len(cluster.out[0])
    cluster.take_quiet(S, 41)
    assert len(cluster.out[0]) == before
    cluster.install_sites((S,))
    assert len(cluster.out[0]) == before + 2  # T has failed; the cluster is locked
    cluster.take_quiet(S, 41)
    assert len(cluster.out[0]) == before + 2


def test_bodies_are_read_as_they_were_written_and_nothing_else_is() -> None:
    bodies = [
        ClusterBody(CAST, CAUSAL, S, MESSAGE),
        ClusterBody(LOCK, view=3),
        ClusterBody(PROPOSE, records=((S, SiteRecord(ENTERS, 7, A)),)),
        ClusterBody(INSTALL, view=5, records=((S, SiteRecord(ENTERS, 7, A, 2, b"x")), (T, SiteRecord(ENTERS, 8, A)))),
    ]
    random = Random(0)
    for body in bodies:
        data = body.encode()
        assert read_body(data).encode() == data
        frame = Carried(3, 1, list(range(9)), data).encode()
        assert read_carried(SiteReader(frame, 1), 3).encode() == frame
        for _ in range(200):
            harmed = bytearray(frame)
            harmed[random.randrange(len(harmed))] = random.randrange(256)
            try:
                read_carried(SiteReader(bytes(harmed[: random.randrange(len(harmed) + 1)]), 1), 3)
            except MalformedError:
                continue


def test_two_clusters_over_real_sockets() -> None:
    """Processes of two clusters, with a site each, are in one group; one of them is killed."""

    async def test() -> None:
        sites = [antiphon.Node(name, address=LOOPBACK, options=HASTY) for name in "st"]
        nodes = [antiphon.Node(name, address=LOOPBACK, options=HASTY) for name in "abcd"]
        try:
            for node in (*sites, *nodes):
                await node.start()
            for site, other in zip(sites, reversed(sites), strict=True):
                site.serve("label", clusters=[[other.address]])
            groups = [
                await node.join("g", stack="label", policy="sites", contacts=[sites[place // 2].address])
                for place, node in enumerate(nodes)
            ]
            async with asyncio.timeout(30):
                while len(groups[0].view.members) < 4:
                    await asyncio.sleep(0.01)
            orders: tuple[antiphon.Order, ...] = ("causal", "agreed", "safe", "abcast")
            for count in range(40):
                await groups[count % 4].send(b"%d" % count, order=orders[count % 4])
            heard = [await messages(group, 40) for group in groups]
            assert [sorted(each) for each in heard] == [sorted(b"%d" % count for count in range(40))] * 4
            await groups[1].flush()
            killed = nodes[3]._driver
            assert killed is not None
            killed.stop("killed")
            async with asyncio.timeout(30):
                while len(groups[0].view.members) > 3:
                    await asyncio.sleep(0.01)
            assert "d" not in [member.name for member in groups[0].view.members]
        finally:
            for node in (*nodes[:3], *sites):
                await node.close()

    run(test)
