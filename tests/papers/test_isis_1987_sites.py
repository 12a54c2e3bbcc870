"""One test per claim of isis-1987, sections 4.1, 4.2 and 4.3.2, about sites that hold several processes."""

from antiphon.kernel.effects import BarrierReached, Delivered, Effects, Ended, Installed, MajorityLost
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.inputs import Leave, Pause, Resume, Send, Tick
from antiphon.kernel.levels import AGREED, CAUSAL, SAFE
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.packet_kinds import DATA
from antiphon.stacks.label.attached import OWED_BYTES_MAX
from antiphon.stacks.label.site_frames import MESSAGE, SiteMessage
from tests.stacks.label.site_table import SiteTable, site_problems
from tests.table import GROUP

P1, P2, P3, P4, P5, P6 = range(6)


def names(table: SiteTable, process: int) -> list[str]:
    """The members of the view that a process is in."""
    return [member.name for member in table.views[process][GROUP].members]


def failed(table: SiteTable, process: int) -> list[list[str]]:
    """Who failed, by the views that a process was told."""
    views = [event for event in table.events[process] if isinstance(event, Installed)]
    return [[each.name for each in event.failed] for event in views if event.failed]


# ---- 4.1: the layer between sites ------------------------------------------------------------------------------------


def test_4_1_a_process_fails_while_its_site_lives() -> None:
    """The failure is detected at the site, without a time-out, and told to all."""
    table = SiteTable(3, 2)
    before_ns = table.now_ns
    table.crash(P1)
    table.play(15)
    assert table.now_ns - before_ns < table.options.silence_ns_min
    for process in (P2, P3, P4, P5, P6):
        assert names(table, process) == ["p2", "p3", "p4", "p5", "p6"]
        assert failed(table, process) == [["p1"]]
    assert len(table.site(6).view.members) == 3


def test_4_1_all_processes_of_a_site_fail_with_it() -> None:
    """Processes at other sites detect that by time-outs only; both are gone with one view."""
    table = SiteTable(3, 2)
    table.crash(table.site_of(P1))
    table.play(20)
    assert names(table, P3) == ["p1", "p2", "p3", "p4", "p5", "p6"]
    table.play(400)
    for process in (P3, P4, P5, P6):
        assert failed(table, process) == [["p1", "p2"]]


def test_4_1_the_monitor_tells_of_a_failure_after_the_last_message_of_the_failed() -> None:
    table = SiteTable(3, 2)
    for _ in range(5):
        table.tell(P1, CAUSAL)
    table.tell(P1, AGREED, size=5000)
    table.crash(P1)
    table.play(40)
    for process in (P2, P3, P6):
        assert table.log[process] == [f"p1#{number}" for number in range(1, 7)]
        assert table.story[process][-1].endswith(": p2 p3 p4 p5 p6")
    assert site_problems(table) == []


def test_4_1_the_monitor_waits_for_what_the_site_could_not_send_yet() -> None:
    """The site has more than it can take in when the process fails: what waits there leaves first."""
    table = SiteTable(2, 4, pending_bytes_max=1500)
    sent = 0
    for _ in range(40):
        for process in (P1, P2, P3, P4):
            effects = table.step(process, Send(group=GROUP, payloads=[b"m"], level=CAUSAL))
            sent += effects.accepted if process == P4 else 0
    table.pass_links()
    (attached,) = [each for each in table.site(8).hosting.attached.values() if each.process.name == "p4"]
    assert len(attached.inbox) > 3
    table.crash(P4)
    table.pass_links()
    assert attached.is_gone
    table.play(100)
    assert [line for line in table.log[P5] if line.startswith("p4")] == [f"p4#{n}" for n in range(1, sent + 1)]
    assert "p4" not in names(table, P5)
    assert not table.site(8).hosting.failing


def test_4_1_a_process_that_is_silent_at_its_site_has_failed() -> None:
    """It does nothing, and its link stands: the site interrogates it, in vain."""
    table = SiteTable(2, 2)
    table.gone.add(P1)
    table.play(200)
    assert names(table, P2) == ["p1", "p2", "p3", "p4"]
    table.play(300)
    assert failed(table, P4) == [["p1"]]


def test_4_1_hello_messages_go_between_sites_only() -> None:
    """However many processes sites have, they exchange as many packets when nothing is sent."""
    counts = []
    for processes in (1, 4):
        table = SiteTable(2, processes)
        table.play(30)
        sent = 0
        for _ in range(200):
            sent += sum(len(packets) for packets in table.links.values())
            table.play(1)
        counts.append(sent)
    assert counts[0] == counts[1] > 10


def test_4_1_a_former_incarnation_of_a_process_is_told_that_it_is_dead() -> None:
    """Its link broke, so its site has told the others that it failed; it lives, and learns it."""
    table = SiteTable(2, 2)
    table.cut_link(P1)
    table.play(20)
    ended = [event for event in table.events[P1] if isinstance(event, Ended)]
    assert [event.excluded for event in ended] == [True]
    assert names(table, P3) == ["p2", "p3", "p4"]
    site = table.site(table.site_of(P1))
    assert site._transfer.table.is_dead(ProcessId("p1", 1))
    assert not site._transfer.table.is_dead(ProcessId("p1", 2))
    table.gone.discard(P1)
    table.come_in(P1)
    table.play(20)
    ended = [event for event in table.events[P1] if isinstance(event, Ended)]
    assert [event.excluded for event in ended] == [True, True]
    assert names(table, P3) == ["p2", "p3", "p4"]


def test_4_1_the_next_incarnation_of_a_process_is_another_process() -> None:
    table = SiteTable(2, 2)
    table.tell(P1, CAUSAL)
    table.restart(P1)
    table.play(50)
    assert table.views[P3][GROUP].members[-1] == ProcessId("p1", 2)
    assert failed(table, P3) == [["p1"]]
    table.tell(P1, CAUSAL)
    table.play(20)
    assert [event.sender.incarnation for event in table.events[P3] if isinstance(event, Delivered)] == [1, 2]


def test_4_1_messages_of_a_failed_incarnation_are_discarded() -> None:
    """What a site still has of a process whose next incarnation has entered elsewhere is delivered nowhere."""
    table = SiteTable(2, 2)
    site, other = table.site(table.site_of(P1)), table.site(table.site_of(P3))
    for where in (site, other):
        where._transfer.table._fail(ProcessId("p1", 1), site.site, set())
    before = [len(log) for log in table.log]
    late = SiteMessage(wire_id(GROUP), ProcessId("p1", 1), 9, (), [b"late"])
    site._send(bytes([MESSAGE]) + late.encode(), CAUSAL, "", table.now_ns)
    table.play(20)
    assert [len(log) for log in table.log] == before
    assert (site._delivery.dropped, other._delivery.dropped) == (1, 1)


def test_4_1_a_site_that_was_killed_comes_back_under_the_next_incarnation() -> None:
    """It was cut off, and the others went on: you are dead. Its processes are dead with it."""
    table = SiteTable(3, 2)
    site = table.site_of(P1)
    for other in (7, 8):
        table.cut(site, other)
        table.cut(other, site)
    table.play(600)
    assert failed(table, P3) == [["p1", "p2"]]
    assert any(isinstance(event, MajorityLost) for event in table.events[P1])
    table.mend()
    table.play(600)
    for process in (P1, P2):
        assert [event.excluded for event in table.events[process] if isinstance(event, Ended)] == [True]
    assert table.site(site).site == ProcessId("s1", 2)
    assert ProcessId("s1", 2) in table.site(7).view.members
    table.restart(P1)
    table.play(60)
    assert names(table, P3) == ["p3", "p4", "p5", "p6", "p1"]


# ---- 4.2: site views -------------------------------------------------------------------------------------------------


def test_4_2_the_oldest_site_is_the_view_manager_and_the_next_takes_over() -> None:
    table = SiteTable(3, 2)
    assert [site.name for site in table.site(7).view.members] == ["s1", "s2", "s3"]
    table.crash(6)
    table.play(400)
    assert [site.name for site in table.site(7).view.members] == ["s2", "s3"]
    table.gone.discard(6)
    table.restart(6)
    table.play(300)
    assert [site.name for site in table.site(7).view.members] == ["s2", "s3", "s1"]


def test_4_2_all_processes_go_through_the_same_views_of_their_group() -> None:
    """Process failures, a site failure and a join, in one sequence everywhere."""
    table = SiteTable(3, 2)
    table.crash(P4)
    table.play(40)
    table.crash(table.site_of(P1))
    table.play(400)
    table.restart(P4)
    table.play(60)
    stories = [[line for line in table.story[process] if ": " in line] for process in (P3, P5, P6)]
    assert stories[0] == stories[1] == stories[2]
    assert [line.split(": ")[1] for line in stories[0][-3:]] == ["p1 p2 p3 p5 p6", "p3 p5 p6", "p3 p5 p6 p4"]


def test_4_2_a_site_that_recovers_learns_who_is_in_which_group() -> None:
    table = SiteTable(3, 2)
    table.crash(8)
    table.play(400)
    table.gone.discard(8)
    table.restart(8)
    table.play(300)
    tables = {table.site(site)._transfer.table.encode() for site in (6, 7, 8)}
    assert len(tables) == 1
    table.restart(P5)
    table.play(60)
    assert names(table, P5) == ["p1", "p2", "p3", "p4", "p5"]
    table.tell(P1, CAUSAL)
    table.play(20)
    assert table.log[P5][-1] == "p1#1"


def test_4_2_if_the_site_that_tells_it_fails_another_does() -> None:
    """The oldest site dies before its word to the one that joins has left; in the next view another tells it."""
    table = SiteTable(5, 1)
    joiner, oldest = 9, 5
    table.crash(joiner)
    table.play(400)
    table.gone.discard(joiner)
    table.restart(joiner)
    for other in table.living_sites():
        table.lose_kinds(oldest, other, (DATA,))
    table.play(100)
    assert joiner in table.living_sites()
    assert len(table.site(joiner).view.members) == 5
    assert not table.site(joiner)._transfer.has_table
    table.crash(oldest)
    table.play(500)
    assert table.site(joiner)._transfer.has_table
    assert len({table.site(site)._transfer.table.encode() for site in table.living_sites()}) == 1


def test_4_2_after_a_total_failure_sites_found_their_group_anew_with_later_views() -> None:
    """Nothing survives; incarnations tell that what begins is later than what was."""
    table = SiteTable(3, 1)
    table.crash(P1)
    table.play(40)
    last = table.site(4).view.id
    table.crash(3, 4, 5)
    table.gone.clear()
    for site in (3, 4, 5):
        table.processes[site] = ProcessId(table.names[site], 1000)
        table.restart(site)
    for process in (P1, P2, P3):
        table.restart(process)
    table.play(400)
    assert names(table, P3) == names(table, P1)
    assert len(names(table, P1)) == 3
    assert table.views[P1][GROUP].id > 1000 > last


def test_4_2_at_most_one_majority_of_sites_goes_on() -> None:
    """Whoever is with the minority waits, however many processes there are."""
    table = SiteTable(3, 2)
    for other in (7, 8):
        table.cut(6, other)
        table.cut(other, 6)
    table.play(500)
    table.tell(P1, CAUSAL)
    table.play(50)
    assert not table.log[P2]
    table.tell(P3, CAUSAL)
    table.play(50)
    assert table.log[P6] == ["p3#1"]


# ---- 4.3.2: one message pool at a site, packets between sites --------------------------------------------------------


def test_4_3_2_one_packet_carries_the_messages_of_a_site_to_all_processes_of_another() -> None:
    table = SiteTable(2, 3)
    table.play(30)
    for process in (P1, P2, P3):
        for _ in range(4):
            table.tell(process, CAUSAL)
    for line in table.lines:  # what all three have handed in comes in one moment
        if line.ends[1] == 6:
            table.site(6).receive_frames(line.ids[1], line.under_way[6], Effects(), table.now_ns)
            line.under_way[6] = []
    table.step(6, Tick())
    assert table.packets_between_sites() == 1
    table.play(20)
    for process in (P4, P5, P6):
        assert sorted(table.log[process]) == sorted(f"p{sender}#{n}" for sender in (1, 2, 3) for n in range(1, 5))


def test_4_3_2_a_message_is_at_a_site_once_whoever_it_is_for() -> None:
    """Four processes of a site share one copy, until all sites have delivered it."""
    table = SiteTable(2, 4)
    table.play(30)
    table.tell(P1, SAFE)
    table.pass_links()
    assert len(table.site_session(8).pool.copies) == 1
    table.pass_all()
    assert len(table.site_session(9).pool.copies) == 1
    table.play(40)
    assert [log[-1:] for log in table.log[:8]] == [["p1#1"]] * 8
    assert not table.site_session(8).pool.copies
    assert not table.site_session(9).pool.copies


def test_4_3_2_remaining_destinations_are_sites() -> None:
    table = SiteTable(3, 2)
    table.play(30)
    table.tell(P1, CAUSAL)
    table.pass_links()
    (item,) = table.site_session(6).pool.copies.values()
    assert item.remaining == 0b110
    assert item.sent_to == 0b110
    table.pass_on(6, 7)
    table.wait(10 * MILLISECOND_NS)
    table.pass_on(7, 6)
    assert item.remaining == 0b100


def test_4_3_2_a_message_goes_to_the_sites_of_its_destinations_only() -> None:
    table = SiteTable(3, 2)
    table.play(30)
    table.tell(P1, CAUSAL, [P2, P5])
    table.pass_links()
    (item,) = table.site_session(6).pool.copies.values()
    assert item.destinations == 0b101
    assert table.take_data(6, 7) == []
    table.play(20)
    assert table.log[P2] == table.log[P5] == ["private p1#1"]
    assert table.log[P1] == table.log[P3] == table.log[P6] == []


def test_4_3_2_destinations_are_those_of_the_view_in_which_a_message_leaves() -> None:
    """It was handed in before the view changed, and leaves after: the process that came meanwhile gets it, too."""
    table = SiteTable(3, 2)
    table.crash(P5, P6)
    table.play(40)
    table.restart(P5)
    table.pass_links()
    table.pass_links()
    for _ in range(30):  # more than the window of the site
        table.tell(P1, CAUSAL)
        table.tell(P2, CAUSAL)
    table.pass_links()
    table.play(150)
    assert names(table, P1) == ["p1", "p2", "p3", "p4", "p5"]
    came = [line for line in table.story[P5] if "#" in line or line.endswith("p4 p5")]
    after = [line for line in table.story[P1] if "#" in line or line.endswith("p4 p5")]
    assert came[-40:] == after[after.index(came[0]) :][-40:]
    assert len(came) > 10


# ---- groups, flow and the rest of the interface ----------------------------------------------------------------------


def test_3_1_a_gbcast_of_a_process_has_one_place_at_all_processes() -> None:
    table = SiteTable(3, 2)
    for round in range(3):
        table.tell(P1, CAUSAL)
        table.tell(P4, AGREED)
        table.barrier(P2 if round else P6)
        table.tell(P2, CAUSAL)
        table.pass_links()
    table.play(200)
    places = []
    for process in range(6):
        seen: set[str] = set()
        told = []
        for line in table.log[process]:
            if line.startswith("barrier"):
                told.append((line, frozenset(seen)))
            seen.add(line)
        places.append(told)
    assert len(places[0]) == 3
    assert all(each == places[0] for each in places)
    assert all(any(isinstance(event, BarrierReached) for event in events) for events in table.events[:6])


def test_3_1_a_process_withdraws_while_its_site_stays() -> None:
    table = SiteTable(2, 2)
    table.tell(P1, CAUSAL)
    table.step(P1, Leave(GROUP))
    table.play(40)
    assert [event.excluded for event in table.events[P1] if isinstance(event, Ended)] == [False]
    left = [event.left for event in table.events[P4] if isinstance(event, Installed) and event.left]
    assert [[each.name for each in some] for some in left] == [["p1"]]
    assert table.log[P4] == ["p1#1"]


def test_3_5_a_process_that_does_not_read_holds_up_its_senders_and_loses_nothing() -> None:
    table = SiteTable(2, 2)
    table.step(P4, Pause(GROUP))
    sent = 0
    for _ in range(150):
        effects = table.step(P1, Send(group=GROUP, payloads=[bytes(20_000)], level=CAUSAL))
        sent += effects.accepted
        table.play(1)
    table.play(150)
    assert table.log[P4] == []
    assert len(table.log[P3]) < sent
    held = table.engines[P4]._groups[GROUP].held()
    assert OWED_BYTES_MAX < 20_100 * held < OWED_BYTES_MAX + 20 * 20_100
    table.step(P4, Resume(GROUP))
    table.play(300)  # the window is small
    assert table.log[P4] == table.log[P3] == [f"p1#{number}" for number in range(1, sent + 1)]
