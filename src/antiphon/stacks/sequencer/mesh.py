"""Several sequencers: which one holds a group, and how a group moves to another (kindberg-1995, 4.2 and 4.3).

Promise. Each group is at one sequencer at a time. Clients find it wherever it is, and go with it when it moves, without
a message lost, repeated or out of order. What this gives together with the order between sequencers, stamps.py says.

Rule.
  Directory. The peers are ranked by address. A group's name decides by a hash which peer knows where the group is.
  A group is created at the peer that asked for it, if the directory has no place for it. A request for a group that
  is elsewhere is answered by its address; the client asks there.
  A peer that greets another tells all groups that it holds, and before that where it has given others: else the
  directory would take a group for lost whose new peer has not been heard yet, and have it created a second time.
  Transfer. (1) The source takes no more requests for the groups, and says so to the clients. (2) It sends the groups
  (transfer.py), and its clock. (3) The destination takes them over, raises its clock, tells the directory, and
  acknowledges. (4) The source tells the clients where the groups are, and forgets them. Clients then do for these
  groups what they do for all after a link broke (client.py).

Safe. A group is never at two sequencers: until the destination has acknowledged, the source accepts nothing for it,
and after that it has forgotten it. If the destination dies before it has acknowledged, nobody can know what it has
accepted: the clients of these groups are excluded. Requests that reach the source in step 1 or later are dropped, and
the client, which has no answer, sends them again at the destination; what it sent later to groups that stay names them
(acceptance.py), and waits for them.

Live. A transfer ends when its destination answers, or comes back as another incarnation. A request that has to wait is
looked at again after a while. A client that asks for a group which does not know it, or whose peer has been out of
reach for too long, is told that it is excluded."""

from antiphon.kernel.effects import NEVER, Effects
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.sequencer.directory import DirectoryPeer
from antiphon.stacks.sequencer.load import RESTS, choose_for_balance, choose_for_sender
from antiphon.stacks.sequencer.mesh_state import (
    RESUMING,
    GroupLookup,
    OutgoingTransfer,
    PeerLink,
)
from antiphon.stacks.sequencer.offers import retained_bytes
from antiphon.stacks.sequencer.plan import PlaceGroups
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup
from antiphon.stacks.sequencer.served_client import ServedClient
from antiphon.stacks.sequencer.transfer import read_group, write_client, write_group
from antiphon.stacks.sequencer.wire import (
    EXCLUDED,
    GIVEN,
    LOAD,
    MOVED,
    PULL,
    RELOCATED,
    REPORTED,
    TRANSFER,
    TRANSFERRED,
    FrameReader,
    blob,
    carried,
    frame,
    pairs_bytes,
    process_bytes,
    text,
    u64,
)


class MeshPeer(DirectoryPeer):
    """One of several sequencers."""

    __slots__ = ("_balance_at_ns", "_balance_ns", "_given_to", "_late_reports", "_loads")

    def __init__(self, process: ProcessId, options: Options, address: str, peers: list[str], now_ns: int) -> None:
        super().__init__(process, options, address, peers, now_ns)
        self._balance_ns = options.of_stacks.get("sequencer.balance_ms", 0) * MILLISECOND_NS
        self._balance_at_ns = now_ns + self._balance_ns if self._balance_ns else NEVER
        self._given_to: dict[int, str] = {}
        """Where groups went that were here: forwarding pointers."""
        self._late_reports: dict[int, dict[ProcessId, int]] = {}
        """What clients reported of groups that are on their way. A client that has left says so only once."""
        self._loads: dict[str, float] = {}
        """What the groups of other peers cost, as they have told."""

    def _given_frames(self, address: str) -> list[bytes]:
        given = [id for id in self._given_to if id in self._given and self._home(id) == address]
        told = [u64(id) + u64(self._given[id] + 1) + text(self._given_to[id]) for id in given]
        return carried(GIVEN, u64(len(told)), *told)

    def _known_place(self, group: int) -> tuple[int, str]:
        address = self._given_to.get(group, "")
        return (self._given[group] + 1, address) if address in self._peers else super()._known_place(group)

    def _peer_up(self, link: PeerLink) -> None:
        for transfer in list(self._transfers.values()):
            if transfer.address == link.address:
                self._send_transfer(transfer, link)

    def _take_from_peer(self, address: str, reader: FrameReader) -> list[bytes]:
        kind = reader.u8()
        if kind == PULL:
            self._pulled(reader.group(), address)
        elif kind == TRANSFER:
            return self._take_over(reader)
        elif kind == TRANSFERRED:
            self._transferred(reader.number())
        elif kind == REPORTED:
            group, process = reader.group(), reader.process()
            self._reported(process, group, reader.number())
        elif kind == LOAD:
            self._loads[address] = float(reader.number())
        else:
            return self._take_of_directory(kind, address, reader)
        return []

    def _reported(self, process: ProcessId, id: int, number: int) -> None:
        group = self._groups.get(id)
        if group is not None and group.is_moving:
            self._late_reports.setdefault(id, {})[process] = number
        elif group is None and id in self._given_to:
            self._ask(self._given_to[id], frame(REPORTED, u64(id), process_bytes(process), u64(number)))
        else:
            super()._reported(process, id, number)

    # ---- load ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        return min(super().deadline_ns(), self._balance_at_ns)

    def tick(self, effects: Effects, now_ns: int) -> None:
        super().tick(effects, now_ns)
        if now_ns >= self._balance_at_ns:
            self._balance_at_ns = now_ns + self._balance_ns
            self._balance()

    def _balance(self) -> None:
        """Measure, tell the others, and move a group if the load asks for it (load.py)."""
        for group in self._groups.values():
            spent = group.spent * 1_000_000_000 / self._balance_ns
            group.load = (group.load + spent) / 2
            group.spent = 0
            group.rests = max(0, group.rests - 1)
        own = sum([group.load for group in self._groups.values()])
        for link in self._links.values():
            self._ask(link.address, frame(LOAD, u64(int(own))))
        if not self._transfers:
            self._move_for_load(own)
        for group in self._groups.values():
            group.sent.clear()

    def _move_for_load(self, own: float) -> None:
        open_links = [link for link in self._links.values() if link.is_open and link.address in self._loads]
        others = {link.address: self._loads[link.address] for link in open_links}
        names = {link.identity.name: link.address for link in open_links if link.identity is not None}
        for group in self._groups.values():
            address = choose_for_sender(group.sent, own, others, names)
            if address and not group.rests:
                group.rests = RESTS
                self.counts[10] += self._move(self._set_of(group), address)
                return
        loads = {id: group.load for id, group in self._groups.items() if not group.rests}
        chosen = choose_for_balance(loads, others)
        if chosen is not None:
            moved, address = chosen
            self._loads[address] += self._groups[moved].load  # until it tells anew
            self.counts[11] += self._move(self._set_of(self._groups[moved]), address)

    # ---- transfer --------------------------------------------------------------------------------------------------

    def _set_of(self, group: SequencedGroup) -> list[SequencedGroup]:
        """The groups that must stay together with this one."""
        return [group]

    def place_groups(self, input: PlaceGroups) -> None:
        if input.address not in self._peers:
            raise UsageError(f"there is no peer at {input.address}; choose one of: {', '.join(self._peers)}")
        for name in input.groups:
            if self._is_here(wire_id(name)) and input.address != self._address:
                input.moved += self._move(self._set_of(self._groups[wire_id(name)]), input.address)

    def _pulled(self, id: int, address: str) -> None:
        """Another peer wants a group."""
        if self._is_here(id):
            self._move(self._set_of(self._groups[id]), address)

    def _move(self, groups: list[SequencedGroup], address: str) -> bool:
        """Begin to move groups to another peer. Step 1: take no more requests; step 2: send."""
        for group in groups:
            if group.is_moving:
                return False
        self._start(OutgoingTransfer(self._token(), address, groups))
        return True

    def _start(self, transfer: OutgoingTransfer) -> None:
        self.counts[6] += 1
        groups = transfer.groups
        parts = [u64(self._clock), u64(len(groups))]
        moving = dict.fromkeys([group.id for group in groups])
        for group in groups:
            group.is_moving = True
            group.blocked.clear()
            parts.append(u64(group.id) + write_group(group))
        processes = transfer.processes()
        parts.append(u64(len(processes)))
        for process in processes:
            client = self._clients[process]
            own = [id for id in client.groups if id in moving]
            numbered = [id for id in client.numbered if id in moving]
            parts.append(write_client(process, own, numbered))
            for id in own:
                self._tell(client, carried(MOVED, u64(id), text("")))
        for client in self._clients.values():
            for id in moving:
                client.requests.drop_group(id)
        transfer.data = b"".join(parts)
        self._transfers[transfer.token] = transfer
        link = self._links[transfer.address]
        if link.is_open:
            self._send_transfer(transfer, link)

    def _send_transfer(self, transfer: OutgoingTransfer, link: PeerLink) -> None:
        if transfer.identity is None:
            transfer.identity = link.identity
        elif transfer.identity != link.identity:  # whatever it has accepted is lost, and nobody knows what it was
            del self._transfers[transfer.token]
            self._end_transfer(transfer, "")
            return
        own = process_bytes(self._process)
        link.out += carried(TRANSFER, u64(transfer.token), own, blob(transfer.data))

    def _take_over(self, reader: FrameReader) -> list[bytes]:
        """Step 3, at the destination."""
        token, source = reader.number(), reader.process()
        answer = carried(TRANSFERRED, u64(token))
        if token <= self._taken.get(repr((source.name, source.incarnation)), 0):
            return answer
        self._taken[repr((source.name, source.incarnation))] = token
        body = FrameReader(reader.blob())
        self._raise_clock(body.number())
        ids: list[int] = []
        returned: list[int] = []
        """Those that have been elsewhere and back before that was acknowledged."""
        for _ in range(body.number()):
            id = body.group()
            ids.append(id)
            former = self._groups.get(id)
            if former is not None:
                returned.append(id)
            for transfer in self._transfers.values():
                transfer.groups = [moving for moving in transfer.groups if moving.id != id]
            group = self._groups[id] = read_group(body, id, self._options.window_packets, retained_bytes(self._options))
            group.intersecting = [id]
            group.moves += 1
            for process in former.reported if former is not None else ():
                if process not in group.reported:  # it has left, or was excluded, elsewhere: let it ask if it knows
                    self._clients[process].groups.pop(id, None)
                    self._clients[process].numbered.pop(id, None)
                    self._tell_moved(self._clients[process], id, self._address)
            self._given.pop(id, None)
            self._given_to.pop(id, None)
            self._context[id] = group.number
            for name, incarnation in group.excluded.items():
                self._bury(ProcessId(name, incarnation))
            if self._home(id) == self._address:
                self._locations.note(id, group.moves, self._address)
        overlapping = dict.fromkeys(ids)
        sessions = [self._take_client(body.process(), body.groups(), body.groups()) for _ in range(body.number())]
        for session in sessions:
            overlapping.update(session.groups)
            for id in returned:
                if id in session.groups:
                    self._tell_moved(session, id, self._address)
        self._find_overlaps(list(overlapping))
        for id in ids:  # what the source had not yet told of it
            self._groups[id].told_stable = -1
            self._note_stable(self._groups[id])
        for session in sessions:  # what named messages to these groups may go on
            self._place_requests(session)
        for address in self._links:
            held = {id: self._groups[id].moves for id in ids if self._home(id) == address}
            self._ask(address, frame(RELOCATED, b"\0", pairs_bytes(held)))
        return answer

    def _take_client(self, process: ProcessId, groups: list[int], numbered: list[int]) -> ServedClient:
        session = self._clients.get(process)
        if session is None:
            session = self._clients[process] = ServedClient(process, self._now_ns)
        session.heard_ns = max(session.heard_ns, self._now_ns)
        session.groups.update(dict.fromkeys(groups))
        session.numbered.update(dict.fromkeys(numbered))
        return session

    def _transferred(self, token: int) -> None:
        """Step 4, at the source."""
        transfer = self._transfers.pop(token, None)
        if transfer is not None:
            self._end_transfer(transfer, transfer.address)

    def _end_transfer(self, transfer: OutgoingTransfer, address: str) -> None:
        """The groups are here no more: tell their clients, and forget them. Without an address they are lost."""
        overlapping: dict[int, None] = {}
        for group in transfer.groups:
            if address:
                self._given[group.id] = group.moves
            for process in group.reported:
                client = self._clients[process]
                client.groups.pop(group.id, None)
                client.numbered.pop(group.id, None)
                overlapping.update(client.groups)
                if not address:
                    self._tell(client, carried(EXCLUDED, u64(group.id)))
                elif client.link:
                    self._tell_moved(client, group.id, address)
            if address:
                self._given_to[group.id] = address
            self._drop_group(group)
            late = self._late_reports.pop(group.id, {})
            if address:
                for process, number in late.items():
                    self._reported(process, group.id, number)
        self._find_overlaps([id for id in overlapping if id in self._groups])

    def _tell_moved(self, client: ServedClient, id: int, address: str) -> None:
        place = self._place_for_client(address)
        if place:
            self._tell(client, carried(MOVED, u64(id), text(place)))
        else:
            self._look_up(GroupLookup(RESUMING, client, id))

    def _drop_group(self, group: SequencedGroup) -> None:
        del self._groups[group.id]
        del self._context[group.id]
        self._stabler.pop(group.id, None)
