"""Claims of kindberg-1995, section 4, about the second data path: clients multicast bodies, the sequencer the order."""

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import AGREED
from antiphon.stacks.sequencer.place import read_accept, read_order
from antiphon.stacks.sequencer.wire import (
    ACCEPT,
    ADDRESS,
    CHANGE,
    FETCH,
    LEAVE,
    MEMBERS,
    MULTICAST,
    ORDER,
    FrameReader,
    groups_bytes,
    pairs_bytes,
    processes_bytes,
    text,
    u64,
)
from tests.papers.test_kindberg_1995 import G, RawClient, peer_group
from tests.stacks.sequencer.service_table import ServiceTable, messages_bytes

BODY = b"body" * 100


def members(count: int) -> list[RawClient]:
    """Members of one group that take bodies from each other."""
    table = ServiceTable(0)
    clients = [RawClient(table, f"raw{number}") for number in range(1, count + 1)]
    for client in clients:
        client.join()
        client.ask(ADDRESS, text(f"{client.link.client}:1"))
    return clients


def multicast(sender: RawClient, served: list[str]) -> None:
    """Multicast a message whose body goes to some members by another way."""
    named = processes_bytes([ProcessId(name) for name in served])
    messages = messages_bytes(1, AGREED, [BODY])
    sender.ask(MULTICAST, u64(G), u64(0), pairs_bytes({}), named, messages)


def addresses_in(reader: FrameReader) -> dict[str, str]:
    reader.group()
    return {process.name: reader.text() for process in reader.processes()}


def test_4_an_accept_without_the_body_assigns_the_number_alone() -> None:
    sender, served, other = members(3)
    for client in (served, other):
        client.heard()
    multicast(sender, ["raw2"])
    [(kind, order)] = served.heard()
    assert kind == ORDER
    assert BODY not in order.whole()
    place = read_order(order)
    [(kind, reader)] = other.heard()
    assert kind == ACCEPT
    whole = read_accept(reader)
    assert whole.payloads == [BODY]
    assert (place.number, place.stamp, place.context) == (whole.number, whole.stamp, whole.context)
    assert (place.sender, place.first, place.count) == (ProcessId("raw1"), 1, 1)


def test_4_the_sequencer_has_the_body_and_supplies_it_to_whoever_lacks_it() -> None:
    sender, served = members(2)
    served.heard()
    multicast(sender, ["raw2"])
    served.heard()
    number = peer_group(sender.table).number
    fetched = served.ask(FETCH, u64(G), u64(number), u64(number))
    assert [read_accept(reader).payloads for kind, reader in fetched if kind == ACCEPT] == [[BODY]]


def test_4_the_sequencer_adjusts_the_member_lists_that_senders_hold() -> None:
    first, second = members(2)
    told = [addresses_in(reader) for kind, reader in first.heard() if kind == MEMBERS]
    assert told == [{"raw2": "raw2:1"}]
    third = RawClient(first.table, "raw3")
    third.join()
    assert MEMBERS not in [kind for kind, _ in first.heard()]  # it takes no bodies
    answered = third.ask(ADDRESS, text("raw3:1"))
    assert [addresses_in(reader) for kind, reader in answered] == [{"raw1": "raw1:1", "raw2": "raw2:1"}]
    assert [addresses_in(reader) for kind, reader in first.heard() if kind == MEMBERS] == [{"raw3": "raw3:1"}]
    second.ask(LEAVE, u64(G), groups_bytes([G]))
    assert [kind for kind, _ in first.heard()] == [CHANGE]  # the view says that it is gone


def test_4_a_sender_whose_list_is_old_costs_bytes_and_nothing_else() -> None:
    sender, gone, late = members(3)
    gone.ask(LEAVE, u64(G), groups_bytes([G]))
    late.heard()
    gone.heard()
    multicast(sender, ["raw2"])
    assert [kind for kind, _ in late.heard()] == [ACCEPT]
    assert gone.heard() == []
