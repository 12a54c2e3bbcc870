"""A churn: processes in many groups that come and go, in virtual time.

Each *place* has a name, belongs to some of the groups, and has at any time at most one life: one engine for all its
groups, with its incarnation and its log. A life is a founder of some groups, in their first view, and asks the other
places of the rest for a way in. It ends

  by a crash         in all its groups at once;
  by an ambush       a crash in the middle of a step, where it hurts: after the first packets of a change of view;
  by being excluded  from any of its groups: for the others that is a crash;
  by leaving         the last group that it was in; leaving one of several is a note in its log.

After an ambush or an exclusion the place begins another life soon, after the others when that is planned.

Packets for a life that is over are lost, and so is what one step of it had yet to transmit when it ended. What is
planned for a place concerns whoever lives there then, and is nothing where nobody does, or nobody in that group.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Final, final

from antiphon.engine import Engine
from antiphon.faults import Fault, fly
from antiphon.history.log import Log
from antiphon.history.schema import LEAVES, LEFT, QUIET
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import NEVER, BarrierReached, Delivered, Ended, Event, Installed, MajorityLost, Suspected
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import MAIN, Input, Join, Leave, Pause, Receive, Resume, Send, SendBarrier, Tick
from antiphon.kernel.levels import LEVEL_NAMES, SAFE
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import MEMBERSHIP
from antiphon.kernel.policies import PRIMARY
from antiphon.parts.membership.agreement import JOINING
from antiphon.parts.membership.rounds import is_quorum
from antiphon.simulator.coverage import Coverage
from antiphon.simulator.recording import record
from antiphon.stacks.registry import DEFAULT

_ARRIVE: Final = 0
_TICK: Final = 1
_ACT: Final = 2
_CRASH: Final = 3
_START: Final = 4

_TICKS_MAX: Final = 10
"""An engine that wants more ticks than this at one point in time runs in circles."""
_BACK_NS: Final = 300 * MILLISECOND_NS
"""An excluded process is back, in its next life, after this long."""
_LOOK_NS: Final = 50 * MILLISECOND_NS
"""How often it is looked whether the churn has come to rest."""

_HOPE_NS: Final = 5_000 * MILLISECOND_NS
"""How long the groups that are held up by one without a majority are given…"""
_LULL_SILENCES: Final = 4
"""…or until nothing has happened to anybody for so many times the silence after which a member is doubted."""

NO_VIEW: Final = View(0, ())


@final
class Charter:
    """One group: its name, the places that belong to it, and those of them that found it."""

    __slots__ = ("founders", "name", "places")

    def __init__(self, name: str, places: list[int], founders: list[int]) -> None:
        self.name = name
        self.places = places
        self.founders = founders


@final
class CrashTrigger:
    """From `from_ns` on, whoever sends the `countdown`-th membership packet of `kind` in `group` dies of it, unless
    a group would lose its majority by that. This packet still flies, the rest of the step does not. With `both`, the
    one it was for dies too, when it has taken it in: what it told the two of them, nobody else may ever know."""

    __slots__ = ("both", "countdown", "from_ns", "group_id", "kind")

    def __init__(self, group: str, kind: int, from_ns: int, countdown: int, both: bool = False) -> None:
        self.group_id = wire_id(group)
        self.kind = kind
        self.from_ns = from_ns
        self.countdown = countdown
        self.both = both


@final
class Act:
    """What an application does, and, if it is a message to one member, the place that it is for."""

    __slots__ = ("input", "to")

    def __init__(self, input: Send | SendBarrier | Leave | Pause | Resume, to: int = -1) -> None:
        self.input = input
        self.to = to


@final
class Incarnation:
    """One incarnation of one place."""

    __slots__ = (
        "deadline_ns",
        "ended",
        "engine",
        "log",
        "others",
        "phases",
        "place",
        "process",
        "tick_at_ns",
        "ticked_ns",
        "ticks_now",
        "views",
    )

    def __init__(self, place: int, process: ProcessId, engine: Engine, log: Log) -> None:
        self.place = place
        self.process = process
        self.engine = engine
        self.log = log
        self.views: dict[str, View] = {}
        """The view of each group that it is in; NO_VIEW where it is not yet let in."""
        self.others: dict[str, list[int]] = {}
        """The places of the other members."""
        self.phases: dict[str, int] = {}
        """The phase that its membership of each group was last seen in."""
        self.ended = False
        self.deadline_ns = NEVER
        self.tick_at_ns = NEVER
        self.ticked_ns = -1
        self.ticks_now = 0


@final
class ChurnWorld:
    """All groups through all their views."""

    def __init__(
        self,
        names: list[str],
        charters: list[Charter],
        seed: int,
        layers: list[Fault],
        options: Options,
        make_log: Callable[[str, int], Log],
        domain: CausalityDomain = MAIN,
        stack: str = DEFAULT,
    ) -> None:
        self.stack = stack
        self.names = names
        self.charters = charters
        self.now_ns = 0
        self.views = 0
        self.stalls = 0
        self.crashes = 0
        self.exclusions = 0
        self.barriers = 0
        self.private = 0
        self.delivered = [0] * len(LEVEL_NAMES)
        """By level."""
        self.coverage = Coverage()
        self.logs: list[Log] = []
        self._make_log = make_log
        self._seed = seed
        self._layers = layers
        self._options = options
        self.domain = domain
        self._random = Random(f"{seed}/network")
        self._heap: list[tuple[int, int, int, int, int, bytes]] = []
        self._serial = 0
        self._acts: list[Act] = []
        self._plans_left = 0
        self._stirred_ns = 0
        """When something last happened to anybody."""
        self._crash_triggers: list[CrashTrigger] = []
        self._lives: list[Incarnation | None] = [None] * len(names)
        self._incarnations = [0] * len(names)
        self._asleep: list[list[tuple[int, int]]] = [[] for _ in names]
        self._place = {name: place for place, name in enumerate(names)}
        self._first_views: dict[str, View] = {}
        self._left: set[tuple[str, ProcessId]] = set()
        self._ended: set[str] = set()
        self._last_views: dict[str, View] = {}
        for charter in charters:
            founding = [names[place] for place in charter.founders]
            self._first_views[charter.name] = View(1, tuple(ProcessId(name) for name in founding), tuple(founding))
            self._last_views[charter.name] = self._first_views[charter.name]
        for place in range(len(names)):
            if any(place in charter.founders for charter in charters):
                self._begin(place)

    # ---- plans -----------------------------------------------------------------------------------------------------

    def plan_say(self, at_ns: int, place: int, level: int, payload: bytes, group: int = 0, to: int = -1) -> None:
        """Multicast to one of the groups, or send to whoever lives at the place `to`, if it is in the same view."""
        say = Send(group=self.charters[group].name, payloads=[payload], level=level)
        self._plan(at_ns, place, Act(say, to))

    def plan_barrier(self, at_ns: int, place: int, payload: bytes, group: int = 0) -> None:
        self._plan(at_ns, place, Act(SendBarrier(group=self.charters[group].name, payload=payload)))

    def plan_leave(self, at_ns: int, place: int, group: int = 0) -> None:
        self._plan(at_ns, place, Act(Leave(self.charters[group].name)))

    def plan_crash(self, at_ns: int, place: int) -> None:
        self._push_plan(at_ns, place, _CRASH, 0)

    def plan_accident(self, at_ns: int, place: int) -> None:
        """A crash, unless one of its groups would lose its majority by it."""
        self._push_plan(at_ns, place, _CRASH, 1)

    def plan_crash_trigger(self, crash_trigger: CrashTrigger) -> None:
        self._crash_triggers.append(crash_trigger)

    def plan_start(self, at_ns: int, place: int) -> None:
        """A new life begins there, unless there is one."""
        self._push_plan(at_ns, place, _START, 0)

    def pause(self, place: int, from_ns: int, until_ns: int) -> None:
        """Whoever lives there stands still for a while."""
        self._asleep[place].append((from_ns, until_ns))

    def pause_application(self, place: int, from_ns: int, until_ns: int, group: int = 0) -> None:
        """The application there takes no deliveries of one group for a while."""
        self._plan(from_ns, place, Act(Pause(self.charters[group].name)))
        self._plan(until_ns, place, Act(Resume(self.charters[group].name)))

    def _plan(self, at_ns: int, place: int, act: Act) -> None:
        self._acts.append(act)
        self._push_plan(at_ns, place, _ACT, len(self._acts) - 1)

    def _push_plan(self, at_ns: int, place: int, kind: int, number: int) -> None:
        self._plans_left += 1
        self._push(at_ns, place, kind, number, b"")

    # ---- the run ---------------------------------------------------------------------------------------------------

    def run_through(self, until_ns: int) -> None:
        while self._heap and self._heap[0][0] <= until_ns:
            self._next()
        self.now_ns = max(self.now_ns, until_ns)

    def run(self, until_ns: int) -> None:
        """Go on until every group is at rest or beyond hope, or until this time."""
        hope_ns = until_ns
        while self.now_ns < until_ns:
            restless = [group for group in self.groups() if not self.is_at_rest(group)]
            lost = [group for group in restless if self.has_lost_majority(group)]
            if not self._plans_left and (restless == lost or (self._is_over(hope_ns) and restless == self.excused())):
                return
            if lost and hope_ns == until_ns:
                hope_ns = self.now_ns + _HOPE_NS
            self.run_through(min(self.now_ns + _LOOK_NS, until_ns))

    def _is_over(self, hope_ns: int) -> bool:
        """Whether those that are held up have been given their time, or nothing happens any more."""
        return self.now_ns >= min(hope_ns, self._stirred_ns + _LULL_SILENCES * self._options.silence_ns_min)

    def groups(self) -> list[str]:
        return [charter.name for charter in self.charters]

    def excused(self) -> list[str]:
        """The groups that cannot come to rest: those without a majority and, since causal order waits for them, those
        that are held up by them through places that belong to both."""
        stuck = {charter.name: charter.places for charter in self.charters if not self.is_at_rest(charter.name)}
        excused = [group for group in stuck if self.has_lost_majority(group)]
        for group in excused:  # grows as it goes
            for other, places in stuck.items():
                if other not in excused and any(place in places for place in stuck[group]):
                    excused.append(other)
        return [group for group in stuck if group in excused]

    def is_at_rest(self, group: str) -> bool:
        """Whether all that live in the group are in one view, of just them, and all that was sent there is stable."""
        lives = self._in_group(group)
        for life in lives:
            view = life.views[group]
            if view.id != lives[0].views[group].id or len(view.members) != len(lives):
                return False
        return all(life.engine.outstanding(group) == 0 and life.engine.held(group) == 0 for life in lives)

    def has_lost_majority(self, group: str) -> bool:
        """Whether so many members of the last view are gone that no view can follow it. Who left in good order did so
        by agreement of a majority, and counts as being there: it may not take the majority with it, unless it was the
        last that the others knew of."""
        return group in self._ended or not self._survives(group, None)

    def _survives(self, group: str, without: Incarnation | None) -> bool:
        """Whether the last view of the group, and the last one that anybody alive is in, have a majority alive, also
        without this life."""
        newest = NO_VIEW
        for life in self._in_group(group):
            if life.views[group].id > newest.id:
                newest = life.views[group]
        return all(self._has_majority(group, view, without) for view in (self._last_views[group], newest))

    def _has_majority(self, group: str, view: View, without: Incarnation | None) -> bool:
        alive: set[int] = set()
        for rank, member in enumerate(view.members):
            other = self._lives[self._place[member.name]]
            is_there = other is not None and other is not without and other.process == member and group in other.views
            if is_there or (group, member) in self._left:
                alive.add(rank)
        return is_quorum(alive, len(view.members))

    def _in_group(self, group: str) -> list[Incarnation]:
        return [life for life in self._lives if life is not None and group in life.views]

    def end(self) -> None:
        """The run is over. Whoever is in a group that cannot come to rest stopped there and then; all others have had
        the time to get all that they are owed."""
        excused = self.excused()
        for life in self._lives:
            if life is not None:
                stuck = [group for group in excused if group in life.views]
                life.log.stop(self.now_ns, f"stuck in {', '.join(stuck)}" if stuck else QUIET)

    # ---- one thing after the other ---------------------------------------------------------------------------------

    def _next(self) -> None:
        at_ns, _, place, kind, number, data = heappop(self._heap)
        if kind != _CRASH and kind != _START:
            for from_ns, until_ns in self._asleep[place]:
                if from_ns <= at_ns < until_ns:
                    self._push(until_ns, place, kind, number, data)
                    return
        self.now_ns = at_ns
        life = self._lives[place]
        if kind == _ARRIVE:
            if life is not None:
                self._step(life, Receive([data]))
        elif kind == _TICK:
            if life is not None and number == life.process.incarnation and at_ns >= life.tick_at_ns:
                self._tick(life)
        else:
            self._plans_left -= 1
            if kind == _START and life is None:
                self._begin(place)
            elif kind == _CRASH and life is not None and (not number or self._is_spare(life)):
                self._crash(life)
            elif kind == _ACT and life is not None:
                self._act(life, self._acts[number])

    def _tick(self, life: Incarnation) -> None:
        life.tick_at_ns = NEVER
        if life.deadline_ns > self.now_ns:
            self._arm(life)
            return
        life.ticks_now = life.ticks_now + 1 if self.now_ns == life.ticked_ns else 1
        life.ticked_ns = self.now_ns
        assert life.ticks_now < _TICKS_MAX, f"the ticks of {life.process} do not get anywhere"
        self._step(life, Tick())

    def _act(self, life: Incarnation, act: Act) -> None:
        input = act.input
        view = life.views.get(input.group)
        if view is None or view is NO_VIEW:
            return
        if isinstance(input, Leave):
            life.log.note(self.now_ns, LEAVES, input.group)
        elif isinstance(input, Send) and act.to >= 0:
            destination = self._member(view, self.names[act.to])
            if destination is None:
                return
            input = Send(group=input.group, payloads=input.payloads, level=input.level, destination=destination)
        self._step(life, input)

    @staticmethod
    def _member(view: View, name: str) -> ProcessId | None:
        for member in view.members:
            if member.name == name:
                return member
        return None

    def _is_spare(self, life: Incarnation) -> bool:
        return all(view is NO_VIEW or self._survives(group, life) for group, view in life.views.items())

    def _crash(self, life: Incarnation) -> None:
        self.crashes += 1
        self.coverage.count("event: crashed")
        life.log.crash(self.now_ns, "killed")
        self._bury(life)

    def _bury(self, life: Incarnation) -> None:
        life.ended = True
        self._lives[life.place] = None

    def _begin(self, place: int) -> None:
        self._incarnations[place] += 1
        name = self.names[place]
        process = ProcessId(name, self._incarnations[place])
        engine = Engine(process, Random(f"{self._seed}/{process}"), self._options)
        log = self._make_log(name, process.incarnation)
        self.logs.append(log)
        life = Incarnation(place, process, engine, log)
        self._lives[place] = life
        for charter in self.charters:
            if place in charter.places:
                life.views[charter.name] = NO_VIEW
                life.others[charter.name] = []
        for charter in self.charters:
            if place in charter.places and not life.ended:
                self._join(life, charter)

    def _join(self, life: Incarnation, charter: Charter) -> None:
        name = life.process.name
        first = self._first_views[charter.name]
        if first.rank(life.process) >= 0:
            join = Join(
                group=charter.name, view=first, stack=self.stack, policy=PRIMARY, address=name, domain=self.domain
            )
        else:
            life.log.note(self.now_ns, "asks to join", charter.name)
            contacts = tuple(self.names[other] for other in charter.places if other != life.place)
            join = Join(
                group=charter.name,
                contacts=contacts,
                stack=self.stack,
                policy=PRIMARY,
                address=name,
                domain=self.domain,
            )
        self._step(life, join)

    def _step(self, life: Incarnation, input: Input) -> None:
        effects = life.engine.step(input, self.now_ns)
        self._look_at_phases(life)
        for event in effects.events:
            self._observe(life, event)
            if life.ended:
                return
        for transmit in effects.transmits:
            if transmit.address is not None:
                targets = [self._place[transmit.address]]
            elif transmit.destination is not None:
                targets = [self._place[transmit.destination.name]]
            else:
                targets = life.others.get(transmit.group, [])
            for packet in transmit.packets:
                self.coverage.packet(packet, transmit.destination is not None)
            self._transmit(life, transmit.packets, targets)
            if life.ended:
                return
        life.deadline_ns = effects.deadline_ns
        self._arm(life)

    def _look_at_phases(self, life: Incarnation) -> None:
        for group in life.views:
            phase = life.engine.phase(group)
            before = life.phases.get(group, JOINING)
            if phase != before:
                self.coverage.phase(before, phase)
                life.phases[group] = phase

    def _observe(self, life: Incarnation, event: Event) -> None:
        self._stirred_ns = self.now_ns
        record(life.log, self.now_ns, event, self.stack, PRIMARY)
        if isinstance(event, Delivered):
            self.delivered[event.level] += len(event.payloads)
            self.private += len(event.payloads) if event.private else 0
        elif isinstance(event, BarrierReached):
            self.delivered[SAFE] += 1
            self.barriers += 1
            self.coverage.count("event: barrier reached")
        elif isinstance(event, Installed):
            life.views[event.group] = event.view
            self._note_view(event.group, event.view)
            life.others[event.group] = [self._place[m.name] for m in event.view.members if m != life.process]
            self.views += 1
            self.coverage.count("event: view installed")
        elif isinstance(event, Suspected):
            self.coverage.count("event: suspected")
        elif isinstance(event, MajorityLost):
            self.stalls += 1
            self.coverage.count("event: stalled without a majority")
        elif isinstance(event, Ended):
            self._end_membership(life, event)

    def _note_view(self, group: str, view: View) -> None:
        if view.id > self._last_views.get(group, NO_VIEW).id:
            self._last_views[group] = view

    def _end_membership(self, life: Incarnation, event: Ended) -> None:
        del life.views[event.group]
        if event.excluded:
            self.exclusions += 1
            self.coverage.count("event: excluded")
            life.log.crash(self.now_ns, "excluded")
            self._bury(life)
            self._push_plan(self.now_ns + _BACK_NS, life.place, _START, 0)
            return
        self._left.add((event.group, life.process))
        self.coverage.count("event: left in good order")
        if event.left_to is not None:  # perhaps nobody has lived to be in that view
            self._note_view(event.group, event.left_to)
            if not event.left_to.members:
                self._ended.add(event.group)
        if life.views:
            life.log.note(self.now_ns, LEFT, event.group)
        else:
            life.log.stop(self.now_ns, LEFT)
            self._bury(life)

    def _transmit(self, life: Incarnation, packets: list[bytes], targets: list[int]) -> None:
        source = life.process.name
        for packet in packets:
            for target in targets:
                flights = fly(self._layers, self._random, self.now_ns, source, self.names[target], packet)
                for delay_ns, data in flights:
                    self._push(self.now_ns + delay_ns, target, _ARRIVE, 0, data)
                if self._crash_triggers:
                    crash_trigger = self._ambush(packet)
                    if crash_trigger is not None and self._is_spare(life):
                        self._crash(life)
                        self.coverage.count("event: crashed amid a change of view")
                        self._push_plan(self.now_ns + _BACK_NS, life.place, _START, 0)
                        if crash_trigger.both and flights:
                            self._push_plan(self.now_ns + flights[0][0], target, _CRASH, 1)
                        return

    def _ambush(self, packet: bytes) -> CrashTrigger | None:
        """The ambush that this packet sets off."""
        kind, group_id, _, _, flags, _ = unseal(packet)
        if kind != MEMBERSHIP:
            return None
        for crash_trigger in self._crash_triggers:
            if (
                crash_trigger.kind == flags
                and crash_trigger.group_id == group_id
                and self.now_ns >= crash_trigger.from_ns
            ):
                crash_trigger.countdown -= 1
                if crash_trigger.countdown <= 0:
                    self._crash_triggers.remove(crash_trigger)
                    return crash_trigger
        return None

    def _arm(self, life: Incarnation) -> None:
        deadline_ns = max(life.deadline_ns, self.now_ns)
        if deadline_ns < life.tick_at_ns:
            life.tick_at_ns = deadline_ns
            self._push(deadline_ns, life.place, _TICK, life.process.incarnation, b"")

    def _push(self, at_ns: int, place: int, kind: int, number: int, data: bytes) -> None:
        self._serial += 1
        heappush(self._heap, (at_ns, self._serial, place, kind, number, data))
