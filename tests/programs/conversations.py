"""Conversations that come back, under the public filter: a state machine in each of three or four participants.

Each program puts an ordered broadcast on a conversation that is kept, says some things at the beginning, and answers
some of what it is handed; all it does follows from the order. Programs are killed, or their machines lose power, again
and again, one of them excepted; each comes back from its last checkpoint, or by running again from the beginning, in
some seeds always at another address, in some with a disk and so few messages in memory that most of the history is read
from there. Beside it there is a conversation without a filter, in which participants are masked out and in again; who
comes back there adopts what it had said.

Whatever a program is handed, in whichever life, stands in the same place as it did in its lives before; in the end all
have been handed the same, and each has received all that was said beside it.
"""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from random import Random
from weakref import WeakKeyDictionary

import msgspec

import antiphon
from antiphon.conversation import (
    Checkpoint,
    Conversation,
    ConversationFilter,
    ConversationLimits,
    IncompleteRecoveryError,
    accept_conversation,
    open_conversation,
    ordered_broadcast,
    restart_conversation,
    take_part,
)
from antiphon.parts.message_graph import GraphNode as Handle
from antiphon.stacks.conversation.library.broadcast import OrderedBroadcast
from antiphon.testing import FaultPlan, Host, Result
from antiphon.testing.fault_plan import CALLS_MAX, SECOND_NS, KillProgram, NetworkFault, PauseProgram, draw_plan
from antiphon.testing.simulate import ACTIVE_S
from tests.programs.common import HEALED_S, Play, draw

BURST = 6
ANSWERS = 24
"""Of so many messages that nobody has answered, one is answered by each."""
SIDE = b"side"
ORDERED = b"ordered"
JOURNALS: "WeakKeyDictionary[Host, dict[str, list[bytes]]]" = WeakKeyDictionary()
"""What the programs of each host were handed, by the name of the conversation, over all their lives."""


class Plan:
    """What a seed makes of a run, beside its faults."""

    def __init__(self, seed: int) -> None:
        random = Random(f"conversations {seed}")
        self.names = list("abcd"[: random.choice([2, 3, 3, 4])])
        self.storage = random.random() < 0.6
        self.nodes_max = random.choice([12, 30, 100_000]) if self.storage else 100_000
        self.moves = random.random() < 0.5
        self.again = random.choice([0.0, 0.5, 1.0])
        self.save_every = random.choice([1, 3, 10])
        self.masks = random.random() < 0.5


class Saved(msgspec.Struct):
    """What one program has on its disk."""

    checkpoints: dict[bytes, bytes] = {}
    seen: list[bytes] = []
    received: list[bytes] = []


class Machine:
    """The program of one participant: what it was handed, and what it has to say to that."""

    def __init__(self, host: Host, plan: Plan, seen: list[bytes]) -> None:
        self.host = host
        self.plan = plan
        self.seen = list(seen)
        self.broadcast: ConversationFilter[OrderedBroadcast, tuple[Handle, bytes]] | None = None
        self.save: Callable[[], None] | None = None

    def handle(self, one: tuple[Handle, bytes]) -> None:
        self.seen.append(one[1])
        write_down(self.host, "ordered", len(self.seen) - 1, one[1])
        digest = blake2b(b"".join(self.seen) + self.host.name.encode(), digest_size=4).digest()
        if len(self.seen) < ANSWERS and digest[0] < 128 and self.broadcast is not None:
            self.broadcast.offer(b"%s answers %s" % (self.host.name.encode(), digest.hex().encode()))
        if self.save is not None and len(self.seen) % self.plan.save_every == 0:
            self.save()

    def begin(self) -> None:
        assert self.broadcast is not None
        for number in range(BURST):
            self.broadcast.offer(b"%s says %d" % (self.host.name.encode(), number))


def write_down(host: Host, what: str, place: int, payload: bytes) -> None:
    """A program was handed something: it must be what it was handed at that place before."""
    journal = JOURNALS.setdefault(host, {}).setdefault(what, [])
    if place == len(journal):
        journal.append(payload)
    assert journal[place] == payload, f"{host.name} was handed {payload!r} at {place}, and {journal[place]!r} before"


def path_of(host: Host) -> Path:
    return host.disk / "saved"


def write(host: Host, saved: Saved) -> None:
    """Put it on disk, whole or not at all."""
    path = path_of(host)
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        file.write(msgspec.msgpack.encode(saved))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def read(host: Host) -> Saved:
    path = path_of(host)
    return msgspec.msgpack.decode(path.read_bytes(), type=Saved) if path.exists() else Saved()


class Participant:
    """One life of one program."""

    def __init__(self, host: Host, plan: Plan) -> None:
        self.host = host
        self.plan = plan
        self.random = draw()
        self.saved = read(host)
        self.talks: dict[bytes, Conversation] = {}

    async def run(self) -> tuple[list[bytes], list[bytes]]:
        host, plan = self.host, self.plan
        port = 7399 + host.starts if plan.moves else 7400
        storage = host.disk if plan.storage else None
        options = antiphon.Options.fast()
        async with antiphon.Node(
            host.name, address=host.at(port), incarnation=host.starts, options=options, storage=storage
        ) as node:
            take_part(node, ConversationLimits(nodes_max=plan.nodes_max))
            again = self.random.random() < plan.again
            await self.enter(node, again)
            machine = Machine(host, plan, [] if again or not self.saved.seen else self.saved.seen)
            machine.save = partial(self.save, machine)
            if ORDERED in self.saved.checkpoints and not again:
                machine.seen = list(self.saved.seen)
            is_new = not machine.seen and not self.talks[ORDERED].restored_state
            async with ordered_broadcast(self.talks[ORDERED], machine.handle) as machine.broadcast:
                if is_new:
                    machine.begin()
                received = list(self.saved.received)
                async with asyncio.TaskGroup() as tasks:
                    working = [
                        tasks.create_task(self.receive(received)),
                        tasks.create_task(self.watch(machine.broadcast)),
                    ]
                    speaking = tasks.create_task(self.speak())
                    await host.calm.wait()
                    speaking.cancel()
                    await host.ending.wait()
                    for task in working:
                        task.cancel()
        return machine.seen, received

    async def enter(self, node: antiphon.Node, again: bool) -> None:
        """Begin both conversations, or come back to them."""
        plan, host = self.plan, self.host
        await asyncio.gather(*(self.come_back(node, name, again) for name in self.saved.checkpoints))
        others = {other: address for other, address in host.members().items() if other != host.name}
        for name in (ORDERED, SIDE):
            if host.name == plan.names[0] and name not in self.talks:
                self.talks[name] = await open_conversation(node, others, keep=True)
                self.remember(name, self.talks[name])
                if name == SIDE:
                    await self.talks[name].send(SIDE)
        while len(self.talks) < 2:
            accepted = await accept_conversation(node)
            name = SIDE if is_side(accepted) else ORDERED
            self.talks[name] = accepted
            self.remember(name, accepted)

    async def come_back(self, node: antiphon.Node, name: bytes, again: bool) -> None:
        checkpoint = Checkpoint.from_bytes(self.saved.checkpoints[name])
        while name not in self.talks:
            try:
                self.talks[name] = await restart_conversation(
                    node, checkpoint, again=again and name == ORDERED, timeout_s=5.0
                )
            except IncompleteRecoveryError:
                continue
        if name == SIDE:
            self.talks[name].adopt()

    def remember(self, name: bytes, talk: Conversation) -> None:
        self.saved.checkpoints[name] = talk.origin().to_bytes()
        write(self.host, self.saved)

    def save(self, machine: Machine) -> None:
        """Write down state and place in the conversation."""
        self.saved.checkpoints[ORDERED] = self.talks[ORDERED].checkpoint().to_bytes()
        self.saved.seen = list(machine.seen)
        write(self.host, self.saved)

    async def receive(self, received: list[bytes]) -> None:
        """Take what is said in the other conversation, and remember it."""
        talk = self.talks[SIDE]
        async for _, payload in talk:
            if payload != SIDE:
                received.append(payload)
                assert received.count(payload) == 1, f"{self.host.name} received {payload!r} twice"
            if not talk.core.is_replaying():
                self.saved.checkpoints[SIDE] = talk.checkpoint().to_bytes()
                self.saved.received = list(received)
                write(self.host, self.saved)

    async def speak(self) -> None:
        """Say something in the other conversation now and then, and mask others out and in."""
        talk, random, host = self.talks[SIDE], self.random, self.host
        for number in range(6):
            await asyncio.sleep(random.random())
            others = [name for name in talk.participants if name != host.name]
            if self.plan.masks and random.random() < 0.3:
                name = others[int(random.random() * len(others))]
                talk.mask_out(name)
                await asyncio.sleep(random.random())
                talk.mask_in(name)
            while talk.core.is_replaying():
                await talk.changed(0.1)
            await talk.send(b"%s%d:%d" % (host.name.encode(), host.starts, number))
        await asyncio.sleep(max(0.0, HEALED_S - asyncio.get_running_loop().time()))
        while talk.core.is_replaying():
            await talk.changed(0.1)
        await talk.send(b"%s%d:last" % (host.name.encode(), host.starts))

    async def watch(self, broadcast: ConversationFilter[OrderedBroadcast, tuple[Handle, bytes]]) -> None:
        """End the program if its filter fails."""
        while True:
            await broadcast.changed()


def is_side(talk: Conversation) -> bool:
    first = talk.core.replica.graph.node((0, 1))
    return first is not None and (first.body or b"").endswith(SIDE)


async def main(host: Host, plan: Plan) -> tuple[list[bytes], list[bytes]]:
    return await Participant(host, plan).run()


def check(result: Result, plan: Plan) -> None:
    orders = {name: returned[0] for name, returned in result.returned.items()}
    assert set(orders) == set(plan.names), f"ended: {sorted(orders)}"
    lengths = {name: len(order) for name, order in orders.items()}
    assert len(set(map(tuple, orders.values()))) == 1, f"orders differ: {lengths}"
    first = orders[plan.names[0]]
    for name in plan.names:
        for number in range(BURST):
            said = b"%s says %d" % (name.encode(), number)
            assert first.count(said) == 1, f"{said!r} was handed out {first.count(said)} times"
    received = {name: set(returned[1]) for name, returned in result.returned.items()}
    everything = set().union(*received.values())
    for name, own in received.items():
        lacking = {payload for payload in everything - own if not payload.startswith(name.encode())}
        assert not lacking, f"{name} lacks {sorted(lacking)}"


def draw_faults(seed: int, names: list[str]) -> FaultPlan:
    """All faults of the network; any program but one is killed, once or more, and always started again. The one that
    opens the conversations is not killed before all have heard of them: nobody could tell it anything."""
    heal_ns = int(ACTIVE_S * SECOND_NS)
    plan = draw_plan("network", names, heal_ns, seed)
    random = Random(f"kills {seed}")
    victims = names[:]
    victims.pop(int(random.random() * len(names)))
    kills: list[KillProgram] = []
    faults = plan.faults
    if names[0] in victims:
        faults = [fault for fault in faults if not (isinstance(fault, NetworkFault) and fault.is_partition)]
        faults = [fault for fault in faults if not isinstance(fault, PauseProgram)]
    for _ in range(random.choice([1, 2, 3, 4])):
        name = random.choice(victims)
        at_ns = int((0.4 if names[0] in victims else random.random()) * heal_ns * (0.5 + random.random()))
        calls = int(random.random() * CALLS_MAX)
        restart_ns = int(random.random() ** 2 * SECOND_NS)
        kills.append(KillProgram(name, at_ns, calls, power=random.random() < 0.7, restart_ns=restart_ns))
    return FaultPlan(plan.delay, [*faults, *kills], heal_ns)


def play(seed: int) -> Play:
    plan = Plan(seed)
    mains = dict.fromkeys(plan.names, partial(main, plan=plan))
    return Play(mains, partial(check, plan=plan), draw_faults(seed, plan.names), apart=True)
