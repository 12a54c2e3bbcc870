"""The links of a client to the peers of the sequencing service: where its groups are, how it goes on after a link broke
or a group moved, and what it tells of its context. client.py has the theory, and the other half: what comes back."""

from typing import Final, final

from antiphon.kernel.calls import Dial, Hang
from antiphon.kernel.effects import Changed, Effects
from antiphon.kernel.identity import NUMBER_MAX, ProcessId
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.acceptance import NO_PLACE
from antiphon.stacks.sequencer.context import BOTTOM, Context
from antiphon.stacks.sequencer.member import MemberService, OwnBatch, OwnMessages, SequencerMember
from antiphon.stacks.sequencer.offers import CLIENT, OFFERS
from antiphon.stacks.sequencer.place import Place
from antiphon.stacks.sequencer.service_link import DIALS_MAX, ServiceLink
from antiphon.stacks.sequencer.wire import (
    ADDRESS,
    CONTEXT,
    CREATE,
    FETCH,
    JOIN,
    LEAVE,
    NUMBERED,
    PROBE,
    RECEIVED,
    RESUME,
    carried,
    groups_bytes,
    pairs_bytes,
    text,
    u64,
)

_TO_THE_END: Final = NUMBER_MAX
"""Fetch all that there is."""
_NOT_SYNCED: Final = NUMBER_MAX
OUTSIDE_GROUPS_MAX: Final = 10_000
"""Groups that a process sends to without being in them."""
SERVICE_REACHED: Final = f"{OFFERS.name}/{CLIENT}"
"""What `Changed` names when the client has a link to the service."""


def _ticket_of(batch: OwnBatch) -> int:
    return batch.ticket


@final
class OutsideSender:
    """What a process sends to a group that it is not in."""

    __slots__ = ("group", "own", "requests")

    def __init__(self, group: str, group_id: int, last_number: int) -> None:
        self.group = group
        self.own = OwnMessages(group_id, last_number)
        self.requests: list[int] = []
        """Of messages without a place."""


class ClientLinks(MemberService):
    """The links of one process to the service, and what it has told and asked by them."""

    __slots__ = (
        "_asked",
        "_by_id",
        "_clock",
        "_contacts",
        "_context",
        "_creating",
        "_former_numbers",
        "_held",
        "_home",
        "_knows_peers",
        "_links",
        "_members",
        "_moves",
        "_now_ns",
        "_options",
        "_outside",
        "_own_places",
        "_process",
        "_sync",
        "_waits",
        "_where",
        "counts",
        "delivered",
    )

    def __init__(self, process: ProcessId, options: Options) -> None:
        super().__init__(process, options)
        self._process = process
        self._options = options
        self._now_ns = 0
        self._contacts: list[str] = []
        self._home = ""
        """The contact that is asked for groups whose place is not known."""
        self._knows_peers = False
        """All peers are among the contacts, and any of them may go on in another's place (seat_host.py)."""
        self._links: dict[str, ServiceLink] = {}
        """By address."""
        self._by_id: dict[int, ServiceLink] = {}
        self._where: dict[int, str] = {}
        """The address at which each group is, as far as it is known."""
        self._moves: dict[int, int] = {}
        """How often each group has moved, as peers have told."""
        self._sync: dict[int, int] = {}
        """Of each group, what its link must have answered before the clock of the link counts for it."""
        self._asked: dict[int, None] = {}
        """Groups of which a join was asked for and has not come."""
        self._waits: dict[int, str] = {}
        """The peers that joins wait for, as the service has told."""
        self._members: dict[int, SequencerMember] = {}
        self._creating: dict[int, None] = {}
        """Groups that did not exist when this process asked to join them."""
        self.delivered: Context = {}
        self._context: Context = {}
        self._clock = 0
        """The highest stamp of what was delivered, and of own messages."""
        self._own_places: dict[int, tuple[int, int]] = {}
        """By group, the number of the last own message that has a place, and the place."""
        self._held: dict[int, dict[int, Place]] = {}
        """The hold-back queue, by group and number; no group without a place."""
        self._outside: dict[int, OutsideSender] = {}
        self._former_numbers: dict[int, int] = {}
        """The number of the last message to groups that were left, or that refused what was sent from outside."""
        self.counts = [0, 0, 0]
        """Probes sent, groups that moved, groups looked for elsewhere."""

    # ---- what members and senders want -----------------------------------------------------------------------------

    def meet(self, contacts: tuple[str, ...], now_ns: int) -> None:
        """The service is at these addresses."""
        self._now_ns = now_ns
        self._contacts += [contact for contact in contacts if contact not in self._contacts]
        if not self._home:
            self._contacts.append(self._contacts.pop(0))
            self._home = self._contacts[-1]
            self._link_to(self._home)

    def _report(self) -> None:
        """Tell each peer what was delivered of the groups there."""
        raise NotImplementedError

    def _link_to(self, address: str) -> ServiceLink:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = ServiceLink(address, self._now_ns)
        return link

    def _link_of(self, group: int) -> ServiceLink:
        """The link to where a group is, or to whoever may know."""
        return self._link_to(self._where.setdefault(group, self._home))

    def join(self, member: SequencerMember, contacts: tuple[str, ...], effects: Effects, now_ns: int) -> None:
        group = member.group_id
        self._members[group] = member
        self.delivered[group] = BOTTOM
        outside = self._outside.pop(group, None)
        if outside is not None:
            member.own.last_number = max(member.own.last_number, outside.own.last_number)
        self.meet(contacts, now_ns)
        self._report()
        self._ask_join(self._link_of(group), member)

    def _ask_join(self, link: ServiceLink, member: SequencerMember) -> None:
        if link.is_open:
            self._asked[member.group_id] = None
        groups = groups_bytes(list(self.delivered))
        link.send(carried(JOIN, text(member.group), u64(member.own.last_number), u64(self._clock), groups))

    def leave(self, member: SequencerMember) -> None:
        groups = groups_bytes(list(self.delivered))
        self._link_of(member.group_id).send(carried(LEAVE, u64(member.group_id), groups))

    def forget(self, member: SequencerMember) -> None:
        group = member.group_id
        if self._members.get(group) is member:
            del self._members[group]
            self._note_number(group, member.own.last_number)
            self.delivered.pop(group, None)
            self._held.pop(group, None)
            self._creating.pop(group, None)
            self._asked.pop(group, None)
            self._waits.pop(group, None)
            self._sync.pop(group, None)
            self._where.pop(group, None)
            self._moves.pop(group, None)
            self.unplaced.pop(group, None)
            self.exchange.forget(group)

    def _note_number(self, group: int, number: int) -> None:
        """What is sent there next gets a higher number."""
        self._former_numbers[group] = number
        while len(self._former_numbers) > OUTSIDE_GROUPS_MAX:
            del self._former_numbers[next(iter(self._former_numbers))]

    def waits_for(self, group_id: int) -> str:
        link = self._links.get(self._where.get(group_id, ""))
        if link is None or not link.is_open:
            return f"no peer of the sequencing service answers at {', '.join(sorted(self._contacts))}"
        address = self._waits.get(group_id, "")
        if address:
            return (
                f"the peer of the sequencing service at {address}, which knows where this group is, cannot be reached "
                "by the others, or does not know it yet because it cannot reach them"
            )
        return f"the sequencing service has not answered yet at {link.address}"

    def names_for(self, group_id: int) -> dict[int, int]:
        if self._is_alone():
            return {}
        return {group: own.last_number for group, own in self.unplaced.items() if group != group_id}

    def send_messages(self, group_id: int, carried: list[bytes]) -> None:
        link = self._link_of(group_id)
        self._tell_context(link)
        link.send(carried)

    def _is_alone(self) -> bool:
        """Whether the service is one sequencer, whose order is that of all that it sends."""
        if len(self._links) != 1:
            return False
        for link in self._links.values():
            return link.is_alone
        return False

    def _tell_context(self, link: ServiceLink) -> None:
        """Tell a peer what this process has delivered, before something is sent that follows it."""
        if link.risen and link.is_open and not link.is_alone:
            entries = {group: self._context[group] for group in link.risen if group in self._context}
            link.risen = {}
            link.send(carried(CONTEXT, u64(self._clock), pairs_bytes(entries)))

    def _rise(self, group: int, number: int) -> None:
        """An entry of the context rises."""
        if number > self._context.get(group, BOTTOM):
            self._context[group] = number
            for link in self._links.values():
                link.risen[group] = None

    # ---- links -----------------------------------------------------------------------------------------------------

    def owns(self, id: int) -> bool:
        """Whether this process has dialled a link, as a client."""
        return id in self._by_id

    def to_dial(self, now_ns: int) -> list[ServiceLink]:
        return [link for link in self._links.values() if not link.id and link.dial_at_ns <= now_ns]

    def dial(self, link: ServiceLink, id: int, effects: Effects, now_ns: int) -> None:
        link.id = id
        link.heard_ns = now_ns
        self._by_id[id] = link
        effects.call(Dial(id, link.address.partition("#")[0]))

    def link_up(self, id: int, effects: Effects, now_ns: int) -> None:
        """Say who and where we are, and ask again for all that has no answer."""
        self._now_ns = now_ns
        link = self._by_id[id]
        link.up(self._options, dict.fromkeys(self._context), now_ns)
        effects.events.append(Changed(SERVICE_REACHED))
        self._resume(link, [group for group, address in self._where.items() if address == link.address])

    def _resume(self, link: ServiceLink, groups: list[int]) -> None:
        """Go on with some groups by a link that is open."""
        here = [group for group in self.delivered if self._where.get(group) == link.address]
        entered = [group for group in here if self.delivered[group] > BOTTOM]
        delivered = pairs_bytes({group: self.delivered[group] for group in entered})
        link.send(carried(RESUME, delivered, text(link.address.partition("#")[2])))
        if self.exchange.address:
            link.send(carried(ADDRESS, text(self.exchange.address)))
        resumed = [group for group in groups if group in self._members]
        link.send(carried(RECEIVED, delivered))
        link.syncs += 1
        for group in resumed:
            self._sync[group] = link.syncs
            if self.delivered[group] == BOTTOM:
                if group in self._creating:
                    link.send(carried(CREATE, text(self._members[group].group)))
                self._ask_join(link, self._members[group])
            else:
                link.send(carried(FETCH, u64(group), u64(self.delivered[group] + 1), u64(_TO_THE_END)))
        self._send_again(link)
        for group in here:
            if self._members[group].is_leaving():
                self.leave(self._members[group])
        link.send(carried(PROBE, u64(link.syncs), u64(self._clock)))

    def _send_again(self, link: ServiceLink) -> None:
        """Send what has no place in the groups at a peer, in the order of sending, whatever the group."""
        groups = [group for group, address in self._where.items() if address == link.address]
        batches = sorted(self._without_place(groups), key=_ticket_of)
        if batches:
            self._tell_context(link)
        named = {group for batch in batches for group in batch.names}
        for group in sorted(named):
            if group in self._own_places:
                number, place = self._own_places[group]
                link.send(carried(NUMBERED, u64(group), u64(number), u64(place), u64(self._clock)))
        for batch in batches:
            link.send(batch.pieces)

    def _without_place(self, groups: list[int]) -> list[OwnBatch]:
        return [batch for group in groups if group in self.unplaced for batch in self.unplaced[group].without_place()]

    def link_down(self, id: int, now_ns: int) -> None:
        """Dial again after a while; if that was tried in vain too often, look for the groups elsewhere."""
        self._now_ns = now_ns
        link = self._by_id.pop(id, None)
        if link is None:
            return
        if not self._contacts:
            del self._links[link.address]
            return
        link.down(self._options, now_ns)
        if link.dials > (1 if self._knows_peers else DIALS_MAX) and len(self._contacts) > 1:
            self._look_elsewhere(link)

    def _look_elsewhere(self, link: ServiceLink) -> None:
        """Nobody answers at an address: ask the next contact for the groups that were there."""
        self.counts[2] += 1
        link.dials = 0
        if self._home == link.address:
            self._contacts.append(self._contacts.pop(0))
            self._home = self._contacts[-1]
        if self._home == link.address:
            return
        groups = [group for group, address in self._where.items() if address == link.address]
        del self._links[link.address]
        for group in groups:
            self._where[group] = self._home
        home = self._link_to(self._home)
        if home.is_open:
            self._resume(home, groups)

    def _moved(self, told_by: ServiceLink, group: int, moves: int, address: str) -> None:
        """A group is on its way to another peer, or there. Peers tell that by links of their own, so an older word may
        come last: the count of the moves tells. That it is on its way says that the clock of this link does
        not count for it: nothing new where the group is known to be elsewhere, and nothing else may follow by a link
        that has no group any more."""
        if group not in self._where or (not address and self._where[group] != told_by.address):
            return
        if moves:
            if moves < self._moves.get(group, 0):
                return
            self._moves[group] = moves
        if group in self._members:
            self._sync[group] = _NOT_SYNCED
        if group in self._own_places:  # the peer that had it may not know any more
            self._tell_numbered(group, "")
        if address:
            self.counts[1] += 1
            self._where[group] = address
            link = self._link_to(address)
            if link.is_open:
                self._resume(link, [group])

    def _drop_idle_links(self, effects: Effects) -> None:
        """Hang up where no group is."""
        wanted = {self._home, *self._where.values()}
        for address in [address for address in self._links if address not in wanted]:
            link = self._links.pop(address)
            link.finish(effects, self._now_ns)
            if link.id:
                effects.call(Hang(link.id))
                self._by_id.pop(link.id, None)

    def hang_up(self, effects: Effects) -> None:
        """End all links for good."""
        for link in self._links.values():
            if link.id:
                effects.call(Hang(link.id))
        self.exchange.hang_up(effects)
        self._links, self._by_id, self._contacts, self._home, self._where = {}, {}, [], "", {}

    def _tell_numbered(self, group: int, but: str) -> None:
        """Tell peers, but one, at which something waits for own messages to a group, the places of these."""
        number, place = self._own_places[group]
        told = {but}
        for other in self.unplaced.values():
            address = self._where.get(other.group_id, "")
            if address not in told and other.names(group):
                told.add(address)
                link = self._link_to(address)
                link.send(carried(NUMBERED, u64(group), u64(number), u64(place), u64(self._clock)))

    def _never_placed(self, group: int, last: int) -> None:
        """Own messages to a group, up to this number, were refused: nothing that was sent later waits for them."""
        if any(own.names(group) for own in self.unplaced.values()):
            self._own_places[group] = (last, self._own_places.get(group, (0, NO_PLACE))[1])
            self._tell_numbered(group, "")
