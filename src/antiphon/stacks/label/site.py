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

from antiphon.kernel.calls import Frames, Hang
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
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import Options
from antiphon.kernel.policies import PRIMARY
from antiphon.stacks.label.addressing import Addressing
from antiphon.stacks.label.attached import OWED_BYTES_MAX, AttachedProcess
from antiphon.stacks.label.guests import KnockListener
from antiphon.stacks.label.member import LabelMember
from antiphon.stacks.label.offers import OFFERS, SITE
from antiphon.stacks.label.site_frames import (
    ATTACH,
    BARRIER,
    BEAT,
    DEAD,
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
    TAKEN,
    WANT,
    SiteMessage,
    SiteReader,
    SiteRecord,
    encode_deliver,
    encode_ended,
    encode_frame,
    encode_reached,
    read_message,
    read_records,
    read_send,
)
from antiphon.stacks.label.site_transfer import TableTransfer

SITES_GROUP: Final = "label/sites"
PROCESSES_MAX: Final = 1024
"""Further ones are turned away."""
FOUNDED_ABOVE: Final = 1 << 20
"""How far above the last view that a site was in, in this process, its first view is if it founds the group anew."""
_ROLE: Final = f"{OFFERS.name}/{SITE}"


@final
class NoGuests(KnockListener):
    """Nobody sends to the group of sites from outside."""

    __slots__ = ()

    def knocked(self, group_id: int, flags: int, data: bytes, effects: Effects) -> None:
        raise MalformedError("knock")


@final
class Handed:
    """Something of a process that the group of sites has taken, under a number of the site's, and that has not left."""

    __slots__ = ("attached", "group", "number", "ticket")

    def __init__(self, number: int, attached: AttachedProcess, group: int, ticket: int) -> None:
        self.number = number
        self.attached = attached
        self.group = group
        self.ticket = ticket


@final
class Site(Addressing):
    """The daemon of one site."""

    __slots__ = (
        "_address", "_attached", "_by_process", "_events", "_failing", "_founders", "_handed", "_inner", "_is_paused",
        "_lazy_ns", "_member", "_now_ns", "_options", "_outer", "_random", "_records", "_renews", "_restart_at_ns",
        "_transfer", "_was_stalled", "dropped", "group_id", "site", "view",
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
        self._attached: dict[int, AttachedProcess] = {}
        """By link."""
        self._by_process: dict[ProcessId, AttachedProcess] = {}
        self._failing: list[AttachedProcess] = []
        """Those whose link is down, and whose failure is still to be told."""
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
        """Messages of processes that are not in the group that they were for."""
        self._begin_life(now_ns)

    def _begin_life(self, now_ns: int) -> None:
        """Join the group of sites, under the next incarnation."""
        self.site = ProcessId(self._address, self.site.incarnation + 1)
        self._transfer = TableTransfer(self.site)
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
        self._member = LabelMember(join, self.site, 0, self._random, longer, self._lazy_ns, NoGuests())
        self._member.addressing = self
        self._member.founds_above = max(self.site.incarnation, far_above)
        self._member.start((), self._inner, now_ns)

    # ---- links of processes ----------------------------------------------------------------------------------------

    def owns(self, link: int) -> bool:
        return link in self._attached

    def attach(self, link: int, process: ProcessId, effects: Effects, now_ns: int) -> None:
        """A process wants to be attached."""
        reason = ""
        if len(self._attached) >= PROCESSES_MAX:
            reason = "the site has as many processes as it can"
        elif process in self._by_process or self._transfer.table.is_dead(process):
            reason = "this incarnation was attached before, and is dead"
        if reason:
            effects.call(Frames(link, [bytes([DEAD]) + reason.encode()]))
            effects.call(Hang(link))
            return
        attached = AttachedProcess(link, process, self._options, now_ns)
        self._attached[link] = attached
        self._by_process[process] = attached

    def receive_frames(self, link: int, frames: list[bytes], effects: Effects, now_ns: int) -> None:
        """Take what a process asks for; what cannot be read, or is too much, ends its life."""
        attached = self._attached[link]
        attached.heard_ns = now_ns
        for frame in frames:
            kind = frame[0] if frame else 0
            try:
                if kind == TAKEN:
                    attached.take(SiteReader(frame, 1).number())
                elif kind in (ENTER, LEAVE, SEND, BARRIER, FLUSH):
                    if not attached.put(frame):
                        raise MalformedError("window")
                elif kind not in (ATTACH, BEAT):
                    raise MalformedError("kind")
            except MalformedError as error:
                self._give_up(attached, f"a frame cannot be taken: {error.reason}", effects)
                return

    def link_down(self, link: int) -> None:
        attached = self._attached.pop(link, None)
        if attached is not None:
            self._lose(attached)

    def _lose(self, attached: AttachedProcess) -> None:
        attached.is_gone = True
        attached.out = []
        self._failing.append(attached)

    def _give_up(self, attached: AttachedProcess, reason: str, effects: Effects) -> None:
        """Take a process to have failed, and tell it."""
        if self._attached.pop(attached.link, None) is not None:
            frames = [*attached.out, bytes([DEAD]) + reason.encode()]
            effects.call(Frames(attached.link, frames))
            effects.call(Hang(attached.link))
            attached.inbox.clear()
            self._lose(attached)

    # ---- packets and time ------------------------------------------------------------------------------------------

    def receive(self, kind: int, tag: int, sender: int, flags: int, level: int, data: bytes, now_ns: int) -> None:
        """Take a packet of the group of sites. Raises MalformedError."""
        self._member.receive(kind, tag, sender, flags, level, data, self._inner, now_ns)

    def deadline_ns(self) -> int:
        options = self._options
        deadline_ns = min(self._restart_at_ns, self._member.deadline_ns())
        for attached in self._attached.values():
            beat_ns = attached.said_ns + options.heartbeat_interval_ns
            deadline_ns = min(deadline_ns, beat_ns, attached.heard_ns + options.silence_ns_max)
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        options = self._options
        if self._restart_at_ns <= now_ns:
            self._begin_life(now_ns)
        if self._member.deadline_ns() <= now_ns:
            self._member.tick(self._inner, now_ns)
        for attached in list(self._attached.values()):
            if attached.heard_ns + options.silence_ns_max <= now_ns:
                self._give_up(attached, "the process was silent for too long", effects)
            elif attached.said_ns + options.heartbeat_interval_ns <= now_ns:
                attached.out.append(encode_frame(BEAT))

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Hand in what processes ask for, and hand them what is delivered, until nothing more follows."""
        self._outer = effects
        self._now_ns = now_ns
        while True:
            self._serve_all(effects, now_ns)
            if self._transfer.owes_word:
                self._transfer.owes_word = not self._send(self._transfer.word(), CAUSAL, "", now_ns)
            before = self._events
            self._member.finish(self._inner, now_ns)
            self._take_events()
            self._pause_if_owed(now_ns)
            if self._events == before and not self._inner.events:
                break
        effects.transmits += self._inner.transmits
        self._inner = Effects()
        self._tell_processes(effects, now_ns)

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
                self._die(event, effects, now_ns)

    def find(self, destinations: tuple[ProcessId, ...]) -> tuple[ProcessId, ...]:
        """The sites of a group, which the first of these names, or of those of its members that the others are."""
        self._take_events()  # a view has been installed, perhaps, in which this is the first to leave
        hosted = self._transfer.table.groups.get(int(destinations[0].name))
        if hosted is None:
            return ()
        members = hosted.members
        chosen = destinations[1:] or tuple(members)
        return tuple(dict.fromkeys([members[process] for process in chosen if process in members]))

    def _pause_if_owed(self, now_ns: int) -> None:
        """Deliver nothing while a process has not taken too much of what it was told."""
        if not self._is_paused:
            if any(attached.owes(OWED_BYTES_MAX) for attached in self._attached.values()):
                self._is_paused = True
                self._member.pause()
        elif not any(attached.owes(OWED_BYTES_MAX // 2) for attached in self._attached.values()):
            self._is_paused = False
            self._member.resume(self._inner, now_ns)
            self._member.finish(self._inner, now_ns)

    def _tell_processes(self, effects: Effects, now_ns: int) -> None:
        for attached in self._attached.values():
            if attached.mark is None and attached.handled > attached.settled:
                attached.mark, attached.marked = self._member.mark(), attached.handled
            if attached.mark is not None and self._member.is_stable(attached.mark, 0):
                attached.settle()
            if attached.out:
                effects.call(Frames(attached.link, attached.out))
                attached.out = []
                attached.said_ns = now_ns

    # ---- what processes ask for ------------------------------------------------------------------------------------

    def _serve_all(self, effects: Effects, now_ns: int) -> None:
        """Hand in what waits, one of each process in turn, as far as the group of sites takes it."""
        if not self._transfer.has_table:
            return
        if self._renews:
            self._renews = not self._member.put_record(SiteRecord(RENEWS, 0, self.site).encode())
        waiting = [each for each in [*self._attached.values(), *self._failing] if each.inbox]
        while waiting:
            for attached in waiting:
                try:
                    if not self._serve(attached, attached.inbox[0], now_ns):
                        waiting = []
                        break
                    attached.done()
                except (MalformedError, UsageError) as error:
                    attached.inbox.clear()
                    self._give_up(attached, f"a frame cannot be taken: {error}", effects)
            waiting = [each for each in waiting if each.inbox]
        self._tell_failed()

    def _tell_failed(self) -> None:
        """The process monitor: tell of those whose last message has been handed in (rule 4)."""
        for attached in list(self._failing):
            if attached.inbox:
                continue
            if attached.entered and not self._member.put_record(SiteRecord(FAILS, 0, attached.process).encode()):
                continue
            self._failing.remove(attached)
            if self._by_process.get(attached.process) is attached:
                del self._by_process[attached.process]

    def _serve(self, attached: AttachedProcess, frame: bytes, now_ns: int) -> bool:
        """Do what a frame asks for; whether there was room. Raises MalformedError or UsageError."""
        kind, reader = frame[0], SiteReader(frame, 1)
        process = attached.process
        if kind in (ENTER, LEAVE):
            return self._serve_change(attached, kind, reader.u64())
        if kind == FLUSH:
            attached.handled = reader.number()
            return True
        if kind == BARRIER:
            ticket, group, number = reader.number(), reader.u64(), reader.number()
            if not self._transfer.table.is_member(group, process, self.site):
                raise MalformedError("group")
            is_taken = self._member.put_record(SiteRecord(GBCAST, group, process, number, reader.rest()).encode())
        else:
            ticket, level, label, body = read_send(reader)
            message = read_message(SiteReader(body))
            group = message.group
            if message.sender != process or not self._transfer.table.is_member(group, process, self.site):
                raise MalformedError("group")
            to = (ProcessId(str(group)), *message.destinations)
            is_taken = self._send(bytes([MESSAGE]) + body, level, label, now_ns, to)
        if is_taken:
            attached.handled = ticket
            self._handed.append(Handed(self._member.last_number(), attached, group, ticket))
        return is_taken

    def _serve_change(self, attached: AttachedProcess, kind: int, group: int) -> bool:
        record = SiteRecord(ENTERS if kind == ENTER else LEAVES, group, attached.process)
        if not self._member.put_record(record.encode()):
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
                    self._transfer.take_table(SiteReader(payload, 1))
                elif payload[:1] == bytes([WANT]):
                    self._transfer.take_want(SiteReader(payload, 1), event.sender)
                else:
                    self.dropped += 1
            except MalformedError:
                self.dropped += 1

    def _deliver_message(self, message: SiteMessage, event: Delivered, body: bytes) -> None:
        if not self._transfer.has_table:
            return
        if not self._transfer.table.is_member(message.group, message.sender, event.sender):
            self.dropped += 1  # the sender is dead, to all sites alike
            return
        hosted = self._transfer.table.groups[message.group]
        frame = b""
        for process in message.destinations or hosted.members:
            attached = self._attached_member(message.group, process)
            if attached is not None:
                frame = frame or encode_deliver(message.group, hosted.view_id, event.level, body)
                attached.deliver(frame)

    def _attached_member(self, group: int, process: ProcessId) -> AttachedProcess | None:
        """A process of this site that is in a group."""
        attached = self._by_process.get(process)
        if attached is None or attached.is_gone or not self._transfer.table.is_member(group, process, self.site):
            return None
        return attached

    def _take_barrier(self, event: BarrierReached) -> None:
        try:
            records = read_records(event.payload)
        except MalformedError:
            self.dropped += 1
            return
        for record in records:
            self._records.append((event.sender, record))
            hosted = self._transfer.table.groups.get(record.group)
            is_from_member = self._transfer.table.is_member(record.group, record.process, event.sender)
            if record.kind != GBCAST or hosted is None or not is_from_member:
                continue
            for process in hosted.members:
                attached = self._attached_member(record.group, process)
                if attached is not None:
                    frame = encode_reached(record.group, hosted.view_id, record.number, record.process, record.payload)
                    attached.deliver(frame)

    # ---- site views ------------------------------------------------------------------------------------------------

    def _install(self, event: Installed, effects: Effects) -> None:
        self.view = event.view
        names = ", ".join([repr(site) for site in event.view.members])
        effects.events.append(Announced(_ROLE, "site view", f"{event.view.id}: {names}"))
        records, self._records = self._records, []
        self._transfer.install(event)
        if not self._transfer.has_table:
            return
        self._tell_views(event, records, effects)
        self._renews = self._renews or self._was_stalled
        self._was_stalled = False

    def _tell_views(self, event: Installed, records: list[tuple[ProcessId, SiteRecord]], effects: Effects) -> None:
        changes, departures = self._transfer.table.change(event.view, records, event.left)
        for change in changes:
            frame = change.encode()
            for process in change.view.members:
                attached = self._attached_member(change.group, process)
                if attached is not None:
                    attached.out.append(frame)
        for departure in departures:
            attached = self._by_process.get(departure.process)
            if attached is None or attached.is_gone:
                continue
            if departure.is_dead:
                self._give_up(attached, "the others have gone on without this incarnation", effects)
            else:
                attached.out.append(encode_ended(departure.group, departure.view))

    def _stall(self) -> None:
        self._was_stalled = True
        for attached in self._attached.values():
            attached.out.append(encode_frame(STALLED))

    def _die(self, event: Ended, effects: Effects, now_ns: int) -> None:
        """The other sites have gone on without this one: so it is dead, and all its processes are (rule 5)."""
        effects.events.append(Announced(_ROLE, "site excluded", f"{self.site} comes back as the next incarnation"))
        for attached in list(self._attached.values()):
            self._give_up(attached, "the site was excluded", effects)
        self._by_process = {}
        self._failing = []
        self._handed.clear()
        self._transfer = TableTransfer(self.site)
        self._restart_at_ns = now_ns + self._options.retry_ns

    def close(self, effects: Effects) -> None:
        """Be a site no more; to the others it has failed."""
        for attached in list(self._attached.values()):
            self._give_up(attached, "the site has closed", effects)
