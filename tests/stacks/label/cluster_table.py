"""Clusters of sites on a table (site_table.py): packets within a cluster, and links between them, lie in the open.

table = ClusterTable((2, 1, 1), 1)         # sites s1 and s2 in the first cluster, s3, s4; p1 is at s1, …
table.tell(0, CAUSAL, [3])                 # p1 sends to p4
"""

from collections.abc import Collection, Iterator

from antiphon.kernel.inputs import Open
from antiphon.stacks.label.clusters import SiteCluster
from tests.stacks.label.scene import Stories, _causal, _labelled, _once_and_all, _total, _views
from tests.stacks.label.site_table import SiteLink, SiteTable
from tests.table import GROUP


class ClusterTable(SiteTable):
    """Clusters with so many sites each, and so many processes at each site, all in one group."""

    def __init__(self, sizes: tuple[int, ...], processes: int, crash_at: Collection[int] = ()) -> None:
        self.sizes = sizes
        self.slow: set[tuple[int, int]] = set()
        """Pairs of clusters between which nothing passes, from the first to the second."""
        super().__init__(sum(sizes), processes, crash_at)

    def clusters(self) -> list[tuple[str, ...]]:
        """The names of the sites of each cluster."""
        starts = [sum(self.sizes[:place]) for place in range(len(self.sizes))]
        return [tuple(self.sites[start : start + size]) for start, size in zip(starts, self.sizes, strict=True)]

    def cluster_place(self, site: int) -> int:
        """The cluster of a site, by its place among the members of the table."""
        return next(place for place, names in enumerate(self.clusters()) if self.names[site] in names)

    def open_site(self, site: int) -> None:
        own = self.clusters()[self.cluster_place(site)]
        contacts = tuple(name for name in own if name != self.names[site])
        others = tuple(names for names in self.clusters() if names != own)
        input = Open(stack="label", role="site", address=self.names[site], contacts=contacts, clusters=others)
        self.step(site, input)

    def cluster(self, site: int) -> SiteCluster:
        """The cluster as a site knows it."""
        clusters = self.site(site)._clusters
        assert clusters is not None
        return clusters.cluster

    def is_held(self, line: SiteLink) -> bool:
        if line.ends[0] < self.count:
            return False
        return (self.cluster_place(line.ends[0]), self.cluster_place(line.ends[1])) in self.slow

    def _dies(self, member: int) -> bool:
        """Each cluster keeps a majority of its sites: the others stand still without it."""
        self.effect += 1
        if self.effect not in self.crash_at:
            return False
        if member >= self.count:
            names = self.clusters()[self.cluster_place(member)]
            living = [site for site in self.living_sites() if self.names[site] in names and site != member]
            if 2 * len(living) <= len(names):
                return False
        self.crash(member)
        return True


def cluster_problems(table: ClusterTable) -> list[str]:
    """Every promise that was not kept to processes, and what is left over at the end."""
    stories = Stories(table)
    return [
        *_once_and_all(stories),
        *_causal(stories),
        *_labelled(stories),
        *_total(stories),
        *_views(stories),
        *_quiet_clusters(table),
    ]


def _quiet_clusters(table: ClusterTable) -> Iterator[str]:
    living = table.survivors()
    for member in living:
        if len(table.views[member][GROUP].members) != len(living):
            yield f"p{member + 1} is in {table.views[member][GROUP]} at the end"
        elif table.outstanding(member):
            yield f"p{member + 1} has {table.outstanding(member)} messages on the way at the end"
    table.play(60)
    sites = table.living_sites()
    for site in sites:
        copies = len(table.site_session(site).pool.copies)
        cluster = table.cluster(site)
        if copies or table.site(site)._handed or any(cluster.out) or any(cluster.waiting) or cluster.locked:
            yield f"{table.names[site]} keeps {copies} copies, {cluster.out}, {cluster.waiting} at the end"
    if len({table.site(site)._transfer.table.encode() for site in sites}) > 1:
        yield "sites have different tables"
    for place in range(len(table.sizes)):
        if len({table.cluster(site).encode() for site in sites if table.cluster_place(site) == place}) > 1:
            yield f"the sites of cluster {place} have different states"
