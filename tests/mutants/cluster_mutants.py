"""The rules for clusters of sites (stacks/label/clusters.py) broken on purpose, each with the scene of the paper's
claims that shows it."""

from collections.abc import Callable
from functools import partial
from typing import Final

from antiphon.kernel.identity import ProcessId, View
from antiphon.stacks.label.attached import AttachedProcess
from antiphon.stacks.label.cluster_frames import ORDERED, Carried, ClusterBody
from antiphon.stacks.label.clusters import SiteCluster
from antiphon.stacks.label.site import Site
from antiphon.stacks.label.site_clusters import SiteClusters
from antiphon.stacks.label.site_frames import SiteReader
from tests.mutants.mutants import Mutant
from tests.mutants.site_mutants import problem_of
from tests.papers import test_isis_1987_clusters as claims
from tests.stacks.label.test_clusters import test_a_message_of_another_life_of_a_cluster_does_not_count


def _always_due(self: SiteCluster, times: list[int], sender: int) -> bool:
    """A message waits for none of a third cluster: hole (e)."""
    return True


def _one_by_one(self: SiteCluster, to: set[int], body: ClusterBody) -> None:
    """The copy for one cluster does not tell of those for others."""
    for cluster in sorted(to):
        if cluster == self._me:
            self._execute(self._me, body)
            continue
        times = [number for row in self.sent for number in row]
        self.sent[self._me][cluster] += 1
        self.out[cluster].append(Carried(self.epoch, self.sent[self._me][cluster], times, body.encode()).encode())


def _each_orders(self: SiteCluster, site: ProcessId, level: int, message: bytes) -> None:
    """Ordered broadcasts go directly to all clusters, like others."""
    self._carry(self._listener.clusters_of(message) | {self._me}, ClusterBody(ORDERED, level, site, message))


def _never_waits(self: Site, attached: AttachedProcess) -> bool:
    """Processes send on while groups change, and while their ordered broadcasts are under way."""
    return False


def _silent_on_sites(self: SiteCluster, sites: tuple[ProcessId, ...]) -> None:
    """Nobody outside the cluster is told that a site has failed."""
    self.sites = sites
    self.unquiet &= set(sites)


def _forgets(self: SiteClusters, reader: SiteReader) -> None:
    """A site that joins begins with an empty cluster."""
    self.begin(View(1, ()))


def _any_life(self: SiteCluster, cluster: int, epoch: int) -> bool:
    """A cluster that lost its state is taken for the one before."""
    return True


def _keeps_copies(self: SiteCluster, cluster: int, epoch: int, number: int) -> None:
    """What another cluster has done is kept."""


def _is_flushed(self: Site, attached: AttachedProcess) -> bool:
    """A flush does not wait for other clusters."""
    return True


_SCENES: Final[tuple[tuple[Mutant, Callable[[], None]], ...]] = (
    (
        Mutant("clusters wait for no third one", (), ((SiteCluster, "_is_due", _always_due),)),
        claims.test_4_6_hole_e_is_mended_by_counting_what_went_between_clusters,
    ),
    (
        Mutant("copies do not tell of each other", (), ((SiteCluster, "_carry", _one_by_one),)),
        claims.test_4_6_copies_of_one_broadcast_tell_of_each_other,
    ),
    (
        Mutant("each cluster orders by itself", (), ((SiteCluster, "take_out", _each_orders),)),
        claims.test_4_6_ordered_broadcasts_have_one_order_over_clusters,
    ),
    (
        Mutant("processes of a cluster never wait", (), ((Site, "_has_to_wait", _never_waits),)),
        partial(claims.check_scene, 6),
    ),
    (
        Mutant("failed sites are told of at home only", (), ((SiteCluster, "install_sites", _silent_on_sites),)),
        claims.test_4_6_the_failure_of_a_site_changes_the_site_view_of_its_cluster_only,
    ),
    (
        Mutant("a site that joins has an empty cluster", (), ((SiteClusters, "restore", _forgets),)),
        claims.test_4_6_a_site_that_joins_learns_the_state_of_its_cluster,
    ),
    (
        Mutant("a cluster is known by its name alone", (), ((SiteCluster, "_is_life", _any_life),)),
        test_a_message_of_another_life_of_a_cluster_does_not_count,
    ),
    (
        Mutant("clusters keep what was done", (), ((SiteCluster, "take_over", _keeps_copies),)),
        claims.test_4_6_collection_stays_within_a_cluster,
    ),
    (
        Mutant("a flush stays in the cluster", (), ((Site, "_is_out", _is_flushed),)),
        claims.test_4_6_flush_waits_for_other_clusters,
    ),
)  # fmt: skip

CLUSTER_MUTANTS: Final = tuple(mutant for mutant, _ in _SCENES)
CLUSTER_STAGED: Final[dict[str, Callable[[], str | None]]] = {
    mutant.name: partial(problem_of, scene) for mutant, scene in _SCENES
}
