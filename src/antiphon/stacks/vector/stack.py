"""The stack `vector`, as one process runs it: its groups, and their order with each other.

Groups of one causality domain depend on each other: what happens in one may free what waits in another. So after
whatever a step did to one group, those of its domain that wait for something are looked at, until nothing moves any
more. Exclusion from one group ends this process's life in all of its domain.
"""

from random import Random
from typing import Final, final

from antiphon.kernel.causality_domain import EPOCHS
from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Join
from antiphon.kernel.options import Options
from antiphon.kernel.policies import STATIC
from antiphon.parts.member import Member
from antiphon.stacks.stack import Stack
from antiphon.stacks.vector.inter_group_order import InterGroupOrder
from antiphon.stacks.vector.member import VectorMember
from antiphon.stacks.vector.offers import HOLD_NS, OFFERS, TIME_LIFE_NS

_DOMAINS_LEFT_MAX: Final = 1000
"""Domains without a group that are kept for what this process did in them; beyond that the oldest are forgotten."""


@final
class DomainMembers:
    """The groups of one causality domain that this process is in."""

    __slots__ = ("deadline_ns", "has_many", "members", "order", "waiting")

    def __init__(self, order: InterGroupOrder) -> None:
        self.order = order
        self.members: dict[int, VectorMember] = {}
        """By group, in the order in which they were joined."""
        self.waiting: dict[int, VectorMember] = {}
        """Those in which something may have to wait for another group."""
        self.has_many = False
        """Whether there has ever been more than one."""
        self.deadline_ns = NEVER


@final
class VectorStack(Stack):
    """All groups of one process on this stack."""

    __slots__ = ("_domains", "_empty", "_stirred", "_timed")

    def __init__(self, process: ProcessId, random: Random, options: Options) -> None:
        super().__init__(OFFERS, process, random, options)
        self.groups_apart = True
        self._domains: dict[str, DomainMembers] = {}
        self._empty: dict[str, None] = {}
        """Domains without a group, kept for what this process did in them; the oldest first."""
        self._stirred: dict[str, DomainMembers] = {}
        """The domains in which this step has done something."""
        self._timed: dict[str, DomainMembers] = {}
        """The domains that have a deadline."""

    def check_join(self, join: Join) -> None:
        super().check_join(join)
        if join.domain.rule == EPOCHS and join.policy == STATIC:
            raise UsageError(
                f"group {join.group!r} asks for the rule `epochs` and the policy `static`, but an epoch begins with a "
                "new view, and under `static` the view never changes; choose the policy `primary` or another rule"
            )
        known = self._domains.get(join.domain.name)
        if known is not None and known.order.domain != join.domain:
            raise UsageError(
                f"group {join.group!r} declares the causality domain {join.domain.name!r} as {join.domain}, but "
                f"another group here declares it as {known.order.domain}; declare it alike"
            )
        others = self.groups_of(join.domain.name)
        join.domain.check_groups(join.group, others)

    def make_member(self, join: Join, last_number: int) -> Member:
        domain = self._domains.get(join.domain.name)
        if domain is None:
            domain = DomainMembers(
                InterGroupOrder(join.domain, self._random, self._options, self.option(HOLD_NS), self)
            )
        member = VectorMember(
            join,
            self._process,
            last_number,
            domain.order,
            domain.members,
            self._random,
            self._options,
            self.option(TIME_LIFE_NS),
        )
        self._domains[join.domain.name] = domain
        self._empty.pop(join.domain.name, None)
        domain.members[member.group_id] = member
        domain.has_many = domain.has_many or len(domain.members) > 1
        return member

    def forget(self, member: Member) -> None:
        super().forget(member)
        assert isinstance(member, VectorMember)
        name = member.order.domain.name
        domain = self._domains[name]
        if domain.members.get(member.group_id) is not member:
            return
        if not member.over:
            domain.order.leave(member.group_id)
        del domain.members[member.group_id]
        domain.waiting.pop(member.group_id, None)
        if not domain.members:
            self._empty[name] = None
            if domain.order.is_alone():
                self._forget_domain(name)
            elif len(self._empty) > _DOMAINS_LEFT_MAX:
                self._forget_domain(next(iter(self._empty)))

    def _forget_domain(self, name: str) -> None:
        """Forget a domain that no group is in."""
        del self._empty[name]
        del self._domains[name]
        self._timed.pop(name, None)

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def end_step(self, effects: Effects, now_ns: int) -> None:
        for member in self.touched:
            if isinstance(member, VectorMember):
                domain = self._domains[member.order.domain.name]
                self._stirred[member.order.domain.name] = domain
                if domain.has_many:
                    self._note(domain, member)
        for name, domain in self._stirred.items():
            if domain.has_many:
                self._move_on(domain, effects, now_ns)
            domain.order.end_step()
            domain.deadline_ns = domain.order.deadline_ns()
            if domain.deadline_ns != NEVER:
                self._timed[name] = domain
            else:
                self._timed.pop(name, None)
        self._stirred.clear()

    def _note(self, domain: DomainMembers, member: VectorMember) -> None:
        """Note whether something in a group may have to wait for another."""
        if member.waits():
            domain.waiting[member.group_id] = member
        else:
            domain.waiting.pop(member.group_id, None)

    def _move_on(self, domain: DomainMembers, effects: Effects, now_ns: int) -> None:
        """Let the groups of one domain deliver and send in turn until none makes progress."""
        if any(member.over and member.excluded for member in self.touched):
            self._touch_expelled(domain, now_ns)
        progress = not domain.order.is_alone()
        while progress:
            progress = False
            for member in self._candidates(domain):
                if member.waits():
                    self.touch(member, now_ns)
                    if member.retry_blocked(effects, now_ns):
                        progress = True
                    self._note(domain, member)
        for group_id in domain.order.take_acks_requested():
            if group_id in domain.members:
                domain.members[group_id].collect(effects)

    def _candidates(self, domain: DomainMembers) -> list[VectorMember]:
        """The members that may wait for another group. Under epochs any may, since each follows the others' epochs."""
        if domain.order.domain.rule == EPOCHS:
            return list(domain.members.values())
        if len(domain.waiting) < 2:
            return list(domain.waiting.values())
        return sorted(domain.waiting.values(), key=_serial)

    def _touch_expelled(self, domain: DomainMembers, now_ns: int) -> None:
        """Note that an exclusion from one group of the domain has ended this process in the others."""
        for member in domain.members.values():
            if member.over or member.retiring:
                self.touch(member, now_ns)

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        deadline_ns = NEVER
        for domain in self._timed.values():
            deadline_ns = min(deadline_ns, domain.deadline_ns)
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        for name, domain in self._timed.items():
            if domain.deadline_ns <= now_ns:
                domain.order.now_ns = now_ns
                domain.order.tick(now_ns)
                self._stirred[name] = domain

    # ---- questions -------------------------------------------------------------------------------------------------

    def groups_of(self, domain: str) -> list[str]:
        known = self._domains.get(domain)
        if known is None:
            return []
        return [member.group for member in known.members.values() if not (member.over or member.retiring)]


def _serial(member: VectorMember) -> int:
    return member.serial
