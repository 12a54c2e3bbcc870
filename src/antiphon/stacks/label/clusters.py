"""Clusters of sites, far from each other (isis-1987, 4.6): one cluster, as all its sites know it alike.

Promise: groups may have members in several clusters, and what this stack promises them holds over all. Site views,
failures and their detection, the flush, and the collection of copies stay within a cluster.

Rule.
1. What happens to a cluster is told to all its sites as `safe` messages of its group of sites: what its processes send
   to others (OUT), what comes from another cluster (IN), changes of groups (RECORD). All sites do the same at each, so
   a cluster acts as one process that fails only with a majority of its sites.
2. A broadcast for members in several clusters goes to each of these directly, after all sites of its own cluster have
   it (the paper: local sites first). The oldest site of a cluster sends, whichever site it came from; if that one fails
   the next oldest goes on. Messages from one cluster to another are numbered and kept until the other has done them.
3. Each bears, for each pair of clusters, how many messages had gone from one to the other, itself included. A cluster
   does a message when it has done as many of each third cluster as were sent to it before that message.
4. Ordered broadcasts go by way of the first cluster, which passes them on to all destinations in its own order. A
   process whose ordered broadcast, or GBCAST, is under way sends nothing else until it is back.
5. Groups change in rounds, which the first cluster leads: LOCK to all clusters; each has its sites let nothing leave,
   and says LOCKED when all of them are quiet; then INSTALL to all, with all changes that were proposed until then.
   The sites of a cluster tell of their own processes and of their own failed sites, the latter with the site view.

Why it is safe. By `safe`, no site, whether it survives or not, does what the others do not do, or does it in another
order; so what leaves a cluster was decided there. Rule 3 keeps causality between clusters, also by way of a third one
(hole e: without it three clusters in a triangle break it), and `safe` messages keep it within a cluster. INSTALL comes
after all that was sent before any LOCKED, so all clusters deliver the same in a view. Ordered broadcasts have one
sender, the first cluster.
Why it is live: what was not done is sent again by each new link, and by each new oldest site; while all clusters have
majorities and reach each other, each lock is answered and each round ends.

Limits: CLUSTERS_MAX clusters; OUT_MAX messages, or OUT_BYTES_MAX bytes, that another cluster has not done: then the
processes of this one that send to it wait. A cluster that has lost its state, since a majority of its sites failed at
once, is told apart by its epoch: the others take nothing of it, and stand still where they would need it.

Deviations: the paper has sites send to sites of other clusters; here the oldest site of a cluster does, to one site of
the other, which tells its own. Two-phase priorities are not used between clusters, but one cluster that orders. A view
of any group is a round over all clusters.
"""

from collections import deque
from typing import Final, final

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import ABCAST, AGREED, SAFE
from antiphon.stacks.label.addressing import Addressing
from antiphon.stacks.label.cluster_frames import (
    CAST,
    INSTALL,
    LOCK,
    LOCKED,
    ORDER,
    ORDERED,
    PROPOSE,
    Carried,
    ClusterBody,
    encode_blob,
    encode_numbers_of,
    read_body,
    read_carried,
    read_site_records,
)
from antiphon.stacks.label.site_frames import LOSES, SiteReader, SiteRecord, encode_processes

OUT_MAX: Final = 4096
OUT_BYTES_MAX: Final = 16 * 1024 * 1024
FIRST: Final = 0
"""The place of the cluster that orders, and leads rounds."""


class ClusterListener(Addressing):
    """What a cluster has its sites do, each for its own processes; here, for none."""

    __slots__ = ()

    def deliver_cast(self, level: int, site: ProcessId, message: bytes) -> None:
        """Hand a broadcast of a process at this site to those that it is for."""

    def clusters_of(self, message: bytes) -> set[int]:
        """The clusters that have members that a broadcast is for."""
        return set()

    def install_groups(self, view_id: int, records: tuple[tuple[ProcessId, SiteRecord], ...]) -> None:
        """Have changes of groups take effect."""


def is_ordered_level(level: int) -> bool:
    """Whether broadcasts of this level have one order over all clusters."""
    return level in (AGREED, SAFE, ABCAST)


@final
class SiteCluster:
    """One cluster, as one of its sites has it; equal at all of them, after the same messages."""

    __slots__ = (
        "_listener", "_me", "_out_bytes", "acked", "awaiting", "count", "epoch", "epochs", "executed", "last_view",
        "locked", "out", "proposed", "round", "sent", "sites", "unquiet", "waiting",
    )  # fmt: skip

    def __init__(self, me: int, count: int, listener: ClusterListener) -> None:
        self._me = me
        self.count = count
        self._listener = listener
        self.epoch = 0
        """The life of this cluster: the id of the site view that founded it…"""
        self.epochs = [0] * count
        """…and those of the others, as far as it has heard of them."""
        self.sites: tuple[ProcessId, ...] = ()
        """The site view."""
        self.sent = [[0] * count for _ in range(count)]
        """By sender and receiver, how many messages are known to have been sent."""
        self.executed = [0] * count
        """By cluster, how many of its messages were done here."""
        self.waiting: list[deque[Carried]] = [deque() for _ in range(count)]
        """By cluster, what has come, and waits for others."""
        self.out: list[deque[bytes]] = [deque() for _ in range(count)]
        """By cluster, what it has not done…"""
        self._out_bytes = 0
        self.acked = [0] * count
        """…and the number of the last that it has."""
        self.last_view = 0
        self.locked = 0
        """The id of the views to come, while nothing may leave…"""
        self.unquiet: set[ProcessId] = set()
        """…and the sites that have not said that they are quiet."""
        self.proposed: list[tuple[ProcessId, SiteRecord]] = []
        """In the first cluster: changes that are not installed…"""
        self.round = 0
        """…and the id of the views that are being agreed on…"""
        self.awaiting: set[int] = set()
        """…and the clusters that are not locked."""

    def has_room(self) -> bool:
        """Whether more may be sent to other clusters."""
        return self._out_bytes < OUT_BYTES_MAX and all(len(queue) < OUT_MAX for queue in self.out)

    # ---- what the sites of this cluster tell -----------------------------------------------------------------------

    def found(self, epoch: int, sites: tuple[ProcessId, ...]) -> None:
        """This cluster begins."""
        self.epoch = epoch
        self.epochs[self._me] = epoch
        self.sites = sites

    def install_sites(self, sites: tuple[ProcessId, ...]) -> None:
        """The next site view: whoever is not in it has failed, with all processes."""
        gone = [site for site in self.sites if site not in sites]
        self.sites = sites
        for site in gone:
            self.propose(site, SiteRecord(LOSES, 0, site))
        if self.locked and self.unquiet:
            self.unquiet &= set(sites)
            self._answer_lock()

    def take_out(self, site: ProcessId, level: int, message: bytes) -> None:
        """A broadcast of a process at this site, to members in any clusters."""
        reach = self._listener.clusters_of(message)
        if is_ordered_level(level) and reach - {self._me}:
            self._carry({FIRST}, ClusterBody(ORDER, level, site, message))
            return
        body = ClusterBody(CAST, level, site, message)
        self._carry(reach | {self._me}, body)

    def propose(self, site: ProcessId, record: SiteRecord) -> None:
        """A change of groups that this site tells."""
        self._carry({FIRST}, ClusterBody(PROPOSE, records=((site, record),)))

    def take_quiet(self, site: ProcessId, view: int) -> None:
        """Nothing of a process at this site is under way."""
        if view == self.locked and site in self.unquiet:
            self.unquiet.discard(site)
            self._answer_lock()

    def _answer_lock(self) -> None:
        if not self.unquiet:
            self._carry({FIRST}, ClusterBody(LOCKED, view=self.locked))

    # ---- from cluster to cluster -----------------------------------------------------------------------------------

    def _carry(self, to: set[int], body: ClusterBody) -> None:
        """Send a message to these clusters; in this one, do it. Each copy tells of the others, too: whatever follows
        one of them follows all."""
        away = sorted(to - {self._me})
        for cluster in away:
            self.sent[self._me][cluster] += 1
        times = [number for row in self.sent for number in row]
        data = body.encode() if away else b""
        for cluster in away:
            frame = Carried(self.epoch, self.sent[self._me][cluster], times, data).encode()
            self.out[cluster].append(frame)
            self._out_bytes += len(frame)
        if self._me in to:
            self._execute(self._me, body)

    def take_over(self, cluster: int, epoch: int, number: int) -> None:
        """A cluster has done all messages up to this one: nobody needs copies of them any more."""
        if not self._is_life(cluster, epoch):
            return
        while self.acked[cluster] < number and self.out[cluster]:
            self._out_bytes -= len(self.out[cluster].popleft())
            self.acked[cluster] += 1

    def _is_life(self, cluster: int, epoch: int) -> bool:
        """Whether this is the life of a cluster that is known here, or the first that is heard of."""
        if not self.epochs[cluster]:
            self.epochs[cluster] = epoch
        return self.epochs[cluster] == epoch

    def came(self, cluster: int) -> int:
        """How many messages of a cluster have come."""
        return self.executed[cluster] + len(self.waiting[cluster])

    def take_in(self, cluster: int, carried: Carried) -> None:
        """A message of another cluster; if it came before, by another link, it counts once."""
        if self._is_life(cluster, carried.epoch) and carried.number == self.came(cluster) + 1:
            self.waiting[cluster].append(carried)
            while self._execute_next():
                pass

    def _execute_next(self) -> bool:
        """Do one message whose turn has come; whether there was one."""
        for cluster, queue in enumerate(self.waiting):
            if queue and self._is_due(queue[0].times, cluster):
                carried = queue.popleft()
                self.executed[cluster] += 1
                for place, number in enumerate(carried.times):
                    row = self.sent[place // self.count]
                    row[place % self.count] = max(row[place % self.count], number)
                row = self.sent[cluster]
                row[self._me] = max(row[self._me], self.executed[cluster])
                self._execute(cluster, read_body(carried.body))
                return True
        return False

    def _is_due(self, times: list[int], sender: int) -> bool:
        """Rule 3."""
        for cluster in range(self.count):
            is_third = cluster not in (sender, self._me)
            if is_third and self.executed[cluster] < times[cluster * self.count + self._me]:
                return False
        return True

    def _execute(self, cluster: int, body: ClusterBody) -> None:
        if body.kind in (CAST, ORDERED):
            assert body.site is not None
            self._listener.deliver_cast(body.level, body.site, body.message)
        elif body.kind == ORDER:
            ordered = ClusterBody(ORDERED, body.level, body.site, body.message)
            self._carry(self._listener.clusters_of(body.message) | {cluster}, ordered)
        elif body.kind == PROPOSE:
            self.proposed += body.records
            self._begin_round()
        elif body.kind == LOCK:
            self.locked = body.view
            self.unquiet = set(self.sites)
        elif body.kind == LOCKED:
            if body.view == self.round:
                self.awaiting.discard(cluster)
                self._end_round()
        else:
            self.last_view = body.view
            self.locked = 0
            self.unquiet = set()
            self._listener.install_groups(body.view, body.records)

    # ---- rounds ----------------------------------------------------------------------------------------------------

    def _begin_round(self) -> None:
        if self.proposed and not self.round:
            self.round = max(self.last_view, self.epoch) + 1
            self.awaiting = set(range(self.count))
            self._carry(set(range(self.count)), ClusterBody(LOCK, view=self.round))

    def _end_round(self) -> None:
        if self.round and not self.awaiting:
            body = ClusterBody(INSTALL, view=self.round, records=tuple(self.proposed))
            self.proposed = []
            self.round = 0
            self._carry(set(range(self.count)), body)
            self._begin_round()

    # ---- for sites that join ---------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        numbers = [self.epoch, self.last_view, self.locked, self.round, *self.epochs, *self.executed, *self.acked]
        numbers += [number for row in self.sent for number in row]
        parts = [
            encode_numbers_of(numbers),
            encode_processes(self.sites),
            encode_processes(tuple(sorted(self.unquiet))),
        ]
        parts += [encode_numbers_of([len(self.awaiting), *sorted(self.awaiting)])]
        for cluster in range(self.count):
            frames = [*self.out[cluster], *[carried.encode() for carried in self.waiting[cluster]]]
            parts.append(encode_numbers_of([len(self.out[cluster]), len(self.waiting[cluster])]))
            parts += [encode_blob(frame) for frame in frames]
        parts.append(ClusterBody(PROPOSE, records=tuple(self.proposed)).encode()[1:])
        return b"".join(parts)


def read_cluster(reader: SiteReader, me: int, count: int, listener: ClusterListener) -> SiteCluster:
    """Raises MalformedError."""
    cluster = SiteCluster(me, count, listener)
    cluster.epoch, cluster.last_view = reader.number(), reader.number()
    cluster.locked, cluster.round = reader.number(), reader.number()
    cluster.epochs = [reader.number() for _ in range(count)]
    cluster.executed = [reader.number() for _ in range(count)]
    cluster.acked = [reader.number() for _ in range(count)]
    cluster.sent = [[reader.number() for _ in range(count)] for _ in range(count)]
    cluster.sites, cluster.unquiet = reader.processes(), set(reader.processes())
    cluster.awaiting = {reader.number() for _ in range(reader.number())}
    for each in range(count):
        outgoing, waiting = reader.number(), reader.number()
        for _ in range(outgoing):
            frame = reader.blob(reader.u32())
            cluster.out[each].append(frame)
            cluster._out_bytes += len(frame)
        for _ in range(waiting):
            carried = SiteReader(reader.blob(reader.u32()), 1)
            cluster.waiting[each].append(read_carried(carried, count))
    cluster.proposed = read_site_records(reader)
    return cluster
