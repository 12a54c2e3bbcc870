"""isis-1987: where the protocols as they are written break their promises, each as a run of the literal protocol that
shows it, and the same run on the stack, where it is mended."""

from dataclasses import dataclass, field

import pytest

from antiphon.kernel.inputs import Pause, Resume
from antiphon.kernel.levels import AGREED, CAUSAL
from tests.papers.isis_1987_scene import calm, members
from tests.stacks.label.scene import LabelTable, problems, rest
from tests.table import GROUP


@dataclass
class LiteralMember:
    """One member as 4.3 and 4.4 describe it, as far as the runs below need it."""

    name: str
    delivered: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    """IDlist: causal broadcasts on the delivery queue."""
    waiting: list[str] = field(default_factory=list)
    """The wait queue, while a GBCAST is under way."""
    is_waiting: bool = False
    seen: set[str] = field(default_factory=set)
    """The store: ids that are known."""
    priority: int = 0

    def causal(self, message: str) -> None:
        if message in self.seen:
            return
        self.seen.add(message)
        if self.is_waiting:
            self.waiting.append(message)
        else:
            self.delivered.append(message)
            self.ids.add(message)

    def list_ids(self) -> set[str]:
        """3.2 and 3.3 of GBCAST."""
        self.is_waiting = True
        return set(self.ids)

    def finish(self, broadcast: str, before: set[str]) -> None:
        """Part 4 of GBCAST."""
        self.delivered += [message for message in self.waiting if message in before]
        self.delivered.append(broadcast)
        rest_of = [message for message in self.waiting if message not in before]
        self.waiting, self.is_waiting = [], False
        for message in rest_of:
            self.delivered.append(message)
            self.ids.add(message)

    def collect(self, message: str) -> None:
        """The delete action of 4.4."""
        self.ids.discard(message)


def place(member: LiteralMember, message: str, broadcast: str) -> bool:
    """Whether a member delivered the message before the broadcast."""
    return member.delivered.index(message) < member.delivered.index(broadcast)


def test_4_3_3_hole_a_a_restarted_gbcast_lists_later_messages() -> None:
    q, r = LiteralMember("q"), LiteralMember("r")
    before = q.list_ids() | r.list_ids()
    q.finish("g", before)  # the coordinator dies before r has the list
    q.causal("c")
    r.causal("c")
    r.finish("g", q.list_ids() | r.list_ids())  # r restarts the protocol from the beginning
    assert place(r, "c", "g")
    assert not place(q, "c", "g")


def test_4_3_3_hole_a_mended_whoever_delivered_it_answers_with_the_list_it_used() -> None:
    q, r = LiteralMember("q"), LiteralMember("r")
    used = q.list_ids() | r.list_ids()
    q.finish("g", used)
    q.causal("c")
    r.causal("c")
    r.finish("g", used)
    assert not place(r, "c", "g")
    assert not place(q, "c", "g")


@pytest.mark.parametrize("effect", range(4, 60, 2))
def test_4_3_3_hole_a_does_not_arise_on_the_stack(effect: int) -> None:
    """The cut that a proposal names was accepted before anybody installs it, and a new leader proposes it again."""
    table = LabelTable(4, {effect})
    table.barrier(0)
    for _ in range(3):
        table.tell(2, CAUSAL)
        table.pass_all()
    rest(table)
    assert problems(table) == []


def test_4_4_hole_b_collection_strips_an_id_that_waits_elsewhere() -> None:
    a, b = LiteralMember("a"), LiteralMember("b")
    b.list_ids()  # a GBCAST g has begun at b
    a.causal("c")
    b.causal("c")
    a.collect("c")  # REM-DESTS is empty: b has a copy
    b.collect("c")
    before = a.list_ids() | b.list_ids()
    a.finish("g", before)
    b.finish("g", before)
    assert place(a, "c", "g")
    assert not place(b, "c", "g")


def test_4_4_hole_b_does_not_arise_on_the_stack() -> None:
    """What waits at one member is not collected at another, and is in the cut."""
    table = members(3, "primary")
    table.step(1, Pause(GROUP))
    table.tell(0, CAUSAL)
    table.play(40)
    assert table.session(0).pool.collected[0] == 0
    table.barrier(2)
    table.play(100)
    table.step(1, Resume(GROUP))
    rest(table)
    assert all(log.index("p1#1") < log.index("barrier p3#1") for log in table.log)


def literal_takeover(priorities: dict[str, int]) -> int:
    """4.3.1: nobody has the message marked deliverable, so the highest of the priorities is taken."""
    return max(priorities.values())


def test_4_3_1_hole_c_two_takeovers_end_with_two_priorities() -> None:
    priorities = {"q": 5, "r": 9, "s": 2}
    of_q = literal_takeover(priorities)
    del priorities["r"]  # r fails, q's commit is on its way, s has not heard of it and takes over too
    of_s = literal_takeover(priorities)
    assert of_q != of_s


@pytest.mark.parametrize("first", range(8, 40, 4))
def test_4_3_1_hole_c_does_not_arise_on_the_stack(first: int) -> None:
    """One end of the view decides for all, whoever leads it and whoever fails meanwhile."""
    for second in range(first + 1, first + 30, 5):
        table = LabelTable(5, {first, second})
        for sender in range(3):
            table.tell(sender, AGREED)
        rest(table)
        assert problems(table) == []


def literal_priorities(counters: dict[str, int], destinations: str) -> int:
    """Two-phase priorities among the destinations alone: the highest is final."""
    for member in destinations:
        counters[member] += 1
    return max(counters[member] for member in destinations)


def test_3_4_hole_d_abcast_over_cbcast_turns_causality_round() -> None:
    counters = {"p": 9, "q": 0, "r": 0}
    first = literal_priorities(counters, "pq")
    second = literal_priorities(counters, "qr")
    assert second < first  # q delivers the second before the first, though one sender sent them in this order


def test_3_4_hole_d_does_not_arise_on_the_stack() -> None:
    table = members(4)
    for _ in range(6):  # p2's clock is ahead
        table.tell(1, CAUSAL, [1])
    table.tell(0, AGREED, [1, 2])
    table.tell(0, AGREED, [2, 3])
    calm(table)
    assert table.log[2] == ["private p1#1", "private p1#2"]
    assert problems(table) == []


def test_4_6_hole_e_does_not_arise_where_all_are_carried() -> None:
    table = members(3)
    table.tell(0, CAUSAL, [2])
    table.tell(0, CAUSAL, [1])
    slow = table.take(0, 2)
    table.pass_on(0, 1)
    table.tell(1, CAUSAL, [2])
    table.pass_on(1, 2)
    assert table.log[2] == ["private p1#1", "private p2#1"]
    table.arrive(2, *slow)
    assert table.log[2] == ["private p1#1", "private p2#1"]


def test_3_6_hole_f_a_retry_with_the_same_id_is_a_duplicate() -> None:
    q = LiteralMember("q")
    q.seen.add("m")  # rejected: it was sent to an old view; but its id is in the store
    q.causal("m")  # the retry
    assert "m" not in q.delivered
    q.causal("m again")
    assert "m again" in q.delivered


def test_3_6_hole_f_does_not_arise_on_the_stack() -> None:
    """Ids count within a view: what leaves in the next one has an id of that view, and is known by its own number."""
    table = members(3, "primary")
    table.tell(0, CAUSAL)
    calm(table)
    table.barrier(0)
    table.tell(0, CAUSAL)
    rest(table)
    assert all(log == ["p1#1", "barrier p1#2", "p1#3"] for log in table.log)
    table.play(30)
    assert table.session(1).pool.collected[0] == 1
