"""Where groups are: the directory that several sequencers keep together, and how requests find their group. mesh.py has
the theory."""

from typing import Final

from antiphon.kernel.calls import Frames, Hang
from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.sequencer.context import Context, merge_into
from antiphon.stacks.sequencer.location_table import LocationTable
from antiphon.stacks.sequencer.mesh_state import (
    CREATING,
    JOINING,
    RESUMING,
    SENDING,
    GroupLookup,
    OutgoingTransfer,
    PeerLink,
)
from antiphon.stacks.sequencer.peer import SequencerPeer
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.served_client import ServedClient
from antiphon.stacks.sequencer.wire import (
    CREATED,
    EXCLUDED,
    FIND,
    FORGET,
    FOUND,
    GIVEN,
    LOCATE,
    LOCATED,
    MOVED,
    NO_GROUP,
    PEER_HELLO,
    RELOCATED,
    SEARCH,
    SEARCHED,
    STABLE,
    WAITING,
    FrameAssembler,
    FrameReader,
    carried,
    frame,
    pairs_bytes,
    pieces,
    process_bytes,
    text,
    u64,
)

_TRANSFER_BYTES_MAX: Final = 1 << 30
_UNKNOWN: Final = "?"
_MOVE_BITS: Final = 16
_NOT_OWED: Final = 0
_OWED: Final = 1
_NOT_HERE: Final = 2
_ON_ITS_WAY: Final = 3
_MISSES: Final = 3


class DirectoryPeer(SequencerPeer):
    """One of several sequencers, as far as it finds groups."""

    __slots__ = (
        "_address",
        "_given",
        "_greeted",
        "_incoming",
        "_locations",
        "_looking",
        "_lookups",
        "_peers",
        "_stable_elsewhere",
        "_taken",
        "_tokens",
        "_transfers",
    )

    def __init__(self, process: ProcessId, options: Options, address: str, peers: list[str], now_ns: int) -> None:
        super().__init__(process, options, now_ns)
        self._address = address
        self._peers = sorted({address, *peers})
        """All addresses, by rank."""
        self._links = {other: PeerLink(other, now_ns) for other in self._peers if other != address}
        self._incoming: dict[int, tuple[str, FrameAssembler]] = {}
        """Links that other peers have dialled, by id."""
        self._locations = LocationTable()
        """Of the groups whose names fall to this peer."""
        self._greeted: set[str] = set()
        """The peers that have said which groups they hold. Before all have, no group is known not to exist."""
        self._tokens = 0
        self._lookups: dict[int, GroupLookup] = {}
        self._looking: dict[tuple[ProcessId, int, int], GroupLookup] = {}
        """The requests for which a group is being looked up."""
        self._transfers: dict[int, OutgoingTransfer] = {}
        self._taken: dict[str, int] = {}
        """Of each incarnation of a peer, the last transfer that was taken over."""
        self._given: dict[int, int] = {}
        """Groups that have been moved to other peers, and how often they had moved before. The directory may not know
        it yet."""
        self._stable_elsewhere: Context = {}
        """Up to which number everything of a group is stable, as other peers have told."""

    def is_alone(self) -> bool:
        return False

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens

    def _home(self, group: int) -> str:
        return self._peers[group % len(self._peers)]

    # ---- links between peers ---------------------------------------------------------------------------------------

    def dialled_up(self, id: int, identity: ProcessId, now_ns: int) -> None:
        link = self._dialled(id)
        if link is None:
            return
        self._now_ns = now_ns
        link.is_open = True
        link.out = carried(PEER_HELLO, text(self._address))
        link.assembler = FrameAssembler(_TRANSFER_BYTES_MAX)
        link.identity = identity
        link.out += self._given_frames(link.address)
        held = {id: group.moves for id, group in self._groups.items() if self._home(id) == link.address}
        link.out += carried(RELOCATED, b"\1", pairs_bytes(held))
        link.out += carried(STABLE, pairs_bytes({id: group.stable for id, group in self._groups.items()}))
        for group in self._locations.questions_for(link.address):
            link.out += carried(FIND, u64(group))
        self._peer_up(link)

    def _given_frames(self, address: str) -> list[bytes]:
        """What to tell a peer, before all that is here, of groups that were here and whose place it knows."""
        return []

    def _known_place(self, group: int) -> tuple[int, str]:
        """How often a group has moved that is here, or was given away from here, and where it is; or no address."""
        here = self._groups.get(group)
        return (0, "") if here is None else (here.moves, self._address)

    def _peer_up(self, link: PeerLink) -> None:
        """There is a link to another peer again."""

    def link_down(self, link: int, now_ns: int) -> None:
        dialled = self._dialled(link)
        if dialled is not None:
            if dialled.is_open:
                dialled.lost_ns = now_ns
            dialled.id = 0
            dialled.is_open = False
            dialled.dial_at_ns = now_ns + self._options.retry_ns
            for lookup in self._lookups.values():
                lookup.retry_at_ns = min(lookup.retry_at_ns, now_ns + self._options.retry_ns)
        elif link in self._incoming:
            del self._incoming[link]
        else:
            super().link_down(link, now_ns)

    def _greet(self, link: int, identity: ProcessId, data: bytes, effects: Effects, now_ns: int) -> bool:
        if data[:1] != bytes([PEER_HELLO]):
            return False
        reader = FrameReader(data)
        reader.u8()
        self._incoming[link] = (reader.text(), FrameAssembler(_TRANSFER_BYTES_MAX))
        return True

    def receive(self, link: int, received: list[bytes], effects: Effects, now_ns: int) -> None:
        dialled = self._dialled(link)
        if dialled is None and link not in self._incoming:
            super().receive(link, received, effects, now_ns)
            if link not in self._incoming:
                return
            received = received[1:]
        self._now_ns = now_ns
        address, assembler = self._incoming[link] if dialled is None else (dialled.address, dialled.assembler)
        answers: list[bytes] = []
        try:
            for piece in received:
                data = assembler.take(piece)
                if data is not None:
                    answers += self._take_from_peer(address, FrameReader(data, 1))
        except MalformedError:
            effects.call(Hang(link))
            self.link_down(link, now_ns)
            return
        if answers:
            effects.call(Frames(link, answers))

    def _ask(self, address: str, *parts: bytes) -> bool:
        """Send a request to another peer; False if there is no link."""
        link = self._links.get(address)
        if link is None or not link.is_open:
            return False
        link.out += pieces(b"".join(parts))
        return True

    def _take_from_peer(self, address: str, reader: FrameReader) -> list[bytes]:
        """Do what another peer asks, or take its answer; what to answer."""
        raise NotImplementedError

    def _take_of_directory(self, kind: int, address: str, reader: FrameReader) -> list[bytes]:
        """The same, for what concerns the directory."""
        if kind == LOCATE:
            token, group, creates = reader.number(), reader.group(), reader.u8()
            moves, where = self._locate(group, address if creates else "")
            return carried(LOCATED, u64(token), u64(moves), text(where))
        if kind == LOCATED:
            self._located(reader.number(), reader.number(), reader.text())
        elif kind == RELOCATED:
            self._relocated(address, reader.u8(), reader.pairs())
        elif kind == GIVEN:
            for _ in range(reader.number()):
                group, moves = reader.group(), reader.number()
                self._locations.note(group, moves, reader.text())
        elif kind == SEARCH:
            token, process, group = reader.number(), reader.process(), reader.group()
            return carried(SEARCHED, u64(token), bytes([self._owes(group, process)]))
        elif kind == SEARCHED:
            self._searched(reader.number(), reader.u8(), address)
        elif kind == FORGET:
            self._locations.forget(reader.group())
        elif kind == FIND:
            group = reader.group()
            moves, where = self._known_place(group)
            return carried(FOUND, u64(group), u64(moves), text(where))
        elif kind == FOUND:
            self._place_found(address, reader.group(), reader.number(), reader.text())
        elif kind == STABLE:
            merge_into(self._stable_elsewhere, reader.pairs())
        else:
            raise MalformedError("kind")
        return []

    # ---- the directory ---------------------------------------------------------------------------------------------

    def _relocated(self, address: str, is_all: int, groups: dict[int, int]) -> None:
        """A peer tells which groups it holds: some, or all whose names fall to this one."""
        for group, moves in groups.items():
            self._locations.note(group, moves, address)
        if is_all:
            self._greeted.add(address)
            others = [other for other in self._links if other != address]
            for group in self._locations.drop_others(address, groups, others):
                moves, where = self._known_place(group)
                if where:
                    self._locations.note(group, moves, where)
                for other in others if not where else ():
                    self._ask(other, frame(FIND, u64(group)))

    def _place_found(self, address: str, group: int, moves: int, where: str) -> None:
        """A peer was asked for a group that is in doubt."""
        if where:
            self._locations.note(group, moves, where)
        else:
            self._locations.unknown_to(group, address)

    def _locate(self, group: int, creator: str) -> tuple[int, str]:
        """How often a group has moved, and where it is: "" if it does not exist, _UNKNOWN while that cannot be told. A
        new group begins to count at the time of its creation: above what a former one of its name had come to."""
        known = self._locations.find(group)
        if known is not None:
            return known
        if len(self._greeted) < len(self._links) or self._locations.is_doubted(group):
            return (0, _UNKNOWN)
        if group in self._groups:  # on its way from here, and may be lost
            return (0, _UNKNOWN)
        if creator:
            moves = self._now_ns // MILLISECOND_NS << _MOVE_BITS
            self._locations.note(group, moves, creator)
            return (moves, creator)
        return (0, "")

    def _look_up(self, lookup: GroupLookup) -> None:
        """Find out where a group is, and go on with a request for it; each kind of request is looked up once at a time.
        A client that was forgotten meanwhile, and has come again, is told what is found out for its former self."""
        key = lookup.key()
        pending = self._looking.get(key)
        if pending is None:
            self._looking[key] = lookup
            self._look_again(lookup)
        else:
            pending.client, pending.last_number, pending.others = lookup.client, lookup.last_number, lookup.others

    def _look_again(self, lookup: GroupLookup) -> None:
        home = self._home(lookup.group)
        token = self._token()
        self._lookups[token] = lookup
        lookup.retry_at_ns = NEVER
        is_creation = lookup.kind == CREATING
        if home == self._address:
            moves, where = self._locate(lookup.group, self._address if is_creation else "")
            self._located(token, moves, where)
        elif not self._ask(home, frame(LOCATE, u64(token), u64(lookup.group), b"\1" if is_creation else b"\0")):
            lookup.retry_at_ns = self._now_ns + self._options.retry_ns
            self._tell_waiting(lookup, home)

    def _tell_waiting(self, lookup: GroupLookup, address: str) -> None:
        """Tell a client that wants to join whom it waits for, once for each."""
        if lookup.kind in (JOINING, CREATING) and lookup.told != address:
            lookup.told = address
            self._tell(lookup.client, carried(WAITING, u64(lookup.group), text(address)))

    def _wait(self, lookup: GroupLookup) -> None:
        lookup.retry_at_ns = self._now_ns + self._options.retry_ns
        self._lookups[self._token()] = lookup

    def _is_over(self, lookup: GroupLookup) -> bool:
        """Whether the client has gone meanwhile."""
        if self._clients.get(lookup.client.process) is lookup.client:
            return False
        self._looking.pop(lookup.key(), None)
        return True

    def _answer(self, lookup: GroupLookup, told: list[bytes]) -> None:
        self._looking.pop(lookup.key(), None)
        self._tell(lookup.client, told)

    def _located(self, token: int, moves: int, address: str) -> None:
        lookup = self._lookups.pop(token, None)
        if lookup is None or self._is_over(lookup):
            return
        id = lookup.group
        if address == self._address and lookup.name:
            self._found(lookup.name, moves)
        here = self._groups.get(id)
        if address == _UNKNOWN or (here is not None and here.is_moving):
            if address == _UNKNOWN:
                self._tell_waiting(lookup, self._home(id))
            self._wait(lookup)
        elif lookup.kind == CREATING:
            self._answer(lookup, carried(CREATED, u64(id)))
        elif here is not None:
            self._found_here(lookup, here)
        elif not address:
            self._answer(lookup, carried(EXCLUDED if lookup.kind == RESUMING else NO_GROUP, u64(id)))
        elif address == self._address or address not in self._links:
            self._miss(lookup)
        elif lookup.kind == RESUMING:
            self._search(lookup, address)
        else:
            self._redirect(lookup, address)

    def _place_for_client(self, address: str) -> str:
        """What a client is told to go to a peer; "" if that cannot be said now."""
        return address

    def _redirect(self, lookup: GroupLookup, address: str) -> None:
        """Tell a client where a group is."""
        place = self._place_for_client(address)
        if place:
            self._answer(lookup, carried(MOVED, u64(lookup.group), text(place)))
        else:
            self._wait(lookup)

    def _found(self, name: str, moves: int) -> None:
        """The directory says that a group is here: if it has not been given away since, it has yet to be created."""
        id = wire_id(name)
        if id not in self._groups and moves > self._given.get(id, -1):
            self._add_group(name)
            self._groups[id].moves = moves

    def _found_here(self, lookup: GroupLookup, group: SequencedGroup) -> None:
        """The group of a request is here after all."""
        if lookup.kind == JOINING:
            if self._may_join(lookup, group):
                self._looking.pop(lookup.key(), None)
                self._join_here(lookup.client, group, lookup.last_number)
        elif lookup.kind == RESUMING and group.id not in lookup.client.groups:
            self._looking.pop(lookup.key(), None)
            super()._resume_elsewhere(lookup.client, group.id)
        else:  # let the client ask again
            self._redirect(lookup, self._address)

    def _may_join(self, lookup: GroupLookup, group: SequencedGroup) -> bool:
        """Whether a join may be placed here now; else it has been seen to."""
        return True

    # ---- clients whose groups are elsewhere ------------------------------------------------------------------------

    def _search(self, lookup: GroupLookup, address: str) -> None:
        """A client believes to be in a group: ask the peer that holds it."""
        link = self._links[address]
        token = self._token()
        self._lookups[token] = lookup
        if link.is_open:
            self._ask(address, frame(SEARCH, u64(token), process_bytes(lookup.client.process), u64(lookup.group)))
        elif self._is_gone(link):
            del self._lookups[token]
            self._answer(lookup, carried(EXCLUDED, u64(lookup.group)))
        else:
            lookup.retry_at_ns = self._now_ns + self._options.retry_ns

    def _is_gone(self, link: PeerLink) -> bool:
        """Whether a peer has been out of reach for so long that the clients of its groups are given up."""
        return self._now_ns - link.lost_ns > self._options.silence_ns_max

    def _owes(self, id: int, process: ProcessId) -> int:
        group = self._groups.get(id)
        if group is None:
            return _NOT_HERE
        if group.is_moving:
            return _ON_ITS_WAY
        return _OWED if process in group.reported else _NOT_OWED

    def _searched(self, token: int, found: int, address: str) -> None:
        lookup = self._lookups.get(token)
        if lookup is None or self._is_over(lookup):
            return
        lookup.asked.discard(address)
        if found == _NOT_HERE and lookup.asked:
            return
        del self._lookups[token]
        lookup.asked = set()
        if found == _NOT_HERE:
            self._miss(lookup)
        elif found == _ON_ITS_WAY:
            self._wait(lookup)
        elif found == _NOT_OWED and lookup.kind == RESUMING:
            self._answer(lookup, carried(EXCLUDED, u64(lookup.group)))
        else:
            self._redirect(lookup, address)

    def _miss(self, lookup: GroupLookup) -> None:
        """A group is not where the directory says: it is on its way, or it was lost with a sequencer. After some tries
        all peers are asked; if none has it, twice, the directory is told to forget it."""
        lookup.misses += 1
        others = list(self._links.values())
        if lookup.misses % _MISSES == 0 and all(link.is_open for link in others):
            token = self._token()
            lookup.asked = {link.address for link in others}
            lookup.retry_at_ns = NEVER
            self._lookups[token] = lookup
            for link in others:
                search = frame(SEARCH, u64(token), process_bytes(lookup.client.process), u64(lookup.group))
                self._ask(link.address, search)
            return
        if lookup.misses >= 2 * _MISSES and lookup.misses % _MISSES == 1:  # all have just answered, and none has it
            home = self._home(lookup.group)
            if home == self._address:
                self._locations.forget(lookup.group)
            else:
                self._ask(home, frame(FORGET, u64(lookup.group)))
        self._wait(lookup)

    # ---- requests of clients ---------------------------------------------------------------------------------------

    def _is_here(self, id: int) -> bool:
        group = self._groups.get(id)
        return group is not None and not group.is_moving

    def _create(self, session: ServedClient, name: str) -> None:
        self._check_name(name)
        if wire_id(name) in self._groups:
            super()._create(session, name)
            return
        lookup = GroupLookup(CREATING, session, wire_id(name))
        lookup.name = name
        self._look_up(lookup)

    def _join(self, session: ServedClient, name: str, last_number: int, others: list[int]) -> None:
        lookup = GroupLookup(JOINING, session, wire_id(name))
        lookup.name = name
        lookup.last_number = last_number
        lookup.others = others
        if self._is_here(lookup.group):
            self._found_here(lookup, self._groups[lookup.group])
        else:
            self._look_up(lookup)

    def _multicast(self, session: ServedClient, id: int, reader: FrameReader) -> None:
        if self._is_here(id):
            super()._multicast(session, id, reader)
        elif id not in self._groups:
            self._look_up(GroupLookup(SENDING, session, id))

    def _leave(self, session: ServedClient, id: int) -> None:
        if self._is_here(id):
            super()._leave(session, id)

    def _fetch(self, session: ServedClient, id: int, first: int, last: int) -> None:
        if self._is_here(id):
            super()._fetch(session, id, first, last)

    def _resume(self, session: ServedClient, groups: Context) -> None:
        super()._resume(session, groups)
        for id in groups:
            if id in session.groups and self._groups[id].is_moving:
                self._tell(session, carried(MOVED, u64(id), text("")))

    def _resume_elsewhere(self, session: ServedClient, id: int) -> None:
        if self._is_here(id):
            super()._resume_elsewhere(session, id)
        else:  # no clock of this peer counts for it
            self._tell(session, carried(MOVED, u64(id), text("")))
            self._look_up(GroupLookup(RESUMING, session, id))

    def _is_stable(self, id: int, number: int) -> bool:
        group = self._groups.get(id)
        return number <= (self._stable_elsewhere.get(id, -1) if group is None else group.stable)

    # ---- sending, and time -----------------------------------------------------------------------------------------

    def finish(self, effects: Effects) -> None:
        super().finish(effects)
        for link in self._links.values():
            if link.is_open and link.out:
                effects.call(Frames(link.id, link.out))
                link.out = []

    def deadline_ns(self) -> int:
        deadline_ns = super().deadline_ns()
        for link in self._links.values():
            if not link.id:
                deadline_ns = min(deadline_ns, link.dial_at_ns)
        for lookup in self._lookups.values():
            deadline_ns = min(deadline_ns, lookup.retry_at_ns)
        return deadline_ns

    def tick(self, effects: Effects, now_ns: int) -> None:
        super().tick(effects, now_ns)
        for token, lookup in list(self._lookups.items()):
            if lookup.retry_at_ns <= now_ns:
                del self._lookups[token]
                if not self._is_over(lookup):
                    self._look_again(lookup)

    def _tell_stable(self) -> None:
        stable = {id: self._groups[id].stable for id in self._stabler}
        super()._tell_stable()
        for link in self._links.values():
            self._ask(link.address, frame(STABLE, pairs_bytes(stable)))
