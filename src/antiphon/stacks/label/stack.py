"""The stack `label`, as one process runs it: members of groups, doors for guests, and groups that are sent to from
outside (guests.py). While a process has neither guests nor visits, its groups do not depend on each other."""

from random import Random
from typing import final

from antiphon.kernel.calls import Dial, Hang
from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.inputs import Join, Reach, Send, StackRequest, Unreach
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import CallOutcome, LinkDown, LinkFrames, LinkUp
from antiphon.kernel.packet_kinds import KNOCK
from antiphon.parts.member import Member
from antiphon.stacks.label.door import Doorway
from antiphon.stacks.label.guest_frames import COME
from antiphon.stacks.label.member import LabelMember
from antiphon.stacks.label.offers import OFFERS
from antiphon.stacks.label.visitor import Visit
from antiphon.stacks.stack import Stack


@final
class LabelStack(Stack):
    """All groups of one process on this stack."""

    __slots__ = ("_doorway", "_entered", "_numbers", "_visits")

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

    def make_member(self, join: Join, last_number: int) -> Member:
        if wire_id(join.group) in self._visits:
            raise UsageError(f"{self._process} sends to group {join.group!r} from outside; end that before it joins")
        lazy_ns = 1000 * self.option("lazy_us")
        last_number = max(last_number, self._numbers.get(join.group, 0))
        member = LabelMember(join, self._process, last_number, self._random, self._options, lazy_ns, self._doorway)
        self._entered.add(join.group)
        return member

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
        visit = self._visits.get(group_id)
        if visit is None or kind != KNOCK or flags != COME:
            raise MalformedError("group")
        visit.come(data)

    def outcome(self, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        self.groups_apart = False
        link = outcome.token
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
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        super().tick(effects, now_ns)
        for visit in self._visits.values():
            visit.tick(effects, now_ns)
