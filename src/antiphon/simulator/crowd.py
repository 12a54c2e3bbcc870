"""A crowd: processes that come and go. A world whose membership changes, in virtual time.

Each *place* has a name and, at any time, at most one life: an engine with its incarnation and its log. Lives begin as
founders, in the first view, or by asking everybody for a way in; they end by a crash, by leaving, or by being
excluded, and the place may begin another one. Packets for a life that is over are lost.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Final, final

from antiphon.engine import Engine
from antiphon.faults import Fault, fly
from antiphon.history.log import Log
from antiphon.history.schema import LEAVES, QUIET
from antiphon.kernel.effects import NEVER, Delivered, Effects, Ended, Event, Installed, Stalled
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Leave, Receive, Send, Tick
from antiphon.kernel.options import Options
from antiphon.simulator.recording import record
from antiphon.stacks.vector.rounds import is_quorum
from antiphon.stacks.vector.stack import PRIMARY

_ARRIVE: Final = 0
_TICK: Final = 1
_SAY: Final = 2
_CRASH: Final = 3
_START: Final = 4
_LEAVE: Final = 5

_TICKS_MAX: Final = 10
"""An engine that wants more ticks than this at one point in time runs in circles."""
_BACK_NS: Final = 300_000_000
"""An excluded process is back, in its next life, after this long."""


@final
class Life:
    """One incarnation of one place."""

    __slots__ = ("deadline_ns", "ended", "engine", "log", "process", "tick_at_ns", "ticked_ns", "ticks_now", "view")

    def __init__(self, process: ProcessId, engine: Engine, log: Log) -> None:
        self.process = process
        self.engine = engine
        self.log = log
        self.view = View(0, ())
        self.ended = False
        self.deadline_ns = NEVER
        self.tick_at_ns = NEVER
        self.ticked_ns = -1
        self.ticks_now = 0


@final
class Crowd:
    """One group through all its views."""

    def __init__(
        self,
        group: str,
        names: list[str],
        founders: int,
        seed: int,
        layers: list[Fault],
        options: Options,
        make_log: Callable[[str, int], Log],
    ) -> None:
        self.group = group
        self.names = names
        self.now_ns = 0
        self.views = 0
        self.stalls = 0
        self.delivered = 0
        self.logs: list[Log] = []
        self._make_log = make_log
        self._seed = seed
        self._layers = layers
        self._options = options
        self._random = Random(f"{seed}/network")
        self._heap: list[tuple[int, int, int, int, int, bytes]] = []
        self._serial = 0
        self._lives: list[Life | None] = [None] * len(names)
        self._incarnations = [0] * len(names)
        self._asleep: list[list[tuple[int, int]]] = [[] for _ in names]
        founding = tuple(ProcessId(name) for name in names[:founders])
        self._first_view = View(1, founding, tuple(names[:founders]))
        for place in range(founders):
            self._begin(place)

    # ---- plans -----------------------------------------------------------------------------------------------------

    def plan_say(self, at_ns: int, place: int, level: int, payload: bytes) -> None:
        """Whoever lives there then multicasts."""
        self._push(at_ns, place, _SAY, level, payload)

    def plan_crash(self, at_ns: int, place: int) -> None:
        self._push(at_ns, place, _CRASH, 0, b"")

    def plan_start(self, at_ns: int, place: int) -> None:
        """A new life begins there, unless there is one."""
        self._push(at_ns, place, _START, 0, b"")

    def plan_leave(self, at_ns: int, place: int) -> None:
        self._push(at_ns, place, _LEAVE, 0, b"")

    def pause(self, place: int, from_ns: int, until_ns: int) -> None:
        """Whoever lives there stands still for a while."""
        self._asleep[place].append((from_ns, until_ns))

    # ---- the run ---------------------------------------------------------------------------------------------------

    def run_through(self, until_ns: int) -> None:
        while self._heap and self._heap[0][0] <= until_ns:
            self._next()
        self.now_ns = max(self.now_ns, until_ns)

    def run(self, until_ns: int) -> None:
        """Go on until it is quiet, or until this time."""
        while self._heap and self._heap[0][0] <= until_ns and not self.is_quiet():
            self._next()

    def is_quiet(self) -> bool:
        """Whether all that live are in one view, of just them, and all that was sent is stable."""
        lives = [life for life in self._lives if life is not None]
        if not lives or any(kind in (_SAY, _CRASH, _START, _LEAVE) for _, _, _, kind, _, _ in self._heap):
            return False
        for life in lives:
            if life.view.id != lives[0].view.id or len(life.view.members) != len(lives):
                return False
        return all(life.engine.outstanding(self.group) == 0 for life in lives)

    def has_lost_majority(self) -> bool:
        """Whether so many members of the last view are gone that no view can follow it."""
        last = max((life.view for life in self._lives if life is not None), key=lambda view: view.id)
        living = {life.process for life in self._lives if life is not None}
        alive = {rank for rank, member in enumerate(last.members) if member in living}
        return not is_quorum(alive, len(last.members))

    def end(self) -> None:
        """The run is over; whoever lives has had the time to get all it is owed."""
        for life in self._lives:
            if life is not None:
                life.log.stop(self.now_ns, QUIET)

    def _next(self) -> None:
        at_ns, _, place, kind, number, data = heappop(self._heap)
        for from_ns, until_ns in self._asleep[place]:
            if from_ns <= at_ns < until_ns and kind in (_ARRIVE, _TICK, _SAY, _LEAVE):
                self._push(until_ns, place, kind, number, data)
                return
        self.now_ns = at_ns
        life = self._lives[place]
        if kind == _START:
            if life is None:
                self._begin(place)
        elif life is None:
            return
        elif kind == _ARRIVE:
            self._step(place, life, Receive([data]))
        elif kind == _TICK:
            if number == life.process.incarnation:
                life.tick_at_ns = NEVER
                if life.deadline_ns <= at_ns:
                    life.ticks_now = life.ticks_now + 1 if at_ns == life.ticked_ns else 1
                    life.ticked_ns = at_ns
                    assert life.ticks_now < _TICKS_MAX, f"the ticks of {life.process} do not get anywhere"
                    self._step(place, life, Tick())
                else:
                    self._arm(place, life)
        elif kind == _SAY:
            if life.view.members:
                self._step(place, life, Send(group=self.group, payloads=[data], level=number))
        elif kind == _CRASH:
            life.log.crash(at_ns, "killed")
            self._lives[place] = None
        elif life.view.members:
            life.log.note(at_ns, LEAVES)
            self._step(place, life, Leave(self.group))

    def _begin(self, place: int) -> None:
        self._incarnations[place] += 1
        process = ProcessId(self.names[place], self._incarnations[place])
        engine = Engine(process, Random(f"{self._seed}/{process}"), self._options)
        log = self._make_log(process.name, process.incarnation)
        self.logs.append(log)
        life = Life(process, engine, log)
        self._lives[place] = life
        name = self.names[place]
        if process in self._first_view.members:
            join = Join(group=self.group, view=self._first_view, policy=PRIMARY, address=name)
        else:
            log.note(self.now_ns, "asks to join")
            contacts = tuple(other for other in self.names if other != name)
            join = Join(group=self.group, contacts=contacts, policy=PRIMARY, address=name)
        self._step(place, life, join)

    def _step(self, place: int, life: Life, input: Input) -> None:
        effects = life.engine.step(input, self.now_ns)
        for event in effects.events:
            self._observe(place, life, event)
        if life.ended:
            self._lives[place] = None
            return
        self._transmit(place, life, effects)
        life.deadline_ns = effects.deadline_ns
        self._arm(place, life)

    def _observe(self, place: int, life: Life, event: Event) -> None:
        record(life.log, self.now_ns, event, PRIMARY)
        if isinstance(event, Delivered):
            self.delivered += len(event.payloads)
        elif isinstance(event, Installed):
            life.view = event.view
            self.views += 1
        elif isinstance(event, Stalled):
            self.stalls += 1
        elif isinstance(event, Ended):
            life.ended = True
            if event.excluded:
                self._push(self.now_ns + _BACK_NS, place, _START, 0, b"")

    def _transmit(self, place: int, life: Life, effects: Effects) -> None:
        for transmit in effects.transmits:
            if transmit.address is not None:
                targets = [transmit.address]
            elif transmit.destination is not None:
                targets = [transmit.destination.name]
            else:
                targets = [member.name for member in life.view.members if member != life.process]
            for packet in transmit.packets:
                for target in targets:
                    flights = fly(self._layers, self._random, self.now_ns, self.names[place], target, packet)
                    for delay_ns, data in flights:
                        self._push(self.now_ns + delay_ns, self.names.index(target), _ARRIVE, 0, data)

    def _arm(self, place: int, life: Life) -> None:
        deadline_ns = max(life.deadline_ns, self.now_ns)
        if deadline_ns < life.tick_at_ns:
            life.tick_at_ns = deadline_ns
            self._push(deadline_ns, place, _TICK, life.process.incarnation, b"")

    def _push(self, at_ns: int, place: int, kind: int, number: int, data: bytes) -> None:
        self._serial += 1
        heappush(self._heap, (at_ns, self._serial, place, kind, number, data))
