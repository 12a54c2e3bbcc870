"""What a stack is to the rest of the program: one object per process and kind.

A stack owns everything that stands above a single group: the order between groups, conversations without a group, a
broadcast domain, a site, a peer of a sequencing service. The engine knows stacks by this interface alone: it gives
each one the packets that bear its number, its joins, and time; it calls each one at the end of every step.

    offers          what it can do, known before any object is made: levels, policies, packet kinds, promises
    check_join      refuse what it would otherwise ignore
    make_member     this process as a member of one group
    receive         a packet that bears the stack's number and belongs to none of its members
    open, close     roles beside being a member, if the stack has any
    request         what such a role alone understands
    send_outside    a message of somebody who is no member, if the stack takes such
    ask             a question to the application, with a deadline
    outcome         what became of it, or of a call to a disk or a link
    end_step        once at the end of each step, after every member that had something to do was finished
    deadline, tick  the stack's own time; each member's time is the engine's to keep
    groups_apart    while it says so, none of these three is called
    forget          a group is over: nothing of it may stay behind
    situations      what has happened here, by name, for the coverage of simulated runs

Adding a stack: a folder with a subclass of `Stack` and its members, and one line in registry.py. docs/adding-a-stack.md
walks through one.
"""

from collections.abc import Callable
from random import Random
from typing import Final, final

from antiphon.kernel.calls import token_of
from antiphon.kernel.effects import NEVER, AskApplication, Effects
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import MAIN, Close, Join, Open, Send, StackRequest
from antiphon.kernel.levels import LEVELS
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import ApplicationAnswer, CallOutcome
from antiphon.kernel.policies import POLICIES, PRIMARY, SITES
from antiphon.parts.member import Member, add_counts

GROUP: Final = "group"
CAUSALITY_DOMAIN: Final = "causality domain"
ALL_GROUPS: Final = "all groups"
SCOPES: Final = (GROUP, CAUSALITY_DOMAIN, ALL_GROUPS)


@final
class Promise:
    """One guarantee that runs can be held to, how far it reaches, and under which policies it is given."""

    __slots__ = ("guarantee", "policies", "scope")

    def __init__(self, guarantee: str, scope: str, policies: tuple[str, ...]) -> None:
        assert scope in SCOPES
        self.guarantee = guarantee
        self.scope = scope
        """Among which messages it holds: those of one group, of one causality domain, or of all groups."""
        self.policies = policies

    def __repr__(self) -> str:
        return f"Promise({self.guarantee!r}, {self.scope!r}, {self.policies!r})"


def group_promises(causal: Promise) -> tuple[Promise, ...]:
    """What every stack promises whose members agree on views and on the messages of each (parts/membership), in the
    order in which the history names it. How far causal order reaches is the stack's own."""
    before = [Promise(guarantee, GROUP, POLICIES) for guarantee in ("creation", "duplication", "content", "fifo")]
    after = [Promise(guarantee, GROUP, POLICIES) for guarantee in ("total", "safe", "settled")]
    views = ("view_agreement", "view_synchrony", "view_sending", "primary", "silence", "group_broadcast")
    return (*before, causal, *after, *[Promise(guarantee, GROUP, (PRIMARY,)) for guarantee in views])


CheckLabel = Callable[[str, int, bool], None]
"""Raises UsageError for a label that cannot order a message of this level, sent from outside a group or not."""


@final
class Capabilities:
    """What one stack offers, whoever runs it."""

    __slots__ = (
        "barriers",
        "check_label",
        "client_role",
        "crosses_groups",
        "labels",
        "level_bits",
        "levels",
        "name",
        "number",
        "open_groups",
        "options",
        "packet_kinds",
        "policies",
        "private",
        "promised",
        "service_role",
        "site_role",
        "situations",
        "subsets",
        "unasked_kinds",
    )

    def __init__(
        self,
        *,
        name: str,
        number: int,
        levels: tuple[str, ...],
        policies: tuple[str, ...],
        packet_kinds: tuple[int, ...],
        promised: tuple[Promise, ...],
        private: bool = False,
        subsets: bool = False,
        labels: bool = False,
        check_label: CheckLabel | None = None,
        crosses_groups: bool = False,
        barriers: bool = True,
        open_groups: bool = False,
        service_role: str = "",
        client_role: str = "",
        site_role: str = "",
        situations: tuple[str, ...] = (),
        options: dict[str, int] | None = None,
        unasked_kinds: tuple[int, ...] = (),
    ) -> None:
        self.name = name
        self.number = number
        """What its packets bear in their header; 1 to 255, no two stacks alike."""
        self.levels = levels
        self.policies = policies
        self.packet_kinds = packet_kinds
        """The kinds of packets that it sends and takes (kernel/packet_kinds.py)."""
        self.promised = promised
        self.private = private
        """Whether a message can go to one member alone…"""
        self.subsets = subsets
        """…or to any set of members, at any level."""
        self.labels = labels
        """Whether messages can carry labels."""
        self.check_label = check_label
        """What refuses labels that cannot order a message, where the call is made; the engine would refuse them later,
        when nobody is there to be told."""
        self.crosses_groups = crosses_groups
        """Whether groups of one causality domain are kept in causal order with each other."""
        self.barriers = barriers
        """Whether a barrier can be had (`SendBarrier`)."""
        self.open_groups = open_groups
        """Whether a process can send to a group that it is not in, by way of the members (`Reach`)."""
        self.service_role = service_role
        """The role of the processes at which groups live, if members do not found groups among themselves: members
        then join by naming such processes as contacts."""
        self.client_role = client_role
        """The role of a process that sends to such groups without being a member."""
        self.site_role = site_role
        """The role of the processes that members are attached to under the policy `sites`, if the stack has it."""
        self.situations = situations
        """What can happen on it beside what packet kinds and phases tell, by name (`Stack.situations`)."""
        self.options = options or {}
        """The options that only this stack reads, and what they are by default (`Options.of_stacks`)."""
        self.unasked_kinds = unasked_kinds
        """Packets that may come before the process has to do with the stack, and are not to be dropped then."""
        self.level_bits = 0
        """A bit for each level that is offered."""
        for level in levels:
            self.level_bits |= 1 << LEVELS[level]

    def is_served(self, policy: str) -> bool:
        """Whether members of a group with this policy name a process that serves them as their contact."""
        return bool(self.service_role) or policy == SITES

    def promises(self, policy: str) -> tuple[str, ...]:
        """The guarantees that a group with this policy can be held to."""
        return tuple(promise.guarantee for promise in self.promised if policy in promise.policies)

    def scope(self, guarantee: str) -> str:
        """How far a guarantee reaches. Raises KeyError for one that is not promised."""
        for promise in self.promised:
            if promise.guarantee == guarantee:
                return promise.scope
        raise KeyError(guarantee)

    def __repr__(self) -> str:
        return f"Capabilities({self.name!r}, levels: {', '.join(self.levels)})"


class Stack:
    """All that one process does on one stack. Subclasses make members and add what stands above them."""

    __slots__ = (
        "_asked",
        "_options",
        "_process",
        "_random",
        "_situations",
        "_tokens",
        "groups_apart",
        "members",
        "offers",
        "touched",
    )

    def __init__(self, offers: Capabilities, process: ProcessId, random: Random, options: Options) -> None:
        self.offers = offers
        self._process = process
        self._random = random
        self._options = options
        self.members: dict[int, Member] = {}
        """By the number that stands for the group in packets."""
        self.groups_apart = False
        """A stack whose groups do not depend on each other, so far, may say so: it has nothing to do but what its
        members do. Then the engine calls neither their `begin_step` nor the stack's `end_step`, deadline and `tick`."""
        self._situations: list[int] = []
        """Of members that were forgotten."""
        self._tokens = 0
        self._asked: dict[int, int] = {}
        """Questions to the application without an answer, by token: until when an answer counts."""
        self.touched: list[Member] = []
        """The members that this step has done something to; one list for all stacks of a process."""

    def option(self, name: str) -> int:
        """The value of an option that only this stack reads."""
        return self._options.of_stacks.get(f"{self.offers.name}.{name}", self.offers.options[name])

    # ---- groups ----------------------------------------------------------------------------------------------------

    def check_join(self, join: Join) -> None:
        """Raise UsageError if the stack cannot do what the join asks for, or would ignore it. Changes nothing."""
        offers = self.offers
        if join.policy not in offers.policies:
            raise UsageError(
                f"stack {offers.name!r} has no policy {join.policy!r}; choose one of: {', '.join(offers.policies)}"
            )
        if not offers.crosses_groups and join.domain != MAIN:
            raise UsageError(
                f"stack {offers.name!r} keeps no order between groups, so group {join.group!r} cannot be in "
                f"{join.domain}; name no causality domain"
            )

    def make_member(self, join: Join, last_number: int) -> Member:
        """This process as a member of a group, whose first message there gets the number after `last_number`. Raises
        UsageError, before anything has changed."""
        raise NotImplementedError

    def join(self, join: Join, last_number: int) -> Member:
        """Make a member and give it its packets from here on. Raises UsageError, before anything has changed."""
        member = self.make_member(join, last_number)
        self.members[member.group_id] = member
        return member

    def forget(self, member: Member) -> None:
        """Drop everything that is kept for a group that is over."""
        if self.members.get(member.group_id) is member:
            del self.members[member.group_id]
            self._situations = add_counts(self._situations, member.situations())

    # ---- roles, senders from outside, and what was asked for -------------------------------------------------------

    def open(self, input: Open, effects: Effects, now_ns: int) -> None:
        """Take a role. Raises UsageError, before anything has changed."""
        raise UsageError(f"stack {self.offers.name!r} has no role {input.role!r}; it has none beside members of groups")

    def close(self, input: Close, effects: Effects, now_ns: int) -> None:
        """Give up a role. Raises UsageError for one that was not taken."""
        raise UsageError(f"stack {self.offers.name!r} has no role {input.role!r}")

    def request(self, input: StackRequest, effects: Effects, now_ns: int) -> None:
        """Do what a role of this stack is asked for. Raises UsageError, before anything has changed."""
        raise UsageError(f"stack {self.offers.name!r} has no roles, so nothing can be asked of one")

    def send_outside(self, input: Send, effects: Effects, now_ns: int) -> int:
        """Accept messages of a process that is no member of the group, or to no group; how many. Raises UsageError."""
        raise UsageError(f"stack {self.offers.name!r} takes messages of members only; join group {input.group!r} first")

    def outstanding_outside(self, group: str) -> int:
        """What this process has sent to a group as no member of it, and the service has not acknowledged."""
        return 0

    def ask(self, group: str, question: bytes, within_ns: int, effects: Effects, now_ns: int) -> int:
        """Ask the application something, in its place among the events of the group; the token of the question.
        `outcome` is given the answer, or an empty one when the time is over."""
        token = self.new_token()
        self._asked[token] = now_ns + within_ns
        effects.events.append(AskApplication(group, token, question, now_ns + within_ns))
        return token

    def take_outcome(self, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        """Give the stack an outcome, unless it is an answer that comes too late."""
        if isinstance(outcome, ApplicationAnswer):
            if self._asked.get(outcome.token, -1) < now_ns:
                return
            del self._asked[outcome.token]
        self.outcome(outcome, effects, now_ns)

    def outcome(self, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        """Take what became of something that this stack asked for. What it no longer waits for it ignores."""

    def new_token(self) -> int:
        """A token for something that this stack asks for; also the id of a link that it dials."""
        self._tokens += 1
        return token_of(self.offers.number, self._tokens)

    # ---- packets and time ------------------------------------------------------------------------------------------

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
        """Take one packet of no group that this process is a member of. Raises MalformedError, before anything has
        changed."""
        raise MalformedError("group")

    def touch(self, member: Member, now_ns: int) -> None:
        """Note that this step does something to a member."""
        if not member.touched:
            member.touched = True
            self.touched.append(member)
            if not self.groups_apart:
                member.begin_step(now_ns)

    def end_step(self, effects: Effects, now_ns: int) -> None:
        """Do what follows from all that this step has done to members."""

    def deadline_ns(self) -> int:
        """When to call `tick`, for what does not belong to a single group."""
        return min(self._asked.values()) + 1 if self._asked else NEVER

    def tick(self, effects: Effects, now_ns: int) -> None:
        """Do what is due, beside what is due in single groups."""
        for token in [token for token, until_ns in self._asked.items() if until_ns < now_ns]:
            del self._asked[token]
            self.outcome(ApplicationAnswer(token, b""), effects, now_ns)

    # ---- questions -------------------------------------------------------------------------------------------------

    def groups_of(self, domain: str) -> list[str]:
        """The groups of a causality domain that this process is in."""
        return []

    def situations(self) -> dict[str, int]:
        """How often this process has been in each situation that the stack names, where it ever was."""
        counts = self._situations
        for member in self.members.values():
            counts = add_counts(counts, member.situations())
        return {name: count for name, count in zip(self.offers.situations, counts, strict=False) if count}
