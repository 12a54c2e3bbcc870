"""A process that hosts seats: it votes in their logs, runs the sequencers of those that it leads, and passes frames
on.

With `replicas` = k there is one seat for each peer, and each seat has 2k + 1 voters (seat_log.py). In quiet times
every peer leads its own seat; when a peer fails, others lead its seat, too, and clients go there.

Links. Processes dial each other; each sends by the link that it has dialled. Clients dial any process: one that was
told to go to a seat names it; others get the seat that knows them, or one that is led here, or are told where a leader
is.

Telling. What a step of a sequencer wants done waits in `_pending`, in order, until the log says that the step's entry
may be told; so do frames for other seats that are led by this same process.

A seat whose leader steps down lets go of its clients: they come again, here or elsewhere, and find the next leader."""

from collections import deque
from typing import Final, final

from antiphon.kernel.calls import Call, Frames, Hang, Load
from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import CallOutcome, Loaded, Stored
from antiphon.stacks.sequencer.mesh_state import PeerLink
from antiphon.stacks.sequencer.peer import CLIENTS_MAX
from antiphon.stacks.sequencer.seat_disk import SeatDisk
from antiphon.stacks.sequencer.seat_log import LEADER, SeatLog
from antiphon.stacks.sequencer.seat_sequencer import SeatSequencer, seat_identity
from antiphon.stacks.sequencer.seat_ways import SeatLeaders, SeatWay
from antiphon.stacks.sequencer.service_peer import ServicePeer
from antiphon.stacks.sequencer.wire import (
    HOST_HELLO,
    PEERS,
    RESUME,
    SEAT_DOWN,
    SEAT_FRAMES,
    SEAT_LED,
    SEAT_LOG,
    FrameAssembler,
    FrameReader,
    blob,
    carried,
    frame,
    pieces,
    text,
    u64,
)
from antiphon.stacks.stack import Stack

_WAY: Final = 1 << 60
"""Ids of ways begin here: above those of links."""
_OPENS: Final = 1
_ANSWERS: Final = 2
_FRAME_BYTES_MAX: Final = 1 << 30


@final
class HostLink:
    """A link that another process has dialled."""

    __slots__ = ("address", "assembler", "life")

    def __init__(self, address: str, life: int) -> None:
        self.address = address
        self.life = life
        self.assembler = FrameAssembler(_FRAME_BYTES_MAX)


@final
class SeatHost(ServicePeer):
    """All seats at one process."""

    __slots__ = (
        "_accepted",
        "_address",
        "_addresses",
        "_client_seats",
        "_disks",
        "_hangs",
        "_incoming",
        "_leaders",
        "_life",
        "_logs",
        "_now_ns",
        "_options",
        "_peers",
        "_pending",
        "_said_ns",
        "_seats",
        "_stack",
        "_strangers",
        "_way_count",
        "_ways",
    )

    def __init__(
        self,
        stack: Stack,
        process: ProcessId,
        options: Options,
        address: str,
        peers: list[str],
        replicas: int,
        is_durable: bool,
        now_ns: int,
    ) -> None:
        super().__init__()
        self._stack = stack
        self._options = options
        self._address = address
        self._addresses = sorted({address, *peers})
        self._life = process.incarnation
        self._now_ns = now_ns
        self._peers = {other: PeerLink(other, now_ns) for other in self._addresses if other != address}
        self._incoming: dict[int, HostLink] = {}
        self._strangers: dict[int, ProcessId] = {}
        self._client_seats: dict[int, str] = {}
        self._leaders = SeatLeaders(address)
        self._logs: dict[str, SeatLog] = {}
        for place, seat in enumerate(self._addresses):
            ring = self._addresses[place:] + self._addresses[:place]
            voters = ring[: 2 * replicas + 1]
            if address in voters:
                self._logs[seat] = SeatLog(seat, address, voters, self._life, options, now_ns, is_durable)
        self._disks = {seat: SeatDisk(log, f"seat {seat}") for seat, log in self._logs.items() if is_durable}
        self._seats: dict[str, SeatSequencer] = {}
        self._pending: dict[str, deque[tuple[int, list[Call]]]] = {}
        self._ways: dict[int, SeatWay] = {}
        self._accepted: dict[tuple[str, int], int] = {}
        """Ids of ways at this end, by the process that dialled and its id."""
        self._way_count = _WAY
        self._hangs: list[int] = []
        """Links of clients to be closed at the end of the step."""
        self._said_ns = now_ns

    # ---- links -----------------------------------------------------------------------------------------------------

    def link_up(self, link: int, process: ProcessId) -> None:
        if len(self._strangers) + len(self._client_seats) < CLIENTS_MAX:
            self._strangers[link] = process
        else:
            self._hangs.append(link)

    def to_dial(self, now_ns: int) -> list[str]:
        return [link.address for link in self._peers.values() if not link.id and link.dial_at_ns <= now_ns]

    def dialling(self, address: str, id: int) -> None:
        self._peers[address].id = id

    def _dialled(self, id: int) -> PeerLink | None:
        for link in self._peers.values():
            if link.id == id:
                return link
        return None

    def dialled_up(self, id: int, identity: ProcessId, now_ns: int) -> None:
        link = self._dialled(id)
        if link is None:
            return
        self._now_ns = now_ns
        link.is_open = True
        link.out = carried(HOST_HELLO, text(self._address), u64(self._life))
        link.out += self._led_frame()
        self._leaders.reached.add(link.address)
        for log in self._logs.values():
            log.linked(link.address, identity.incarnation, now_ns)

    def link_down(self, link: int, now_ns: int) -> None:
        self._now_ns = now_ns
        self._strangers.pop(link, None)
        dialled = self._dialled(link)
        if dialled is not None:
            dialled.id = 0
            dialled.out = []
            dialled.dial_at_ns = now_ns + self._options.retry_ns
            if dialled.is_open:
                dialled.is_open = False
                self._lost(dialled.address)
        elif link in self._incoming:
            self._lost(self._incoming.pop(link).address)
        elif link in self._client_seats:
            seat = self._client_seats.pop(link)
            if seat in self._seats:
                self._seats[seat].link_down(link, now_ns)

    def _lost(self, address: str) -> None:
        """A link with another process is gone, in one direction at least."""
        if not self._peers[address].is_open:
            self._leaders.reached.discard(address)
        for log in self._logs.values():
            log.unlinked(address, self._now_ns)
            if self._peers[address].is_open and log.role == LEADER:
                log.linked(address, 0, self._now_ns)
        for way in [way for way in self._ways.values() if way.process == address]:
            self._close_way(way, is_told=True)

    def receive(self, link: int, received: list[bytes], effects: Effects, now_ns: int) -> None:
        self._now_ns = now_ns
        stranger = self._strangers.pop(link, None)
        if stranger is not None:
            self._admit(link, stranger, received, effects)
            if link in self._incoming:
                received = received[1:]
        if link in self._incoming:
            self._receive_from_host(link, self._incoming[link], received)
        elif link in self._client_seats:
            sequencer = self._seats.get(self._client_seats[link])
            if sequencer is not None:
                sequencer.receive(link, received, sequencer.effects, now_ns)

    def _receive_from_host(self, id: int, link: HostLink, received: list[bytes]) -> None:
        try:
            for piece in received:
                data = link.assembler.take(piece)
                if data is not None:
                    self._take_from_host(link, FrameReader(data, 1))
        except MalformedError:
            self._hangs.append(id)
            self.link_down(id, self._now_ns)

    def _admit(self, link: int, identity: ProcessId, received: list[bytes], effects: Effects) -> None:
        """The first frame of a link tells who has dialled: another process, or a client."""
        try:
            reader = FrameReader(received[0][1:])
            kind = reader.u8()
            if kind == HOST_HELLO:
                address, life = reader.text(), reader.number()
                if address in self._peers:
                    self._incoming[link] = HostLink(address, life)
                    return
            if kind != RESUME:
                raise MalformedError("kind")
            reader.pairs()
            self._admit_client(link, identity, "" if reader.is_empty() else reader.text(), effects)
        except MalformedError:
            self._hangs.append(link)

    def _admit_client(self, link: int, identity: ProcessId, wanted: str, effects: Effects) -> None:
        addresses = [text(address) for address in self._addresses]
        effects.call(Frames(link, carried(PEERS, u64(len(addresses)), *addresses)))
        seat = wanted if wanted in self._seats else self._seat_of(identity)
        if not seat and not self._leaders.way_to(wanted):
            seat = self._address if self._address in self._seats else next(iter(self._seats), "")
        if seat:
            self._client_seats[link] = seat
            self._seats[seat].link_up(link, identity)
            return
        self._hangs.append(link)  # nothing is led here now: it tries again, and then another of the peers

    def _seat_of(self, identity: ProcessId) -> str:
        """The seat here that has groups of a client."""
        for seat, sequencer in self._seats.items():
            if sequencer.knows(identity):
                return seat
        return ""

    # ---- other processes -------------------------------------------------------------------------------------------

    def _send(self, address: str, data: bytes) -> None:
        link = self._peers[address]
        if link.is_open:
            link.out += pieces(data)

    def _led_frame(self) -> list[bytes]:
        led = [text(seat) + u64(self._logs[seat].term) for seat in self._seats]
        return carried(SEAT_LED, u64(len(led)), *led)

    def _take_from_host(self, link: HostLink, reader: FrameReader) -> None:
        kind = reader.u8()
        if kind == SEAT_LOG:
            log = self._logs.get(reader.text())
            if log is None:
                raise MalformedError("seat")
            self._prepare(log)
            if log.receive(link.address, link.life, reader.rest(), self._now_ns):
                log.send_whole(link.address, self._seats[log.seat].state().records())
        elif kind == SEAT_FRAMES:
            seat, other, id, flags = reader.text(), reader.text(), reader.number(), reader.u8()
            frames = [reader.blob() for _ in range(reader.number())]
            self._take_seat_frames(link.address, seat, other, id, flags, frames)
        elif kind == SEAT_DOWN:
            id, answers = reader.number(), reader.u8()
            way = self._ways.get(id if answers else self._accepted.get((link.address, id), 0))
            if way is not None and way.process == link.address:
                self._close_way(way, is_told=False)
        elif kind == SEAT_LED:
            led: dict[str, int] = {}
            for _ in range(min(reader.number(), len(self._addresses))):
                seat = reader.text()
                led[seat] = reader.number()
            self._note_led(link.address, led)
        else:
            raise MalformedError("kind")

    def _note_led(self, address: str, led: dict[str, int]) -> None:
        for seat in self._leaders.note(address, led):
            for way in [way for way in self._ways.values() if way.other == seat and way.process != address]:
                self._close_way(way, is_told=True)

    # ---- ways between seats ----------------------------------------------------------------------------------------

    def _dial_ways(self, sequencer: SeatSequencer, seat: str) -> None:
        for other in sequencer.to_dial(self._now_ns):
            self._way_count += 1
            id = self._way_count
            sequencer.dialling(other, id)
            process = self._leaders.leader(other)
            if process:
                self._ways[id] = SeatWay(id, seat, other, process, id, is_dialled=True)
                sequencer.dialled_up(id, seat_identity(other, self._addresses), self._now_ns)
            else:
                sequencer.link_down(id, self._now_ns)

    def _send_by_way(self, way: SeatWay, frames: list[bytes]) -> None:
        flags = 0 if way.is_dialled else _ANSWERS
        if not way.is_used:
            flags |= _OPENS
            way.is_used = True
        if way.process == self._address:
            self._take_seat_frames(self._address, way.seat, way.other, way.dialled_id, flags, frames)
            return
        head = [text(way.seat), text(way.other), u64(way.dialled_id), bytes([flags]), u64(len(frames))]
        self._send(way.process, frame(SEAT_FRAMES, *head, *[blob(data) for data in frames]))

    def _take_seat_frames(
        self, process: str, source: str, seat: str, dialled_id: int, flags: int, frames: list[bytes]
    ) -> None:
        """Frames of one seat for another, which is led here or was."""
        sequencer = self._seats.get(seat)
        id = dialled_id if flags & _ANSWERS else self._accepted.get((process, dialled_id), 0)
        if not id and flags & _OPENS and sequencer is not None and source in self._addresses:
            self._way_count += 1
            id = self._accepted[process, dialled_id] = self._way_count
            self._ways[id] = SeatWay(id, seat, source, process, dialled_id, is_dialled=False)
            sequencer.link_up(id, seat_identity(source, self._addresses))
        way = self._ways.get(id)
        if way is not None and way.seat == seat and way.process == process and sequencer is not None:
            sequencer.receive(id, frames, sequencer.effects, self._now_ns)
        elif not flags & _ANSWERS:
            self._tell_down(process, dialled_id, answers=True)

    def _tell_down(self, process: str, dialled_id: int, answers: bool) -> None:
        if process == self._address:
            way = self._ways.get(dialled_id if answers else self._accepted.get((process, dialled_id), 0))
            if way is not None:
                self._close_way(way, is_told=False)
        else:
            self._send(process, frame(SEAT_DOWN, u64(dialled_id), b"\1" if answers else b"\0"))

    def _close_way(self, way: SeatWay, is_told: bool) -> None:
        if self._ways.pop(way.id, None) is None:
            return
        if not way.is_dialled:
            self._accepted.pop((way.process, way.dialled_id), None)
        sequencer = self._seats.get(way.seat)
        if sequencer is not None:
            sequencer.link_down(way.id, self._now_ns)
        if is_told:
            self._tell_down(way.process, way.dialled_id, answers=not way.is_dialled)

    # ---- seats -----------------------------------------------------------------------------------------------------

    def _lead(self, log: SeatLog) -> None:
        """This process leads a seat from here on."""
        self.counts[7] += 1
        seat = log.seat
        self._seats[seat] = SeatSequencer(
            seat, self._addresses, self._options, self._leaders, log.state, log.term, self._now_ns, self.counts
        )
        self._pending[seat] = deque()
        for address, link in self._peers.items():
            if link.is_open:
                log.linked(address, 0, self._now_ns)
                link.out += self._led_frame()
        self._append(log, [])
        self._note_own()

    def _note_own(self) -> None:
        self._note_led(self._address, {seat: self._logs[seat].term for seat in self._seats})

    def _depose(self, seat: str) -> None:
        """Another process may lead it: let go of its clients."""
        self.counts[8] += 1
        for way in [way for way in self._ways.values() if way.seat == seat]:
            self._close_way(way, is_told=True)
        del self._seats[seat]
        del self._pending[seat]
        for link in [link for link, served in self._client_seats.items() if served == seat]:
            del self._client_seats[link]
            self._hangs.append(link)
        for peer in self._peers.values():
            if peer.is_open:
                peer.out += self._led_frame()
        self._note_own()

    def _prepare(self, log: SeatLog) -> None:
        """Something may happen to a log, the end of its leadership perhaps: it has all entries, and the state."""
        sequencer = self._seats.get(log.seat)
        if sequencer is not None:
            self._write_down(log.seat)
            log.state = sequencer.state()

    def _write_down(self, seat: str) -> None:
        """What the sequencer of a seat has changed so far becomes an entry."""
        sequencer, log = self._seats.get(seat), self._logs[seat]
        if sequencer is not None and sequencer.records and log.role == LEADER:
            records, sequencer.records = sequencer.records, []
            self._append(log, records)

    def _append(self, log: SeatLog, records: list[bytes]) -> None:
        log.append(records)
        if log.seat in self._disks:
            self._disks[log.seat].note()

    def _carry_out(self, calls: list[Call], effects: Effects) -> None:
        """Do what a sequencer wants, now that it may be told."""
        for call in calls:
            if isinstance(call, Frames):
                way = self._ways.get(call.link)
                if way is not None:
                    self._send_by_way(way, call.frames)
                elif call.link in self._client_seats:
                    effects.call(call)
            elif isinstance(call, Hang):
                way = self._ways.get(call.link)
                if way is not None:
                    self._close_way(way, is_told=True)
                elif self._client_seats.pop(call.link, ""):
                    effects.call(call)

    def _run_seat(self, seat: str, effects: Effects) -> bool:
        """Have a seat do what this step has for it; whether it did anything."""
        log = self._logs[seat]
        if log.role != LEADER:
            self._depose(seat)
            return True
        sequencer, pending = self._seats[seat], self._pending[seat]
        self._dial_ways(sequencer, seat)
        sequencer.finish(sequencer.effects)
        self._write_down(seat)
        calls = sequencer.take_calls()
        if calls:
            pending.append((log.index, calls))
        has_told = False
        while pending and pending[0][0] <= log.commit and self._seats.get(seat) is sequencer:
            self._carry_out(pending.popleft()[1], effects)
            has_told = True
        return has_told

    def finish(self, effects: Effects) -> None:
        is_busy = True
        while is_busy:
            is_busy = False
            for seat, log in self._logs.items():
                if seat in self._seats:
                    is_busy = self._run_seat(seat, effects) or is_busy
                elif log.role == LEADER:
                    self._lead(log)
                    is_busy = True
        for seat, disk in self._disks.items():
            self._write_to_disk(seat, disk, effects)
        for seat, log in self._logs.items():
            for address, data in log.outbox:
                self._send(address, frame(SEAT_LOG, text(seat), data))
            log.outbox = []
        for link in self._peers.values():
            if link.is_open and link.out:
                effects.call(Frames(link.id, link.out))
                link.out = []
        for id in self._hangs:
            effects.call(Hang(id))
        self._hangs = []

    # ---- disk ------------------------------------------------------------------------------------------------------

    def open(self, effects: Effects) -> None:
        """Read what seats have on disk."""
        for disk in self._disks.values():
            effects.call(Load(disk.name, self._loading(disk)))

    def _loading(self, disk: SeatDisk) -> int:
        token = self._stack.new_token()
        disk.storing[token] = 0
        return token

    def _write_to_disk(self, seat: str, disk: SeatDisk, effects: Effects) -> None:
        if disk.unstored:
            disk.write(self._stack.new_token(), effects)
            if disk.wants_compacting():
                disk.compact(self._seats[seat].state(), self._stack.new_token(), effects)

    def done(self, outcome: CallOutcome, now_ns: int) -> None:
        """A disk has done something."""
        self._now_ns = now_ns
        for disk in self._disks.values():
            if outcome.token in disk.storing:
                if isinstance(outcome, Loaded):
                    del disk.storing[outcome.token]
                    disk.loaded(outcome.records, self._options, now_ns)
                elif isinstance(outcome, Stored):
                    disk.stored(outcome.token)

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        due = [self._said_ns + self._options.heartbeat_interval_ns]
        due += [link.dial_at_ns for link in self._peers.values() if not link.id]
        due += [log.deadline_ns() for log in self._logs.values()]
        due += [sequencer.deadline_ns() for sequencer in self._seats.values()]
        return min(due)

    def tick(self, effects: Effects, now_ns: int) -> None:
        self._now_ns = now_ns
        for log in self._logs.values():
            if log.deadline_ns() <= now_ns:
                self._prepare(log)
                log.tick(now_ns)
        for sequencer in list(self._seats.values()):
            sequencer.tick(sequencer.effects, now_ns)
        if now_ns >= self._said_ns + self._options.heartbeat_interval_ns:
            self._said_ns = now_ns
            for link in self._peers.values():
                if link.is_open:
                    link.out += self._led_frame()

    def close(self, effects: Effects) -> None:
        for link in (*self._client_seats, *self._incoming, *self._strangers):
            effects.call(Hang(link))
        for peer in self._peers.values():
            if peer.id:
                effects.call(Hang(peer.id))

    def statistics(self) -> dict[str, int]:
        led = [sequencer.statistics() for sequencer in self._seats.values()]
        return {name: sum([one[name] for one in led]) for name in ("groups", "clients", "history_bytes")}
