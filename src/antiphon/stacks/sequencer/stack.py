"""The stack `sequencer`, as one process runs it: a peer of the service, a client of it, or both."""

from random import Random
from typing import final

from antiphon.kernel.calls import Dial, Hang, Listen
from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import MAIN, Close, Join, Open, Send, StackRequest, TellAgain
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import CallOutcome, LinkDown, LinkFrames, LinkUp, Loaded, Stored
from antiphon.parts.member import Member, add_counts
from antiphon.stacks.sequencer.client import ServiceClient
from antiphon.stacks.sequencer.member import SequencerMember
from antiphon.stacks.sequencer.mesh import MeshPeer
from antiphon.stacks.sequencer.offers import CLIENT, OFFERS, PEER
from antiphon.stacks.sequencer.peer import SequencerPeer
from antiphon.stacks.sequencer.plan import PlaceGroups
from antiphon.stacks.sequencer.seat_host import SeatHost
from antiphon.stacks.sequencer.service_peer import ServicePeer
from antiphon.stacks.stack import Stack


@final
class SequencerStack(Stack):
    """All that one process does on this stack."""

    __slots__ = ("_client", "_listening", "_peer", "_strangers")

    def __init__(self, process: ProcessId, random: Random, options: Options) -> None:
        super().__init__(OFFERS, process, random, options)
        self._client = ServiceClient(process, options)
        self._peer: ServicePeer | None = None
        self._listening = False
        self._strangers: dict[int, ProcessId] = {}
        """Links that others have dialled, and that may be for bodies or for the peer: the first frame tells."""

    def check_join(self, join: Join) -> None:
        super().check_join(join)
        if join.domain != MAIN:
            raise UsageError(
                f"the order of stack {OFFERS.name!r} reaches over all groups, so group {join.group!r} cannot be in "
                f"{join.domain}; name no causality domain"
            )
        if join.view is not None or not join.contacts:
            raise UsageError(
                f"the groups of stack {OFFERS.name!r} live at a sequencing service: to join group {join.group!r}, name "
                "the address of one of its peers as a contact"
            )

    def make_member(self, join: Join, last_number: int) -> Member:
        self._client.exchange.open(join.address)
        return SequencerMember(join, self._process, last_number, self._options, self._client)

    def forget(self, member: Member) -> None:
        super().forget(member)
        if isinstance(member, SequencerMember):
            self._client.forget(member)

    # ---- roles -----------------------------------------------------------------------------------------------------

    def open(self, input: Open, effects: Effects, now_ns: int) -> None:
        if input.role == PEER:
            if self._peer is not None:
                raise UsageError(f"{self._process} is a peer of the sequencing service already")
            if input.contacts and not input.address:
                raise UsageError("a peer that is one of several has to say at which address the others reach it")
            self._peer = self._make_peer(input, now_ns)
            self._peer.open(effects)
            self._listen(effects)
        elif input.role == CLIENT and input.contacts:
            self._client.meet(input.contacts, now_ns)
        else:
            raise UsageError(
                f"stack {OFFERS.name!r} has the roles {PEER!r}, and {CLIENT!r}, for which a contact must be named; "
                f"not {input.role!r}"
            )

    def _listen(self, effects: Effects) -> None:
        if not self._listening:
            self._listening = True
            effects.call(Listen(self.new_token()))

    def _make_peer(self, input: Open, now_ns: int) -> ServicePeer:
        others = [address for address in input.contacts if address != input.address]
        replicas = self.option("replicas")
        if replicas and len(others) < 2 * replicas:
            raise UsageError(
                f"to have {replicas} other peers hold what each one tells its clients, {2 * replicas + 1} peers are "
                f"needed, so that a majority is left; this one names {len(others)} others"
            )
        is_durable = bool(self.option("durable"))
        if (replicas or is_durable) and not input.address:
            raise UsageError("a peer whose log outlives it has to say at which address it is")
        if replicas or is_durable:
            return SeatHost(self, self._process, self._options, input.address, others, replicas, is_durable, now_ns)
        if others:
            return MeshPeer(self._process, self._options, input.address, others, now_ns)
        return SequencerPeer(self._process, self._options, now_ns)

    def close(self, input: Close, effects: Effects, now_ns: int) -> None:
        if input.role == PEER and self._peer is not None:
            self._peer.close(effects)
            self._peer = None
        elif input.role == CLIENT and not self.members:
            self._client.hang_up(effects)
        else:
            raise UsageError(
                f"{self._process} cannot give up the role {input.role!r}: it has not taken it, or is in groups still"
            )

    def request(self, input: StackRequest, effects: Effects, now_ns: int) -> None:
        if isinstance(input, TellAgain):
            self._client.replay(input.places)
            return
        if not isinstance(input, PlaceGroups) or self._peer is None:
            raise UsageError("only a peer that is one of several can be asked to place groups")
        self._peer.place_groups(input)

    def send_outside(self, input: Send, effects: Effects, now_ns: int) -> int:
        return self._client.send_outside(input, effects, now_ns)

    def outstanding_outside(self, group: str) -> int:
        return self._client.outstanding_outside(group)

    # ---- links -----------------------------------------------------------------------------------------------------

    def outcome(self, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        if self._client.owns(outcome.token):
            if isinstance(outcome, LinkFrames):
                self._client.receive(outcome.token, outcome.frames, effects, now_ns)
            elif isinstance(outcome, LinkUp):
                self._client.link_up(outcome.token, effects, now_ns)
            elif isinstance(outcome, LinkDown):
                self._client.link_down(outcome.token, now_ns)
        elif self._client.exchange.owns(outcome.token):
            self._outcome_of_bodies(outcome, effects, now_ns)
        elif isinstance(outcome, LinkUp) and outcome.listen:
            self._dialled_here(outcome, effects)
        elif outcome.token in self._strangers:
            self._first_of_stranger(outcome, self._strangers.pop(outcome.token), effects, now_ns)
        elif isinstance(outcome, LinkUp):
            if self._peer is not None:
                self._peer.dialled_up(outcome.token, outcome.identity, now_ns)
        elif self._peer is not None:
            if isinstance(outcome, LinkFrames):
                self._peer.receive(outcome.token, outcome.frames, effects, now_ns)
            elif isinstance(outcome, LinkDown):
                self._peer.link_down(outcome.token, now_ns)
            elif isinstance(outcome, Stored | Loaded):
                self._peer.done(outcome, now_ns)

    def _outcome_of_bodies(self, outcome: CallOutcome, effects: Effects, now_ns: int) -> None:
        if isinstance(outcome, LinkFrames):
            self._client.receive_bodies(outcome.token, outcome.frames, effects, now_ns)
        elif isinstance(outcome, LinkUp):
            self._client.exchange.link_up(outcome.token, outcome.identity, effects, now_ns)
        elif isinstance(outcome, LinkDown):
            self._client.exchange.link_down(outcome.token, now_ns)

    def _dialled_here(self, outcome: LinkUp, effects: Effects) -> None:
        """Somebody has dialled: a client or a peer, or a member that sends bodies."""
        if self._client.exchange.address:
            self._strangers[outcome.token] = outcome.identity
        elif self._peer is None:
            effects.call(Hang(outcome.token))
        else:
            self._peer.link_up(outcome.token, outcome.identity)

    def _first_of_stranger(self, outcome: CallOutcome, identity: ProcessId, effects: Effects, now_ns: int) -> None:
        if not isinstance(outcome, LinkFrames):
            return
        if self._client.exchange.accept(outcome.token, identity, outcome.frames):
            self._client.receive_bodies(outcome.token, outcome.frames[1:], effects, now_ns)
        elif self._peer is None:
            effects.call(Hang(outcome.token))
        else:
            self._peer.link_up(outcome.token, identity)
            self._peer.receive(outcome.token, outcome.frames, effects, now_ns)

    def end_step(self, effects: Effects, now_ns: int) -> None:
        client = self._client
        if client.ended:
            for member in client.ended:
                self.touch(member, now_ns)
            client.ended = []
        if client.deadline_ns() <= now_ns:
            self.tick(effects, now_ns)
        for link in client.to_dial(now_ns):
            client.dial(link, self.new_token(), effects, now_ns)
        if client.exchange.address:
            self._listen(effects)
            for body_link in client.exchange.to_dial(now_ns):
                client.exchange.dial(body_link, self.new_token(), effects)
        client.finish(effects, now_ns)
        if self._peer is not None:
            for address in self._peer.to_dial(now_ns):
                token = self.new_token()
                self._peer.dialling(address, token)
                effects.call(Dial(token, address))
            self._peer.finish(effects)

    def deadline_ns(self) -> int:
        return min(self._client.deadline_ns(), NEVER if self._peer is None else self._peer.deadline_ns())

    def tick(self, effects: Effects, now_ns: int) -> None:
        self._client.tick(effects, now_ns)
        if self._peer is not None:
            self._peer.tick(effects, now_ns)

    def situations(self) -> dict[str, int]:
        counts = self._situations if self._peer is None else add_counts(self._situations, self._peer.counts)
        return {name: count for name, count in zip(OFFERS.situations, counts, strict=False) if count}
