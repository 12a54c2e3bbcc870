"""The stack `label`, as one process runs it: members of groups, doors for guests, and groups that are sent to from
outside (guests.py); a site (site.py), or members that are attached to one (attachment.py). While a process has none of
these but members, its groups do not depend on each other."""

from random import Random
from typing import final

from antiphon.kernel.calls import Dial, Hang
from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.inputs import Close, Join, Open, Reach, Send, StackRequest, Unreach
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import CallOutcome, LinkDown, LinkFrames, LinkUp
from antiphon.kernel.packet_kinds import KNOCK
from antiphon.kernel.policies import SITES
from antiphon.parts.member import Member
from antiphon.stacks.label.attachment import AttachedMember, Attachment
from antiphon.stacks.label.cluster_frames import CLUSTER
from antiphon.stacks.label.door import Doorway
from antiphon.stacks.label.guest_frames import COME
from antiphon.stacks.label.member import LabelMember
from antiphon.stacks.label.offers import OFFERS, SITE
from antiphon.stacks.label.site import Site
from antiphon.stacks.label.site_frames import ATTACH
from antiphon.stacks.label.visitor import Visit
from antiphon.stacks.stack import Stack


@final
class LabelStack(Stack):
    """All groups of one process on this stack."""

    __slots__ = ("_attachment", "_doorway", "_entered", "_numbers", "_site", "_visits")

    def __init__(self, process: ProcessId, random: Random, options: Options) -> None:
        super().__init__(OFFERS, process, random, options)
        self.groups_apart = True
        self._doorway = Doorway(self.members)
        self._doorway.listen_token = self.new_token()
        self._visits: dict[int, Visit] = {}
        """By group, those that are sent to from outside…"""
        self._numbers: dict[str, int] = {}
        """…and the number of the last message to those that were."""
        self._entered: set[str] = set()
        """Groups that this process has been a member of."""
        self._site: Site | None = None
        """What this process does for those that are attached to it…"""
        self._attachment: Attachment | None = None
        """…and what it is attached to itself."""

    def check_join(self, join: Join) -> None:
        super().check_join(join)
        attachment = self._attachment
        if join.policy == SITES and len(join.contacts) != 1:
            raise UsageError(
                f"to join group {join.group!r} by way of a site, name the address of the site as the contact"
            )
        if join.policy == SITES and attachment is not None and attachment.address != join.contacts[0]:
            raise UsageError(f"{self._process} is attached to site {attachment.address}, and to no other in this life")

    def make_member(self, join: Join, last_number: int) -> Member:
        if wire_id(join.group) in self._visits:
            raise UsageError(f"{self._process} sends to group {join.group!r} from outside; end that before it joins")
        if join.policy == SITES:
            self.groups_apart = False
            if self._attachment is None:
                self._attachment = Attachment(join.contacts[0], self._options, 0)
            self._entered.add(join.group)
            return AttachedMember(join, self._process, last_number, self._options, self._attachment)
        lazy_ns = 1000 * self.option("lazy_us")
        last_number = max(last_number, self._numbers.get(join.group, 0))
        member = LabelMember(join, self._process, last_number, self._random, self._options, lazy_ns, self._doorway)
        self._entered.add(join.group)
        return member

    # ---- a site ----------------------------------------------------------------------------------------------------

    def open(self, input: Open, effects: Effects, now_ns: int) -> None:
        if input.role != SITE or not input.address:
            raise UsageError(f"stack {OFFERS.name!r} has the role {SITE!r}, at an address; not {input.role!r}")
        if self._site is not None:
            raise UsageError(f"{self._process} is a site already")
        lazy_ns = 1000 * self.option("lazy_us")
        self._site = Site(input, self._process.incarnation, self._random, self._options, lazy_ns, now_ns)
        self.groups_apart = False
        self._doorway.listen(effects)

    def close(self, input: Close, effects: Effects, now_ns: int) -> None:
        if input.role != SITE or self._site is None:
            raise UsageError(f"{self._process} has not taken the role {input.role!r}")
        self._site.close(effects, now_ns)
        self._site = None

    # ---- sending from outside --------------------------------------------------------------------------------------

    def request(self, input: StackRequest, effects: Effects, now_ns: int) -> None:
        if isinstance(input, Reach):
            self._reach(input, now_ns)
        elif isinstance(input, Unreach):
            visit = self._visits.pop(wire_id(input.group), None)
            if visit is not None:
                self._numbers[input.group] = visit.last
                if visit.link:
                    effects.call(Hang(visit.link))
        else:
            super().request(input, effects, now_ns)

    def _reach(self, input: Reach, now_ns: int) -> None:
        if input.group in self._entered:
            raise UsageError(
                f"{self._process} is or was a member of group {input.group!r}: the others have been told that nothing "
                "more comes of it when it leaves; send from another process, or join again"
            )
        if wire_id(input.group) in self._visits:
            raise UsageError(f"{self._process} sends to group {input.group!r} from outside already")
        if not input.contacts or not input.address:
            raise UsageError(f"to reach group {input.group!r}, name addresses of members, and that of this process")
        last = self._numbers.pop(input.group, 0)
        visit = Visit(input, self._process, last, self._random, self._options, now_ns)
        self._visits[visit.group_id] = visit
        self.groups_apart = False

    def send_outside(self, input: Send, effects: Effects, now_ns: int) -> int:
        visit = self._visits.get(wire_id(input.group))
        if visit is None:
            raise UsageError(f"to send to group {input.group!r} from outside, reach its members first")
        return visit.accept(input, now_ns)

    def outstanding_outside(self, group: str) -> int:
        visit = self._visits.get(wire_id(group))
        return 0 if visit is None else visit.outstanding()

    # ---- packets and links -----------------------------------------------------------------------------------------

    def receive(
        self,
        kind: int,
        group_id: int,
        tag: int,
        sender: int,
        flags: int,
        level: int,
        data: bytes,
        effects: Effects,
        now_ns: int,
    ) -> None:
        site = self._site
        if site is not None and group_id == site.group_id:
            site.receive(kind, tag, sender, flags, level, data, now_ns)
            return
        visit = self._visits.get(group_id)
        if visit is None or kind != KNOCK or flags != COME:
            raise MalformedError("group")
        visit.come(data)

    def outcome(self, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        self.groups_apart = False
        link = outcome.token
        if self._attachment is not None and link == self._attachment.link:
            self._hear_site(self._attachment, outcome, effects, now_ns)
            return
        if self._site is not None and self._hear_process(self._site, outcome, effects, now_ns):
            return
        visit = self._visit_of(link)
        if isinstance(outcome, LinkUp) and outcome.listen:
            self._doorway.link_up(link, outcome.identity, effects)
        elif visit is not None:
            self._hear_door(visit, outcome, effects, now_ns)
        elif isinstance(outcome, LinkFrames):
            self._doorway.receive(link, outcome.frames, effects, now_ns)
            for member in self._doorway.touched:
                self.touch(member, now_ns)
                member.unfinished = True
            self._doorway.touched = []
        elif isinstance(outcome, LinkDown):
            self._doorway.link_down(link)

    def _hear_process(self, site: Site, outcome: CallOutcome, effects: Effects, now_ns: int) -> bool:
        """Whether a link is that of a process that is attached, or wants to be, or of a site of another cluster."""
        link = outcome.token
        if isinstance(outcome, LinkFrames) and outcome.frames:
            first = outcome.frames[0]
            process = self._doorway.release(link) if first[:1] in (bytes([ATTACH]), bytes([CLUSTER])) else None
            if process is not None and first[0] == ATTACH:
                site.attach(link, process, effects, now_ns)
            elif process is not None:
                site.accept_cluster(link, first, effects, now_ns)
        if not site.owns(link):
            return False
        if isinstance(outcome, LinkUp):
            site.link_up(link, now_ns)
        elif isinstance(outcome, LinkFrames):
            site.receive_frames(link, outcome.frames, effects, now_ns)
        elif isinstance(outcome, LinkDown):
            site.link_down(link, now_ns)
        return True

    def _hear_site(self, attachment: Attachment, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        if isinstance(outcome, LinkUp):
            attachment.link_up(now_ns)
        elif isinstance(outcome, LinkFrames):
            attachment.receive(outcome.frames, effects, now_ns)
        elif isinstance(outcome, LinkDown):
            attachment.link_down("the site is gone, or has given up this process", effects, now_ns)

    def _visit_of(self, link: int) -> Visit | None:
        for visit in self._visits.values():
            if visit.link == link:
                return visit
        return None

    def _hear_door(self, visit: Visit, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        if isinstance(outcome, LinkUp):
            visit.link_up(outcome.identity, effects, now_ns)
        elif isinstance(outcome, LinkDown):
            visit.link_down(now_ns)
        elif isinstance(outcome, LinkFrames):
            try:
                visit.receive(outcome.frames, effects, now_ns)
            except MalformedError:
                visit.leave_door(effects, now_ns)

    def end_step(self, effects: Effects, now_ns: int) -> None:
        self._doorway.finish(effects, now_ns)
        if self._site is not None:
            for cluster in self._site.finish(effects, now_ns):
                self._site.dial(cluster, self.new_token(), effects, now_ns)
        attachment = self._attachment
        if attachment is not None:
            if attachment.has_to_dial(now_ns):
                attachment.dial(self.new_token(), effects, now_ns)
            attachment.finish(effects, now_ns)
            for member in attachment.ended:
                self.touch(member, now_ns)
            attachment.ended = []
        for visit in self._visits.values():
            if visit.to_dial:
                link, address = self.new_token(), visit.to_dial
                visit.dialled(link, now_ns)
                effects.call(Dial(link, address))
            visit.finish(effects, now_ns)

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        deadline_ns = super().deadline_ns()
        for visit in self._visits.values():
            deadline_ns = min(deadline_ns, visit.deadline_ns())
        if self._site is not None:
            deadline_ns = min(deadline_ns, self._site.deadline_ns())
        if self._attachment is not None:
            deadline_ns = min(deadline_ns, self._attachment.deadline_ns())
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        super().tick(effects, now_ns)
        for visit in self._visits.values():
            visit.tick(effects, now_ns)
        if self._site is not None:
            self._site.tick(effects, now_ns)
        if self._attachment is not None:
            self._attachment.tick(effects, now_ns)
