"""Conversations in virtual time, over a network with all faults, of processes that pause, crash and come back.

One seed decides everything. Packets are lost, doubled, and held up, some for seconds, so that they come after their
sender's death. The network is cut in two for a while; processes stop for a while; processes crash, lose what they had
not written down, and come back from a checkpoint or from the beginning, with the help of their storage or without. One
process always runs. One is taken to have failed, rightly or wrongly, and is removed; when it learns that, it comes back
in a new life and is added again. Then all heals, and everybody must come to the same end.

What is checked, without asking the protocol: `context` and `order` below, and the end (talks.py).
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from antiphon.kernel.effects import NEVER, Transmit
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.message_graph import GraphNode, Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.host import ConversationHost
from antiphon.stacks.conversation.free.wire import SAID, form_of, life_of
from tests.simulation.conversation_app import App
from tests.stacks.conversation.packets import give

SECOND_NS = 1000 * MILLISECOND_NS
LATE_NS_MAX = 3 * SECOND_NS


@dataclass(frozen=True)
class Plan:
    """What a seed makes of a run."""

    seed: int
    participants: int
    loss: float
    doubling: float
    late: float
    """How many packets are held up for long."""
    appetite: int
    keep: bool
    storage: bool
    broadcast: bool
    crashes: int
    partitions: int
    pauses: int
    removals: int
    trouble_ns: int
    """How long things go wrong."""


def draw_plan(seed: int) -> Plan:
    random = Random(seed)
    participants = random.choice([2, 3, 3, 4, 4, 5, 6])
    keep = random.random() < 0.8
    removals = 1 if keep and participants > 2 and seed % 5 == 4 else 0
    return Plan(
        seed=seed,
        participants=participants,
        loss=random.choice([0, 0.02, 0.1, 0.3]),
        doubling=random.choice([0, 0.05, 0.3]),
        late=random.choice([0, 0.01, 0.1]),
        appetite=256 // participants,
        keep=keep,
        storage=random.random() < 0.5,
        broadcast=random.random() < 0.5,
        crashes=random.choice([0, 1, 2, 4]) if keep else 0,
        partitions=random.choice([0, 1, 3]),
        pauses=random.choice([0, 1, 3]),
        removals=removals,
        trouble_ns=random.choice([2, 5, 10]) * SECOND_NS,
    )


@dataclass
class Saved:
    """What a process has written down: it survives a crash."""

    leaves: list[Mid] = field(default_factory=list)
    app: App | None = None
    """None: it was never saved; begin again."""
    received: list[int] = field(default_factory=list)
    unstable: list[bytes] = field(default_factory=list)
    sections: list[bytes] = field(default_factory=list)


@dataclass
class Process:
    """One participant and its life."""

    rank: int
    name: str
    host: ConversationHost
    app: App
    life: int = 1
    conversation: ConversationCore | None = None
    saved: Saved = field(default_factory=Saved)
    up: bool = True
    paused_until_ns: int = 0
    received: list[int] = field(default_factory=list)
    """How many messages of each participant were sent or received here: what the next is sent in the context of."""
    acknowledged: bool = True
    """Whether something was said since something was last received."""
    arrived: list[bytes] = field(default_factory=list)
    """While it pauses."""
    timer_ns: int = NEVER


class World:
    """One run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = Random(plan.seed ^ 0x5EED)
        self.options = Options()
        self.now_ns = 0
        self.problems: list[str] = []
        self.processes = [self._make_process(rank) for rank in range(plan.participants)]
        self.context: dict[tuple[Mid, int], list[int]] = {}
        """Of each message and life: what its sender had sent or received before it."""
        self.order: list[tuple[Mid, int]] = []
        """The messages in the order in which the first participant that came so far committed them."""
        self.states: dict[tuple[int, int], bytes] = {}
        """By rank and number of messages committed: the state there, in whichever life came there first."""
        self.restarts = 0
        self.removed = 0
        self.cut: set[int] = set()
        """One side of a partition."""
        self.healed = False
        self._events: list[tuple[int, int, str, int, bytes]] = []
        self._sequence = 0
        self.cid = 0

    def _make_process(self, rank: int) -> Process:
        plan = self.plan
        name = f"p{rank}"
        host = ConversationHost(name, self.options, recording=plan.storage)
        process = Process(rank, name, host, App(rank, plan.appetite, plan.keep))
        process.app.begin(plan.participants)
        process.received = [0] * plan.participants
        return process

    # ---- the run ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """All of it."""
        others = {process.name: process.name for process in self.processes[1:]}
        opener = self.processes[0]
        opener.conversation = opener.host.active_open(others, opener.name, keep=self.plan.keep)
        self.cid = opener.conversation.cid
        self.work(opener)
        self.go_on(SECOND_NS, lambda: all(process.conversation is not None for process in self.processes))
        self._draw_trouble()
        self.go_on(self.plan.trouble_ns + SECOND_NS)
        self.heal()
        self.go_on(200 * SECOND_NS, self.is_settled)

    def go_on(self, duration_ns: int, until: Callable[[], bool] | None = None) -> None:
        """Let time pass, until a condition holds or it is over."""
        end_ns = self.now_ns + duration_ns
        looked_ns = self.now_ns
        while self._events and self._events[0][0] <= end_ns and not self.problems:
            if until is not None and self.now_ns - looked_ns > 50 * MILLISECOND_NS:
                looked_ns = self.now_ns
                if until():
                    return
            self.now_ns, _, kind, rank, data = heapq.heappop(self._events)
            getattr(self, f"_on_{kind}")(self.processes[rank], data)
        if until is None or not until():
            self.now_ns = end_ns

    def _schedule(self, delay_ns: int, kind: str, rank: int, data: bytes = b"") -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self.now_ns + delay_ns, self._sequence, kind, rank, data))

    def _draw_trouble(self) -> None:
        random, plan = self.random, self.plan
        for kind, count in (
            ("crash", plan.crashes),
            ("partition", plan.partitions),
            ("pause", plan.pauses),
            ("remove", plan.removals),
        ):
            for _ in range(count):
                self._schedule(random.randrange(plan.trouble_ns), kind, random.randrange(plan.participants))
        for _ in range(6):
            self._schedule(random.randrange(plan.trouble_ns), "save", random.randrange(plan.participants))

    def heal(self) -> None:
        """No more trouble: everybody is up, and packets come."""
        self.healed = True
        self.cut = set()
        for process in self.processes:
            process.paused_until_ns = 0
            self._on_resume(process, b"")

    # ---- the network -----------------------------------------------------------------------------------------------

    def post(self, process: Process, outgoing: list[Transmit]) -> None:
        for each in outgoing:
            for address in each.route.addresses:
                for packet in each.packets:
                    self._post_one(process.rank, int(address[1:]), packet)

    def _post_one(self, source: int, destination: int, packet: bytes) -> None:
        random, plan = self.random, self.plan
        if (source in self.cut) != (destination in self.cut):
            return
        for _ in range(2 if random.random() < plan.doubling and not self.healed else 1):
            if self.healed or random.random() >= plan.loss:
                delay_ns = random.randrange(MILLISECOND_NS // 5, 4 * MILLISECOND_NS)
                if random.random() < plan.late and not self.healed:
                    delay_ns = random.randrange(LATE_NS_MAX)
                self._schedule(delay_ns, "packet", destination, packet)

    def _on_packet(self, process: Process, data: bytes) -> None:
        if not process.up:
            return
        if process.paused_until_ns > self.now_ns:
            process.arrived.append(data)
            return
        give(process.host, data, self.now_ns)
        self.work(process)

    def _on_timer(self, process: Process, data: bytes) -> None:
        if process.timer_ns > self.now_ns:
            return
        process.timer_ns = NEVER
        if not process.up or process.paused_until_ns > self.now_ns:
            return
        process.host.tick(self.now_ns)
        self.work(process)

    # ---- trouble ---------------------------------------------------------------------------------------------------

    def _on_partition(self, process: Process, data: bytes) -> None:
        ranks = range(self.plan.participants)
        self.cut = {rank for rank in ranks if self.random.random() < 0.5}
        self._schedule(self.random.randrange(2 * SECOND_NS), "join", 0)

    def _on_join(self, process: Process, data: bytes) -> None:
        self.cut = set()

    def _on_pause(self, process: Process, data: bytes) -> None:
        if process.up and not self.healed:
            pause_ns = self.random.randrange(SECOND_NS)
            process.paused_until_ns = self.now_ns + pause_ns
            self._schedule(pause_ns, "resume", process.rank)

    def _on_resume(self, process: Process, data: bytes) -> None:
        if process.paused_until_ns > self.now_ns or not process.up:
            return
        arrived, process.arrived = process.arrived, []
        for packet in arrived:
            give(process.host, packet, self.now_ns)
        process.host.tick(self.now_ns)
        self.work(process)

    def _on_save(self, process: Process, data: bytes) -> None:
        """A checkpoint of the program and its place in the conversation."""
        conversation = process.conversation
        if not process.up or conversation is None or conversation.is_recovering() or conversation.is_replaying():
            return
        process.saved.leaves = conversation.checkpoint_leaves()
        process.saved.unstable = conversation.checkpoint_sections()
        process.saved.app = process.app.copy()
        process.saved.received = list(process.received)

    def _on_crash(self, process: Process, data: bytes) -> None:
        running = [one for one in self.processes if one.up and one.conversation and not is_busy(one.conversation)]
        if not process.up or self.healed or [one for one in running if one is not process] == []:
            return
        if process.conversation is None:
            return  # it has not accepted the conversation yet: there is nothing to come back to
        self._write_down(process)
        process.up = False
        process.arrived = []
        process.conversation = None
        self._schedule(self.random.randrange(SECOND_NS), "restart", process.rank)

    def _on_remove(self, process: Process, data: bytes) -> None:
        """A process takes another to have failed, rightly or wrongly, and has it removed."""
        others = [one for one in self.processes if one is not process]
        if process.up and process.conversation is not None and not is_busy(process.conversation):
            process.conversation.remove(self.random.choice(others).rank)
            self.work(process)

    def _reconcile(self, process: Process, conversation: ConversationCore) -> bool:
        """Let those in again that were removed and are back; whether this process is one that was removed."""
        for rank in list(conversation.restarted):
            life = conversation.image.ears.lives[rank]
            if conversation.removal.removed.get(rank, life) < life:
                conversation.restarted.remove(rank)
                conversation.add(rank)
        if not conversation.removal.is_out and not conversation.image.conflict:
            return False
        process.up = False
        process.conversation = None
        process.saved = Saved()
        self.removed += 1
        self._schedule(self.random.randrange(SECOND_NS), "restart", process.rank)
        return True

    def _write_down(self, process: Process) -> None:
        """Some of what was handed out to be written has been; the last may be cut short."""
        conversation = process.conversation
        if conversation is None or conversation.records is None:
            return
        records, conversation.records = conversation.records, []
        if not process.up or self.random.random() < 0.5:
            records = records[: self.random.randrange(len(records) + 1)]
        process.saved.sections += records

    def _on_restart(self, process: Process, data: bytes) -> None:
        plan, saved = self.plan, process.saved
        process.life += 1
        self.restarts += 1
        process.host = ConversationHost(process.name, self.options, life=process.life, recording=plan.storage)
        app = saved.app
        if app is None or self.random.random() < 0.5:
            app, leaves = App(process.rank, plan.appetite, plan.keep), []
            app.begin(plan.participants)
            process.received = [0] * plan.participants
        else:
            app, leaves = app.copy(), saved.leaves
            process.received = list(saved.received)
        process.app = app
        process.up = True
        process.acknowledged = False
        participants = {one.name: one.name for one in self.processes}
        process.conversation = process.host.restart(self.cid, participants, leaves, saved.sections + saved.unstable)
        self.work(process)

    # ---- the program -----------------------------------------------------------------------------------------------

    def work(self, process: Process) -> None:
        """Let the program of a process do what it can, and send what there is to send."""
        if process.conversation is None and (opened := process.host.passive_open()) is not None:
            process.conversation = opened
        conversation = process.conversation
        if conversation is None:
            return
        if self._reconcile(process, conversation):
            return
        process.app.scan(conversation)
        while (got := conversation.receive()) is not None:
            self._received(process, *got)
        if not conversation.is_recovering():
            self._committed(process, conversation)
            self._speak(process, conversation)
            process.app.scan(conversation)
        self.post(process, process.host.flush(conversation, self.now_ns))
        if conversation.records is not None and len(conversation.records) > 20:
            self._write_down(process)
        self._arm(process)

    def _arm(self, process: Process) -> None:
        at_ns = max(process.host.deadline_ns(), self.now_ns)
        if at_ns < process.timer_ns:
            process.timer_ns = at_ns
            self._schedule(at_ns - self.now_ns, "timer", process.rank)

    def _received(self, process: Process, node: GraphNode, payload: bytes) -> None:
        """Everything that its sender had sent or received before must have been received here, or sent."""
        assert node.body is not None
        if form_of(node.body) == SAID:
            process.acknowledged = False
        context = self.context.get((node.mid(), life_of(node.body)))
        if context is None:
            self.problems.append(f"{process.name} received {node.mid()}, which nobody has sent")
            return
        received = process.received
        if received[node.sender] >= node.number:
            self.problems.append(f"{process.name} received {node.mid()} after {received}")
        received[node.sender] = node.number
        for rank, number in enumerate(context):
            if number > received[rank] and rank != process.rank:
                self.problems.append(f"{process.name} received {node.mid()} before {(rank, number)}")

    def _committed(self, process: Process, conversation: ConversationCore) -> None:
        app = process.app
        before = len(app.committed)
        for place, committed in enumerate(app.take(conversation), start=before):
            entry = (committed.mid, committed.life)
            if place == len(self.order):
                self.order.append(entry)
            elif place > len(self.order) or self.order[place] != entry:
                self.problems.append(f"{process.name} has {entry} in place {place}, others {self.order[place]}")
            former = self.states.setdefault((process.rank, place), committed.state)
            if former != committed.state:
                self.problems.append(f"{process.name} is in another state after {place} messages than before its crash")

    def _speak(self, process: Process, conversation: ConversationCore) -> None:
        app = process.app
        while app.to_say and conversation.may_send():
            before = conversation.image.graph.last[process.rank]
            self._sent(process, conversation, conversation.send(app.to_say.popleft()), before)
        if not process.acknowledged and conversation.may_note():
            before = conversation.image.graph.last[process.rank]
            self._sent(process, conversation, conversation.note(b""), before)

    def _sent(self, process: Process, conversation: ConversationCore, node: GraphNode, before: int) -> None:
        if node.number <= before:
            return  # said again
        process.acknowledged = True
        for number in range(before + 1, node.number + 1):  # the first may have been sent for the other's sake
            context = list(process.received)
            context[process.rank] = number - 1
            self.context[(process.rank, number), process.life] = context

    # ---- the end ---------------------------------------------------------------------------------------------------

    def is_settled(self) -> bool:
        """Whether everybody has said all it has to say, and has everything, in its place."""
        conversations = [process.conversation for process in self.processes]
        if not all(conversations):
            return False
        last = [one.image.graph.last for one in conversations if one is not None]
        if any(one != last[0] for one in last):
            return False
        return all(not process.app.to_say and not process.app.waits() for process in self.processes)


def is_busy(conversation: ConversationCore) -> bool:
    return conversation.is_recovering() or conversation.is_replaying()
