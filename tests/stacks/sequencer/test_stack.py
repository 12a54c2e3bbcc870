"""The service end to end at the engine: joining, sending, leaving, links that break, clients that fail."""

from random import Random

import pytest

from antiphon.kernel.effects import Ended, RequestRefused, Writable
from antiphon.kernel.errors import MessageTooLargeError, UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Close, Create, Join, Open, Pause, Resume, Send
from antiphon.kernel.levels import AGREED
from antiphon.kernel.options import Options
from tests.stacks.sequencer.service_table import SERVICE, ServiceTable


def test_members_join_send_and_see_one_order() -> None:
    table = ServiceTable(3)
    for name in table.names[1:]:
        table.join(name, "g")
    table.run()
    for name in table.names[1:]:
        table.send(name, "g", b"a", b"b")
    table.run()
    assert table.messages("p1") == table.messages("p2") == table.messages("p3")
    assert len(table.messages("p1")) == 6
    assert [view.members for view in (table.views[name]["g"] for name in table.names[1:])] == [
        tuple(ProcessId(name) for name in table.names[1:])
    ] * 3
    assert all(engine.outstanding("g") == 0 for name, engine in table.engines.items() if name != SERVICE)


def test_a_leaver_sees_its_own_leave_in_the_order_and_can_come_back() -> None:
    table = ServiceTable(2)
    table.join("p1", "g")
    table.join("p2", "g")
    table.run()
    table.send("p2", "g", b"last")
    table.leave("p2", "g")
    table.run()
    assert table.log["p2"] == ["g: p1 p2", "g:p2#1", "g: left"]
    assert table.log["p1"] == ["g: p1", "g: p1 p2", "g:p2#1", "g: p1"]
    table.join("p2", "g")
    table.run()
    table.send("p2", "g", b"again")
    table.run()
    assert table.log["p2"][3:] == ["g: p1 p2", "g:p2#2"]
    assert table.log["p1"][4:] == ["g: p1 p2", "g:p2#2"]


@pytest.mark.parametrize("seed", range(60))
def test_through_links_that_break_every_client_delivers_in_the_order_of_the_accepts(seed: int) -> None:
    random = Random(seed)
    table = ServiceTable(4)
    groups = ["a", "b", "c"]
    for name in table.names[1:]:
        table.join(name, *random.sample(groups, random.randrange(1, 4)))
    table.run(5)
    for _ in range(60):
        name = random.choice(table.names[1:])
        chance = random.random()
        inside = list(table.views[name])
        if chance < 0.5 and inside:
            table.send(name, random.choice(inside), b"x" * random.randrange(3000))
        elif chance < 0.6 and inside:
            group = random.choice(inside)
            if table.engines[name].is_member(group):
                table.leave(name, group)
        elif chance < 0.7:
            group = random.choice(groups)
            if not table.engines[name].is_member(group):
                table.join(name, group)
        elif chance < 0.8:
            table.cut(name)
        elif chance < 0.85:
            table.hold(name)
        else:
            table.release(name)
        table.run(random.choice((0, 0, 1, 10)))
    for name in table.names[1:]:
        table.release(name)
    table.run(400)
    # Every pair of clients has its common messages in one order, and no message twice.
    for one in table.names[1:]:
        assert len(table.messages(one)) == len(set(table.messages(one)))
        for other in table.names[1:]:
            common = set(table.messages(one)) & set(table.messages(other))
            assert [m for m in table.messages(one) if m in common] == [m for m in table.messages(other) if m in common]
    for group in groups:
        inside = [name for name in table.names[1:] if group in table.views[name]]
        assert len({repr(table.views[name][group]) for name in inside}) <= 1
        assert all(len(table.views[name][group].members) == len(inside) for name in inside)
        assert all(table.engines[name].outstanding(group) == 0 for name in inside)
        assert all(table.engines[name].held(group) == 0 for name in inside)


def test_a_repeated_multicast_is_recognised_after_the_history_was_pruned() -> None:
    table = ServiceTable(1)
    table.join("p1", "g")
    table.run(100)
    table.hold("p1")  # the accept does not reach its sender
    table.send("p1", "g", b"once")
    table.run(2)
    table.cut("p1")
    table.release("p1")
    table.run(100)
    assert table.messages("p1") == ["g:p1#1"]
    assert table.engines[SERVICE].situations()["repeated message recognised"] == 1


def test_a_client_that_is_gone_is_excluded_and_its_incarnation_stays_out() -> None:
    table = ServiceTable(2)
    table.join("p1", "g", "h")
    table.join("p2", "g")
    table.run()
    table.cut("p1", unreachable=True)
    table.run(1500)
    assert table.log["p2"] == ["g: p1 p2", "g: p2"]
    table.unreachable.clear()
    table.run(400)
    assert table.log["p1"][-2:] == ["g: excluded", "h: excluded"]
    assert [event.excluded for event in table.events["p1"] if isinstance(event, Ended)] == [True, True]
    table.join("p1", "g")
    table.run(400)
    assert table.log["p1"][-3:] == ["g: excluded", "h: excluded", "g: excluded"]
    assert table.log["p2"] == ["g: p1 p2", "g: p2"]


def test_a_sender_that_is_no_member_is_acknowledged_and_refused_where_there_is_no_group() -> None:
    table = ServiceTable(2)
    table.join("p1", "g")
    table.run()
    with pytest.raises(UsageError, match="open the role 'client' with a contact"):
        table.send("p2", "g", b"x")
    table.step("p2", Open(stack="sequencer", role="client", contacts=(SERVICE,)))
    table.run(2)
    assert table.send("p2", "g", b"news", b"more", request=1).accepted == 2
    table.run()
    assert table.messages("p1") == ["g:p2#1", "g:p2#2"]
    assert table.messages("p2") == []
    table.send("p2", "nowhere", b"x", request=2)
    table.run()
    refused = [event for event in table.events["p2"] if isinstance(event, RequestRefused)]
    assert [(event.group, event.request) for event in refused] == [("nowhere", 2)]
    table.step("p2", Close(stack="sequencer", role="client"))
    table.run()
    assert table.links[0].client == "p1"
    assert len(table.links) == 1


def test_a_paused_application_gets_nothing_and_holds_its_senders_up_at_last() -> None:
    table = ServiceTable(2)
    table.join("p1", "g")
    table.join("p2", "g")
    table.run()
    table.step("p2", Pause("g"))
    payload = bytes(60_000)
    taken = 0
    for _ in range(200):
        taken += table.send("p1", "g", payload).accepted
        table.run(1)
    assert table.messages("p2") == []
    assert taken < 100, "the history is full, and then what p1 may have under way"
    assert not any(isinstance(event, Writable) for event in table.events["p1"][-3:])
    table.step("p2", Resume("g"))
    table.run(400)
    assert table.messages("p2") == table.messages("p1") == [f"g:p1#{number}" for number in range(1, taken + 1)]
    assert isinstance(table.events["p1"][-1], Writable) or table.send("p1", "g", b"x").accepted == 1


def test_long_messages_arrive_whole() -> None:
    table = ServiceTable(2, Options(message_bytes_max=3_000_000))
    table.join("p1", "g")
    table.join("p2", "g")
    table.run()
    payload = bytes(range(256)) * 10_000
    assert table.send("p1", "g", b"before", payload, b"after").accepted == 2
    table.run()
    assert any(isinstance(event, Writable) for event in table.events["p1"])
    table.send("p1", "g", b"after")
    table.run()
    delivered = [p for event in table.events["p2"] for p in getattr(event, "payloads", [])]
    assert delivered == [b"before", payload, b"after"]
    with pytest.raises(MessageTooLargeError):
        table.send("p1", "g", bytes(3_000_001))


def test_misuse_is_refused_in_words() -> None:
    table = ServiceTable(1)
    view = View(1, (ProcessId("p1"),))
    with pytest.raises(UsageError, match="name the address of one of its peers as a contact"):
        table.step("p1", Join(group="g", stack="sequencer", policy="primary", view=view))
    with pytest.raises(UsageError, match="live at a sequencing service"):
        table.step("p1", Create(group="g", stack="sequencer", policy="primary"))
    with pytest.raises(UsageError, match="is a peer of the sequencing service already"):
        table.step(SERVICE, Open(stack="sequencer", role="peer"))
    with pytest.raises(UsageError, match="has the roles 'peer', and 'client'"):
        table.step("p1", Open(stack="sequencer", role="client"))
    with pytest.raises(UsageError, match="cannot give up the role 'peer'"):
        table.step("p1", Close(stack="sequencer", role="peer"))
    table.join("p1", "g")
    table.run()
    with pytest.raises(UsageError, match="sends every message to all members"):
        table.step("p1", Send(group="g", payloads=[b""], level=AGREED, destinations=(ProcessId("p1"),)))
