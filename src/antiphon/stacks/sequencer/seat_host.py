"""A process that hosts seats: it votes in their logs, runs the sequencers of those that it leads, and passes frames
on.

With `replicas` = k there is one seat for each peer, and each seat has 2k + 1 voters (seat_log.py). In quiet times
every peer leads its own seat; when a peer fails, others lead its seat, too, and clients go there.

Links. Processes dial each other; each sends by the link that it has dialled. Clients dial any process: one that was
told to go to a seat names it; others get the seat that knows them, or one that is led here, or are told where a leader
is.

Telling. What a step of a sequencer wants done waits in `_pending`, in order, until the log says that the step's entry
may be told; so do frames for other seats that are led by this same process.

A seat whose leader steps down lets go of its clients: they come again, here or elsewhere, and find the next leader.

For operators. A process announces (kernel/effects.py) when it is up to date in a seat that it votes in, and when it is
so in all of them (SEAT_CAUGHT_UP, PEER_CAUGHT_UP): after a restart, that is when another peer may be stopped. It also
announces that it is not any more (SEAT_BEHIND), and which seats it leads (SEAT_LED_HERE, SEAT_LET_GO)."""

from collections import deque
from typing import Final, final

from antiphon.kernel.calls import Call, Frames, Hang, Load
from antiphon.kernel.effects import Announced, Effects
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import CallOutcome, Loaded, Stored
from antiphon.stacks.sequencer.offers import OFFERS, PEER
from antiphon.stacks.sequencer.plan import PlaceGroups
from antiphon.stacks.sequencer.seat_disk import SeatDisk
from antiphon.stacks.sequencer.seat_links import SeatLinks
from antiphon.stacks.sequencer.seat_log import SeatLog
from antiphon.stacks.sequencer.seat_sequencer import SeatSequencer
from antiphon.stacks.sequencer.seat_voter import LEADER
from antiphon.stacks.sequencer.wire import SEAT_LOG, frame, text
from antiphon.stacks.stack import Stack

_ROLE: Final = f"{OFFERS.name}/{PEER}"
SEAT_CAUGHT_UP: Final = "seat-caught-up"
SEAT_BEHIND: Final = "seat-behind"
SEAT_LED_HERE: Final = "seat-led"
SEAT_LET_GO: Final = "seat-let-go"
PEER_CAUGHT_UP: Final = "peer-caught-up"
"""Names of what is announced: scripts may look for them."""


@final
class SeatHost(SeatLinks):
    """All seats at one process."""

    __slots__ = ("_current", "_loads", "_pending", "_said_ns", "_stack")

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
        super().__init__(process, options, address, peers, replicas, is_durable, now_ns)
        self._stack = stack
        self._loads: dict[int, SeatLog] = {}
        """Logs that are being read from disk, by token."""
        self._current: dict[str, bool] = {}
        """By seat: whether it was announced that this process is up to date there."""
        self._pending: dict[str, deque[tuple[int, list[Call]]]] = {}
        self._said_ns = now_ns

    # ---- seats -----------------------------------------------------------------------------------------------------

    def _lead(self, log: SeatLog, effects: Effects) -> None:
        """This process leads a seat from here on."""
        self.counts[7] += 1
        seat = log.seat
        self._say(effects, SEAT_LED_HERE, f"leads seat {seat} in term {log.term}")
        self._seats[seat] = SeatSequencer(
            seat, self._addresses, self._options, self._leaders, log.state, log.term, log.replicas, self._now_ns,
            self.counts,
        )  # fmt: skip
        self._pending[seat] = deque()
        for address, link in self._links.items():
            if link.is_open:
                log.linked(address, 0, self._now_ns)
                link.out += self._led_frame()
        log.append([])
        self._note_own()

    def _note_own(self) -> None:
        self._note_led(self._address, {seat: self._logs[seat].term for seat in self._seats})

    def _depose(self, seat: str, effects: Effects) -> None:
        """Another process may lead it: let go of its clients."""
        self.counts[8] += 1
        self._say(effects, SEAT_LET_GO, f"leads seat {seat} no more")
        for way in [way for way in self._ways.values() if way.seat == seat]:
            self._close_way(way, is_told=True)
        del self._seats[seat]
        del self._pending[seat]
        for link in [link for link, served in self._client_seats.items() if served == seat]:
            del self._client_seats[link]
            self._hangs.append(link)
        for peer in self._links.values():
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
            log.append(records)

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
            self._depose(seat, effects)
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
                    self._lead(log, effects)
                    is_busy = True
        for seat, log in self._logs.items():
            if log.disk is not None:
                self._write_to_disk(log, log.disk, effects)
            for address, data in log.outbox:
                self._send(address, frame(SEAT_LOG, text(seat), data))
            log.outbox = []
        for link in self._links.values():
            if link.is_open and link.out:
                effects.call(Frames(link.id, link.out))
                link.out = []
        for id in self._hangs:
            effects.call(Hang(id))
        self._hangs = []

    def place_groups(self, input: PlaceGroups) -> None:
        """Begin to move groups of the seats that are led here. The address is that of another seat."""
        if input.address not in self._addresses:
            raise UsageError(f"there is no peer at {input.address}; choose one of: {', '.join(self._addresses)}")
        for sequencer in self._seats.values():
            sequencer.place_groups(input)

    # ---- disk ------------------------------------------------------------------------------------------------------

    def open(self, effects: Effects) -> None:
        """Read what this process has on disk of the logs that it votes in."""
        for log in self._logs.values():
            if log.disk is not None:
                token = self._stack.new_token()
                self._loads[token] = log
                effects.call(Load(log.disk.name, token))

    def _write_to_disk(self, log: SeatLog, disk: SeatDisk, effects: Effects) -> None:
        disk.trim(effects)
        if disk.has_unstored():
            if disk.wants_compacting():
                sequencer = self._seats.get(log.seat)
                log.compact(log.state if sequencer is None else sequencer.state())
            disk.write(self._stack.new_token(), log.index, effects)
        log.release_promises()

    def done(self, outcome: CallOutcome, now_ns: int) -> None:
        """A disk has done something."""
        self._now_ns = now_ns
        if isinstance(outcome, Loaded):
            log = self._loads.pop(outcome.token, None)
            if log is not None and log.disk is not None:
                log.restore(log.disk.loaded(outcome.records, self._options), now_ns)
        elif isinstance(outcome, Stored):
            for log in self._logs.values():
                if log.disk is not None and log.disk.stored(outcome.token):
                    log.stored()

    # ---- time ------------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        due = [self._said_ns + self._options.heartbeat_interval_ns]
        due += [link.dial_at_ns for link in self._links.values() if not link.id]
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
            self._announce(effects)
            for link in self._links.values():
                if link.is_open:
                    link.out += self._led_frame()

    def _announce(self, effects: Effects) -> None:
        """Tell operators in which seats this process has caught up, or is behind again."""
        was_all = all(self._current.get(seat, False) for seat in self._logs)
        for seat, log in self._logs.items():
            is_current = log.is_current()
            if is_current != self._current.get(seat, False):
                self._current[seat] = is_current
                if is_current:
                    how = "leads it" if log.role == LEADER else f"follows {log.leader}"
                    self._say(effects, SEAT_CAUGHT_UP, f"holds all of seat {seat}, and {how}")
                else:
                    self._say(effects, SEAT_BEHIND, f"may lack something of seat {seat}, or nobody leads it")
        if not was_all and all(self._current.get(seat, False) for seat in self._logs):
            self._say(effects, PEER_CAUGHT_UP, f"holds all of the {len(self._logs)} seats that it votes in")

    def _say(self, effects: Effects, name: str, words: str) -> None:
        effects.events.append(Announced(_ROLE, name, words))

    def close(self, effects: Effects) -> None:
        for link in (*self._client_seats, *self._incoming, *self._strangers):
            effects.call(Hang(link))
        for peer in self._links.values():
            if peer.id:
                effects.call(Hang(peer.id))

    def statistics(self) -> dict[str, int]:
        led = [sequencer.statistics() for sequencer in self._seats.values()]
        return {name: sum([one[name] for one in led]) for name in ("groups", "clients", "history_bytes")}
