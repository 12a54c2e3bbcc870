"""A site: one process of a host, its daemon, that others of the host are attached to (isis-1987, 4.1 and 4.2).

Promise: what a group on this stack promises its members it promises processes that are attached to sites, too. And a
process can fail while its site lives: the others are told so, at once, after all that it has sent.

Rule.
1. Sites are members of one group of this stack, the group of sites, each under the name of its address and the
   incarnation of this life. Its views are the site views; links, hello messages, the message pool, remaining
   destinations, transfer packets and their contents are between sites (session.py), whatever processes they are for.
2. A process hands what it sends to its site, in order. The site sends it in its place, at its level and with its label,
   to the sites of its destinations as they are when it leaves, and each site hands what it delivers to those of its
   processes that it is for, in that order.
3. Who is in which group is in a table that all sites have alike (site_groups.py). It changes by GBCASTs of the group of
   sites and with the site views alone.
4. The process monitor: when the link of a process is down, or the process is silent for too long, its site says that it
   has failed, by a GBCAST that it sends after all that the process had handed in. When a site fails all its processes
   have, by the site view that it is not in.
5. A site that was excluded is dead: it lets go of its processes, to which they are dead too, and joins again under the
   next incarnation.
6. The first view that a site founds has an id above its incarnation, and far above all views that it was in before. So
   ids rise through total failures, too, where incarnations are from the clock.
7. A site that joins learns the table from the oldest site that has it, by the first message of the view (`TABLE`). If
   that one fails before, the next view begins with another such message. A site without the table has no processes in
   groups, so it has nothing to deliver. It says that it lacks the table (`WANT`): if all sites of a view do, those that
   had one are gone, with all their processes, and the table is empty.

Why it is safe. A process has sent and delivered what its site has, at most; links keep order. So whatever happened
before a message among processes happened before it among sites, and whatever order sites deliver in their processes do.
Between two site views all sites deliver the same, then change the table alike: views of processes are as the site
views are. By rule 4 nothing of a failed process comes after its failure: GBCASTs are ordered after what their sender
sent before them, and what is not from a member of the group is dropped (4.1: messages of a former incarnation).
By virtual synchrony all sites that go on together know whether a view's TABLE was delivered, so they agree on who needs
the next.
Why it is live: what a process hands in waits only for the group of sites. A process that does not take what it is told
holds its site up, and is given up when it is silent.

Deviations: the paper's process monitor answers whoever waits for a process; here the view tells all members alike. A
process is attached by a link that the runtime keeps, not by the operating system of its host, so it is also taken to
have failed when that link breaks; it learns that, and comes back as the next incarnation. After a total failure
the sites found their group anew, and processes come back: no view sequence is kept on disk. Sites that are cut off from
those that hold the last view, and are a majority of those named, may found it anew, too, when all of them were
restarted or excluded (parts/membership/founding.py); the others are a minority then, stand still, and learn it.
"""

from collections import deque
from dataclasses import replace
from random import Random
from typing import Final, final

from antiphon.kernel.calls import Hang
from antiphon.kernel.effects import (
    NEVER,
    Announced,
    BarrierReached,
    Delivered,
    Effects,
    Ended,
    Installed,
    MajorityLost,
    Sent,
)
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import Join, Open, Send
from antiphon.kernel.levels import ABCAST, CAUSAL, SAFE
from antiphon.kernel.options import Options
from antiphon.kernel.policies import PRIMARY
from antiphon.stacks.label.attached import OWED_BYTES_MAX, AttachedProcess, Handed
from antiphon.stacks.label.cluster_frames import OUT, RECORD
from antiphon.stacks.label.clusters import ClusterListener, is_ordered_level
from antiphon.stacks.label.guests import KnockListener
from antiphon.stacks.label.hosting import Hosting
from antiphon.stacks.label.member import LabelMember
from antiphon.stacks.label.offers import OFFERS, SITE
from antiphon.stacks.label.site_clusters import EVENTS, SiteClusters
from antiphon.stacks.label.site_delivery import SiteDelivery
from antiphon.stacks.label.site_frames import (
    BARRIER,
    DEPARTED,
    ENTER,
    ENTERS,
    ENVELOPE_BYTES_MAX,
    FAILS,
    FLUSH,
    GBCAST,
    LEAVE,
    LEAVES,
    MESSAGE,
    RENEWS,
    SEND,
    STALLED,
    TABLE,
    WANT,
    SiteMessage,
    SiteReader,
    SiteRecord,
    encode_frame,
    read_message,
    read_records,
    read_send,
)
from antiphon.stacks.label.site_transfer import TableTransfer

SITES_GROUP: Final = "label/sites"
FOUNDED_ABOVE: Final = 1 << 20
"""How far above the last view that a site was in, in this process, its first view is if it founds the group anew."""
_ROLE: Final = f"{OFFERS.name}/{SITE}"


@final
class Site(ClusterListener):
    """The daemon of one site."""

    __slots__ = (
        "_address", "_clusters", "_delivery", "_events", "_founders", "_handed", "_inner", "_is_paused", "_lazy_ns",
        "_member", "_now_ns", "_options", "_outer", "_random", "_records", "_renews", "_restart_at_ns", "_transfer",
        "_was_stalled", "dropped", "group_id", "hosting", "site", "view",
    )  # fmt: skip

    def __init__(
        self, input: Open, incarnation: int, random: Random, options: Options, lazy_ns: int, now_ns: int
    ) -> None:
        self._address = input.address
        self._founders = tuple([(where, where) for where in sorted({input.address, *input.contacts})])
        self._random = random
        self._options = options
        self._lazy_ns = lazy_ns
        self.group_id = wire_id(SITES_GROUP)
        self.site = ProcessId(input.address, incarnation - 1)
        """Address and incarnation."""
        self.view = View(0, ())
        """The site view, or none between two lives."""
        self.hosting = Hosting(options)
        self._clusters: SiteClusters | None = None
        """What it does for its cluster, if there are several."""
        if input.clusters:
            own = (input.address, *input.contacts)
            self._clusters = SiteClusters(own, input.clusters, self, options, now_ns)
        self._handed: deque[Handed] = deque()
        self._inner = Effects()
        """What the group of sites does in this step…"""
        self._outer = self._inner
        """…and what the process does, of which it is a part."""
        self._now_ns = now_ns
        self._events = 0
        """How many events of the group of sites have been followed."""
        self._is_paused = False
        self.dropped = 0
        """What sites have told and cannot be read."""
        self._begin_life(now_ns)

    def _begin_life(self, now_ns: int) -> None:
        """Join the group of sites, under the next incarnation."""
        self.site = ProcessId(self._address, self.site.incarnation + 1)
        self._transfer = TableTransfer(self.site)
        self._delivery = SiteDelivery(self.site, self.hosting, self._transfer)
        far_above = self.view.id + FOUNDED_ABOVE if self.view.id else 0
        self.view = View(0, ())
        self._records: list[tuple[ProcessId, SiteRecord]] = []
        """With which this site view ends."""
        self._was_stalled = False
        self._renews = False
        """Whether all groups are to have new views, so that processes that were told of a stall learn of its end."""
        self._restart_at_ns = NEVER
        self._is_paused = False
        longer = replace(self._options, message_bytes_max=self._options.message_bytes_max + ENVELOPE_BYTES_MAX)
        join = Join(
            group=SITES_GROUP, stack=OFFERS.name, policy=PRIMARY, address=self._address, founders=self._founders,
            found_after_ns=2 * self._options.silence_ns_min,
        )  # fmt: skip
        self._member = LabelMember(join, self.site, 0, self._random, longer, self._lazy_ns, KnockListener())
        self._member.addressing = self
        self._member.founds_above = max(self.site.incarnation, far_above)
        self._member.start((), self._inner, now_ns)

    # ---- links -----------------------------------------------------------------------------------------------------

    def owns(self, link: int) -> bool:
        """Whether a link is that of a process, or of a site of another cluster."""
        return link in self.hosting.attached or (self._clusters is not None and self._clusters.links.owns(link))

    def attach(self, link: int, process: ProcessId, effects: Effects, now_ns: int) -> None:
        """A process wants to be attached."""
        self.hosting.attach(link, process, self._transfer.table.is_dead(process), effects, now_ns)

    def accept_cluster(self, link: int, frame: bytes, effects: Effects, now_ns: int) -> None:
        """A site of another cluster has dialled this one."""
        if self._clusters is None:
            effects.call(Hang(link))
        else:
            self._clusters.accept(link, frame, effects, now_ns)

    def receive_frames(self, link: int, frames: list[bytes], effects: Effects, now_ns: int) -> None:
        if link in self.hosting.attached:
            self.hosting.receive_frames(link, frames, effects, now_ns)
        elif self._clusters is not None:
            self._clusters.links.receive(link, frames, self._clusters.cluster, effects, now_ns)

    def link_up(self, link: int, now_ns: int) -> None:
        """A link to another cluster stands."""
        if self._clusters is not None:
            self._clusters.links.up(link, now_ns)

    def link_down(self, link: int, now_ns: int) -> None:
        self.hosting.link_down(link)
        if self._clusters is not None:
            self._clusters.links.down(link, now_ns)

    def dial(self, cluster: int, link: int, effects: Effects, now_ns: int) -> None:
        """Dial another cluster, by a link with this id."""
        assert self._clusters is not None
        self._clusters.links.dial(cluster, link, effects, now_ns)

    # ---- packets and time ------------------------------------------------------------------------------------------

    def receive(self, kind: int, tag: int, sender: int, flags: int, level: int, data: bytes, now_ns: int) -> None:
        """Take a packet of the group of sites. Raises MalformedError."""
        self._member.receive(kind, tag, sender, flags, level, data, self._inner, now_ns)

    def deadline_ns(self) -> int:
        deadline_ns = min(self._restart_at_ns, self._member.deadline_ns(), self.hosting.deadline_ns())
        if self._clusters is not None:
            is_oldest = self._clusters.is_oldest(self.site)
            deadline_ns = min(deadline_ns, self._clusters.links.deadline_ns(is_oldest))
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        if self._restart_at_ns <= now_ns:
            self._begin_life(now_ns)
        if self._member.deadline_ns() <= now_ns:
            self._member.tick(self._inner, now_ns)
        self.hosting.tick(effects, now_ns)
        if self._clusters is not None:
            self._clusters.links.tick(self._clusters.cluster, effects, now_ns)

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> list[int]:
        """Hand in what processes ask for, and hand them what is delivered, until nothing more follows; the clusters
        that are to be dialled."""
        self._outer = effects
        self._now_ns = now_ns
        while True:
            self._serve_all(effects, now_ns)
            if self._transfer.owes_word:
                self._transfer.owes_word = not self._send(self._transfer.word(), CAUSAL, "", now_ns)
            if self._clusters is not None:
                self._tell_cluster(self._clusters, now_ns)
            before = self._events
            self._member.finish(self._inner, now_ns)
            self._take_events()
            self._pause_if_owed(now_ns)
            if self._events == before and not self._inner.events:
                break
        effects.transmits += self._inner.transmits
        self._inner = Effects()
        self._tell_processes(effects, now_ns)
        return [] if self._clusters is None else self._clusters.finish(self.site, effects, now_ns)

    def _tell_cluster(self, clusters: SiteClusters, now_ns: int) -> None:
        """Tell the sites of this cluster what has come from others, as far as there is room."""
        while True:
            word = clusters.next_word(self.site, not self._handed)
            if not word or not self._send(word, SAFE, "", now_ns):
                return
            clusters.told(word)

    def _take_events(self) -> None:
        """Follow what the group of sites has done so far."""
        effects, now_ns = self._outer, self._now_ns
        events, self._inner.events = self._inner.events, []
        self._events += len(events)
        for event in events:
            if isinstance(event, Delivered):
                self._deliver(event)
            elif isinstance(event, Sent):
                self._tell_departed(event)
            elif isinstance(event, BarrierReached):
                self._take_barrier(event)
            elif isinstance(event, Installed):
                self._install(event, effects)
            elif isinstance(event, MajorityLost):
                self._stall()
            elif isinstance(event, Ended):
                self._die(effects, now_ns)

    def find(self, destinations: tuple[ProcessId, ...]) -> tuple[ProcessId, ...]:
        """The sites of a group, which the first of these names, or of those of its members that the others are."""
        self._take_events()  # a view has been installed, perhaps, in which this is the first to leave
        return self._delivery.sites_of(int(destinations[0].name), destinations[1:])

    def _pause_if_owed(self, now_ns: int) -> None:
        """Deliver nothing while a process has not taken too much of what it was told."""
        if not self._is_paused:
            if self.hosting.owes(OWED_BYTES_MAX):
                self._is_paused = True
                self._member.pause()
        elif not self.hosting.owes(OWED_BYTES_MAX // 2):
            self._is_paused = False
            self._member.resume(self._inner, now_ns)
            self._member.finish(self._inner, now_ns)

    def _tell_processes(self, effects: Effects, now_ns: int) -> None:
        for attached in self.hosting.attached.values():
            if attached.mark is None and attached.handled > attached.settled:
                attached.mark, attached.marked = self._member.mark(), attached.handled
            if attached.mark is not None and self._member.is_stable(attached.mark, 0) and self._is_out(attached):
                attached.settle()
        self.hosting.transmit(effects, now_ns)

    def _is_out(self, attached: AttachedProcess) -> bool:
        """Whether other clusters have done what they were sent until what a process waits for was stable here."""
        if self._clusters is None:
            return True
        cluster = self._clusters.cluster
        if not attached.position and not attached.ordered:
            attached.position = [acked + len(out) for acked, out in zip(cluster.acked, cluster.out, strict=True)]
        return bool(attached.position) and all(
            acked >= number for acked, number in zip(cluster.acked, attached.position, strict=True)
        )

    # ---- what processes ask for ------------------------------------------------------------------------------------

    def _serve_all(self, effects: Effects, now_ns: int) -> None:
        """Hand in what waits, one of each process in turn, as far as the group of sites takes it."""
        if not self._transfer.has_table:
            return
        if self._renews:
            self._renews = not self._put_record(SiteRecord(RENEWS, 0, self.site), now_ns)
        waiting = self.hosting.waiting()
        while waiting:
            for attached in waiting:
                if self._has_to_wait(attached):
                    continue
                try:
                    if not self._serve(attached, attached.inbox[0], now_ns):
                        waiting = []
                        break
                    attached.done()
                except (MalformedError, UsageError) as error:
                    attached.inbox.clear()
                    self.hosting.give_up(attached, f"a frame cannot be taken: {error}", effects)
            waiting = [each for each in waiting if each.inbox and not self._has_to_wait(each)]
        self._tell_failed(now_ns)

    def _has_to_wait(self, attached: AttachedProcess) -> bool:
        """Whether what a process asks for next may not leave now, because of other clusters (clusters.py, rules 4 and
        5)."""
        if self._clusters is None or attached.inbox[0][0] not in (SEND, BARRIER):
            return False
        cluster = self._clusters.cluster
        return bool(cluster.locked) or bool(attached.ordered) or not cluster.has_room()

    def _put_record(self, record: SiteRecord, now_ns: int) -> bool:
        """Have a change of groups decided on; whether there was room."""
        if self._clusters is not None:
            return self._send(bytes([RECORD]) + record.encode(), SAFE, "", now_ns)
        return self._member.put_record(record.encode())

    def _tell_failed(self, now_ns: int) -> None:
        """The process monitor: tell of those whose last message has been handed in (rule 4)."""
        for attached in list(self.hosting.failing):
            if attached.inbox or attached.ordered:
                continue
            if attached.entered and not self._put_record(SiteRecord(FAILS, 0, attached.process), now_ns):
                continue
            self.hosting.forget(attached)

    def _serve(self, attached: AttachedProcess, frame: bytes, now_ns: int) -> bool:
        """Do what a frame asks for; whether there was room. Raises MalformedError or UsageError."""
        kind, reader = frame[0], SiteReader(frame, 1)
        process = attached.process
        if kind in (ENTER, LEAVE):
            return self._serve_change(attached, kind, reader.u64(), now_ns)
        if kind == FLUSH:
            attached.handled = reader.number()
            return True
        if kind == BARRIER:
            ticket, group, number = reader.number(), reader.u64(), reader.number()
            if not self._transfer.table.is_member(group, process, self.site):
                raise MalformedError("group")
            is_taken = self._put_record(SiteRecord(GBCAST, group, process, number, reader.rest()), now_ns)
            attached.ordered += 1 if is_taken and self._clusters is not None else 0
        else:
            ticket, level, label, body = read_send(reader)
            message = read_message(SiteReader(body))
            group = message.group
            if message.sender != process or not self._transfer.table.is_member(group, process, self.site):
                raise MalformedError("group")
            is_taken = self._serve_send(attached, level, label, message, body, now_ns)
        if is_taken:
            attached.handled = ticket
            self._handed.append(Handed(self._member.last_number(), attached, group, ticket))
        return is_taken

    def _serve_send(
        self, attached: AttachedProcess, level: int, label: str, message: SiteMessage, body: bytes, now_ns: int
    ) -> bool:
        """Send messages of a process: to the sites of their destinations or, if there are some in other clusters, to
        all sites of this one (clusters.py). Labels order nothing but each other, so what has one takes the same way as
        those with it that go to other clusters."""
        if self._clusters is not None:
            away = self.clusters_of(body) - {self._clusters.place_of(self.site)}
            if away or label or level == ABCAST:
                if not self._send(bytes([OUT, level]) + body, SAFE, "", now_ns):
                    return False
                attached.ordered += 1 if is_ordered_level(level) else 0
                return True
        to = (ProcessId(str(message.group)), *message.destinations)
        return self._send(bytes([MESSAGE]) + body, level, label, now_ns, to)

    def _serve_change(self, attached: AttachedProcess, kind: int, group: int, now_ns: int) -> bool:
        record = SiteRecord(ENTERS if kind == ENTER else LEAVES, group, attached.process)
        if not self._put_record(record, now_ns):
            return False
        if kind == ENTER:
            attached.entered.add(group)
        else:
            attached.entered.discard(group)
        return True

    def _send(self, payload: bytes, level: int, label: str, now_ns: int, to: tuple[ProcessId, ...] = ()) -> bool:
        send = Send(group=SITES_GROUP, payloads=[payload], level=level, label=label, destinations=to)
        return bool(self._member.send(send, self._inner, now_ns))

    # ---- what the group of sites does ------------------------------------------------------------------------------

    def _tell_departed(self, event: Sent) -> None:
        """What was handed in leaves, in this view of its group."""
        last = event.number + event.count - 1
        while self._handed and self._handed[0].number <= last:
            handed = self._handed.popleft()
            hosted = self._transfer.table.groups.get(handed.group)
            if hosted is not None and not handed.attached.is_gone:
                handed.attached.out.append(encode_frame(DEPARTED, handed.ticket, hosted.view_id))

    def _deliver(self, event: Delivered) -> None:
        for payload in event.payloads:
            try:
                if payload[:1] == bytes([MESSAGE]):
                    self._deliver_message(read_message(SiteReader(payload, 1)), event, payload[1:])
                elif payload[:1] == bytes([TABLE]):
                    self._take_table(SiteReader(payload, 1))
                elif payload[:1] == bytes([WANT]):
                    self._take_want(SiteReader(payload, 1), event.sender)
                elif self._clusters is not None and payload[:1] and payload[0] in EVENTS:
                    self._clusters.take(payload, event.sender)
                else:
                    self.dropped += 1
            except MalformedError:
                self.dropped += 1

    def _take_table(self, reader: SiteReader) -> None:
        state = self._transfer.take_table(reader)
        if state is not None and self._clusters is not None:
            self._clusters.restore(state)

    def _take_want(self, reader: SiteReader, site: ProcessId) -> None:
        if self._transfer.take_want(reader, site) and self._clusters is not None:
            self._clusters.begin(self.view)

    def _deliver_message(self, message: SiteMessage, event: Delivered, body: bytes) -> None:
        if self._transfer.has_table:
            self._delivery.hand_over(message, event.sender, event.level, body)

    def _take_barrier(self, event: BarrierReached) -> None:
        try:
            records = read_records(event.payload)
        except MalformedError:
            self.dropped += 1
            return
        for record in records:
            self._records.append((event.sender, record))
            self._delivery.reach(event.sender, record)

    # ---- what the cluster does -------------------------------------------------------------------------------------

    def deliver_cast(self, level: int, site: ProcessId, message: bytes) -> None:
        read = read_message(SiteReader(message))
        if is_ordered_level(level):
            self._is_back(site, read.sender)
        self._delivery.hand_over(read, site, level, message)

    def _is_back(self, site: ProcessId, process: ProcessId) -> None:
        """An ordered broadcast of a process is back from the other clusters: that one may send again."""
        attached = self.hosting.by_process.get(process)
        if site == self.site and attached is not None and attached.ordered:
            attached.ordered -= 1

    def clusters_of(self, message: bytes) -> set[int]:
        assert self._clusters is not None
        read = read_message(SiteReader(message))
        sites = self._delivery.sites_of(read.group, read.destinations)
        return {self._clusters.place_of(site) for site in sites} - {-1}

    def install_groups(self, view_id: int, records: tuple[tuple[ProcessId, SiteRecord], ...]) -> None:
        for site, record in records:
            self._delivery.reach(site, record)
            if record.kind == GBCAST:
                self._is_back(site, record.process)
        changes, departures = self._transfer.table.change_across(view_id, list(records))
        self._delivery.tell_changes(changes, departures, self._outer)

    # ---- site views ------------------------------------------------------------------------------------------------

    def _install(self, event: Installed, effects: Effects) -> None:
        self.view = event.view
        names = ", ".join([repr(site) for site in event.view.members])
        effects.events.append(Announced(_ROLE, "site view", f"{event.view.id}: {names}"))
        records, self._records = self._records, []
        self._transfer.install(event)
        if self._clusters is not None:
            self._clusters.install(event.view, event.founded)
        if not self._transfer.has_table:
            return
        state = b""
        if self._clusters is None:
            self._delivery.tell_changes(*self._transfer.table.change(event.view, records, event.left), effects)
        else:
            state = self._clusters.cluster.encode()
        self._transfer.keep_word(state)
        self._renews = self._renews or self._was_stalled
        self._was_stalled = False

    def _stall(self) -> None:
        self._was_stalled = True
        for attached in self.hosting.attached.values():
            attached.out.append(encode_frame(STALLED))

    def _die(self, effects: Effects, now_ns: int) -> None:
        """The other sites have gone on without this one: so it is dead, and all its processes are (rule 5)."""
        effects.events.append(Announced(_ROLE, "site excluded", f"{self.site} comes back as the next incarnation"))
        self.hosting.give_up_all("the site was excluded", effects)
        self.hosting.forget_all()
        if self._clusters is not None:
            self._clusters.lose(effects, now_ns)
        self._handed.clear()
        self._transfer = TableTransfer(self.site)
        self._delivery = SiteDelivery(self.site, self.hosting, self._transfer)
        self._restart_at_ns = now_ns + self._options.retry_ns

    def close(self, effects: Effects, now_ns: int) -> None:
        """Be a site no more; to the others it has failed."""
        self.hosting.give_up_all("the site has closed", effects)
        if self._clusters is not None:
            self._clusters.lose(effects, now_ns)
