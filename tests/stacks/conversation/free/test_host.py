"""All conversations of a process: opening, limits, closing, and packets that nobody honest has sent."""

from itertools import product
from random import Random

import pytest

from antiphon.kernel.codec import seal, unseal
from antiphon.kernel.errors import UsageError
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import ADD, START
from antiphon.stacks.conversation.free.conversation import ConversationCore, participants_tag
from antiphon.stacks.conversation.free.host import ConversationHost, participant
from antiphon.stacks.conversation.free.limits import Limits
from antiphon.stacks.conversation.free.wire import (
    KINDS,
    encode_add,
    encode_start,
    participants_section,
    section,
)
from antiphon.stacks.conversation.offers import NUMBER
from tests.stacks.conversation.packets import give, refusal

NAMES = {"b": "b:1", "c": "c:1"}


def opened(host: ConversationHost, payload: bytes = b"first", **settings: bool) -> tuple[ConversationCore, bytes]:
    """A conversation of a, b and c, with its first packet."""
    conversation = host.active_open(dict(NAMES), "a:1", **settings)
    conversation.send(payload)
    return conversation, host.flush(conversation, 0)[0].packets[0]


def test_to_open_sends_nothing() -> None:
    host = ConversationHost("a", Options())
    conversation = host.active_open(dict(NAMES), "a:1")
    assert host.flush(conversation, 0) == []
    assert conversation.me == 0


def test_conversations_of_one_process_have_names_of_their_own() -> None:
    lives = [ConversationHost("a", Options(), life=life) for life in (1, 2)]
    cids = [host.active_open(dict(NAMES), "a:1").cid for host in lives for _ in range(2)]
    assert len(set(cids)) == 4


def test_a_message_goes_out_once_to_all_addresses() -> None:
    host = ConversationHost("a", Options())
    conversation = host.active_open(dict(NAMES), "a:1")
    conversation.send(b"1")
    conversation.send(b"2")
    outgoing = host.flush(conversation, 0)
    assert [(each.route.addresses, len(each.packets)) for each in outgoing] == [(("b:1", "c:1"), 2)]


def test_the_first_message_opens_a_conversation_elsewhere() -> None:
    a, b = ConversationHost("a", Options()), ConversationHost("b", Options())
    conversation, first = opened(a)
    assert b.passive_open() is None
    assert refusal(b, first) == ""
    assert b.pending() == 1
    accepted = b.passive_open()
    assert accepted is not None
    assert (accepted.cid, accepted.me) == (conversation.cid, 1)
    got = accepted.receive()
    assert got is not None
    assert got[1] == b"first"
    assert b.passive_open() is None


def test_what_is_pending_keeps_one_message() -> None:
    a, b = ConversationHost("a", Options()), ConversationHost("b", Options())
    conversation, first = opened(a)
    conversation.send(b"second")
    second = a.flush(conversation, 0)[0].packets[0]
    assert [refusal(b, packet) for packet in (first, first, second)] == ["", "pending", "pending"]
    assert b.pending() == 1


def test_so_many_are_pending_and_no_more() -> None:
    b = ConversationHost("b", Options(), limits=Limits(pending_max=2))
    packets = [opened(ConversationHost("a", Options(), life=life))[1] for life in range(1, 5)]
    assert [refusal(b, packet) for packet in packets] == ["", "", "pending", "pending"]
    assert b.pending() == 2


def test_so_many_are_open_and_no_more() -> None:
    host = ConversationHost("a", Options(), limits=Limits(conversations_max=1))
    first = host.active_open(dict(NAMES), "a:1")
    with pytest.raises(UsageError, match="close one"):
        host.active_open(dict(NAMES), "a:1")
    host.close(first.cid)
    host.active_open(dict(NAMES), "a:1")


def test_after_close_packets_are_refused() -> None:
    a, b = ConversationHost("a", Options()), ConversationHost("b", Options(), limits=Limits(closed_max=1))
    conversation, first = opened(a)
    assert refusal(b, first) == ""
    assert b.passive_open() is not None
    b.close(conversation.cid)
    assert refusal(b, first) == "closed"
    assert b.pending() == 0
    b.close(7)  # so many are remembered and no more
    assert refusal(b, first) == ""
    assert b.pending() == 1


def test_packets_of_no_known_conversation_are_refused() -> None:
    b = ConversationHost("b", Options())
    packet = encode_add(7, 8, 0, section(0, 1, [], b""), 0)
    assert refusal(b, packet) == "group"
    assert refusal(b, opened(ConversationHost("a", Options()))[1]) == ""


def test_a_first_message_that_does_not_add_up_opens_nothing() -> None:
    processes = [participant("a"), participant("b")]
    who = participants_section(processes, ["a:1", "b:1"])
    tag = participants_tag(processes)
    b = ConversationHost("b", Options())
    strangers = [participant("a"), participant("x")]
    forged = [
        encode_start(1, tag + 1, 0, who, section(0, 1, [], b""), 0),
        encode_start(1, tag, 1, who, section(0, 1, [], b""), 0),
        encode_start(1, tag, 9, who, section(0, 1, [], b""), 0),
        encode_start(1, tag, 0, who, section(1, 1, [], b""), 0),
        encode_start(1, tag, 0, who, section(0, 2, [(0, 1)], b""), 0),
        encode_start(1, tag, 0, who[:-1], section(0, 1, [], b""), 0),
        encode_start(
            1, participants_tag(strangers), 0, participants_section(strangers, ["", ""]), section(0, 1, [], b""), 0
        ),
    ]
    assert all(refusal(b, packet) for packet in forged)
    assert b.pending() == 0


def test_participants_that_do_not_fit_are_refused() -> None:
    host = ConversationHost("a", Options())
    with pytest.raises(UsageError, match="fit into the first message"):
        host.active_open({f"{number:0>190}": "10.0.0.1:7400" for number in range(1000)}, "a:1")


def conversing(random: Random) -> tuple[list[ConversationHost], list[ConversationCore], list[bytes]]:
    """Three participants that have exchanged some messages, one of them long, with all packets."""
    limits = Limits(held_max=20, held_bytes_max=20_000, assembly_bytes_max=20_000, assemblies_max=5, pending_max=3)
    hosts = [ConversationHost(name, Options(), limits=limits) for name in "abc"]
    conversation, first = opened(hosts[0], keep=bool(random.randrange(2)))
    packets = [first]
    talks = [conversation]
    for host in hosts[1:]:
        give(host, first, 0)
        accepted = host.passive_open()
        assert accepted is not None
        talks.append(accepted)
    for step in range(10):
        rank = random.randrange(3)
        while talks[rank].receive() is not None:
            pass
        talks[rank].send(bytes(5000) if step == 5 else b"%d" % step)
        for outgoing in hosts[rank].flush(talks[rank], step):
            packets += outgoing.packets
            for packet, address in product(outgoing.packets, outgoing.route.addresses):
                give(hosts["abc".index(address[0])], packet, step)
    return hosts, talks, packets


def spoil(random: Random, packet: bytes, cid: int, tag: int) -> bytes:
    """A packet that is not what it was, often with a sum that fits it nevertheless."""
    data = bytearray(packet)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(data))
        change = random.randrange(4)
        if change == 0:
            data[at] = random.randrange(256)
        elif change == 1:
            data[at] ^= 1 << random.randrange(8)
        elif change == 2:
            del data[at : at + random.randrange(1, 30)]
        else:
            data[at:at] = random.randbytes(random.randrange(1, 30))
        if len(data) < 30:
            data += random.randbytes(40)
    if random.random() < 0.2:
        return bytes(data)
    kind = random.choice(KINDS) if random.random() < 0.3 else packet[7]
    return seal(
        NUMBER, kind, cid, tag, random.randrange(4), random.randrange(16), random.randrange(3), [bytes(data[28:])]
    )


@pytest.mark.parametrize("seed", range(20))
def test_no_packet_raises_or_grows_memory(seed: int) -> None:
    """Spoiled and forged packets, thousands of them: whatever they say, limits hold and time goes on."""
    random = Random(seed)
    hosts, talks, packets = conversing(random)
    host, talk = hosts[2], talks[2]
    now_ns = 0
    for _ in range(1500):
        packet = spoil(random, random.choice(packets), talk.cid, talk.tag)
        if random.random() < 0.05:
            packet = seal(NUMBER, START, random.randrange(1 << 60), talk.tag, 0, 0, 0, [packets[0][28:]])
        give(host, packet, now_ns)
        assert talk.replica.held() <= 20
        assert talk.replica._held._bytes <= 20_000
        assert len(talk.replica._requests) <= 3
        assert len(talk.replica._held._waiting) <= 60
        assert host.pending() <= 3
        assert talk._blasts._bytes <= 20_000 + 60_000
        assert len(talk._blasts._assemblies) <= 5
        now_ns += random.randrange(3 * MILLISECOND_NS)
        if random.random() < 0.2:
            host.tick(now_ns)
        host.flush(talk, now_ns)
        while talk.receive() is not None:
            pass
    for _ in range(400):
        now_ns += 100 * MILLISECOND_NS
        host.tick(now_ns)
        host.flush(talk, now_ns)
    assert talk.replica.held() == 0
    assert not talk.replica._held._waiting
    assert not talk.replica._requests
    assert not talk._blasts._assemblies
    talk.send(b"still here")
    assert unseal(host.flush(talk, now_ns)[0].packets[0])[0] == ADD
