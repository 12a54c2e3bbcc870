"""What one site does for its cluster (clusters.py): tell the other sites what has come, and follow what they tell.

A site that has just joined has no state of the cluster. What the cluster is told meanwhile it keeps, and does when the
state has come (rule 7 of site.py): the state is that of the beginning of the site view, and all sites are told the same
in one order from there on.
"""

from typing import final

from antiphon.kernel.calls import Hang
from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.options import Options
from antiphon.stacks.label.cluster_frames import (
    CLUSTERS_MAX,
    IN,
    OUT,
    OVER,
    QUIET,
    RECORD,
    read_carried,
    read_level,
)
from antiphon.stacks.label.cluster_links import ClusterLinks
from antiphon.stacks.label.clusters import ClusterListener, SiteCluster, read_cluster
from antiphon.stacks.label.site_frames import SiteReader, encode_frame, read_message, read_records

EVENTS: tuple[int, ...] = (OUT, IN, OVER, RECORD, QUIET)


@final
class SiteClusters:
    """The cluster of one site, as this site has it, and its links to others."""

    __slots__ = (
        "_early", "_listener", "_me", "_overs", "_places", "_quiet_for", "cluster", "dropped", "has_state", "links",
    )  # fmt: skip

    def __init__(
        self,
        own: tuple[str, ...],
        others: tuple[tuple[str, ...], ...],
        listener: ClusterListener,
        options: Options,
        now_ns: int,
    ) -> None:
        """`own`: the addresses of all sites of this cluster; `others`: those of each other one."""
        clusters = tuple(sorted([tuple(sorted(set(each))) for each in (own, *others)]))
        named = [address for each in clusters for address in each]
        if len(set(named)) < len(named) or not all(clusters):
            raise UsageError("each cluster has sites, and each site is in one cluster")
        if len(clusters) > CLUSTERS_MAX:
            raise UsageError(f"there can be {CLUSTERS_MAX} clusters; {len(clusters)} are named")
        self._places = {address: place for place, each in enumerate(clusters) for address in each}
        self._me = self._places[own[0]]
        self._listener = listener
        self.cluster = SiteCluster(self._me, len(clusters), listener)
        self.has_state = False
        self.links = ClusterLinks(self._me, clusters, wire_id(repr(clusters)), options, now_ns)
        self._early: list[tuple[bytes, ProcessId]] = []
        self._overs: list[tuple[int, int, int]] = []
        self._quiet_for = 0
        """The views for which this site has said that it is quiet."""
        self.dropped = 0

    def place_of(self, site: ProcessId) -> int:
        """The cluster of a site; -1 if it is in none."""
        return self._places.get(site.name, -1)

    def is_here(self, site: ProcessId) -> bool:
        return self.place_of(site) == self._me

    def is_oldest(self, site: ProcessId) -> bool:
        """Whether this site speaks for its cluster."""
        return self.has_state and self.cluster.sites[:1] == (site,)

    # ---- what the group of sites does ------------------------------------------------------------------------------

    def install(self, view: View, is_founded: bool) -> None:
        """The next site view."""
        self._early = []
        if is_founded:
            self.begin(view)
        elif self.has_state:
            self.cluster.install_sites(view.members)

    def begin(self, view: View) -> None:
        """This cluster begins, with nothing."""
        self.cluster = SiteCluster(self._me, self.cluster.count, self._listener)
        self.cluster.found(view.id, view.members)
        self.has_state = True

    def restore(self, reader: SiteReader) -> None:
        """Take over the state that another site has told, and do what has come since. Raises MalformedError."""
        self.cluster = read_cluster(reader, self._me, self.cluster.count, self._listener)
        self.has_state = True
        early, self._early = self._early, []
        for payload, sender in early:
            self.take(payload, sender)

    def take(self, payload: bytes, sender: ProcessId) -> None:
        """Something that a site has told all sites of its cluster."""
        if not self.has_state:
            self._early.append((payload, sender))
            return
        try:
            self._take(payload[0], SiteReader(payload, 1), sender)
        except MalformedError:
            self.dropped += 1

    def _take(self, kind: int, reader: SiteReader, sender: ProcessId) -> None:
        cluster = self.cluster
        if kind == OUT:
            level, message = read_level(reader), reader.rest()
            read_message(SiteReader(message))
            cluster.take_out(sender, level, message)
        elif kind == IN:
            source = reader.number()
            reader.u8()
            if source >= cluster.count:
                raise MalformedError("cluster")
            cluster.take_in(source, read_carried(reader, cluster.count))
        elif kind == OVER:
            other, epoch, number = reader.number(), reader.number(), reader.number()
            if other >= cluster.count:
                raise MalformedError("cluster")
            cluster.take_over(other, epoch, number)
        elif kind == RECORD:
            for record in read_records(reader.rest()):
                cluster.propose(sender, record)
        else:
            cluster.take_quiet(sender, reader.number())

    def lose(self, effects: Effects, now_ns: int) -> None:
        """The site is dead."""
        self.links.hang_up(effects, now_ns)
        self.has_state = False
        self._early = []
        self._overs = []
        self._quiet_for = 0

    # ---- what this site tells --------------------------------------------------------------------------------------

    def next_word(self, site: ProcessId, is_idle: bool) -> bytes:
        """What the sites of this cluster are to be told next; nothing if there is nothing. `is_idle`: all that the
        processes of this site have handed in has left."""
        if not self.has_state:
            return b""
        cluster = self.cluster
        if cluster.locked and is_idle and self._quiet_for != cluster.locked and site in cluster.unquiet:
            return encode_frame(QUIET, cluster.locked)
        if self.links.arrived:
            source, frame = self.links.arrived[0]
            return encode_frame(IN, source) + frame
        self._overs = self._overs or self.links.news(cluster)
        return encode_frame(OVER, *self._overs[0]) if self._overs else b""

    def told(self, word: bytes) -> None:
        """The group of sites has taken a word."""
        if word[0] == QUIET:
            self._quiet_for = self.cluster.locked
        elif word[0] == IN:
            self.links.arrived.popleft()
        else:
            self._overs.pop(0)

    # ---- links -----------------------------------------------------------------------------------------------------

    def accept(self, link: int, frame: bytes, effects: Effects, now_ns: int) -> None:
        """A site of another cluster has dialled this one."""
        if self.has_state:
            self.links.accept(link, frame, effects, now_ns)
        else:
            effects.call(Hang(link))

    def finish(self, site: ProcessId, effects: Effects, now_ns: int) -> list[int]:
        """Send to other clusters what they are to have; the clusters that are to be dialled."""
        to_dial = self.links.to_dial(self.is_oldest(site), effects, now_ns)
        self.links.finish(self.cluster, effects, now_ns)
        return to_dial
