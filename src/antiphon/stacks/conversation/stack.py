"""The stack `conversation`, as one process runs it: ordinary groups, and conversations without a group."""

from random import Random
from typing import Final, final

from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Close, Join, Open, StackRequest
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import CallOutcome
from antiphon.kernel.packet_kinds import START
from antiphon.parts.member import Member
from antiphon.stacks.conversation.free.requests import PARTICIPANT, ParticipantSettings
from antiphon.stacks.conversation.free.role import ParticipantRole
from antiphon.stacks.conversation.group.member import ConversationMember
from antiphon.stacks.conversation.offers import OFFERS
from antiphon.stacks.stack import Stack

EARLY_MAX: Final = 64
"""First messages, one datagram each, that are kept until the process takes part in conversations."""


@final
class ConversationStack(Stack):
    """All groups and all conversations of one process on this stack."""

    __slots__ = ("_early", "_role")

    def __init__(self, process: ProcessId, random: Random, options: Options) -> None:
        super().__init__(OFFERS, process, random, options)
        self._role: ParticipantRole | None = None
        self._early: list[tuple[int, int, int, int, bytes]] = []
        """First messages of conversations that came before this process had to do with any: EARLY_MAX at most."""

    def make_member(self, join: Join, last_number: int) -> Member:
        return ConversationMember(join, self._process, last_number, self._options)

    def open(self, input: Open, effects: Effects, now_ns: int) -> None:
        if input.role != PARTICIPANT or not isinstance(input.settings, ParticipantSettings):
            raise UsageError(f"stack {OFFERS.name!r} has the role {PARTICIPANT!r}, with ParticipantSettings")
        if self._role is not None:
            raise UsageError("this process takes part in conversations already")
        self._role = ParticipantRole(self._process, self._options, input.settings, self.new_token, self._random)
        early, self._early = self._early, []
        for cid, tag, via, flags, data in early:
            try:
                self._role.receive(START, cid, tag, via, flags, data, effects, now_ns)
            except MalformedError:
                continue  # what a packet says of itself is checked only now

    def close(self, input: Close, effects: Effects, now_ns: int) -> None:
        if self._role is None or input.role != PARTICIPANT:
            raise UsageError(f"this process has no role {input.role!r} on stack {OFFERS.name!r}")
        self._role.close(effects, now_ns)
        self._role = None

    def request(self, input: StackRequest, effects: Effects, now_ns: int) -> None:
        if self._role is None:
            raise UsageError(f"this process takes no part in conversations; open the role {PARTICIPANT!r} first")
        self._role.request(input, effects, now_ns)

    def outcome(self, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        if self._role is not None:
            self._role.outcome(outcome, effects)

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
        if self._role is None and kind == START and len(self._early) < EARLY_MAX:
            self._early = [one for one in self._early if one[0] != group_id]
            self._early.append((group_id, tag, sender, flags, data))
        elif self._role is None:
            super().receive(kind, group_id, tag, sender, flags, level, data, effects, now_ns)
        else:
            self._role.receive(kind, group_id, tag, sender, flags, data, effects, now_ns)

    def end_step(self, effects: Effects, now_ns: int) -> None:
        if self._role is not None:
            self._role.end_step(effects, now_ns)

    def deadline_ns(self) -> int:
        return NEVER if self._role is None else self._role.deadline_ns()

    def tick(self, effects: Effects, now_ns: int) -> None:
        if self._role is not None:
            self._role.tick(now_ns)
