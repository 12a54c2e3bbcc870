"""The links of one site to sites of other clusters (clusters.py, rule 2).

The oldest site of a cluster dials one site of each other cluster, the next one if that does not answer, and sends what
the other cluster has not done, from its first on. Whichever site is dialled tells its own cluster, and says how far
that has come. A link on which nothing is heard for `silence_ns_max`, or which brings nothing forward for that long, is
given up, and another dialled.

Limits: WINDOW messages that are not known to be done are on the way by a link.
"""

from collections import deque
from typing import Final, final

from antiphon.kernel.calls import Dial, Frames, Hang
from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.stacks.label.cluster_frames import CARRY, CLUSTER, EXECUTED, read_carried
from antiphon.stacks.label.clusters import SiteCluster
from antiphon.stacks.label.site_frames import BEAT, SiteReader, encode_frame

WINDOW: Final = 256
TOLD_EVERY: Final = 16
"""How many messages another cluster does before the sites of this one are told, if more follow."""


@final
class ClusterLink:
    """A link to a site of another cluster, dialled from here or from there."""

    __slots__ = ("cluster", "heard_ns", "is_up", "link", "moved_ns", "out", "said_ns", "sent", "told")

    def __init__(self, link: int, cluster: int, is_up: bool, now_ns: int) -> None:
        self.link = link
        self.cluster = cluster
        self.is_up = is_up
        self.sent = 0
        """The number of the last message that left by it…"""
        self.told = 0
        """…or, of one that was dialled from there, of the last that the other was told to be done."""
        self.out: list[bytes] = []
        self.heard_ns = now_ns
        self.said_ns = now_ns
        self.moved_ns = now_ns
        """When something that left by it was last done."""


@final
class ClusterLinks:
    """All links of one site to other clusters."""

    __slots__ = (
        "_addresses", "_configuration", "_dial_at_ns", "_dialled", "_me", "_options", "_taken", "_tries", "_up",
        "arrived", "overs",
    )  # fmt: skip

    def __init__(
        self, me: int, addresses: tuple[tuple[str, ...], ...], configuration: int, options: Options, now_ns: int
    ) -> None:
        self._me = me
        self._addresses = addresses
        self._configuration = configuration
        self._options = options
        self._dialled: dict[int, ClusterLink] = {}
        """By cluster, links from here…"""
        self._taken: dict[int, ClusterLink] = {}
        """…and by id, links from there."""
        self._dial_at_ns = [now_ns] * len(addresses)
        self._tries = [0] * len(addresses)
        self._up = [0] * len(addresses)
        """By cluster, the number of the last message that has arrived here, in this life of the site."""
        self.arrived: deque[tuple[int, bytes]] = deque()
        """Messages of other clusters that this one is to be told of, as their frames."""
        self.overs: dict[int, tuple[int, int]] = {}
        """By cluster, its epoch and how far it has come, to be told to the other sites."""

    def owns(self, link: int) -> bool:
        return link in self._taken or any(each.link == link for each in self._dialled.values())

    def _find(self, link: int) -> ClusterLink | None:
        for each in self._dialled.values():
            if each.link == link:
                return each
        return self._taken.get(link)

    # ---- dialling --------------------------------------------------------------------------------------------------

    def to_dial(self, is_oldest: bool, effects: Effects, now_ns: int) -> list[int]:
        """The clusters to dial now; who is not the oldest site of its cluster has none."""
        if not is_oldest:
            for each in list(self._dialled.values()):
                self._give_up(each, effects, now_ns)
            return []
        others = [cluster for cluster in range(len(self._addresses)) if cluster != self._me]
        return [each for each in others if each not in self._dialled and self._dial_at_ns[each] <= now_ns]

    def dial(self, cluster: int, link: int, effects: Effects, now_ns: int) -> None:
        addresses = self._addresses[cluster]
        self._dialled[cluster] = ClusterLink(link, cluster, False, now_ns)
        effects.call(Dial(link, addresses[self._tries[cluster] % len(addresses)]))

    def _give_up(self, each: ClusterLink, effects: Effects, now_ns: int) -> None:
        effects.call(Hang(each.link))
        self.down(each.link, now_ns)

    def down(self, link: int, now_ns: int) -> None:
        """A link is no more."""
        self._taken.pop(link, None)
        for cluster, each in list(self._dialled.items()):
            if each.link == link:
                del self._dialled[cluster]
                self._tries[cluster] += 1
                wait_ns = self._options.retry_ns << min(self._tries[cluster] // len(self._addresses[cluster]), 10)
                self._dial_at_ns[cluster] = now_ns + min(wait_ns, self._options.heartbeat_interval_ns)

    def up(self, link: int, now_ns: int) -> None:
        """A link that was dialled stands."""
        each = self._find(link)
        if each is not None:
            each.is_up = True
            each.heard_ns = each.moved_ns = now_ns
            each.out.append(encode_frame(CLUSTER, self._me, each.cluster, self._configuration))

    def accept(self, link: int, frame: bytes, effects: Effects, now_ns: int) -> None:
        """A site of another cluster has dialled; its first frame. What is not of this configuration is hung up."""
        try:
            reader = SiteReader(frame, 1)
            source, to, configuration = reader.number(), reader.number(), reader.u64()
            if source >= len(self._addresses) or (to, configuration) != (self._me, self._configuration):
                raise MalformedError("configuration")
        except MalformedError:
            effects.call(Hang(link))
            return
        self._taken[link] = ClusterLink(link, source, True, now_ns)

    # ---- frames ----------------------------------------------------------------------------------------------------

    def receive(self, link: int, frames: list[bytes], cluster: SiteCluster, effects: Effects, now_ns: int) -> None:
        """Take what came by a link; what cannot be read ends it."""
        each = self._find(link)
        if each is None:
            return
        each.heard_ns = now_ns
        try:
            for frame in frames:
                self._take(each, frame, cluster, now_ns)
        except MalformedError:
            self._give_up(each, effects, now_ns)

    def _take(self, each: ClusterLink, frame: bytes, cluster: SiteCluster, now_ns: int) -> None:
        kind, reader = frame[0] if frame else 0, SiteReader(frame, 1)
        if kind == CARRY and each.link in self._taken:
            carried = read_carried(reader, cluster.count)
            if max(self._up[each.cluster], cluster.came(each.cluster)) < carried.number:
                if len(self.arrived) >= WINDOW * cluster.count:
                    raise MalformedError("window")
                self._up[each.cluster] = carried.number
                self.arrived.append((each.cluster, frame))
        elif kind == EXECUTED and each.link not in self._taken:
            epoch, number = reader.number(), reader.number()
            if number > each.sent:
                raise MalformedError("number")
            if number > cluster.acked[each.cluster]:
                each.moved_ns = now_ns
                self.overs[each.cluster] = (epoch, number)
        elif kind not in (BEAT, CLUSTER):
            raise MalformedError("kind")

    def news(self, cluster: SiteCluster) -> list[tuple[int, int, int]]:
        """Clusters with their epochs and how far they have come, where the sites here should know it now."""
        found: list[tuple[int, int, int]] = []
        for other, (epoch, number) in list(self.overs.items()):
            link = self._dialled.get(other)
            if number <= cluster.acked[other]:
                del self.overs[other]
            elif number - cluster.acked[other] >= TOLD_EVERY or link is None or number == link.sent:
                del self.overs[other]
                found.append((other, epoch, number))
        return found

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def finish(self, cluster: SiteCluster, effects: Effects, now_ns: int) -> None:
        """Send what the others have not done, and tell them what was done here."""
        for each in self._dialled.values():
            if each.is_up:
                self._send_on(each, cluster)
        for each in self._taken.values():
            if cluster.epoch and cluster.executed[each.cluster] > each.told:
                each.told = cluster.executed[each.cluster]
                each.out.append(encode_frame(EXECUTED, cluster.epoch, each.told))
        for each in [*self._dialled.values(), *self._taken.values()]:
            if each.is_up and each.out:
                effects.call(Frames(each.link, each.out))
                each.out = []
                each.said_ns = now_ns

    def _send_on(self, each: ClusterLink, cluster: SiteCluster) -> None:
        acked, queue = cluster.acked[each.cluster], cluster.out[each.cluster]
        first = max(each.sent, acked)
        for place in range(first - acked, min(len(queue), WINDOW)):
            each.out.append(queue[place])
            each.sent = acked + place + 1

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self, is_oldest: bool) -> int:
        deadline_ns = NEVER
        if is_oldest:
            for cluster, at_ns in enumerate(self._dial_at_ns):
                if cluster != self._me and cluster not in self._dialled:
                    deadline_ns = min(deadline_ns, at_ns)
        options = self._options
        for each in [*self._dialled.values(), *self._taken.values()]:
            deadline_ns = min(deadline_ns, each.heard_ns + options.silence_ns_max)
            if each.is_up:
                deadline_ns = min(deadline_ns, each.said_ns + options.heartbeat_interval_ns)
        return deadline_ns

    def tick(self, cluster: SiteCluster, effects: Effects, now_ns: int) -> None:
        options = self._options
        for each in [*self._dialled.values(), *self._taken.values()]:
            is_stuck = each.link not in self._taken and each.sent > cluster.acked[each.cluster]
            if not is_stuck:
                each.moved_ns = now_ns
            if min(each.heard_ns, each.moved_ns) + options.silence_ns_max <= now_ns:
                self._give_up(each, effects, now_ns)
            elif each.is_up and each.said_ns + options.heartbeat_interval_ns <= now_ns:
                each.out.append(encode_frame(BEAT))

    def hang_up(self, effects: Effects, now_ns: int) -> None:
        """The site is dead, or closes."""
        for each in [*self._dialled.values(), *self._taken.values()]:
            self._give_up(each, effects, now_ns)
        self.arrived.clear()
        self.overs.clear()
        self._up = [0] * len(self._addresses)
