"""Domains linked by their relays, as machines on a table: frames overtake each other and come twice."""

from random import Random

import pytest

from antiphon.stacks.domain.export import (
    AGREED_EXPORT,
    CAUSAL_EXPORT,
    MESSAGE,
    PLACE,
    SAFE_EXPORT,
    DomainExports,
    ExportFrame,
    GlobalId,
    GlobalMessage,
)

LEVELS = (CAUSAL_EXPORT, AGREED_EXPORT, SAFE_EXPORT)


class Table:
    """Some domains, and what is on its way between them."""

    def __init__(self, seed: int, domains: int = 4) -> None:
        self.random = Random(seed)
        self.names = tuple("ABCDE"[:domains])
        self.machines = {name: DomainExports(name, self.names) for name in self.names}
        self.delivered: dict[str, list[GlobalMessage]] = {name: [] for name in self.names}
        self.past: dict[GlobalId, set[GlobalId]] = {}
        self.known: dict[str, set[GlobalId]] = {name: set() for name in self.names}
        """By domain: what one careful sender there has sent or delivered."""
        self.waiting: dict[str, int] = dict.fromkeys(self.names, 0)
        """By domain: ordered messages of that sender that are not delivered."""

    def take(self, name: str) -> None:
        machine = self.machines[name]
        for message in machine.delivered:
            self.delivered[name].append(message)
            self.known[name] |= {message.id} | self.past[message.id]
            if message.id[0] == name and message.level != CAUSAL_EXPORT:
                self.waiting[name] -= 1
        machine.delivered = []

    def submit(self, name: str) -> None:
        level = self.random.choice(LEVELS)
        if level == CAUSAL_EXPORT and self.waiting[name]:
            return  # rule 6: the caller holds it back
        others = [other for other in self.names if other != name]
        domains = tuple(sorted({name, *self.random.sample(others, self.random.randint(1, len(others)))}))
        number = self.machines[name].initiated + 1
        self.past[name, number] = set(self.known[name])
        self.known[name].add((name, number))
        self.waiting[name] += level != CAUSAL_EXPORT
        self.machines[name].submit(f"{name}1", number, level, domains, b"")
        self.take(name)

    def frames(self) -> list[ExportFrame]:
        return [frame for machine in self.machines.values() for box in machine.outbox.values() for frame in box]

    def carry(self) -> bool:
        """One of the frames arrives, perhaps not the next one, perhaps again; whether any can."""
        frames = self.frames()
        ready = [frame for frame in frames if self.machines[frame.destination].may_import(frame)]
        if not ready:
            return False
        frame = self.random.choice(ready if self.random.random() < 0.6 else frames)
        target = self.machines[frame.destination]
        target.import_frame(frame)
        self.take(frame.destination)
        if self.random.random() < 0.3:
            assert not target.import_frame(frame)
        if self.random.random() < 0.3:
            count = target.counters.get((frame.origin, frame.destination), 0)
            self.machines[frame.origin].acknowledge(frame.destination, count)
        return True

    def judge(self) -> None:
        for name, own in self.delivered.items():
            seen: set[GlobalId] = set()
            meant = {message.id for messages in self.delivered.values() for message in messages
                     if name in message.domains}  # fmt: skip
            for message in own:
                assert message.id not in seen
                assert self.past[message.id] & meant <= seen, f"{name} delivers {message.id} before its past"
                seen.add(message.id)
            assert seen == meant
        for one in self.names:
            for other in self.names:
                both = {m.id for m in self.delivered[one]} & {m.id for m in self.delivered[other]}
                ordered = [
                    [m.id for m in self.delivered[name] if m.id in both and m.level != CAUSAL_EXPORT]
                    for name in (one, other)
                ]
                assert ordered[0] == ordered[1]


def play(seed: int) -> Table:
    """A run, judged."""
    table = Table(seed, 2 + seed % 4)
    for _ in range(200):
        if table.random.random() < 0.25:
            table.submit(table.random.choice(table.names))
        else:
            table.carry()
    for _ in range(3000):
        if not table.carry():
            break
    else:
        raise AssertionError("there is no end of frames")
    table.judge()
    return table


@pytest.mark.parametrize("seed", range(16))
def test_global_messages_are_in_causal_and_in_one_order(seed: int) -> None:
    assert sum(map(len, play(seed).delivered.values())) > 20


def test_a_safe_message_waits_for_all_its_domains() -> None:
    machines = {name: DomainExports(name, ("A", "B", "C")) for name in "ABC"}
    machines["A"].submit("a", 1, SAFE_EXPORT, ("A", "B", "C"), b"x")
    frames = machines["A"].outbox
    assert machines["B"].import_frame(frames["B"][0])
    assert machines["B"].import_frame(frames["B"][1])
    assert machines["B"].delivered == []
    assert machines["A"].delivered == []
    assert machines["C"].import_frame(frames["C"][0])
    for origin, target in (("B", "A"), ("C", "A"), ("C", "B"), ("B", "C")):
        assert machines[target].import_frame(machines[origin].outbox[target][0])
    assert [machine.delivered != [] for machine in machines.values()] == [True, True, False]
    assert machines["C"].import_frame(frames["C"][1])
    assert machines["C"].delivered != []


def test_a_message_by_another_way_does_not_overtake() -> None:
    """m1 from A to B and C; then, behind it, m2 from B to C: C waits for m1."""
    machines = {name: DomainExports(name, ("A", "B", "C")) for name in "ABC"}
    machines["A"].submit("a", 1, CAUSAL_EXPORT, ("A", "B", "C"), b"m1")
    assert machines["B"].import_frame(machines["A"].outbox["B"][0])
    machines["B"].submit("b", 1, CAUSAL_EXPORT, ("B", "C"), b"m2")
    assert not machines["C"].import_frame(machines["B"].outbox["C"][0])
    assert machines["C"].import_frame(machines["A"].outbox["C"][0])
    assert machines["C"].import_frame(machines["B"].outbox["C"][0])
    assert [message.payload for message in machines["C"].delivered] == [b"m1", b"m2"]


def test_what_is_acknowledged_leaves_the_outbox() -> None:
    machine = DomainExports("A", ("A", "B"))
    for _ in range(3):
        machine.submit("a", 1, CAUSAL_EXPORT, ("A", "B"), b"")
    machine.acknowledge("B", 2)
    assert [frame.number() for frame in machine.outbox["B"]] == [3]
    machine.acknowledge("Z", 9)
    assert not machine.is_full()


def test_frames_that_nobody_can_have_sent_are_not_sound() -> None:
    machine = DomainExports("B", ("A", "B", "C"))
    message = GlobalMessage(("A", 1), "a", 1, CAUSAL_EXPORT, ("A", "B"), b"")
    good = ExportFrame("A", "B", {("A", "B"): 1}, MESSAGE, ("A", 1), message)
    assert machine.is_sound(good)
    for bad in (
        ExportFrame("Z", "B", {}, MESSAGE, ("Z", 1), message),
        ExportFrame("A", "C", {}, MESSAGE, ("A", 1), message),
        ExportFrame("A", "B", {("A", "Z"): 1}, MESSAGE, ("A", 1), message),
        ExportFrame("A", "B", {}, MESSAGE, ("A", 2), message),
        ExportFrame("A", "B", {}, MESSAGE, ("A", 1), None),
        ExportFrame("C", "B", {}, PLACE, ("A", 1), None),
        ExportFrame("A", "B", {}, 7, ("A", 1), None),
        ExportFrame("A", "B", {}, MESSAGE, ("A", 1), GlobalMessage(("A", 1), "a", 1, 9, ("A", "B"), b"")),
    ):
        assert not machine.is_sound(bad)


def test_in_its_own_domain_a_causal_message_waits_for_no_place() -> None:
    """Else local messages of its sender, which do not stand in line, would overtake it."""
    machine = DomainExports("A", ("A", "B", "C"))
    machine.submit("a", 1, SAFE_EXPORT, ("A", "B"), b"safe")
    machine.submit("b", 1, CAUSAL_EXPORT, ("A", "C"), b"causal")
    assert [message.payload for message in machine.delivered] == [b"causal"]
