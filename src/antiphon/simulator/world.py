"""The simulated world: the engines of many processes in virtual time, on a network that may do anything to a packet.

One heap of events, ordered by time (event_heap.py). So a run is a pure function of its script and workload. Nothing
sleeps: time jumps from one event to the next.

Each *host* has the name of a process and runs at most one *incarnation* of it at any time, which has one engine for all
its groups, and a log. An incarnation is a founder of some groups, in their first view, and asks the other members of
the rest to let it join. It ends

  by a crash          in all its groups at once;
  by a crash trigger  a crash in the middle of a step (crash_triggers.py);
  by exclusion        from any of its groups: for the others that is a crash;
  by leaving          the last group that it was in; leaving one of several is a note in its log.

Engines also call disks and links (devices.py) and ask their application questions, which the workload answers. A disk
belongs to the host: what is written survives crashes and, once it is synced, a power loss.

A script need not have groups: what processes do beside them, as roles on a stack, is the workload's. It is told when an
incarnation begins, and after each step what that told of roles, and puts inputs in by `request`.

After a crash trigger or an exclusion the next incarnation starts soon. Packets for an incarnation that has ended are
lost, and so is what its last step had yet to transmit.

The script (script.py) says what happens; a workload may add to it, on schedule and in answer to deliveries. What an
engine does not accept waits in the backlog of its incarnation and is offered again after each step.

A host that is paused does nothing, and nothing reaches its incarnation: what was due meanwhile happens when the pause
ends, in the order in which it was due. Crashes and starts do not wait.
"""

from collections.abc import Callable
from random import Random
from typing import Final, final

from antiphon.engine import Engine
from antiphon.history.log import Log
from antiphon.history.schema import LEAVES, LEFT, QUIET
from antiphon.kernel.calls import Call, Dial
from antiphon.kernel.causality_domain import EPOCHS
from antiphon.kernel.effects import (
    NEVER,
    AskApplication,
    BarrierReached,
    Delivered,
    Effects,
    Ended,
    Event,
    Installed,
    MajorityLost,
    Suspected,
    Writable,
)
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Input, Leave, Open, Pause, Receive, Resume, Send, SendBarrier, Tick
from antiphon.kernel.levels import CAUSAL, LEVEL_NAMES, LEVELS, SAFE
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.outcomes import ApplicationAnswer, CallOutcome
from antiphon.parts.membership.phases import JOINING, OUT
from antiphon.simulator import coverage as situations
from antiphon.simulator.actions import (
    BARRIER,
    CRASH,
    CRASH_IF_SAFE,
    CRASH_ON_PACKET,
    CUT_LINKS,
    LEAVE,
    PAUSE,
    PAUSE_APPLICATION,
    POWER_LOSS,
    SEND,
    SEND_PRIVATE,
    START,
    Action,
)
from antiphon.simulator.coverage import Coverage
from antiphon.simulator.crash_triggers import CrashTrigger, fired
from antiphon.simulator.devices import Devices
from antiphon.simulator.event_heap import EventHeap
from antiphon.simulator.group_progress import GroupProgress
from antiphon.simulator.incarnation import NO_VIEW, Incarnation
from antiphon.simulator.network import PacketNetwork
from antiphon.simulator.recording import record
from antiphon.simulator.script import Script, ScriptedGroup, service_role
from antiphon.simulator.workload import Workload

_ARRIVE: Final = 0
_TICK: Final = 1
_WORKLOAD: Final = 2
_ACTION: Final = 3
_RESUME_APPLICATION: Final = 4
_OUTCOME: Final = 5
_CRASH: Final = 6
_CRASH_IF_SAFE: Final = 7
_POWER_LOSS: Final = 8
_START: Final = 9
_DEVICE: Final = 10
_LAST_TO_WAIT: Final = _OUTCOME
"""Events up to this one wait while the host is paused."""

_TICKS_MAX: Final = 10
"""An engine that wants more ticks than this at one point in time makes no progress."""
_RESTART_DELAY_NS: Final = 300 * MILLISECOND_NS
"""How soon the next incarnation starts after an exclusion or a crash trigger."""
_EXCLUSION_SILENCES: Final = 4
"""After healing, a suspicion that was under way may still end in an exclusion for so many times the silence, and the
doubt that follows it, after which a member is suspected."""
_ANSWER_DELAY_NS: Final = MILLISECOND_NS
"""How long an application takes to answer a question."""

_ENTER_NS_MAX: Final = 5_000 * MILLISECOND_NS
"""How long the first members of groups that live at a service have to enter, before anything else happens."""

_PRIVATE_PAYLOAD: Final = b"for you alone"
_BARRIER_PAYLOAD: Final = b"so far"


@final
class World:
    """One simulated run."""

    def __init__(self, script: Script, make_log: Callable[[str, int], Log], workload: Workload | None = None) -> None:
        self.names = script.processes
        self.plans = script.groups
        self.now_ns = 0
        self.sent = 0
        """Messages that engines have accepted."""
        self.delivered = [0] * len(LEVEL_NAMES)
        """By level."""
        self.crashes = 0
        self.exclusions = 0
        self.coverage = Coverage()
        self.logs: list[Log] = []
        self.network = PacketNetwork(script.faults(), script.seed)
        self.devices = Devices(len(self.names), script.faults(), script.seed)
        self.running: list[Incarnation | None] = [None] * len(self.names)
        """By host."""
        self._script = script
        self._make_log = make_log
        self._workload = Workload() if workload is None else workload
        self._heap = EventHeap(len(self.names), _LAST_TO_WAIT)
        self._actions: list[Action] = []
        self._payloads = 0
        self._outcomes: dict[int, tuple[ProcessId, CallOutcome]] = {}
        """What is still to be handed to incarnations, by the numbers of its events."""
        self.planned = 0
        """Events on the heap that the script, the workload or a restart has put there."""
        self.last_event_ns = 0
        """When something last happened that an application is told."""
        self._crash_triggers: list[CrashTrigger] = []
        self._incarnations = [0] * len(self.names)
        self._hosts = {name: host for host, name in enumerate(self.names)}
        options = script.options
        late_ns = script.heal_ns + _EXCLUSION_SILENCES * (options.silence_ns_min + options.doubt_ns)
        has_epochs = script.domain.rule == EPOCHS
        self.progress = GroupProgress(
            self.plans, self._hosts, self.running, late_ns, not script.services, has_epochs
        )  # fmt: skip

    # ---- what is to come -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the founders, and plan all that the script and the workload want."""
        for name in self._script.services:
            self._start(self._hosts[name])
        for host, name in enumerate(self.names):
            if not self.plans or any(name in plan.founders for plan in self.plans):
                self._start(host)
        while self._script.services and self.now_ns < _ENTER_NS_MAX and not self.progress.have_entered():
            self.run_through(self.now_ns + MILLISECOND_NS)
        for action in self._script.actions:
            self.plan(action)
        self._workload.begin(self)

    def plan(self, action: Action) -> None:
        """Have this action happen at its time, or now, if that is over."""
        if action.kind == CRASH_ON_PACKET:
            trigger = CrashTrigger(action.group, action.packet, action.at_ns, action.countdown, action.both)
            self._crash_triggers.append(trigger)
            return
        host = self._hosts[action.process]
        if action.kind == PAUSE:
            self._heap.pause(host, action.at_ns, action.until_ns)
        elif action.kind == CRASH:
            self._push_planned(action.at_ns, host, _CRASH)
        elif action.kind == CRASH_IF_SAFE:
            self._push_planned(action.at_ns, host, _CRASH_IF_SAFE)
        elif action.kind == POWER_LOSS:
            self._push_planned(action.at_ns, host, _POWER_LOSS)
        elif action.kind == START:
            self._push_planned(action.at_ns, host, _START)
        else:
            self._actions.append(action)
            number = len(self._actions) - 1
            self._push_planned(action.at_ns, host, _ACTION, number)
            if action.kind == PAUSE_APPLICATION:
                self._push_planned(action.until_ns, host, _RESUME_APPLICATION, number)

    def schedule(self, at_ns: int, host: int) -> None:
        """Call the workload's `act` for this host then."""
        self._push_planned(at_ns, host, _WORKLOAD)

    def send(self, host: int, payloads: list[bytes], level: int) -> None:
        """Have the application of this host multicast to the first group, after whatever it has sent before."""
        incarnation = self.running[host]
        if incarnation is not None:
            self._workload.sent(self, host, payloads, level)
            incarnation.backlog.append(Send(group=self.plans[0].name, payloads=payloads, level=level))

    def request(self, host: int, input: Input) -> None:
        """Have the application of this host put something in, if it runs."""
        incarnation = self.running[host]
        if incarnation is not None:
            self._step(incarnation, input)

    def crash(self, host: int) -> None:
        """End the incarnation of this host, if one runs."""
        incarnation = self.running[host]
        if incarnation is not None:
            self._crash(incarnation)

    def _push_planned(self, at_ns: int, host: int, kind: int, number: int = 0) -> None:
        self.planned += 1
        self._heap.push(max(at_ns, self.now_ns), host, kind, number, b"")

    # ---- the run ---------------------------------------------------------------------------------------------------

    def run_through(self, until_ns: int) -> None:
        """Go on until this time."""
        event = self._heap.pop(until_ns)
        while event is not None:
            at_ns, _, _, host, kind, number, data = event
            self.now_ns = at_ns
            self._happen(host, kind, number, data)
            event = self._heap.pop(until_ns)
        self.now_ns = max(self.now_ns, until_ns)

    def is_quiet(self) -> bool:
        """Whether nothing is planned and all groups are quiet."""
        return not self.planned and all(self.progress.is_quiet(group) for group in self.progress.groups)

    def end(self) -> None:
        """Close the logs. Processes of excused groups were stopped early; all others have had time to become quiet."""
        excused = self.progress.excused()
        for incarnation in self.running:
            if incarnation is not None:
                stuck = [group for group in excused if group in incarnation.views]
                incarnation.log.stop(self.now_ns, f"stuck in {', '.join(stuck)}" if stuck else QUIET)
                self.coverage.add(incarnation.engine.situations())

    # ---- one event after the other ---------------------------------------------------------------------------------

    def _happen(self, host: int, kind: int, number: int, data: bytes) -> None:
        incarnation = self.running[host]
        if kind == _ARRIVE:
            if incarnation is not None:
                self._step(incarnation, Receive([data]))
        elif kind == _TICK:
            if (
                incarnation is not None
                and number == incarnation.process.incarnation
                and self.now_ns >= incarnation.tick_at_ns
            ):  # fmt: skip
                self._tick(incarnation)
        elif kind == _OUTCOME:
            process, outcome = self._outcomes.pop(number)
            if incarnation is not None and incarnation.process == process:
                self._step(incarnation, outcome)
        elif kind == _DEVICE:
            self.devices.advance(self.now_ns, number)
            self._follow_devices()
        else:
            self.planned -= 1
            self._planned_event(host, incarnation, kind, number)

    def _planned_event(self, host: int, incarnation: Incarnation | None, kind: int, number: int) -> None:
        if kind == _POWER_LOSS:
            if incarnation is not None:
                if not self._workload.may_lose(self, host):
                    return
                self._crash(incarnation)
            self.devices.lose_power(host)
        elif incarnation is None:
            if kind == _START:
                self._start(host)
        elif kind == _WORKLOAD:
            self._workload.act(self, host)
            self._offer(incarnation)
        elif kind == _ACTION:
            self._act(incarnation, self._actions[number])
        elif kind == _RESUME_APPLICATION:
            self._resume_application(incarnation, self._actions[number].group)
        elif kind == _CRASH or (kind == _CRASH_IF_SAFE and self._may_lose(incarnation)):
            self._crash(incarnation)

    def _may_lose(self, incarnation: Incarnation) -> bool:
        return self.progress.may_lose(incarnation) and self._workload.may_lose(self, incarnation.host)

    def _tick(self, incarnation: Incarnation) -> None:
        incarnation.tick_at_ns = NEVER
        if incarnation.deadline_ns > self.now_ns:
            self._arm(incarnation)
            return
        incarnation.ticks_now = incarnation.ticks_now + 1 if self.now_ns == incarnation.ticked_ns else 1
        incarnation.ticked_ns = self.now_ns
        assert incarnation.ticks_now < _TICKS_MAX, f"the ticks of {incarnation.process} do not get anywhere"
        self._step(incarnation, Tick())

    def _arm(self, incarnation: Incarnation) -> None:
        deadline_ns = max(incarnation.deadline_ns, self.now_ns)
        if deadline_ns < incarnation.tick_at_ns:
            incarnation.tick_at_ns = deadline_ns
            self._heap.push(deadline_ns, incarnation.host, _TICK, incarnation.process.incarnation, b"")

    def _act(self, incarnation: Incarnation, action: Action) -> None:
        """Have the application do something in a group that it is in."""
        group = action.group
        if action.kind == CUT_LINKS:
            self.devices.cut_links(self.now_ns, incarnation.process)
            self._follow_devices()
        if not incarnation.is_in(group):
            return
        if action.kind == SEND:
            self._send(incarnation, action)
        elif action.kind == SEND_PRIVATE:
            destination = incarnation.member(group, action.to)
            if destination is not None:
                send = Send(group=group, payloads=[_PRIVATE_PAYLOAD], level=CAUSAL, destinations=(destination,))
                incarnation.backlog.append(send)
                self._offer(incarnation)
        elif action.kind == BARRIER:
            self._step(incarnation, SendBarrier(group=group, payload=_BARRIER_PAYLOAD))
        elif action.kind == LEAVE:
            incarnation.log.note(self.now_ns, LEAVES, group)
            self._step(incarnation, Leave(group))
        else:
            assert action.kind == PAUSE_APPLICATION
            pauses = incarnation.application_pauses.get(group, 0) + 1
            incarnation.application_pauses[group] = pauses
            if pauses == 1:
                self._step(incarnation, Pause(group))

    def _resume_application(self, incarnation: Incarnation, group: str) -> None:
        """One pause less; those of an earlier incarnation have ended with it."""
        pauses = incarnation.application_pauses.get(group, 0)
        if pauses and incarnation.is_in(group):
            incarnation.application_pauses[group] = pauses - 1
            if pauses == 1:
                self._step(incarnation, Resume(group))

    def _payload(self, size: int) -> bytes:
        """Bytes that tell one message from another, as far as they have room for it."""
        self._payloads += 1
        return (self._payloads.to_bytes(8, "little") + bytes(size))[:size]

    def _send(self, incarnation: Incarnation, action: Action) -> None:
        """Have the application send, to those of the named destinations that are in the view."""
        found = [incarnation.member(action.group, name) for name in action.destinations]
        destinations = tuple(member for member in found if member is not None)
        if destinations or not action.destinations:
            payloads = [self._payload(size) for size in action.sizes]
            level = LEVELS[action.level]
            incarnation.backlog.append(
                Send(group=action.group, payloads=payloads, level=level, destinations=destinations, label=action.label)
            )
            self._offer(incarnation)

    # ---- incarnations ----------------------------------------------------------------------------------------------

    def _start(self, host: int) -> None:
        self._incarnations[host] += 1
        name = self.names[host]
        process = ProcessId(name, self._incarnations[host])
        engine = Engine(process, Random(f"{self._script.seed}/{process}"), self._script.options)
        log = self._make_log(name, process.incarnation)
        self.logs.append(log)
        incarnation = Incarnation(host, process, engine, log)
        self.running[host] = incarnation
        if name in self._script.services:
            role = service_role(self._script.stack, self._script.policy)
            others = tuple(other for other in self._script.services if other != name)
            self._step(incarnation, Open(stack=self._script.stack, role=role, address=name, contacts=others))
        plans = [plan for plan in self.plans if name in plan.members]
        for plan in plans:
            incarnation.views[plan.name] = NO_VIEW
        for plan in plans:
            if not incarnation.ended:
                self._join(incarnation, plan)
        self._workload.started(self, host)

    def _join(self, incarnation: Incarnation, plan: ScriptedGroup) -> None:
        join = self._script.join(plan, incarnation.process, incarnation.host, self.progress.first_views[plan.name])
        if join.view is None and not self._script.services:
            incarnation.log.note(self.now_ns, "asks to join", plan.name)
        self._step(incarnation, join)

    def _crash(self, incarnation: Incarnation) -> None:
        self.crashes += 1
        self.coverage.count(situations.CRASHED)
        incarnation.log.crash(self.now_ns, "killed")
        self._end_incarnation(incarnation)

    def _end_incarnation(self, incarnation: Incarnation) -> None:
        incarnation.ended = True
        self.running[incarnation.host] = None
        self.coverage.add(incarnation.engine.situations())
        self.devices.end_process(self.now_ns, incarnation.process)
        self._follow_devices()

    # ---- one step --------------------------------------------------------------------------------------------------

    def _step(self, incarnation: Incarnation, input: Input) -> None:
        effects = incarnation.engine.step(input, self.now_ns)
        if isinstance(input, SendBarrier) and effects.accepted:
            payload = input.payload
            incarnation.recorder.call(input.group, [payload], SAFE, (), len(payload), self.now_ns, barrier=True)
        self._carry_out(incarnation, effects)
        if incarnation.backlog:
            self._offer(incarnation)
        while incarnation.told and not incarnation.reacting and not incarnation.ended:
            told, incarnation.told = incarnation.told, []
            incarnation.reacting = True
            self._workload.react(self, incarnation.host, told)
            incarnation.reacting = False

    def _offer(self, incarnation: Incarnation) -> None:
        """Offer the backlog to the engine, until it is empty or the engine is full."""
        backlog = incarnation.backlog
        while backlog and not incarnation.ended:
            send = backlog[0]
            if not incarnation.can_send(send):
                backlog.pop(0)
                continue
            effects = incarnation.engine.step(send, self.now_ns)
            taken = effects.accepted
            self.sent += taken
            if taken:
                payloads = send.payloads[:taken]
                size = sum(map(len, payloads))
                label = send.label or None
                incarnation.recorder.call(
                    send.group, payloads, send.level, send.destinations, size, self.now_ns, label=label
                )
            rest = send.payloads[taken:]
            if rest:
                backlog[0] = Send(
                    group=send.group, payloads=rest, level=send.level, destinations=send.destinations, label=send.label
                )
            else:
                backlog.pop(0)
            self._carry_out(incarnation, effects)
            if rest and not _has_writable(effects):
                return

    def _carry_out(self, incarnation: Incarnation, effects: Effects) -> None:
        if effects.events or effects.transmits:
            self._look_at_phases(incarnation)
        for event in effects.events:
            self._observe(incarnation, event)
            if incarnation.ended:
                return
        for transmit in effects.transmits:
            targets = [self._hosts[name] for name in transmit.route.names()]
            for packet in transmit.packets:
                self.coverage.packet(packet)
            self._transmit(incarnation, transmit.packets, targets)
            if incarnation.ended:
                return
        if effects.calls is not None:
            for call in effects.calls:
                self._call(incarnation, call)
            self._follow_devices()
        incarnation.deadline_ns = effects.deadline_ns
        self._arm(incarnation)

    def _call(self, incarnation: Incarnation, call: Call) -> None:
        dialled: Incarnation | None = None
        if isinstance(call, Dial) and call.address in self._hosts:
            dialled = self.running[self._hosts[call.address]]
        other = None if dialled is None else dialled.process
        self.devices.call(self.now_ns, incarnation.host, incarnation.process, call, other)

    def _follow_devices(self) -> None:
        """Put on the heap what disks and links want."""
        for at_ns, timer in self.devices.take_timers():
            self._heap.push(at_ns, 0, _DEVICE, timer, b"")
        for at_ns, process, outcome in self.devices.take_outcomes():
            self._push_outcome(at_ns, process, outcome)

    def _push_outcome(self, at_ns: int, process: ProcessId, outcome: CallOutcome) -> None:
        self._outcomes[self._heap.serial] = (process, outcome)
        self._heap.push(at_ns, self._hosts[process.name], _OUTCOME, self._heap.serial, b"")

    def _transmit(self, incarnation: Incarnation, packets: list[bytes], targets: list[int]) -> None:
        source = incarnation.process.name
        for packet in packets:
            for target in targets:
                flights = self.network.carry(self.now_ns, source, self.names[target], packet)
                for delay_ns, data in flights:
                    self._heap.push(self.now_ns + delay_ns, target, _ARRIVE, 0, data)
                if self._crash_triggers:
                    trigger = fired(self._crash_triggers, packet, self.now_ns)
                    if trigger is not None and self._may_lose(incarnation):
                        self._crash(incarnation)
                        self.coverage.count(situations.CRASHED_IN_STEP)
                        self._push_planned(self.now_ns + _RESTART_DELAY_NS, incarnation.host, _START)
                        if trigger.both and flights:
                            self._push_planned(self.now_ns + flights[0][0], target, _CRASH_IF_SAFE)
                        return

    def _look_at_phases(self, incarnation: Incarnation) -> None:
        for group in incarnation.views:
            phase = incarnation.engine.phase(group)
            before = incarnation.phases.get(group, JOINING)
            if phase == JOINING and before != JOINING:  # the engine has forgotten a group that is over
                phase = OUT
            if phase != before:
                self.coverage.phase(before, phase)
                incarnation.phases[group] = phase

    def _observe(self, incarnation: Incarnation, event: Event) -> None:
        self.last_event_ns = self.now_ns
        stack, policy, domain = self._script.stack, self._script.policy, self._script.domain.name
        record(incarnation.recorder, incarnation.process, self.now_ns, event, stack, policy, domain)
        if isinstance(event, Delivered):
            self.delivered[event.level] += len(event.payloads)
            self._workload.delivered(self, incarnation.host, event)
        elif isinstance(event, BarrierReached):
            self.delivered[SAFE] += 1
            self.coverage.count(situations.BARRIER_REACHED)
        elif isinstance(event, Installed):
            incarnation.views[event.group] = event.view
            self.progress.note_view(event.group, event.view)
            self.coverage.count(situations.VIEW_INSTALLED)
        elif isinstance(event, Suspected):
            self.coverage.count(situations.SUSPECTED)
        elif isinstance(event, MajorityLost):
            self.coverage.count(situations.STALLED)
        elif isinstance(event, Ended):
            self._end_membership(incarnation, event)
        elif isinstance(event, AskApplication):
            answer = self._workload.answer(self, incarnation.host, event)
            if answer is not None:
                outcome = ApplicationAnswer(event.token, answer)
                self._push_outcome(self.now_ns + _ANSWER_DELAY_NS, incarnation.process, outcome)
        if event.group not in incarnation.views:
            incarnation.told.append(event)

    def _end_membership(self, incarnation: Incarnation, event: Ended) -> None:
        del incarnation.views[event.group]
        if event.excluded:
            self.exclusions += 1
            self.progress.note_excluded(event.group, incarnation, self.now_ns)
            self.coverage.count(situations.EXCLUDED)
            incarnation.log.crash(self.now_ns, "excluded")
            self._end_incarnation(incarnation)
            self._push_planned(self.now_ns + _RESTART_DELAY_NS, incarnation.host, _START)
            return
        self.progress.note_left(event.group, incarnation.process, event.left_to)
        self.coverage.count(situations.LEFT)
        if incarnation.views:
            incarnation.log.note(self.now_ns, LEFT, event.group)
        else:
            incarnation.log.stop(self.now_ns, LEFT)
            self._end_incarnation(incarnation)


def _has_writable(effects: Effects) -> bool:
    return any(isinstance(event, Writable) for event in effects.events)
