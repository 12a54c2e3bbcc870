"""Stack `vector`: the ISIS protocols of 1991, composed.

    application ──▶ PendingQueue ──▶ ViewSession (one per view) ──▶ application
                                        ▲ freeze, cut, install
                                     Membership

A group lives through views, one session each; what was accepted and has not left goes over into the next. The session
of the view before stays to answer members that are still catching up with its cut.

Levels: reliable, fifo, causal. Policies: `static`, the view given at the start for good; `primary`, the view changes by
agreement of a majority of its members. Agreed order (5.2) has its place between CausalOrder and the application.

Limits: per sender `window_packets` packets, held back or kept for resending, and one half-received message; own
messages wait within `pending_bytes_max`. A paused application consumes nothing, so every sender's window closes in
turn.
"""

from random import Random
from typing import Final, final

from antiphon.kernel.codec import DATA, MEMBERSHIP, REQUEST
from antiphon.kernel.effects import NEVER, Accepted, Effects, Installed, Writable
from antiphon.kernel.errors import MalformedError, MessageTooLargeError, UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import Join
from antiphon.kernel.options import Options
from antiphon.parts.pending import PendingQueue
from antiphon.stacks.vector import messages
from antiphon.stacks.vector.membership import Membership
from antiphon.stacks.vector.session import ViewSession

NAME: Final = "vector"
LEVELS_OFFERED: Final = ("reliable", "fifo", "causal")
STATIC: Final = "static"
PRIMARY: Final = "primary"
POLICIES: Final = (STATIC, PRIMARY)
_PROMISES: Final = ("creation", "duplication", "fifo", "causal", "settled")
_VIEW_PROMISES: Final = ("view_agreement", "view_synchrony", "view_sending", "primary", "silence")


def promises(policy: str) -> tuple[str, ...]:
    """The guarantees that a group with this policy can be held to."""
    return (*_PROMISES, *_VIEW_PROMISES) if policy == PRIMARY else _PROMISES


@final
class VectorStack:
    """One member of one group."""

    __slots__ = (
        "_membership",
        "_options",
        "_paused",
        "_pending",
        "_previous",
        "_process",
        "_random",
        "_session",
        "group",
        "group_id",
    )

    def __init__(self, join: Join, process: ProcessId, random: Random, options: Options) -> None:
        self.group = join.group
        self.group_id = wire_id(join.group)
        self._process = process
        self._random = random
        self._options = options
        self._pending = PendingQueue(options)
        self._paused = False
        self._session: ViewSession | None = None
        self._previous: ViewSession | None = None
        self._membership: Membership | None = None
        if join.policy not in POLICIES:
            raise UsageError(f"there is no policy {join.policy!r}; choose one of: {', '.join(POLICIES)}")
        if join.view is not None:
            self._session = self._make_session(join.view)
        elif join.policy == STATIC or not join.contacts:
            raise UsageError(f"to join group {join.group!r}, name its first view, or contacts and the policy `primary`")
        if join.policy == PRIMARY:
            self._membership = Membership(join.group, self.group_id, process, join.address, options)

    def _make_session(self, view: View) -> ViewSession:
        return ViewSession(self.group, self._process, view, self._pending, self._random, self._options)

    def start(self, contacts: tuple[str, ...], effects: Effects, now_ns: int) -> None:
        """Begin, in the first view or outside."""
        session = self._session
        if session is not None:
            effects.events.append(Installed(self.group, session.view, session.view.members))
            if self._membership is not None:
                self._membership.begin(session.view, session, now_ns)
        elif self._membership is not None:
            self._membership.ask_to_join(contacts, now_ns)

    # ---- the application's side ------------------------------------------------------------------------------------

    def send(self, payloads: list[bytes], level: int, effects: Effects, now_ns: int) -> None:
        """Accept messages; `finish` puts on the wire what may leave."""
        if self._membership is not None:
            self._membership.notice_time(effects, now_ns)
        for payload in payloads:
            if len(payload) > self._options.message_bytes_max:
                raise MessageTooLargeError(len(payload), self._options.message_bytes_max)
        count = self._pending.accept(payloads, level)
        if count:
            effects.events.append(Accepted(self.group, count))

    def leave(self, now_ns: int) -> None:
        if self._membership is None:
            raise UsageError(f"the view of group {self.group!r} is static: nobody can leave it; join with `primary`")
        self._membership.leave(now_ns)

    def pause(self) -> None:
        self._paused = True
        if self._session is not None:
            self._session.pause()

    def resume(self, effects: Effects, now_ns: int) -> None:
        self._paused = False
        if self._membership is not None:
            self._membership.notice_time(effects, now_ns)
        if self._session is not None:
            self._session.resume(effects, now_ns)

    # ---- the network's side ----------------------------------------------------------------------------------------

    def receive(
        self, kind: int, tag: int, sender: int, flags: int, level: int, data: bytes, effects: Effects, now_ns: int
    ) -> None:
        """One packet for this group. Raises MalformedError, before anything has changed."""
        membership = self._membership
        if membership is not None:
            membership.notice_time(effects, now_ns)
        if kind == MEMBERSHIP and membership is not None:
            membership.receive(messages.decode(flags, data), effects, now_ns)
        elif self._session is not None and tag == self._session.tag:
            self._session.receive(kind, sender, flags, level, data, effects, now_ns)
            if membership is not None and kind != DATA:
                # Data may be somebody else's copy; status and requests come from the member itself.
                membership.heard(sender, now_ns)
        elif self._previous is not None and tag == self._previous.tag and membership is not None:
            self._receive_late(self._previous, membership, kind, sender, data, effects)
        else:
            raise MalformedError("view")

    def _receive_late(
        self, previous: ViewSession, membership: Membership, kind: int, sender: int, data: bytes, effects: Effects
    ) -> None:
        """A packet of the view before: its sender has yet to install this one, and may lack packets of the cut."""
        if sender >= len(previous.view.members):
            raise MalformedError("rank")
        if kind == REQUEST:
            previous.exchange.take_request(data, sender)
            previous.collect(effects)
        membership.answer_old_packet(previous.view.members[sender], effects)

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def tick(self, effects: Effects, now_ns: int) -> None:
        if self._membership is not None:
            self._membership.notice_time(effects, now_ns)
        if self._session is not None and self._session.exchange.deadline_ns() <= now_ns:
            self._session.exchange.tick(now_ns)
        if self._membership is not None and self._membership.deadline_ns() <= now_ns:
            self._membership.tick(effects, now_ns)

    def finish(self, effects: Effects, now_ns: int) -> None:
        """Send what may leave, change the view if it is time, then collect what is to be transmitted."""
        membership = self._membership
        if self._session is not None:
            self._session.finish(effects, now_ns)
        if membership is not None:
            membership.progress(effects, now_ns)
            if membership.ready():
                self._install(membership, effects, now_ns)
        if self._session is not None:
            self._session.collect(effects)
        if self._pending.take_writable():
            effects.events.append(Writable(self.group))

    def _install(self, membership: Membership, effects: Effects, now_ns: int) -> None:
        proposal = membership.decided
        assert proposal is not None
        old = self._session
        before: tuple[ProcessId, ...] = ()
        if old is not None:
            old.finish_cut(effects, now_ns)
            old.collect(effects)
            before = old.view.members
        session = self._make_session(proposal.view)
        self._previous = old
        self._session = session
        self._pending.restart_message()
        effects.events.append(
            Installed(
                self.group,
                proposal.view,
                tuple(member for member in proposal.view.members if member not in before),
                tuple(before[rank] for rank in proposal.left) if before else (),
                tuple(before[rank] for rank in proposal.failed) if before else (),
            )
        )
        membership.begin(proposal.view, session, now_ns)
        if self._paused:
            session.pause()
        session.finish(effects, now_ns)

    def deadline_ns(self) -> int:
        deadline_ns = NEVER
        if self._session is not None:
            deadline_ns = self._session.exchange.deadline_ns()
        if self._membership is not None:
            deadline_ns = min(deadline_ns, self._membership.deadline_ns())
        return deadline_ns

    def outstanding(self) -> int:
        """Own messages not yet in packets, and own packets not yet stable or not yet delivered here."""
        in_view = 0 if self._session is None else self._session.outstanding()
        return self._pending.messages() + in_view

    def statistics(self) -> dict[str, int]:
        result = {"messages_accepted": self._pending.accepted, "pending_bytes": self._pending.pending_bytes}
        if self._session is not None:
            result.update(self._session.statistics())
        return result
