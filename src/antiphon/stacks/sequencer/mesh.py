"""Several sequencers: which one holds a group, and how groups come to one sequencer (kindberg-1995, 4.2 and 4.3).

Promise. As with one sequencer: every process delivers, over all its groups, in the order in which messages were
accepted in real time, whoever accepted them. So the delivery orders of all processes together have no cycle, and
they respect causality.

Rule. The graph has processes and groups as vertices, and an edge where a group owes a process something: from before
the place of its join until the process has reported its leave (sequenced_group.py). All groups of one connected
component are at one sequencer, and so are all groups of one client, which therefore needs one link at a time.
  Directory. The peers are ranked by address. A group's name decides by a hash which peer knows where the group is.
  A group is created at the peer that asked for it, if the directory has no place for it.
  Joins. A join of a group that is here, by a client whose groups are here, is placed. If the group is elsewhere and
  the client is in no group, the client is sent there. Otherwise the two components have to be brought together
  first: the one that is at the peer of higher rank moves to the other. Then the join is placed.
  Transfer. (1) The source takes no more requests of the component's clients. (2) It sends the component
  (transfer.py). (3) The destination takes it over, tells the directory, and acknowledges. (4) The source tells the
  clients where to go, and keeps a pointer for those that do not hear it. Clients then do what they do after a link
  broke (client.py).

Safe. Let p be owed m (group G) and m' (group H), m accepted first. If the edge (p, G) is there when m' is accepted,
G and H are then in one component, at one sequencer, which knows the number of G; so m' carries it, and p waits for
m. If the edge is gone, p has reported its leave of G, and had delivered m. So each process delivers in the order of
acceptance. Causality: a client's requests are placed in its order while it is at one sequencer, and what has no
place when it moves is sent again, in order, at the next. A component is never at two sequencers: until the
destination has acknowledged, the source accepts nothing for it, and after that it has forgotten it. If the
destination dies before it has acknowledged, nobody can know what it has accepted: the component's clients are
excluded.

Live. Components only move to peers of lower rank for joins, so no two joins chase each other. A join that had to
wait for a transfer is asked again by its client, or looked at again after a while. A client that no peer knows, as
far as peers can be reached, is told that it is excluded.

Limits. Between peers of different rank load is not balanced yet. A process that is in groups at one peer cannot
send from outside to a group at another: it is told so, and joins the group instead."""

from typing import Final

from antiphon.kernel.calls import Frames, Hang
from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.sequencer.mesh_state import OutgoingTransfer, PeerLink, SearchForClient, WaitingJoin
from antiphon.stacks.sequencer.peer import SequencerPeer, ServedClient
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.transfer import read_group, write_client, write_group
from antiphon.stacks.sequencer.wire import (
    CREATED,
    EXCLUDED,
    LOCATE,
    LOCATED,
    MOVED,
    NO_GROUP,
    PEER_HELLO,
    PULL,
    RELOCATED,
    SEARCH,
    SEARCHED,
    TRANSFER,
    TRANSFERRED,
    FrameAssembler,
    FrameReader,
    blob,
    frame,
    pairs_bytes,
    pieces,
    text,
    u64,
)

_POINTERS_MAX: Final = 100_000
"""Clients that were sent elsewhere, of which it is kept where."""
_TRANSFER_BYTES_MAX: Final = 1 << 30
_UNKNOWN: Final = "?"
_MOVE_BITS: Final = 16


class MeshPeer(SequencerPeer):
    """One of several sequencers."""

    __slots__ = (
        "_address",
        "_directory",
        "_given",
        "_greeted",
        "_incoming",
        "_joins",
        "_links",
        "_peers",
        "_pointers",
        "_searches",
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
        self._directory: dict[int, tuple[int, str]] = {}
        """Of the groups whose names fall to this peer, how often each has moved, and where it is."""
        self._greeted: set[str] = set()
        """The peers that have said which groups they hold. Before all have, no group is known not to exist."""
        self._tokens = 0
        self._joins: dict[int, WaitingJoin] = {}
        self._searches: dict[int, SearchForClient] = {}
        self._transfers: dict[int, OutgoingTransfer] = {}
        self._taken: dict[str, int] = {}
        """Of each incarnation of a peer, the last transfer that was taken over."""
        self._pointers: dict[ProcessId, str] = {}
        self._given: dict[int, int] = {}
        """Groups that have been moved to other peers, and how often they had moved before. The directory may not know
        it yet."""

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens

    def _home(self, group: int) -> str:
        return self._peers[group % len(self._peers)]

    # ---- links between peers ---------------------------------------------------------------------------------------

    def to_dial(self, now_ns: int) -> list[str]:
        return [link.address for link in self._links.values() if not link.id and link.dial_at_ns <= now_ns]

    def dialling(self, address: str, id: int) -> None:
        self._links[address].id = id

    def _dialled(self, id: int) -> PeerLink | None:
        for link in self._links.values():
            if link.id == id:
                return link
        return None

    def dialled_up(self, id: int, identity: ProcessId, now_ns: int) -> None:
        link = self._dialled(id)
        if link is None:
            return
        self._now_ns = now_ns
        link.is_open = True
        link.out = pieces(frame(PEER_HELLO, text(self._address)))
        link.assembler = FrameAssembler(_TRANSFER_BYTES_MAX)
        link.identity = identity
        self._tell_locations(link)
        for transfer in list(self._transfers.values()):
            if transfer.address == link.address:
                self._send_transfer(transfer, link)

    def link_down(self, link: int, now_ns: int) -> None:
        dialled = self._dialled(link)
        if dialled is not None:
            dialled.id = 0
            dialled.is_open = False
            dialled.dial_at_ns = now_ns + self._options.retry_ns
            self._now_ns = now_ns
            for token, search in list(self._searches.items()):
                self._give_up_search(token, search, dialled.address)
            for join in self._joins.values():
                join.retry_at_ns = join.retry_at_ns or now_ns + self._options.retry_ns
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
                    answers += self._take_from_peer(address, FrameReader(data), effects)
        except MalformedError:
            effects.call(Hang(link))
            self.link_down(link, now_ns)
            return
        if answers:
            effects.call(Frames(link, answers))

    def _ask(self, address: str, *parts: bytes) -> bool:
        """Send a request to another peer; False if there is no link."""
        link = self._links[address]
        if link.is_open:
            link.out += pieces(b"".join(parts))
        return link.is_open

    def _take_from_peer(self, address: str, reader: FrameReader, effects: Effects) -> list[bytes]:
        """Do what another peer asks, or take its answer; what to answer."""
        kind = reader.u8()
        if kind == LOCATE:
            token, name, creates = reader.number(), reader.text(), reader.u8()
            moves, where = self._locate(wire_id(name), address if creates else "")
            return pieces(frame(LOCATED, u64(token), u64(moves), text(where)))
        if kind == LOCATED:
            self._located(reader.number(), reader.number(), reader.text())
        elif kind == RELOCATED:
            if reader.u8():
                self._greeted.add(address)
                gone = [group for group, (_, where) in self._directory.items() if where == address]
                for group in gone:
                    del self._directory[group]
            for group, moves in reader.pairs().items():
                self._note_location(group, moves, address)
        elif kind == PULL:
            pulled = self._groups.get(reader.group())
            if pulled is not None and pulled.reported:
                self._begin_transfer(self._clients[next(iter(pulled.reported))], address)
            elif pulled is not None:
                self._begin_empty_transfer(pulled, address)
        elif kind == SEARCH:
            token, process = reader.number(), reader.process()
            session = self._clients.get(process)
            is_here = session is not None and bool(session.groups)
            known = self._address if is_here else self._pointers.get(process, "")
            return pieces(frame(SEARCHED, u64(token), text(known)))
        elif kind == SEARCHED:
            self._searched(reader.number(), reader.text(), address)
        elif kind == TRANSFER:
            return self._take_over(reader)
        elif kind == TRANSFERRED:
            self._transferred(reader.number(), effects)
        else:
            raise MalformedError("kind")
        return []

    # ---- the directory ---------------------------------------------------------------------------------------------

    def _tell_locations(self, link: PeerLink) -> None:
        """Tell another peer of all groups here whose names fall to it."""
        held = {id: group.moves for id, group in self._groups.items() if self._home(id) == link.address}
        link.out += pieces(frame(RELOCATED, b"\1", pairs_bytes(held)))

    def _note_location(self, group: int, moves: int, address: str) -> None:
        if moves >= self._directory.get(group, (-1, ""))[0]:
            self._directory[group] = (moves, address)

    def _locate(self, group: int, creator: str) -> tuple[int, str]:
        """How often a group has moved, and where it is: "" if it does not exist, _UNKNOWN while that cannot be told. A
        new group begins to count at the time of its creation: above what a former one of its name had come to."""
        known = self._directory.get(group)
        if known is not None:
            return known
        if len(self._greeted) < len(self._links):
            return (0, _UNKNOWN)
        if creator:
            self._directory[group] = (self._now_ns // MILLISECOND_NS << _MOVE_BITS, creator)
            return self._directory[group]
        return (0, "")

    def _look_up(self, join: WaitingJoin) -> None:
        group = wire_id(join.name)
        home = self._home(group)
        token = self._token()
        self._joins[token] = join
        join.retry_at_ns = 0
        creates = b"\1" if join.creates else b"\0"
        if home == self._address:
            moves, where = self._locate(group, self._address if join.creates else "")
            self._located(token, moves, where)
        elif not self._ask(home, frame(LOCATE, u64(token), text(join.name), creates)):
            join.retry_at_ns = self._now_ns + self._options.retry_ns

    def _located(self, token: int, moves: int, address: str) -> None:
        join = self._joins.pop(token, None)
        if join is not None and address == self._address:
            self._found(join.name, moves)
        if join is None or self._clients.get(join.client.process) is not join.client or join.client.is_moving:
            return
        group = wire_id(join.name)
        if address == _UNKNOWN:
            self._wait(join)
        elif join.creates:
            self._tell(join.client, pieces(frame(CREATED, u64(group))))
        elif group in self._groups and not self._groups[group].is_moving:
            self._join_here(join.client, self._groups[group], join.last_number)
        elif not address:
            self._tell(join.client, pieces(frame(NO_GROUP, u64(group))))
        elif address == self._address or address not in self._links:
            self._wait(join)
        elif not join.client.groups:
            self._send_away(join.client, address)
        else:
            if self._peers.index(address) < self._peers.index(self._address):
                self._begin_transfer(join.client, address)
            else:
                self._ask(address, frame(PULL, u64(group)))
                self._wait(join)

    def _found(self, name: str, moves: int) -> None:
        """The directory says that a group is here: if it has not been given away since, it has yet to be created."""
        group = wire_id(name)
        if group not in self._groups and moves > self._given.get(group, -1):
            self._add_group(name)
            self._groups[group].moves = moves

    def _wait(self, join: WaitingJoin) -> None:
        join.retry_at_ns = self._now_ns + self._options.retry_ns
        self._joins[self._token()] = join

    # ---- requests of clients ---------------------------------------------------------------------------------------

    def _create(self, session: ServedClient, name: str) -> None:
        self._check_name(name)
        if wire_id(name) in self._groups:
            super()._create(session, name)
        else:
            self._look_up(WaitingJoin(session, name, 0, creates=True))

    def _join(self, session: ServedClient, name: str, last_number: int) -> None:
        group = self._groups.get(wire_id(name))
        if group is not None and not group.is_moving:
            super()._join(session, name, last_number)
        else:
            self._look_up(WaitingJoin(session, name, last_number, creates=False))

    def _multicast(self, session: ServedClient, id: int, reader: FrameReader) -> None:
        group = self._groups.get(id)
        if (group is None and session.groups) or (group is not None and not group.is_moving):
            super()._multicast(session, id, reader)
            return
        # Who is in no group is sent to the peer that has this one. What it sends meanwhile it sends again there.
        session.is_moving = True
        self._find_for_sender(session, id)

    def _find_for_sender(self, session: ServedClient, id: int) -> None:
        home = self._home(id)
        where = self._locate(id, "")[1] if home == self._address else home
        if not where:
            self._tell(session, pieces(frame(NO_GROUP, u64(id))))
        self._send_away(session, self._address if where in ("", _UNKNOWN) else where)

    def _resume(self, session: ServedClient, groups: list[int]) -> None:
        if not groups or session.groups or session.is_moving:
            super()._resume(session, groups)
            return
        pointer = self._pointers.get(session.process, "")
        if pointer:
            self._send_away(session, pointer)
            return
        session.is_moving = True
        token = self._token()
        asked = {address for address, link in self._links.items() if link.is_open}
        self._searches[token] = SearchForClient(session, groups, set(asked))
        for address in sorted(asked):
            self._ask(address, frame(SEARCH, u64(token)), b"".join([_process(session.process)]))
        if not asked:
            self._not_there(token, self._searches[token], "")

    def _searched(self, token: int, where: str, address: str) -> None:
        search = self._searches.get(token)
        if search is None:
            return
        if where and where in self._links:
            del self._searches[token]
            if self._clients.get(search.client.process) is search.client and not search.client.groups:
                self._send_away(search.client, where)
        else:
            self._not_there(token, search, address)

    def _not_there(self, token: int, search: SearchForClient, address: str) -> None:
        search.asked.discard(address)
        if not search.asked:
            del self._searches[token]
            if self._clients.get(search.client.process) is search.client:
                search.client.is_moving = False
                super()._resume(search.client, search.groups)

    def _give_up_search(self, token: int, search: SearchForClient, address: str) -> None:
        """A peer that was asked for a client is not reached any more."""
        self._not_there(token, search, address)

    def _place_for_client(self, address: str) -> str:
        """What a client is told to go to a peer."""
        return address

    def _send_away(self, session: ServedClient, address: str) -> None:
        """Tell a client to go on at another peer, and forget it."""
        self._tell(session, pieces(frame(MOVED, text(self._place_for_client(address)))))
        session.is_moving = True
        self._leaving.append(session)

    # ---- transfer --------------------------------------------------------------------------------------------------

    def _begin_transfer(self, session: ServedClient, address: str) -> None:
        """Move the connected component of a client to another peer."""
        clients: dict[ProcessId, ServedClient] = {session.process: session}
        groups: dict[int, SequencedGroup] = {}
        waiting = [session]
        while waiting:
            for id in waiting.pop().groups:
                if id not in groups:
                    groups[id] = self._groups[id]
                    for process in groups[id].reported:
                        if process not in clients:
                            clients[process] = self._clients[process]
                            waiting.append(clients[process])
        if any(client.is_moving for client in clients.values()):
            return
        self._start(OutgoingTransfer(self._token(), address, list(clients.values()), list(groups.values())))

    def _begin_empty_transfer(self, group: SequencedGroup, address: str) -> None:
        if not group.is_moving:
            self._start(OutgoingTransfer(self._token(), address, [], [group]))

    def _start(self, transfer: OutgoingTransfer) -> None:
        """Step 1: take no more requests; step 2: send."""
        self.counts[6] += 1
        parts = [u64(len(transfer.groups))]
        for group in transfer.groups:
            group.is_moving = True
            parts.append(u64(group.id) + write_group(group))
        parts.append(u64(len(transfer.clients)))
        for client in transfer.clients:
            client.is_moving = True
            client.requests.clear()
            parts.append(write_client(client.process, list(client.groups), list(client.numbered)))
        transfer.data = [b"".join(parts)]
        self._transfers[transfer.token] = transfer
        link = self._links[transfer.address]
        if link.is_open:
            self._send_transfer(transfer, link)

    def _send_transfer(self, transfer: OutgoingTransfer, link: PeerLink) -> None:
        if transfer.identity is None:
            transfer.identity = link.identity
        elif transfer.identity != link.identity:  # whatever it has accepted is lost, and nobody knows what it was
            del self._transfers[transfer.token]
            self._give_up(transfer)
            return
        own = _process(self._process)
        link.out += pieces(frame(TRANSFER, u64(transfer.token), own, blob(transfer.data[0])))

    def _give_up(self, transfer: OutgoingTransfer) -> None:
        for client in transfer.clients:
            client.is_moving = False
            for id in client.groups:
                self._tell(client, pieces(frame(EXCLUDED, u64(id))))
            self._bury(client.process)
            self._leaving.append(client)
        for group in transfer.groups:
            self._drop_group(group)

    def _take_over(self, reader: FrameReader) -> list[bytes]:
        """Step 3, at the destination."""
        token, source = reader.number(), reader.process()
        answer = pieces(frame(TRANSFERRED, u64(token)))
        if token <= self._taken.get(repr((source.name, source.incarnation)), 0):
            return answer
        self._taken[repr((source.name, source.incarnation))] = token
        body = FrameReader(reader.blob())
        ids: list[int] = []
        for _ in range(body.number()):
            id = body.group()
            ids.append(id)
            group = self._groups[id] = read_group(body, id, self._options.window_packets)
            group.intersecting = [id]
            group.moves += 1
            self._given.pop(id, None)
            self._context[id] = group.number
            if self._home(id) == self._address:
                self._note_location(id, group.moves, self._address)
        for _ in range(body.number()):
            self._take_client(body.process(), body.groups(), body.groups())
        self._find_overlaps(ids)
        for address in self._links:
            held = {id: self._groups[id].moves for id in ids if self._home(id) == address}
            self._ask(address, frame(RELOCATED, b"\0", pairs_bytes(held)))
        return answer

    def _take_client(self, process: ProcessId, groups: list[int], numbered: list[int]) -> None:
        self._pointers.pop(process, None)
        session = self._clients.get(process)
        if session is not None and session.is_moving:  # it waits here to hear where to go: let it come again
            self._tell(session, pieces(frame(MOVED, text(self._place_for_client(self._address)))))
            self._leaving.append(session)
            session = None
        if session is None:
            session = self._clients[process] = ServedClient(process, self._now_ns)
        session.heard_ns = self._now_ns
        session.groups.update(dict.fromkeys(groups))
        session.numbered.update(dict.fromkeys(numbered))

    def _transferred(self, token: int, effects: Effects) -> None:
        """Step 4, at the source."""
        transfer = self._transfers.pop(token, None)
        if transfer is None:
            return
        for client in transfer.clients:
            self._pointers[client.process] = transfer.address
            self._send_away(client, transfer.address)
        while len(self._pointers) > _POINTERS_MAX:
            del self._pointers[next(iter(self._pointers))]
        for group in transfer.groups:
            self._given[group.id] = group.moves
            self._drop_group(group)

    def _drop_group(self, group: SequencedGroup) -> None:
        del self._groups[group.id]
        del self._context[group.id]
        self._stabler.pop(group.id, None)

    # ---- sending, and time -----------------------------------------------------------------------------------------

    def finish(self, effects: Effects) -> None:
        super().finish(effects)
        for link in self._links.values():
            if link.is_open and link.out:
                effects.call(Frames(link.id, link.out))
                link.out = []

    def deadline_ns(self) -> int:
        dials = [link.dial_at_ns for link in self._links.values() if not link.id]
        joins = [join.retry_at_ns for join in self._joins.values() if join.retry_at_ns]
        return min([super().deadline_ns(), *dials, *joins])

    def tick(self, effects: Effects, now_ns: int) -> None:
        super().tick(effects, now_ns)
        for token, join in list(self._joins.items()):
            if 0 < join.retry_at_ns <= now_ns:
                del self._joins[token]
                if self._clients.get(join.client.process) is join.client and not join.client.is_moving:
                    self._look_up(join)


def _process(process: ProcessId) -> bytes:
    return text(process.name) + u64(process.incarnation)
