"""Messages about membership: what is encoded is decoded, in one packet or in chunks, and rubbish is malformed."""

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.kernel.codec import HEADER_SIZE, seal, unseal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.packet_kinds import MEMBERSHIP
from antiphon.parts.membership.messages import CHUNK, PROPOSE, STATE, Chunks, MembershipMessage, Proposal, decode
from antiphon.parts.ranges import Ranges

PACKET_BYTES_MAX = 600


def long_message(members: int = 60) -> MembershipMessage:
    """A proposal that no packet of 600 bytes holds."""
    view = View(
        5,
        tuple(ProcessId(f"process-{n}", n + 1) for n in range(members)),
        tuple(f"host-{n}:7400" for n in range(members)),
    )
    cut = [Ranges([(1, n + 1), (n + 5, n + 9)]) for n in range(members)]
    proposal = Proposal(view, [1], [2, 3], cut, [0, 4], [(0, 7, b"barrier")], b"three")
    return MembershipMessage(
        PROPOSE,
        ProcessId("process-0"),
        "host-0:7400",
        4,
        round=65_536,
        accepted_round=3,
        accepted=proposal,
        annex=b"two",
    )


def bodies(message: MembershipMessage) -> tuple[object, ...]:
    """All that a message says."""
    accepted = None if message.accepted is None else message.accepted.body()
    held = [part.pairs for part in message.holdings]
    return (
        message.kind, message.sender, message.address, message.view_id, message.round, message.accepted_round, accepted,
        held, message.about, message.barriers, message.annex,
    )  # fmt: skip


def take_all(chunks: Chunks, packets: list[bytes]) -> list[MembershipMessage]:
    found = [chunks.take(unseal(packet)[4], packet) for packet in packets]
    return [message for message in found if message is not None]


def test_a_short_message_is_one_packet() -> None:
    message = MembershipMessage(
        STATE, ProcessId("a", 2), "A", 4, round=9, holdings=[Ranges([(1, 3)])], about=ProcessId("b"),
        barriers=[(0, 5, b"now")], annex=b"one",
    )  # fmt: skip
    packets = message.encode(1, 7, 0, PACKET_BYTES_MAX)
    assert len(packets) == 1
    assert [bodies(found) for found in take_all(Chunks(), packets)] == [bodies(message)]


def test_a_long_message_is_as_many_chunks_as_it_takes() -> None:
    message = long_message()
    packets = message.encode(1, 7, 0, PACKET_BYTES_MAX)
    assert len(packets) > 3
    assert all(len(packet) <= PACKET_BYTES_MAX for packet in packets)
    assert [bodies(found) for found in take_all(Chunks(), packets)] == [bodies(message)]


def test_chunks_come_in_any_order_and_twice() -> None:
    message = long_message()
    packets = message.encode(1, 7, 0, PACKET_BYTES_MAX)
    shuffled = [*packets[1:], *packets[1:]]
    Random(1).shuffle(shuffled)
    chunks = Chunks()
    assert take_all(chunks, shuffled) == []
    assert [bodies(found) for found in take_all(chunks, packets[:1])] == [bodies(message)]


def test_chunks_of_one_try_make_up_for_those_that_another_lost() -> None:
    message = long_message()
    packets = message.encode(1, 7, 0, PACKET_BYTES_MAX)
    chunks = Chunks()
    assert take_all(chunks, packets[::2]) == []
    assert [bodies(found) for found in take_all(chunks, packets[1::2])] == [bodies(message)]


def test_chunks_of_several_messages_may_mix() -> None:
    one, other = long_message(60), long_message(61)
    mixed = [
        packet for pair in zip(one.encode(1, 7, 0, 600), other.encode(1, 7, 0, 600), strict=False) for packet in pair
    ]
    mixed += one.encode(1, 7, 0, 600)[-1:] + other.encode(1, 7, 0, 600)[-1:]
    found = [bodies(message) for message in take_all(Chunks(), mixed)]
    assert found[:2] == [bodies(one), bodies(other)]


def chunk(kind: int, digest: int, index: int, total: int, slice: bytes) -> bytes:
    return seal(1, MEMBERSHIP, 7, 0, 0, CHUNK, 0, [msgspec.msgpack.encode((kind, digest, index, total, slice))])


def chunk_of(packet: bytes) -> tuple[int, int, int, int, bytes]:
    kind, digest, index, total, slice = msgspec.msgpack.decode(packet[HEADER_SIZE:])
    return kind, digest, index, total, slice


def test_a_forged_chunk_spoils_one_try_and_not_the_next() -> None:
    """A slice that does not fit the digest: the message is malformed, and comes through when it is sent again."""
    message = long_message()
    packets = message.encode(1, 7, 0, PACKET_BYTES_MAX)
    kind, digest, _, total, slice = chunk_of(packets[0])
    chunks = Chunks()
    take_all(chunks, packets[1:])
    with pytest.raises(MalformedError):
        take_all(chunks, [chunk(kind, digest, 0, total, slice + b"x")])
    assert [bodies(found) for found in take_all(chunks, packets)] == [bodies(message)]


def test_a_forged_total_spoils_one_try_and_not_the_next() -> None:
    message = long_message()
    packets = message.encode(1, 7, 0, PACKET_BYTES_MAX)
    kind, digest, index, _, slice = chunk_of(packets[0])
    chunks = Chunks()
    with pytest.raises(MalformedError):
        take_all(chunks, [chunk(kind, digest, index, 1, slice)])
    assert [bodies(found) for found in take_all(chunks, packets)] == [bodies(message)]


@pytest.mark.parametrize(("index", "total"), [(-1, 3), (3, 3), (0, 0), (0, 4_097), (2**40, 2**41)])
def test_chunks_that_cannot_be_are_malformed(index: int, total: int) -> None:
    with pytest.raises(MalformedError):
        take_all(Chunks(), [chunk(STATE, 1, index, total, b"x")])


def test_unfinished_messages_are_forgotten_beyond_a_limit() -> None:
    """The first of many half messages is gone when the last has come; the last is still there."""
    message = long_message()
    packets = message.encode(1, 7, 0, PACKET_BYTES_MAX)
    chunks = Chunks()
    take_all(chunks, packets[1:])
    take_all(chunks, [chunk(STATE, digest, 0, 2, b"x") for digest in range(1_000)])
    assert take_all(chunks, packets[:1]) == []
    assert take_all(chunks, packets[1:])


@given(st.integers(0, 20), st.binary(max_size=60))
def test_any_bytes_are_a_message_or_malformed(kind: int, data: bytes) -> None:
    for attempt in (data, seal(1, MEMBERSHIP, 7, 0, 0, kind, 0, [data])):
        try:
            Chunks().take(kind, attempt)
        except MalformedError:
            continue


def test_a_proposal_with_too_many_members_is_malformed() -> None:
    message = long_message(1_001)
    with pytest.raises(MalformedError):
        take_all(Chunks(), message.encode(1, 7, 0, 60_000))
    assert decode(PROPOSE, chunkless(long_message(1_000))).accepted is not None


def chunkless(message: MembershipMessage) -> bytes:
    return message.encode(1, 7, 0, 10**9)[0][HEADER_SIZE:]
