"""Conversations in the simulated world, over a network with all faults, of processes that pause, crash and come back.

One seed decides everything. Packets are lost, doubled, damaged and held up, some for seconds, so that they come after
their sender's death. The network is cut in two for a while, in one direction or both; processes stop for a while;
processes crash, or their machines lose power and with it what was not synced, and come back from a checkpoint or from
the beginning, with the help of their storage or without. One process always runs. One is taken to have failed, rightly
or wrongly, and is removed; when it learns that, it comes back in a new life and is added again. Then all heals, and
everybody must come to the same end.

What is checked, without asking the protocol: `context` and `order` below, and the end (free_conversations.py). Beside
that the history of each run is audited.
"""

from dataclasses import dataclass, field
from random import Random

from antiphon.faults import BurstLoss, Corruption, Delay, Duplication, Fault, Loss, Partition, Reordering
from antiphon.history.log import MemoryLog
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.effects import Event
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import STATIC
from antiphon.parts.message_graph import GraphNode, Mid
from antiphon.simulator.actions import CRASH_IF_SAFE, PAUSE, POWER_LOSS, START, Action
from antiphon.simulator.fault_schedule import Until
from antiphon.simulator.script import Script
from antiphon.simulator.script_run import LogMaker
from antiphon.simulator.workloads.role_hooks import RoleHooks
from antiphon.simulator.world import World
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.requests import (
    AcceptConversation,
    AddParticipant,
    OpenConversation,
    ParticipantSettings,
    RemoveParticipant,
    RestartConversation,
    SendMessage,
    TakeMessage,
    TakeRestarted,
    take_part,
)
from antiphon.stacks.conversation.free.wire import SAID, form_of, life_of
from tests.simulation.conversation_app import App

SECOND_NS = 1000 * MILLISECOND_NS
LATE_NS_MAX = 3 * SECOND_NS
LOOK_NS = 50 * MILLISECOND_NS
"""How often to look whether everybody has come to the end."""
OPENING_NS = SECOND_NS
"""Before anything goes wrong but on the network."""
SETTLING_NS = 200 * SECOND_NS
REMOVE = "remove"
SAVE = "save"


@dataclass(frozen=True)
class Plan:
    """What a seed makes of a run."""

    seed: int
    participants: int
    loss: float
    doubling: float
    late: float
    """How many packets are held up for long."""
    damage: float
    appetite: int
    keep: bool
    storage: bool
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
        damage=random.choice([0, 0, 0.02]),
        appetite=256 // participants,
        keep=keep,
        storage=random.random() < 0.5,
        crashes=random.choice([0, 1, 2, 4]) if keep else 0,
        partitions=random.choice([0, 1, 3]),
        pauses=random.choice([0, 1, 3]),
        removals=removals,
        trouble_ns=random.choice([2, 5, 10]) * SECOND_NS,
    )


def draw_script(plan: Plan, random: Random) -> Script:
    """What happens to the network and to processes."""
    names = [f"p{rank}" for rank in range(plan.participants)]
    heal_ns = OPENING_NS + plan.trouble_ns + SECOND_NS
    faulty: list[Fault] = [
        Loss(plan.loss),
        Duplication(plan.doubling, 20 * MILLISECOND_NS),
        Reordering(plan.late, LATE_NS_MAX),
        Corruption(plan.damage),
    ]
    if random.random() < 0.3:
        faulty.append(BurstLoss(0.01, 50 * MILLISECOND_NS))
    for _ in range(plan.partitions):
        side = frozenset(name for name in names if random.random() < 0.5)
        other = frozenset(names) - side
        from_ns = OPENING_NS + random.randrange(plan.trouble_ns)
        until_ns = min(heal_ns, from_ns + random.randrange(2 * SECOND_NS))
        faulty.append(Partition(side, other, from_ns, until_ns))
        if random.random() < 0.8:
            faulty.append(Partition(other, side, from_ns, until_ns))
    script = Script(
        run=f"conversation-{plan.seed}",
        seed=plan.seed,
        policy=STATIC,
        processes=names,
        groups=[],
        layers=[
            Delay(MILLISECOND_NS // 5, 4 * MILLISECOND_NS),
            *[Until(layer, heal_ns) for layer in faulty],
        ],
        options=Options(),
        domain=CausalityDomain(),
        heal_ns=heal_ns,
        stack="conversation",
    )
    for _ in range(plan.pauses):
        from_ns = OPENING_NS + random.randrange(plan.trouble_ns)
        until_ns = from_ns + random.randrange(SECOND_NS)
        script.add(Action(PAUSE, from_ns, random.choice(names), until_ns=until_ns))
    for _ in range(plan.crashes):
        at_ns = OPENING_NS + random.randrange(plan.trouble_ns)
        name = random.choice(names)
        script.add(Action(random.choice([CRASH_IF_SAFE, POWER_LOSS]), at_ns, name))
        script.add(Action(START, at_ns + random.randrange(1, SECOND_NS), name))
    return script


@dataclass
class Saved:
    """A checkpoint, which survives a crash."""

    leaves: list[Mid] = field(default_factory=list)
    app: App | None = None
    """None: it was never saved; begin again."""
    received: list[int] = field(default_factory=list)
    unstable: list[bytes] = field(default_factory=list)


@dataclass
class Process:
    """One participant, over all its lives."""

    rank: int
    name: str
    app: App
    life: int = 0
    conversation: ConversationCore | None = None
    saved: Saved = field(default_factory=Saved)
    received: list[int] = field(default_factory=list)
    """How many messages of each participant were sent or received here: what the next is sent in the context of."""
    acknowledged: bool = True
    """Whether something was said since something was last received."""
    returned: set[int] = field(default_factory=set)
    """Ranks of those that have said, in this life, to be back."""
    todo: list[tuple[int, str]] = field(default_factory=list)
    """What its program does at set times: save, or remove another."""


class ConversationRun:
    """One run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = Random(plan.seed ^ 0x5EED)
        self.problems: list[str] = []
        self.processes = [self._make_process(rank) for rank in range(plan.participants)]
        self.context: dict[tuple[Mid, int], list[int]] = {}
        """Of each message and life: what its sender had sent or received before it."""
        self.order: list[tuple[Mid, int]] = []
        """The messages in the order in which the first participant that came so far committed them."""
        self.states: dict[tuple[int, int], bytes] = {}
        """By rank and number of messages committed: the state there, in whichever life came there first."""
        self.situations: dict[str, int] = {}
        self.cid = 0
        self.script = draw_script(plan, self.random)
        maker = LogMaker(self.script.run)
        self.logs: list[MemoryLog] = maker.logs
        hooks = RoleHooks(started=self._started, react=self._react, act=self._act, may_lose=self._may_lose)
        self.world = World(self.script, maker.make, hooks)

    def _make_process(self, rank: int) -> Process:
        process = Process(rank, f"p{rank}", App(rank, self.plan.appetite, self.plan.keep))
        process.app.begin(self.plan.participants)
        process.received = [0] * self.plan.participants
        return process

    def count(self, situation: str, times: int = 1) -> None:
        if times:
            self.situations[situation] = self.situations.get(situation, 0) + times

    # ---- the run ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """All of it."""
        world, heal_ns = self.world, self.script.heal_ns
        world.begin()
        self._draw_deeds()
        while world.now_ns < heal_ns and not self.problems:
            world.run_through(min(heal_ns, world.now_ns + SECOND_NS))
        while world.now_ns < heal_ns + SETTLING_NS and not self.problems and not self.is_settled():
            world.run_through(world.now_ns + LOOK_NS)
        for process in self.processes:
            self._count_life(process)
        world.end()

    def _draw_deeds(self) -> None:
        for kind, count in ((REMOVE, self.plan.removals), (SAVE, 6)):
            for _ in range(count):
                at_ns = OPENING_NS + self.random.randrange(self.plan.trouble_ns)
                process = self.random.choice(self.processes)
                process.todo.append((at_ns, kind))
                self.world.schedule(at_ns, process.rank)
        for process in self.processes:
            process.todo.sort()

    def _started(self, host: int) -> None:
        """A life begins: the first in a conversation to come, a later one in that which it was in."""
        process, plan = self.processes[host], self.plan
        process.life += 1
        self.world.request(host, take_part(ParticipantSettings(storage=plan.storage)))
        if process.life > 1:
            self._restart(process)
        elif host == 0:
            request = OpenConversation({one.name: one.name for one in self.processes[1:]}, process.name, plan.keep)
            self.world.request(host, request)
            assert request.conversation is not None
            self.cid = request.conversation.cid
            process.conversation = request.conversation
            self.work(process)

    def _restart(self, process: Process) -> None:
        plan, saved = self.plan, process.saved
        app = saved.app
        if app is None or self.random.random() < 0.5:
            app, leaves = App(process.rank, plan.appetite, plan.keep), []
            app.begin(plan.participants)
            process.received = [0] * plan.participants
            self.count("restart: from the beginning")
        else:
            app, leaves = app.copy(), saved.leaves
            process.received = list(saved.received)
            self.count("restart: from a checkpoint")
        process.app = app
        process.acknowledged = False
        participants = {one.name: one.name for one in self.processes}
        request = RestartConversation(self.cid, participants, leaves, list(saved.unstable))
        self.world.request(process.rank, request)
        process.conversation = request.conversation
        self.work(process)

    def _react(self, host: int, told: list[Event]) -> None:
        """Something has happened to the conversations of a process."""
        process = self.processes[host]
        if process.conversation is None:
            request = AcceptConversation()
            self.world.request(host, request)
            process.conversation = request.conversation
        self.work(process)

    def _act(self, host: int) -> None:
        """It is time for something that the program of a process does."""
        process = self.processes[host]
        while process.todo and process.todo[0][0] <= self.world.now_ns:
            _, kind = process.todo.pop(0)
            conversation = process.conversation
            if conversation is None or is_busy(conversation):
                continue
            if kind == SAVE:
                self._save(process, conversation)
            else:
                others = [one.rank for one in self.processes if one is not process]
                self.world.request(host, RemoveParticipant(self.cid, self.random.choice(others)))
                self.work(process)

    def _save(self, process: Process, conversation: ConversationCore) -> None:
        """A checkpoint of the program and its place in the conversation."""
        process.saved = Saved(
            conversation.checkpoint_leaves(),
            process.app.copy(),
            list(process.received),
            conversation.checkpoint_sections(),
        )
        self.count("checkpoint")

    def _may_lose(self, host: int) -> bool:
        """Whether somebody else has all of the conversation; who has not accepted it has nothing to come back to."""
        running = [one for one in self.processes if one.conversation and not is_busy(one.conversation)]
        process = self.processes[host]
        if process.conversation is None or [one for one in running if one is not process] == []:
            return False
        self.count("crash: while recovering" if is_busy(process.conversation) else "crash")
        self._end_life(process)
        return True

    def _end_life(self, process: Process) -> None:
        self._count_life(process)
        process.conversation = None
        process.returned = set()

    def _count_life(self, process: Process) -> None:
        """Count what has happened to a participant in a life that is over."""
        conversation = process.conversation
        if conversation is None:
            return
        for name, times in conversation.replica.counts.items():
            self.count(f"image: {name}", times)
        recovery = conversation.recovery
        if recovery is not None:
            done = "done" if recovery.done else "not done"
            self.count(f"recovery: {done}, {'complete' if recovery.complete else 'incomplete'}")

    # ---- the program -----------------------------------------------------------------------------------------------

    def work(self, process: Process) -> None:
        """Let the program of a process do what it can."""
        conversation = process.conversation
        if conversation is None or self.world.running[process.rank] is None:
            return
        if self._reconcile(process, conversation):
            return
        process.app.scan(conversation)
        while conversation.has_outstanding():
            request = TakeMessage(self.cid)
            self.world.request(process.rank, request)
            if request.taken is not None:
                self._received(process, *request.taken)
        if not conversation.is_recovering():
            self._committed(process, conversation)
            self._speak(process, conversation)
            process.app.scan(conversation)

    def _reconcile(self, process: Process, conversation: ConversationCore) -> bool:
        """Let those in again that were removed and are back; whether this process is one that was removed."""
        if conversation.restarted:
            request = TakeRestarted(self.cid)
            self.world.request(process.rank, request)
            process.returned |= set(request.ranks)
        for rank in sorted(process.returned):
            life = conversation.replica.sender_filter.lives[rank]
            if conversation.removal.removed.get(rank, life) < life:
                process.returned.discard(rank)
                self.count("participant added again")
                self.world.request(process.rank, AddParticipant(self.cid, rank))
        if not conversation.has_lost_touch():
            return False
        self.count("removed" if conversation.removal.is_out else "diverged")
        process.saved = Saved()
        self._end_life(process)
        self.world.crash(process.rank)
        at_ns = self.world.now_ns + self.random.randrange(1, SECOND_NS)
        self.world.plan(Action(START, at_ns, process.name))
        return True

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
            self._send(process, conversation, SendMessage(self.cid, app.to_say.popleft()))
        if not process.acknowledged and conversation.may_note():
            self._send(process, conversation, SendMessage(self.cid, b"", note=True))

    def _send(self, process: Process, conversation: ConversationCore, request: SendMessage) -> None:
        before = conversation.replica.graph.last[process.rank]
        self.world.request(process.rank, request)
        assert request.node is not None
        if request.node.number <= before:
            self.count("said again in silence")
            return
        process.acknowledged = True
        for number in range(before + 1, request.node.number + 1):  # the first may have been sent for the other's sake
            context = list(process.received)
            context[process.rank] = number - 1
            self.context[(process.rank, number), process.life] = context

    # ---- the end ---------------------------------------------------------------------------------------------------

    def is_settled(self) -> bool:
        """Whether everybody has said all it has to say, and has everything, in its place."""
        conversations = [one.conversation for one in self.processes if one.conversation is not None]
        if len(conversations) < len(self.processes) or any(map(is_busy, conversations)):
            return False
        if any(one.replica.graph.last != conversations[0].replica.graph.last for one in conversations):
            return False
        return all(not process.app.to_say and not process.app.waits() for process in self.processes)


def is_busy(conversation: ConversationCore) -> bool:
    return conversation.is_recovering() or conversation.is_replaying()
