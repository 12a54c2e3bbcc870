"""The voters of one seat on a table: their logs alone, links that break and lose suffixes, lives that end.

With disks, all voters may end at once, by a kill or by a power loss: what was told must still be there.

Whoever leads appends records that are told apart, and tells them when its log allows it. Whatever was told must be in
the state of each later leader, and nobody may tell anything in an earlier term after somebody has told in a later one.
"""

from random import Random

from antiphon.kernel.calls import Store, Trim
from antiphon.kernel.effects import Effects
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.simulator.churn_draw import FAST
from antiphon.simulator.disk import SimulatedDisk
from antiphon.stacks.sequencer.seat_disk import SeatDisk
from antiphon.stacks.sequencer.seat_log import SeatLog
from antiphon.stacks.sequencer.seat_state import SeatState, taken_record
from antiphon.stacks.sequencer.seat_voter import LEADER, RECOVERED, RECOVERING, VOTE, WHOLE
from antiphon.stacks.sequencer.wire import frame, u64

STEP_NS = 5 * MILLISECOND_NS
COMPACT_BYTES = 3_000
FOUNDED_NS = 100 * STEP_NS
"""Seats are founded by then: before that more than k voters must not end (seat_disk.py, Live)."""


class SeatTable:
    """2k + 1 voters; `problem` is what went wrong, or ""."""

    def __init__(self, seed: int, replicas: int, options: Options = FAST, is_durable: bool = False) -> None:
        self.random = Random(f"{seed}/seat")
        self.options = options
        self.replicas = replicas
        self.names = [f"v{number}" for number in range(2 * replicas + 1)]
        self.now_ns = 0
        self.lives = dict.fromkeys(self.names, 0)
        self.logs: dict[str, SeatLog] = {}
        self.states: dict[str, SeatState] = {}
        """Of leaders: what their sequencers hold."""
        self.links: dict[tuple[str, str], list[bytes]] = {}
        """What is under way, by sender and receiver; a link that is not here is down."""
        self.severed: set[tuple[str, str]] = set()
        self.waiting: dict[str, list[tuple[int, int]]] = {}
        """Of leaders: index and record that wait to be told."""
        self.told: list[int] = []
        self.terms_told = 0
        self.records = 0
        self.elections = 0
        self.blackouts = 0
        self.problem = ""
        self.disks = {name: SimulatedDisk() for name in self.names} if is_durable else {}
        self.stores: dict[str, list[tuple[int, int]]] = {name: [] for name in self.names}
        """Writes that are not synced: token of the `Store`, number of the write."""
        self.writes = 0
        for name in self.names:
            self.start(name)

    # ---- lives and links -------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        self.lives[name] += 1
        disk = SeatDisk("seat", COMPACT_BYTES) if self.disks else None
        log = SeatLog("v0", name, self.names, self.lives[name], self.options, self.now_ns, disk)
        self.logs[name] = log
        if disk is not None:
            log.restore(disk.loaded(self.disks[name].read("seat"), self.options), self.now_ns)

    def crash(self, name: str, is_power_loss: bool = False) -> None:
        self.stores[name] = []
        if is_power_loss and self.disks:
            self.disks[name].lose_power()
        for pair in [pair for pair in self.links if name in pair]:
            self.break_link(pair)
        del self.logs[name]
        self.states.pop(name, None)
        self.waiting.pop(name, None)

    def break_link(self, pair: tuple[str, str]) -> None:
        """What is under way is lost; both ends notice."""
        self.links.pop(pair, None)
        for name, other in (pair, pair[::-1]):
            if name in self.logs:
                self.logs[name].unlinked(other, self.now_ns)
                if self.logs[name].role == LEADER and (name, other) in self.links:
                    self.logs[name].linked(other, 0, self.now_ns)

    def _open_links(self) -> None:
        for name in self.logs:
            for other in self.logs:
                if name != other and (name, other) not in self.links and (name, other) not in self.severed:
                    self.links[name, other] = []
                    self.logs[name].linked(other, self.lives[other], self.now_ns)

    # ---- steps -----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """A moment passes: some of what is under way arrives, in the order of each link."""
        self.now_ns += STEP_NS
        self._open_links()
        for name in list(self.logs):
            if self.logs[name].deadline_ns() <= self.now_ns:
                self._before(name)
                self.logs[name].tick(self.now_ns)
            self._follow(name)
            if self.stores[name] and self.random.random() < 0.6:
                self._sync(name)
        for pair in list(self.links):
            frames = self.links.get(pair)
            if frames and self.random.random() < 0.7:
                count = self.random.randint(1, len(frames))
                arriving, self.links[pair] = frames[:count], frames[count:]
                for data in arriving:
                    self._arrive(pair[1], pair[0], data)

    def _arrive(self, name: str, sender: str, data: bytes) -> None:
        log = self.logs[name]
        self._before(name)
        if log.receive(sender, self.lives[sender], data, self.now_ns):
            log.send_whole(sender, self.states[name].records())
        self._follow(name)

    def _before(self, name: str) -> None:
        if name in self.states:
            self.logs[name].state = self.states[name]

    def _follow(self, name: str) -> None:
        """Do what a process does with its log after each step."""
        log = self.logs[name]
        if log.role == LEADER and name not in self.states:
            self._lead(name, log)
        elif log.role != LEADER and name in self.states:
            del self.states[name], self.waiting[name]
        if log.role == LEADER and self.random.random() < 0.2:
            self.records += 1
            record = taken_record(f"r{self.records}", log.term)
            self.states[name].apply(record)
            log.append([record])
            self.waiting[name].append((log.index, self.records))
        if log.disk is not None:
            self._write(name, log, log.disk)
        waiting = self.waiting.get(name, [])
        while waiting and waiting[0][0] <= log.commit:
            if log.term < self.terms_told:
                self.problem = self.problem or f"{name} tells in term {log.term}, after term {self.terms_told}"
            self.terms_told = log.term
            self.told.append(waiting.pop(0)[1])
        for other, data in log.outbox:
            if (name, other) in self.links:
                self.links[name, other].append(data)
        log.outbox = []

    def _write(self, name: str, log: SeatLog, disk: SeatDisk) -> None:
        effects = Effects()
        disk.trim(effects)
        if disk.has_unstored():
            if disk.wants_compacting():
                log.compact(self.states.get(name, log.state))
            self.writes += 1
            disk.write(self.writes, log.index, effects)
        for call in effects.calls or []:
            if isinstance(call, Store):
                self.stores[name].append((call.token, self.disks[name].write(call.log, call.records)))
            elif isinstance(call, Trim):
                self.disks[name].trim(call.log, call.count)
        log.release_promises()

    def _sync(self, name: str) -> None:
        """The disk has made what was written first safe."""
        token, write = self.stores[name].pop(0)
        self.disks[name].sync(write)
        log = self.logs[name]
        assert log.disk is not None
        log.disk.stored(token)
        log.stored()
        self._follow(name)

    def _lead(self, name: str, log: SeatLog) -> None:
        self.elections += 1
        self.states[name] = log.state
        self.waiting[name] = []
        lost = [record for record in self.told if f"r{record}" not in log.state.taken]
        if lost:
            self.problem = self.problem or f"{name} leads in term {log.term} without {lost[:3]}, which were told"
        for other in self.logs:
            if (name, other) in self.links:
                log.linked(other, 0, self.now_ns)
        log.append([])


def run_table(seed: int, replicas: int, steps: int = 1500, is_durable: bool = False) -> SeatTable:
    """A random run: links break, some for long and in one direction; up to k voters at a time are down, or recover.
    With disks any number is."""
    table = SeatTable(seed, replicas, is_durable=is_durable)
    for step in range(steps):
        if step < steps - 400:
            _disturb(table, table.random)
        else:
            table.severed.clear()
            for name in table.names:
                if name not in table.logs:
                    table.start(name)
        table.step()
        if table.problem:
            return table
    leaders = [name for name, log in table.logs.items() if log.role == LEADER]
    if len(leaders) != 1 or any(log.role == RECOVERING for log in table.logs.values()):
        table.problem = f"after all is well again, {leaders} lead"
    return table


def _disturb(table: SeatTable, random: Random) -> None:
    chance = random.random()
    names = table.names
    if table.disks and table.now_ns > FOUNDED_NS:
        if random.random() < 0.01:
            table.blackouts += 1
            for name in list(table.logs):
                table.crash(name, is_power_loss=True)
        elif random.random() < 0.003:
            for name in random.sample(list(table.logs), len(table.logs) // 2):
                table.crash(name, is_power_loss=random.random() < 0.5)
    if chance < 0.006:
        weak = [name for name in names if name not in table.logs or table.logs[name].role == RECOVERING]
        whole = [name for name in table.logs if name not in weak]
        if len(weak) < table.replicas and whole:
            leader = [name for name in whole if table.logs[name].role == LEADER]
            table.crash(leader[0] if leader and random.random() < 0.6 else random.choice(whole))
    elif chance < 0.02:
        down = [name for name in names if name not in table.logs]
        if down:
            table.start(random.choice(down))
    elif chance < 0.03 and table.links:
        table.break_link(random.choice(list(table.links)))
    elif chance < 0.034:
        room = random.sample(names, random.randint(1, len(names) - 1))
        pairs = [(name, other) for name in names for other in names if (name in room) != (other in room)]
        share = random.choice((1.0, 0.5))
        table.severed = {pair for pair in pairs if random.random() < share}
        for pair in list(table.links):
            if pair in table.severed:
                table.break_link(pair)
    elif chance < 0.045:
        table.severed.clear()


def two_votes_problem() -> str:
    """Two candidates ask the same voter for its vote in one term."""
    voter = SeatLog("a", "a", ["a", "b", "c"], 1, FAST, 0)
    voter._found({"a": 1, "b": 1, "c": 1}, 0)
    for candidate in ("b", "c"):
        voter.receive(candidate, 1, frame(VOTE, u64(2), b"\0", u64(0), u64(0)), 0)
    granted = [data[10] for _, data in voter.outbox]
    return "" if granted == [1, 0] else f"votes of one term: {granted}"


def hasty_recovery_problem() -> str:
    """One of three voters has forgotten everything and has heard one of the others, which sends it a state, as a leader
    of an earlier term perhaps."""
    voter = SeatLog("a", "a", ["a", "b", "c"], 2, FAST, 0)
    told = frame(RECOVERED, u64(1), b"\0", b"\0", u64(0), u64(0))
    voter.receive("b", 1, told, 0)
    voter.receive("b", 1, frame(WHOLE, u64(1), u64(1), u64(9), u64(1), u64(0)), 0)
    return "" if voter.role == RECOVERING else "acknowledges what a leader of an earlier term may have sent"
