"""A conversation of a few hosts on a table: packets come at once, unless a way is cut; time passes when it is let."""

from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.message_graph import Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.host import ConversationHost
from tests.stacks.conversation.packets import give


class Table:
    """Participants a, b, c… whose packets come at once, unless a way is cut."""

    def __init__(self, count: int) -> None:
        self.names = "abcdef"[:count]
        self.hosts = [ConversationHost(name, Options()) for name in self.names]
        self.cut: set[frozenset[int]] = set()
        self.now_ns = 0
        opened = self.hosts[0].active_open({name: name for name in self.names[1:]}, "a", keep=True)
        opened.send(b"first")
        self.talks: list[ConversationCore | None] = [opened, *[None] * (count - 1)]
        self.flush()
        self.receive_all()
        for rank in range(1, count):
            self.talk(rank).send(b"here")
            self.flush()
        self.receive_all()

    def talk(self, rank: int) -> ConversationCore:
        talk = self.talks[rank]
        assert talk is not None
        return talk

    def flush(self) -> None:
        """Until nobody has anything to send."""
        moving = True
        while moving:
            moving = False
            for rank, host in enumerate(self.hosts):
                talk = self.talks[rank]
                for outgoing in [] if talk is None else host.flush(talk, self.now_ns):
                    moving = True
                    self._deliver(rank, outgoing.route.addresses, outgoing.packets)

    def _deliver(self, source: int, addresses: tuple[str, ...], packets: list[bytes]) -> None:
        for address in addresses:
            rank = self.names.index(address)
            if frozenset((source, rank)) not in self.cut:
                for packet in packets:
                    give(self.hosts[rank], packet, self.now_ns)
                if self.talks[rank] is None:
                    self.talks[rank] = self.hosts[rank].passive_open()

    def wait(self, seconds: float = 3.0) -> None:
        for _ in range(int(seconds * 100)):
            self.now_ns += 10 * MILLISECOND_NS
            for host in self.hosts:
                host.tick(self.now_ns)
            self.flush()

    def receive_all(self) -> list[list[bytes]]:
        got: list[list[bytes]] = []
        for talk in self.talks:
            got.append([])
            while talk is not None and (one := talk.receive()) is not None:
                got[-1].append(one[1])
        self.flush()
        return got

    def isolate(self, rank: int) -> None:
        self.cut |= {frozenset((rank, other)) for other in range(len(self.names)) if other != rank}

    def out(self, *ranks: int) -> list[list[int]]:
        return [sorted(self.talk(rank).removal.removed) for rank in ranks]

    def restart(
        self, rank: int, life: int, leaves: list[Mid] | None = None, sections: list[bytes] | None = None
    ) -> ConversationCore:
        """A participant comes back from a checkpoint, or from the beginning."""
        cid = self.talk(0).cid
        host = ConversationHost(self.names[rank], Options(), life=life)
        self.hosts[rank] = host
        talk = host.restart(cid, {name: name for name in self.names}, leaves or [], sections)
        self.talks[rank] = talk
        return talk


A, B, C = range(3)


def late_problem() -> str | None:
    """What goes wrong if a packet of a former life comes after its number was given again."""
    table = Table(3)
    table.isolate(C)
    table.talk(C).send(b"lost")
    late = table.hosts[C].flush(table.talk(C), table.now_ns)[0].packets[0]
    table.cut = set()
    back = table.restart(C, 2)
    table.wait(1)
    table.receive_all()
    back.send(b"here")
    table.cut = {frozenset((A, C)), frozenset((A, B))}
    again = back.send(b"again")
    table.flush()
    give(table.hosts[A], late, table.now_ns)
    table.cut = set()
    table.wait(1)
    said = [got[-1] for got in table.receive_all()[:2]]
    if again.mid() != (C, 2) or said != [b"again", b"again"] or table.talk(A).has_diverged():
        return f"{again.mid()} was received as {said}"
    return None


def hasty_problem() -> str | None:
    """What goes wrong if who is back does not wait for everybody, one of whom has what it said last."""
    table = Table(3)
    table.cut = {frozenset((A, C)), frozenset((A, B))}
    table.talk(C).send(b"to b alone")
    table.flush()
    table.cut = {frozenset((B, C)), frozenset((A, B))}
    back = table.restart(C, 2)
    table.wait(1)
    table.receive_all()
    if back.may_send():
        back.send(b"here")
        back.send(b"again")
    table.cut = set()
    table.wait(1)
    return "two messages of one number" if any(table.talk(rank).has_diverged() for rank in range(3)) else None


def fork_problem() -> str | None:
    """What goes wrong if somebody was left behind, whoever notices that there are two messages of one number: all must
    tell, for it to hear so from a majority."""
    table = Table(3)
    table.cut = {frozenset((A, C)), frozenset((A, B))}
    table.talk(C).send(b"to b alone")
    table.flush()
    table.cut = {frozenset((B, C)), frozenset((A, B))}
    back = table.restart(C, 2)
    table.wait(1)
    back.settle_for_less()  # b does not answer
    table.receive_all()
    back.send(b"here")
    again = back.send(b"again")
    table.cut = set()
    table.wait(1)
    diverged = [table.talk(rank).has_diverged() for rank in range(3)]
    return None if diverged == [False, True, False] and again.mid() == (C, 2) else f"left behind: {diverged}"


def minority_problem() -> str | None:
    """What goes wrong if few can remove many."""
    table = Table(3)
    table.isolate(C)
    table.talk(C).remove(A)
    table.talk(C).remove(B)
    table.wait(1)
    return f"{table.out(C)[0]} were removed by one" if table.out(C) != [[]] else None


def alone_problem() -> str | None:
    """What goes wrong if a removal is not agreed on: those that run do not mask alike."""
    table = Table(4)
    table.cut = {frozenset((A, other)) for other in range(1, 4)}
    table.talk(A).remove(3)
    table.wait(1)
    return f"{table.out(A, B)} are out" if table.out(A, B) != [[], []] else None


def early_problem() -> str | None:
    """What goes wrong if who is let in again speaks before it has received that it was."""
    table = Table(3)
    table.isolate(C)
    table.talk(A).remove(C)
    table.flush()
    for rank in (A, B, A, B):
        table.receive_all()
        table.talk(rank).send(b"on")
        table.flush()
    stable_wave = table.talk(A).replica.graph.stable_wave
    table.cut = set()
    back = table.restart(C, 2)
    table.wait(1)
    table.talk(A).add(C)
    table.flush()
    back.send(b"here")
    while not back.may_note() and back.receive() is not None:
        pass
    wave = back.note(b"back").wave
    return f"it speaks in wave {wave}, but {stable_wave} is complete" if wave <= stable_wave else None


def speak_astray(table: Table) -> tuple[ConversationCore, list[bytes]]:
    """C is back, and speaks, before it knows that A wants its former life out; it, and the packets, which are lost."""
    table.isolate(C)
    table.cut.add(frozenset((A, B)))
    table.talk(A).remove(C)
    table.flush()
    table.cut = {frozenset((A, B))}
    back = table.restart(C, 2)
    while back.is_recovering():
        table.wait(0.01)
    table.isolate(C)
    back.send(b"here")
    while back.receive() is not None:
        pass
    back.send(b"to nobody")
    return back, [packet for outgoing in table.hosts[C].flush(back, table.now_ns) for packet in outgoing.packets]


def astray_problem() -> str | None:
    """What goes wrong if who was back, and spoke, before it knew that it had been removed does not come back again."""
    table = Table(3)
    back, _ = speak_astray(table)
    table.cut = set()
    table.wait()
    counted = table.talk(B).replica.graph.last[C]
    is_lost = table.talk(A).replica.graph.is_masked(C) and back.replica.graph.last[C] > counted
    return f"it goes on behind {counted} with what nobody has" if is_lost and not back.removal.is_out else None


def stray_problem() -> str | None:
    """What goes wrong if what such a one had said is taken when it comes late, after it was let in again."""
    table = Table(3)
    _, packets = speak_astray(table)
    table.cut = {frozenset((A, C)), frozenset((B, C))}
    table.wait()
    table.talk(A).add(C)
    table.flush()
    counted = table.talk(A).replica.graph.last[C]
    for packet in packets:
        give(table.hosts[A], packet, table.now_ns)
    return "taken, though it follows nothing that let it in" if table.talk(A).replica.graph.last[C] > counted else None


def uncounted_problem() -> str | None:
    """What goes wrong if somebody is masked out before all that counts of it is here."""
    table = Table(4)
    table.cut = {frozenset((3, A)), frozenset((3, B))}
    table.talk(3).send(b"to c alone")
    table.flush()
    table.isolate(3)
    table.talk(A).remove(3)
    table.flush()
    for rank in (A, B):
        graph = table.talk(rank).replica.graph
        if graph.is_masked(3) and graph.last[3] < 2:
            return "masked out at another place than elsewhere"
    return None


def unsaved_problem() -> str | None:
    """What goes wrong if a checkpoint names a message that nobody else has, and does not hold it."""
    table = Table(3)
    table.isolate(C)
    talk = table.talk(C)
    talk.send(b"to nobody")
    leaves, sections = talk.checkpoint_leaves(), talk.checkpoint_sections()
    table.cut = set()
    back = table.restart(C, 2, leaves, sections)
    table.wait(1)
    return "the checkpoint cannot be come back to" if back.is_recovering() else None
