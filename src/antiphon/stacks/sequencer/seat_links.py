"""The links of a process that hosts seats: to other processes, to clients, and the ways between seats that run over
them. seat_host.py has the theory."""

from typing import Final, final

from antiphon.kernel.calls import Frames
from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.client_sessions import CLIENTS_MAX
from antiphon.stacks.sequencer.mesh_state import PeerLink
from antiphon.stacks.sequencer.seat_disk import SeatDisk
from antiphon.stacks.sequencer.seat_log import SeatLog
from antiphon.stacks.sequencer.seat_sequencer import SeatSequencer, seat_identity
from antiphon.stacks.sequencer.seat_voter import LEADER
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


class SeatLinks(ServicePeer):
    """Whom a process that hosts seats is linked with."""

    __slots__ = (
        "_accepted",
        "_address",
        "_addresses",
        "_client_seats",
        "_hangs",
        "_incoming",
        "_leaders",
        "_life",
        "_logs",
        "_now_ns",
        "_options",
        "_seats",
        "_strangers",
        "_way_count",
        "_ways",
    )

    def __init__(
        self,
        process: ProcessId,
        options: Options,
        address: str,
        peers: list[str],
        replicas: int,
        is_durable: bool,
        now_ns: int,
    ) -> None:
        super().__init__()
        self._options = options
        self._address = address
        self._addresses = sorted({address, *peers})
        self._life = process.incarnation
        self._now_ns = now_ns
        self._links = {other: PeerLink(other, now_ns) for other in self._addresses if other != address}
        self._incoming: dict[int, HostLink] = {}
        self._strangers: dict[int, ProcessId] = {}
        self._client_seats: dict[int, str] = {}
        self._leaders = SeatLeaders(address)
        self._logs: dict[str, SeatLog] = {}
        for place, seat in enumerate(self._addresses):
            ring = self._addresses[place:] + self._addresses[:place]
            voters = ring[: 2 * replicas + 1]
            if address in voters:
                disk = SeatDisk(f"seat {seat}") if is_durable else None
                self._logs[seat] = SeatLog(seat, address, voters, self._life, options, now_ns, disk)
        self._seats: dict[str, SeatSequencer] = {}
        self._ways: dict[int, SeatWay] = {}
        self._accepted: dict[tuple[str, int], int] = {}
        """Ids of ways at this end, by the process that dialled and its id."""
        self._way_count = _WAY
        self._hangs: list[int] = []
        """Links of clients to be closed at the end of the step."""

    def _prepare(self, log: SeatLog) -> None:
        """Something may happen to a log, the end of its leadership perhaps: it has all entries, and the state."""
        raise NotImplementedError

    # ---- links -----------------------------------------------------------------------------------------------------

    def link_up(self, link: int, process: ProcessId) -> None:
        if len(self._strangers) + len(self._client_seats) < CLIENTS_MAX:
            self._strangers[link] = process
        else:
            self._hangs.append(link)

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
        if not self._links[address].is_open:
            self._leaders.reached.discard(address)
        for log in self._logs.values():
            log.unlinked(address, self._now_ns)
            if self._links[address].is_open and log.role == LEADER:
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
                if address in self._links:
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
        link = self._links[address]
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
