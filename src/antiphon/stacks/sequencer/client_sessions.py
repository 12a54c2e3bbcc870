"""The clients of one sequencer: who they are, whatever links they come by, what they are told, and when they are given
up. peer.py has the theory, and what they can ask for."""

from typing import Final

from antiphon.kernel.calls import Frames, Hang
from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.context import Context
from antiphon.stacks.sequencer.context_rules import ContextRules
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.served_client import ServedClient
from antiphon.stacks.sequencer.wire import (
    MEMBERS,
    STABLE,
    FrameAssembler,
    FrameReader,
    carried,
    pairs_bytes,
    processes_bytes,
    text,
    u64,
)

CLIENTS_MAX: Final = 10_000
_DEAD_MAX: Final = 100_000
"""Names of which the highest excluded incarnation is kept."""
_OVERHEAD_BYTES: Final = 1024 * 1024
"""What a frame may hold beside the payload of one longest message."""


def _members_frame(group: int, members: dict[ProcessId, str]) -> list[bytes]:
    addresses = [text(address) for address in members.values()]
    return carried(MEMBERS, u64(group), processes_bytes(list(members)), *addresses)


class ClientSessions(ContextRules):
    """All clients of one sequencer."""

    __slots__ = (
        "_by_link",
        "_clients",
        "_dead",
        "_leaving",
        "_next_look_ns",
        "_now_ns",
        "_options",
        "_process",
        "_stable_at_ns",
        "_stabler",
        "_strangers",
        "_talking",
    )

    def __init__(self, process: ProcessId, options: Options, now_ns: int) -> None:
        super().__init__()
        self._process = process
        self._options = options
        self._strangers: dict[int, ProcessId] = {}
        """Links from which nothing has come yet."""
        self._leaving: list[ServedClient] = []
        """Clients to be forgotten when they have been told so."""
        self._clients: dict[ProcessId, ServedClient] = {}
        self._by_link: dict[int, ServedClient] = {}
        self._dead: dict[str, int] = {}
        """The highest incarnation of each name that was excluded."""
        self._now_ns = now_ns
        self._talking: dict[ProcessId, ServedClient] = {}
        """The clients with frames to be sent at the end of the step."""
        self._next_look_ns = now_ns + options.heartbeat_interval_ns
        self._stable_at_ns = NEVER
        """When members are told what has become stable…"""
        self._stabler: dict[int, None] = {}
        """…in these groups."""

    def _take(self, session: ServedClient, reader: FrameReader) -> None:
        """Do what a client asks for. Raises MalformedError."""
        raise NotImplementedError

    def _place_leave(self, session: ServedClient, group: SequencedGroup, failed: bool) -> None:
        """Give the end of a membership its place."""
        raise NotImplementedError

    def _retry_blocked(self, group: SequencedGroup) -> None:
        """Serve the clients that wait for room in a history, if there is some."""
        raise NotImplementedError

    # ---- links -----------------------------------------------------------------------------------------------------

    def link_up(self, link: int, process: ProcessId) -> None:
        """Somebody has come; the first frame tells who."""
        if len(self._strangers) < CLIENTS_MAX:
            self._strangers[link] = process

    def _greet(self, link: int, identity: ProcessId, data: bytes, effects: Effects, now_ns: int) -> bool:
        """Whether the first frame of a link is that of another peer, which is taken care of."""
        return False

    def _client_up(self, link: int, process: ProcessId, effects: Effects, now_ns: int) -> None:
        """A client has come, or come back."""
        session = self._clients.get(process)
        if session is None:
            if len(self._clients) >= CLIENTS_MAX:
                effects.call(Hang(link))
                return
            session = self._clients[process] = ServedClient(process, now_ns)
        elif session.link:
            self._drop_link(session, effects)
        session.link = link
        session.heard_ns = now_ns
        session.assembler = FrameAssembler(self._options.message_bytes_max + _OVERHEAD_BYTES)
        session.out = []
        session.requests.clear()
        self._by_link[link] = session

    def link_down(self, link: int, now_ns: int) -> None:
        """A link has ended: its client has some time to come back."""
        self._strangers.pop(link, None)
        session = self._by_link.pop(link, None)
        if session is not None:
            session.link = 0
            session.heard_ns = now_ns

    def _drop_link(self, session: ServedClient, effects: Effects) -> None:
        effects.call(Hang(session.link))
        del self._by_link[session.link]
        session.link = 0

    def close(self, effects: Effects) -> None:
        """End all links."""
        for link in self._by_link:
            effects.call(Hang(link))

    def receive(self, link: int, received: list[bytes], effects: Effects, now_ns: int) -> None:
        """Take what a client has sent. What makes no sense ends its link."""
        self._now_ns = now_ns
        stranger = self._strangers.pop(link, None)
        if stranger is not None and not self._greet(link, stranger, received[0][1:], effects, now_ns):
            self._client_up(link, stranger, effects, now_ns)
        session = self._by_link.get(link)
        if session is None:
            return
        session.heard_ns = now_ns
        try:
            for piece in received:
                data = session.assembler.take(piece)
                if data is not None and not session.is_leaving:
                    self._take(session, FrameReader(data, 1))
        except MalformedError:
            self._drop_link(session, effects)

    def _note_stable(self, group: SequencedGroup) -> None:
        """Members are told soon if more of a group has become stable."""
        if group.stable > group.told_stable:
            self._stabler[group.id] = None
            self._stable_at_ns = min(self._stable_at_ns, self._now_ns + self._options.ack_delay_ns)

    # ---- contexts --------------------------------------------------------------------------------------------------

    def _find_overlaps(self, ids: list[int]) -> None:
        """The groups of some process have changed: find anew which groups overlap with these."""
        for id in ids:
            group = self._groups[id]
            found: dict[int, None] = {id: None}
            for process in group.reported:
                found.update(self._clients[process].groups)
            group.intersecting = list(found)

    def _part(self, session: ServedClient, group: SequencedGroup) -> None:
        """A client has left and knows it, or is excluded: it is owed nothing more, and groups overlap by it no more."""
        group.end_owing(session.process)
        self._note_stable(group)
        overlapping = list(session.groups)
        del session.groups[group.id]
        self._find_overlaps(overlapping)

    # ---- excluding -------------------------------------------------------------------------------------------------

    def _is_dead(self, process: ProcessId) -> bool:
        return process.incarnation <= self._dead.get(process.name, 0)

    def _bury(self, process: ProcessId) -> None:
        """Never take an incarnation in again."""
        self._dead[process.name] = max(process.incarnation, self._dead.get(process.name, 0))
        while len(self._dead) > _DEAD_MAX:
            del self._dead[next(iter(self._dead))]

    def _exclude(self, session: ServedClient, effects: Effects) -> None:
        """Forget a client that is not heard, and end its memberships."""
        process = session.process
        if session.groups or session.is_outside:
            self.counts[4] += 1
            self._bury(process)
        groups = [self._groups[id] for id in session.groups]
        for group in groups:
            self._place_leave(session, group, failed=True)
            self._part(session, group)
        for id in session.numbered:
            if id in self._groups:
                self._groups[id].forget_client(process)
        if session.link:
            self._drop_link(session, effects)
        self._talking.pop(process, None)
        del self._clients[process]
        for group in groups:
            self._retry_blocked(group)

    # ---- sending, and time -----------------------------------------------------------------------------------------

    def _tell(self, session: ServedClient, told: list[bytes]) -> None:
        if session.link:
            session.out += told
            self._talking[session.process] = session

    def _send_all(self, group: SequencedGroup, placed: list[bytes]) -> None:
        """Multicast a place to the members."""
        self._note_place(group, placed)
        for member in group.members:
            self._tell(self._clients[member], placed)

    def _send_bare(
        self, group: SequencedGroup, placed: list[bytes], bare: list[bytes], served: list[ProcessId]
    ) -> None:
        """The same, but for those that get the messages from their sender: they get the place without them."""
        self._note_place(group, placed)
        self.counts[12] += 1
        has_body = set(served)
        for member in group.members:
            self._tell(self._clients[member], bare if member in has_body else placed)

    def _note_place(self, group: SequencedGroup, placed: list[bytes]) -> None:
        """Something has got a place, and is about to be multicast."""

    def _tell_addresses(self, session: ServedClient, group: SequencedGroup) -> None:
        """Tell a member where others take bodies, and those where it does (bodies.py)."""
        others: dict[ProcessId, str] = {}
        for member in group.members:
            address = self._clients[member].address
            if address and member != session.process:
                others[member] = address
                self._tell(self._clients[member], _members_frame(group.id, {session.process: session.address}))
        self._tell(session, _members_frame(group.id, others))

    def finish(self, effects: Effects) -> None:
        """Send what this step has for clients."""
        for session in self._leaving:
            if self._clients.get(session.process) is not session:
                continue
            if not self._has_moving(session):
                self._exclude(session, effects)
            elif session.link:  # it is silent from now on where its groups go
                self._drop_link(session, effects)
        self._leaving.clear()
        if self._talking:
            for session in self._talking.values():
                if session.link and session.out:
                    effects.call(Frames(session.link, session.out))
                session.out = []
            self._talking.clear()

    def deadline_ns(self) -> int:
        return min(self._next_look_ns, self._stable_at_ns)

    def tick(self, effects: Effects, now_ns: int) -> None:
        self._now_ns = now_ns
        if now_ns >= self._stable_at_ns:
            self._stable_at_ns = NEVER
            self._tell_stable()
        if now_ns >= self._next_look_ns:
            self._pass_over(now_ns - self._next_look_ns, now_ns)
            self._next_look_ns = now_ns + self._options.heartbeat_interval_ns
            self._look(effects, now_ns)

    def _tell_stable(self) -> None:
        news: dict[ProcessId, Context] = {}
        for id in self._stabler:
            group = self._groups[id]
            group.told_stable = group.stable
            for member in group.reported:
                news.setdefault(member, {})[id] = group.stable
        self._stabler.clear()
        for member, pairs in news.items():
            self._tell(self._clients[member], carried(STABLE, pairs_bytes(pairs)))

    def _pass_over(self, late_ns: int, now_ns: int) -> None:
        """This peer looks so much later than it wanted to. If it slept, clients are given that time."""
        if late_ns > self._options.heartbeat_interval_ns:
            for session in self._clients.values():
                session.heard_ns = max(session.heard_ns, min(now_ns, session.heard_ns + late_ns))

    def _look(self, effects: Effects, now_ns: int) -> None:
        """Exclude clients that are not heard; let the others hear this peer."""
        options = self._options
        heartbeat = carried(STABLE, pairs_bytes({}))
        for session in list(self._clients.values()):
            is_lost = session.groups and not session.link
            patience_ns = options.silence_ns_min if is_lost else options.silence_ns_max
            if now_ns - session.heard_ns > patience_ns and not self._has_moving(session):
                self._exclude(session, effects)
            else:
                self._tell(session, heartbeat)
        self._tell_leaves()

    def _tell_leaves(self) -> None:
        """Tell whoever has left, and has not reported it, of its leave again: the report may have been lost on its way
        after a group that moved."""
        for group in self._groups.values():
            if group.leave_places and not group.is_moving:
                for process, place in group.leave_places.items():
                    self._tell(self._clients[process], group.history[place])

    def _has_moving(self, session: ServedClient) -> bool:
        """Whether a group of a client is on its way to another sequencer."""
        return any(self._groups[id].is_moving for id in session.groups)
