"""Plays on a bad network: what the participants do is drawn from a seed, and afterwards one can ask what went wrong.

They end in silence: when nothing is on the way and nobody has anything left to do. A play that never does is a problem
by itself.
"""

from random import Random

from antiphon.kernel.options import MILLISECOND_NS
from antiphon.parts.message_graph import Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.library.broadcast import OrderedBroadcast
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from antiphon.stacks.conversation.library.handed_out import Operation
from antiphon.stacks.conversation.library.handshake import ENDED, TALKING, HandshakeSession
from antiphon.stacks.conversation.library.operations import Operations
from tests.stacks.conversation.library.stage import Actor, Stage, bad_stage

TIMEOUT_NS = 10 * MILLISECOND_NS


class Copy:
    """Additions commute; a product, and what is written down, do not."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.sum = 0
        self.seen: list[tuple[int, bytes]] = []
        """The value at each operation that does not commute."""
        self.executed: list[tuple[bool, bytes]] = []

    def issue(self, payload: bytes, commutes: bool) -> None:
        if self.operations.offer(payload, commutes):
            self.execute(Operation(-1, True, payload))

    def poll(self, now_ns: int) -> None:
        for operation in self.operations.poll(now_ns):
            self.execute(operation)

    def execute(self, operation: Operation) -> None:
        self.executed.append((operation.commutes, operation.payload))
        if operation.commutes:
            self.sum += int(operation.payload)
        else:
            self.seen.append((self.sum, operation.payload))
            self.sum = self.sum * 3 % 1_000_003


def copies_of(stage: Stage, options: FilterOptions) -> list[Copy]:
    copies: list[Copy] = []

    def make(conversation: ConversationCore, rank: int) -> Actor:
        copy = Copy(Operations(conversation, options))
        copies.append(copy)
        return Actor(copy.poll, copy.operations.deadline_ns)

    stage.cast(make)
    return copies


def play_operations(seed: int, participants: int, steps: int = 40) -> tuple[Stage, list[Copy], int]:
    """Random operations on a bad network, and silence."""
    stage = bad_stage(seed, participants)
    random = Random(seed * 7 + 1)
    options = FilterOptions(
        window=random.choice([1, 3, 64]),
        ack_every=random.choice([1, 4, 32]),
        ack_delay_ns=random.choice([0, 2, 5]) * MILLISECOND_NS,
        tries=1000,
    )
    copies = copies_of(stage, options)
    commuting = random.choice([0.0, 0.3, 0.9, 1.0])
    offered = 0
    for _ in range(steps):
        rank = random.randrange(participants)
        for _ in range(random.choice([1, 1, 1, 6])):
            copies[rank].issue(b"%d" % (offered + 1), random.random() < commuting)
            offered += 1
        if random.random() < 0.7:  # else it is said when something comes
            stage.poll(rank)
        if random.random() < 0.6:
            stage.run(random.randrange(4 * MILLISECOND_NS))
    stage.poll_all()
    stage.rest()
    return stage, copies, offered


def removal_problem(seed: int) -> str | None:
    """What is wrong with the copies of the others when one fails in the middle, and is removed by agreement."""
    participants = 3 + seed % 3
    stage = bad_stage(seed, participants)
    random = Random(seed * 13 + 7)
    copies = copies_of(stage, FilterOptions(window=random.choice([2, 64]), tries=3))
    victim = random.randrange(participants)
    for step in range(40):
        rank = random.randrange(participants)
        if step == 20:
            stage.dead.add(victim)
        if rank not in stage.dead:
            copies[rank].issue(b"%d" % (step + 1), random.random() < 0.6)
            stage.poll(rank)
        stage.run(random.randrange(3 * MILLISECOND_NS))
    others = [rank for rank in range(participants) if rank != victim]
    for rank in random.sample(others, random.choice([1, len(others)])):
        stage.hosts[rank].remove(victim)
        stage.flush(rank)
    for _ in range(600):  # votes that were lost are asked for as anything is
        stage.run(20 * MILLISECOND_NS)
        for rank in others:
            stage.hosts[rank].tick(stage.now_ns)
            stage.hosts[rank].replica.ask_everybody()
            stage.poll(rank)
        if not any(copies[rank].operations.waiting() or copies[rank].operations.outstanding() for rank in others):
            break
    else:
        return "the others do not come to rest"
    first = copies[others[0]]
    if any(copies[rank].sum != first.sum or copies[rank].seen != first.seen for rank in others):
        return "the states differ"
    return None


def operations_problem(seed: int) -> str | None:
    """What is wrong at the end of a play with a replicated object."""
    _, copies, offered = play_operations(seed, 2 + seed % 4)
    first = copies[0]
    for copy in copies:
        if len(copy.executed) != offered or len(set(copy.executed)) != offered:
            return f"{len(copy.executed)} operations were executed of {offered}"
        if copy.sum != first.sum or copy.seen != first.seen:
            return f"the states differ: {copy.sum} and {first.sum}"
        if copy.operations.waiting() or copy.operations.outstanding():
            return "there is silence, but something waits"
    return None


class Speaker:
    def __init__(self, broadcast: OrderedBroadcast) -> None:
        self.broadcast = broadcast
        self.order: list[tuple[Mid, bytes]] = []

    def poll(self, now_ns: int) -> None:
        self.order += [(node.mid(), payload) for node, payload in self.broadcast.poll(now_ns)]


def speakers_of(stage: Stage, options: FilterOptions) -> list[Speaker]:
    speakers: list[Speaker] = []

    def make(conversation: ConversationCore, rank: int) -> Actor:
        speaker = Speaker(OrderedBroadcast(conversation, options))
        speakers.append(speaker)
        return Actor(speaker.poll, speaker.broadcast.deadline_ns)

    stage.cast(make)
    return speakers


def play_broadcast(seed: int, participants: int, steps: int = 40) -> tuple[Stage, list[Speaker], int]:
    stage = bad_stage(seed, participants)
    random = Random(seed * 11 + 5)
    options = FilterOptions(
        window=random.choice([1, 2, 64]),
        ack_every=random.choice([1, 8]),
        ack_delay_ns=random.choice([0, 3]) * MILLISECOND_NS,
        tries=1000,
    )
    speakers = speakers_of(stage, options)
    offered = 0
    for step in range(steps):
        rank = random.randrange(participants)
        for _ in range(random.choice([1, 1, 5])):
            speakers[rank].broadcast.offer(b"%d" % step)
            offered += 1
        stage.poll(rank)
        if random.random() < 0.6:
            stage.run(random.randrange(4 * MILLISECOND_NS))
    stage.rest()
    return stage, speakers, offered


def broadcast_problem(seed: int) -> str | None:
    """What is wrong at the end of an ordered broadcast."""
    stage, speakers, offered = play_broadcast(seed, 2 + seed % 4)
    for speaker in speakers:
        if len(speaker.order) != offered:
            return f"{len(speaker.order)} messages came of {offered}"
        if speaker.order != speakers[0].order:
            return "the orders differ"
        if speaker.broadcast.outstanding():
            return "there is silence, but something waits"
    if sum(speaker.broadcast.acks() for speaker in speakers) > offered * (stage.count - 1):
        return "there were more acknowledgements than the rule allows"
    return None


def sessions_of(stage: Stage, tries: int = 200) -> list[HandshakeSession]:
    sessions: list[HandshakeSession] = []

    def make(conversation: ConversationCore, rank: int) -> Actor:
        session = HandshakeSession(conversation, stage.now_ns, tries=tries, timeout_ns=TIMEOUT_NS)
        sessions.append(session)

        def poll(now_ns: int) -> None:
            session.poll(now_ns)

        return Actor(poll, session.deadline_ns)

    stage.cast(make)
    return sessions


def session_problem(seed: int) -> str | None:
    """What is wrong with the beginning or the end of a conversation, drawn as the other plays are."""
    stage = bad_stage(seed, 2 + seed % 4)
    random = Random(seed)
    sessions = sessions_of(stage)
    for _ in range(10_000):
        if all(session.phase == TALKING for session in sessions):
            break
        stage.run(TIMEOUT_NS // 10)
        for session, host in zip(sessions, stage.hosts, strict=True):
            if session.phase == TALKING and not all(host.replica.graph.last):
                return "somebody talks who does not know that all take part"
    go = stage.hosts[0].replica.graph.node((0, 2))
    said = 0
    for _ in range(10):
        rank = random.randrange(stage.count)
        if not sessions[rank].may_send():
            return "the conversation has not begun"
        node = sessions[rank].send(b"x")
        if go is None or not go.precedes(node):
            return "something was said that does not follow the beginning"
        said += 1
        stage.flush(rank)
        stage.run(random.randrange(5 * MILLISECOND_NS))
    for rank in random.sample(range(stage.count), random.choice([1, 2])):  # one, or two at a time
        sessions[rank].end(stage.now_ns)
        stage.flush(rank)
    stage.rest(limit_ns=3_600_000 * MILLISECOND_NS)
    if any(session.phase != ENDED for session in sessions):
        return "the conversation has not ended"
    if sum(len(session.received) for session in sessions) != said * (stage.count - 1):
        return "somebody ended before it had everything"
    return None
