"""Seals between identities: who can speak as whom, and what attackers can do, with and without keys, inside and out."""

import os
from random import Random

import pytest

from antiphon.kernel.codec import seal
from antiphon.kernel.packet_kinds import KNOCK, MEMBERSHIP
from antiphon.parts.membership import messages
from antiphon.runtime import pair_seal
from antiphon.runtime.address import SocketAddress
from antiphon.runtime.authorship import CIRCLE_MAX, MARKS_MAX, Marks, mark_packet, sign_packet
from antiphon.runtime.certificates import revoke
from antiphon.runtime.pair_seal import HELLO, HELLO_PER_S, PAIR, PASSED_ON_FORM
from antiphon.runtime.seal import (
    GREETING,
    HEADER_BYTES,
    LIVES_MAX,
    SEAL_HEADER,
    WINDOW,
    WORK_PER_S,
    derive,
    open_sealed,
)
from tests.runtime.identity_table import GROUP, PairSeat, PairTable, data, identity, revoked, seeded_key, status, table
from tests.runtime.seal_table import ring

EVE: SocketAddress = ("eve", 666)


def kind_of(datagram: bytes) -> int:
    return datagram[1]


def captured(at: PairTable, kind: int, source: str | None = None) -> list[bytes]:
    return [one for who, one, _ in at.captured if kind_of(one) == kind and source in (None, who[0])]


def raw(seat: PairSeat, to: str, plain: bytes) -> bytes:
    """What a process that does not keep to the rules seals for another."""
    return seat.seal._by_name[to].seal(plain)


def passed_on(mark: bytes, packet: bytes) -> bytes:
    return pair_seal._MARK.pack(PASSED_ON_FORM, len(mark)) + mark + packet


def test_what_is_said_is_heard_under_the_name_of_its_speaker() -> None:
    at = table("alice", "bob", "carol")
    at.seats["alice"].send([data(b"a secret"), status()], "bob", "carol")
    for name in ("bob", "carol"):
        assert at.seats[name].taken == [("alice", data(b"a secret")), ("alice", status())]
    assert not any(b"secret" in one for _, one, _ in at.captured)


def test_meeting_takes_four_datagrams() -> None:
    at = PairTable(identity("alice"), identity("bob"))
    at.seats["alice"].send([status()], "bob")
    assert [kind_of(one) for _, one, _ in at.captured] == [GREETING, GREETING, HELLO, HELLO]
    at.seats["alice"].send([status()], "bob")
    assert at.seats["bob"].taken == [("alice", status())]


def test_a_certificate_of_another_authority_is_worth_nothing() -> None:
    stranger = identity("bob", authority=seeded_key("another authority"))
    at = PairTable(identity("alice"), stranger)
    at.seats["alice"].send([status()], "bob")
    at.seats["bob"].send([status()], "alice")
    assert at.seats["alice"].count("lives_met") == at.seats["bob"].count("lives_met") == 0
    assert at.seats["alice"].count("hellos_refused") > 0


def test_a_certificate_without_its_key_is_worth_nothing() -> None:
    """Mallory, a member, shows bob's certificate."""
    at = table("alice", "bob")
    at.sit(identity("mallory"))
    mallory = at.seats["mallory"]
    object.__setattr__(mallory.supply.identity, "certificate", identity("bob").certificate)
    mallory.send([status(b"as bob")], "alice")
    mallory.send([status(b"as bob")], "alice")
    assert at.seats["alice"].count("hellos_refused") == 1
    assert at.seats["alice"].taken == []


def test_a_hello_cannot_be_shown_by_another() -> None:
    """Mallory has the entry key, and shows bob's own HELLO under a life of its own."""
    at = table("alice", "bob")
    mallory = at.sit(identity("mallory"))
    alice = at.seats["alice"].seal
    hello = next(one for one in captured(at, HELLO, "bob"))
    counter = SEAL_HEADER.unpack_from(hello)[5]
    key = ring(1).newest
    plain = open_sealed(hello, derive(key, at.seats["bob"].seal.life, 0), counter)
    assert plain is not None
    mallory.seal._greet(mallory.seal._entry(plain, HELLO, key), ("alice", 7400))
    at.deliver()
    assert mallory.seal.life not in alice._met
    assert at.seats["alice"].count("hellos_refused") == 1


def test_a_hello_to_a_former_life_is_nothing() -> None:
    """A whole capture, hellos and all, replayed to one that comes back."""
    at = table("alice", "bob")
    at.seats["bob"].send([data(b"once")], "alice")
    alice = at.sit(identity("alice"))
    for source, datagram, to in list(at.captured):
        if to[0] == "alice":
            alice.receive(datagram, source)
    assert alice.taken == []
    assert alice.count("lives_met") == 0


def test_what_comes_twice_is_taken_once() -> None:
    at = table("alice", "bob")
    at.seats["alice"].send([data(b"1"), status(b"2")], "bob")
    for _ in range(3):
        for datagram in captured(at, PAIR, "alice"):
            at.seats["bob"].receive(datagram, ("alice", 7400))
    assert [packet for _, packet in at.seats["bob"].taken] == [data(b"1"), status(b"2")]
    assert at.seats["bob"].count("packets_replayed") >= 6


def test_what_is_older_than_the_window_is_refused() -> None:
    at = table("alice", "bob")
    alice, bob = at.seats["alice"], at.seats["bob"]
    held = raw(alice, "bob", b"\0" + status(b"held back"))
    alice.seal._by_name["bob"].counter += WINDOW
    alice.send([status(b"new")], "bob")
    bob.receive(held, alice.address)
    assert bob.taken == [("alice", status(b"new"))]


def test_what_is_for_one_is_nothing_to_another() -> None:
    """A datagram turned to another member; one thrown back; one to the same name in another life."""
    at = table("alice", "bob", "carol")
    at.seats["alice"].send([data(b"for bob")], "bob")
    datagram = captured(at, PAIR, "alice")[-1]
    for name in ("carol", "alice"):
        at.seats[name].receive(datagram, ("alice", 7400))
        assert at.seats[name].taken == []
    assert at.seats["carol"].count("packets_forged") == 1


@pytest.mark.parametrize("at_byte", [0, 1, 4, 8, 24, 31, HEADER_BYTES, -1])
def test_no_changed_byte_is_taken(at_byte: int) -> None:
    at = table("alice", "bob")
    alice, bob = at.seats["alice"], at.seats["bob"]
    datagram = bytearray(raw(alice, "bob", b"\0" + status()))
    datagram[at_byte] ^= 1
    bob.receive(bytes(datagram), alice.address)
    assert bob.taken == []


def test_a_forged_counter_moves_no_window() -> None:
    at = table("alice", "bob")
    alice, bob = at.seats["alice"], at.seats["bob"]
    sound = raw(alice, "bob", b"\0" + status())
    for counter in (2**64 - 1, 2**48 - 1, 2**40, 10_000):
        bob.receive(sound[:24] + counter.to_bytes(8, "little") + sound[32:], alice.address)
    bob.receive(sound, alice.address)
    assert bob.taken == [("alice", status())]


def test_a_member_cannot_move_the_window_of_another() -> None:
    """Mallory is a member with all keys that a member has: what it seals under alice's life is a forgery."""
    at = table("alice", "bob", "mallory")
    bob, mallory = at.seats["bob"], at.seats["mallory"]
    cipher = mallory.seal._by_name["bob"]._sealing[1]
    for counter in (1000, 2**40):
        header = SEAL_HEADER.pack(1, PAIR, 0, bob.seal.life[:4], at.seats["alice"].seal.life, counter)
        made = cipher.encrypt(counter.to_bytes(12, "little"), b"\0" + status(b"as alice"), header)
        bob.receive(header + made, ("alice", 7400))
    at.seats["alice"].send([status(b"real")], "bob")
    assert bob.taken == [("alice", status(b"real"))]


def test_a_packet_goes_to_the_process_that_is_meant_whoever_is_at_its_address() -> None:
    """Mallory speaks from bob's address: what is for bob is not sealed for mallory."""
    at = table("alice", "bob", "mallory")
    alice, mallory = at.seats["alice"], at.seats["mallory"]
    alice.receive(raw(mallory, "alice", b"\0" + status()), ("bob", 7400))
    alice.send([data(b"for bob alone")], "bob")
    assert at.seats["bob"].taken == [("alice", data(b"for bob alone"))]
    mallory.receive(captured(at, PAIR, "alice")[-1], alice.address)
    assert mallory.taken == []


def test_a_resend_by_a_third_goes_under_the_name_of_its_author() -> None:
    at = table("alice", "bob", "carol")
    at.lost = lambda source, datagram, to: (source, to) == ("alice", "carol")
    at.seats["alice"].send([data(b"lost to carol")], "bob", "carol")
    del at.seats["alice"]
    at.seats["bob"].send([data(b"lost to carol")], "carol")
    assert at.seats["carol"].taken == [("alice", data(b"lost to carol"))]


def test_a_resend_after_65536_counters_still_works() -> None:
    at = table("alice", "bob", "carol")
    at.lost = lambda source, datagram, to: (source, to) == ("alice", "carol")
    at.seats["alice"].send([data(b"late")], "bob", "carol")
    del at.seats["alice"]
    at.seats["bob"].seal._by_name["carol"].counter += WINDOW + 5
    at.seats["bob"].send([data(b"late")], "carol")
    assert at.seats["carol"].taken == [("alice", data(b"late"))]


def test_a_resend_goes_on_over_several() -> None:
    at = table("alice", "bob", "carol", "dave")
    at.lost = lambda source, datagram, to: source == "alice" and to in ("carol", "dave")
    packet = data(b"by way of bob and carol")
    at.seats["alice"].send([packet], "bob", "carol", "dave")
    at.seats["bob"].send([packet], "carol")
    at.seats["carol"].send([packet], "dave")
    assert at.seats["dave"].taken == [("alice", packet)]


def test_who_is_unmet_or_beyond_the_circle_gets_a_signature() -> None:
    at = table("alice", "bob")
    at.sit(identity("carol"))
    at.seats["bob"].send([status()], "carol")
    at.seats["bob"].seal.set_circle(GROUP, ["alice", "carol"])
    at.seats["alice"].seal.set_circle(GROUP, ["bob", "carol"])
    at.seats["alice"].send([data(b"signed")], "bob")
    at.seats["bob"].send([data(b"signed")], "carol")
    assert at.seats["carol"].taken == [("alice", data(b"signed"))]
    mark = at.seats["bob"].seal.marks.find(data(b"signed"))
    assert mark is not None
    assert mark[0] == 2
    large = table("alice", "bob")
    large.seats["alice"].seal.set_circle(GROUP, ["bob"] * (CIRCLE_MAX + 1))
    large.seats["alice"].send([data(b"signed")], "bob")
    mark = large.seats["bob"].seal.marks.find(data(b"signed"))
    assert mark is not None
    assert mark[0] == 2


def test_a_member_cannot_make_a_resend_of_another() -> None:
    """Directly, as a resend without a mark, with a mark of another packet, with made-up codes, or its own signature."""
    at = table("alice", "bob", "mallory")
    alice, bob, mallory = at.seats["alice"], at.seats["bob"], at.seats["mallory"]
    alice.send([data(b"real")], "bob", "mallory")
    real = mallory.seal.marks.find(data(b"real"))
    assert real is not None
    bob.taken.clear()
    forged = data(b"forged")
    peer = mallory.seal._by_name["bob"]
    own = mark_packet(forged, alice.seal.life, 9, [peer])
    signed = sign_packet(forged, identity("alice").certificate, identity("mallory").key)
    for mark in (b"", real, real[:-1], own, signed, bytes(200)):
        bob.receive(raw(mallory, "bob", passed_on(mark, forged)), mallory.address)
    assert bob.taken == []
    assert bob.count("packets_unmarked") == 6
    bob.receive(raw(mallory, "bob", b"\0" + forged), mallory.address)
    assert bob.taken == [("mallory", forged)], "under its own name, which the engine compares"


def test_a_mark_is_for_its_packet_and_its_receivers_alone() -> None:
    at = table("alice", "bob", "carol")
    bob = at.seats["bob"]
    at.seats["alice"].send([data(b"1")], "bob")
    at.sit(identity("dave"))
    bob.send([status()], "dave")
    bob.send([data(b"1")], "dave")
    assert at.seats["dave"].taken == []
    assert at.seats["dave"].count("packets_unmarked") == 1, "alice has not met dave"


def test_marks_are_bounded_by_author() -> None:
    marks = Marks()
    for number in range(MARKS_MAX + 10):
        marks.keep("mallory", data(str(number).encode()), b"m")
    marks.keep("alice", data(b"a"), b"m")
    assert len(marks) == MARKS_MAX + 1
    assert marks.find(data(b"0")) is None
    marks.keep("mallory", data(b"a"), b"another")
    assert marks.find(data(b"a")) == b"m", "the first mark stays"


# ---- trust ----------------------------------------------------------------------------------------------------------


def test_who_is_revoked_is_forgotten_and_cannot_come_back() -> None:
    at = table("alice", "bob", "mallory")
    alice, mallory = at.seats["alice"], at.seats["mallory"]
    old = raw(mallory, "alice", b"\0" + status(b"old keys"))
    assert alice.supply.take_revocations(revoked("mallory").encoded)
    alice.seal.forget_untrusted()
    alice.receive(old, mallory.address)
    at.now_s += 1
    again = at.sit(identity("mallory"))
    for _ in range(3):
        again.send([status(b"new life")], "alice")
        at.now_s += 1
    assert alice.taken == []
    assert alice.count("hellos_refused") > 0
    before = len(captured(at, PAIR, "alice"))
    alice.send([data(b"not for mallory")], "mallory", "bob")
    assert len(captured(at, PAIR, "alice")) == before + 1
    assert at.seats["bob"].taken[-1] == ("alice", data(b"not for mallory"))


def test_revocations_are_passed_on_and_never_go_back() -> None:
    at = table("alice", "bob", "mallory")
    alice, bob = at.seats["alice"], at.seats["bob"]
    alice.supply.take_revocations(revoked("mallory", version=3).encoded)
    alice.seal.forget_untrusted()
    alice.seal.pass_revocations_on()
    at.deliver()
    assert bob.supply.revocations.version == 3
    assert "mallory" not in bob.seal._by_name
    bob.supply.take_revocations(revoked(version=2).encoded)
    assert bob.supply.revocations.version == 3
    carol = at.sit(identity("carol"))
    carol.send([status()], "bob")
    assert carol.supply.revocations.version == 3, "newcomers are told"


def test_revocations_of_another_authority_are_nothing() -> None:
    at = table("alice", "bob", "mallory")
    forged = revoke(seeded_key("mallory"), 9, frozenset({identity("bob").certificate.serial}))
    at.seats["alice"].receive(raw(at.seats["mallory"], "alice", b"\3" + forged.encoded), ("mallory", 7400))
    assert at.seats["alice"].supply.revocations.version == 0
    assert "bob" in at.seats["alice"].seal._by_name


def test_a_certificate_that_has_run_out_is_worth_nothing() -> None:
    at = PairTable(identity("alice"), identity("bob", until_s=2000))
    at.meet()
    assert at.seats["alice"].count("lives_met") == 1
    at.wall_s = 2001.0
    at.seats["alice"].seal.forget_untrusted()
    assert at.seats["alice"].count("lives_met") == 0
    at.seats["bob"].send([status()], "alice")
    at.now_s += 1
    at.sit(identity("bob", until_s=2000)).send([status()], "alice")
    assert at.seats["alice"].count("lives_met") == 0


MEMBER_WORDS = (messages.JOIN, messages.LEAVE, messages.STATE, messages.DONE, messages.INSTALL)
LEADER_WORDS = (messages.FLUSH, messages.PROPOSE, messages.STALL, messages.RECOVERY)


def said(kind: int) -> bytes:
    return seal(1, MEMBERSHIP, GROUP, 5, 0, kind, 0, [b"body"])


@pytest.mark.parametrize(
    ("role", "joins", "leads"),
    [("member", True, True), ("sender", True, False), ("reader", True, False), ("guest", False, False)],
)
def test_roles_say_what_is_heard(role: str, joins: bool, leads: bool) -> None:
    at = PairTable(identity("alice"), identity("bob", role))
    at.meet()
    bob, alice = at.seats["bob"], at.seats["alice"]
    before = alice.count("packets_forbidden")
    bob.send([said(kind) for kind in (*MEMBER_WORDS, *LEADER_WORDS)], "alice")
    bob.send([status(), data()], "alice")
    bob.send([seal(1, KNOCK, GROUP, 5, 0, 0, 0, [b""])], "alice")
    expected = 1 + (len(MEMBER_WORDS) + 2 if joins else 0) + (len(LEADER_WORDS) if leads else 0)
    assert len(alice.taken) == expected
    assert alice.count("packets_forbidden") - before == 12 - expected


def test_a_reader_cannot_lead_by_chunks() -> None:
    at = PairTable(identity("alice"), identity("bob", "reader"))
    at.meet()
    long = messages.packets_of(messages.PROPOSE, bytes(5000), 1, GROUP, 5, 1400)
    at.seats["bob"].send(long, "alice")
    assert at.seats["alice"].taken == []


# ---- floods ---------------------------------------------------------------------------------------------------------


def test_a_flood_of_unknown_lives_costs_little_and_leaves_nothing() -> None:
    at = table("alice", "bob")
    alice = at.seats["alice"]
    random = Random(3)
    for _ in range(3 * WORK_PER_S):
        kind = random.choice((GREETING, HELLO, PAIR))
        tag = ring(1).newest.tag
        datagram = SEAL_HEADER.pack(1, kind, 0, tag, random.randbytes(16), 5) + random.randbytes(40)
        alice.receive(datagram, EVE)
    answers = [one for _, one, to in at.captured if to == EVE]
    assert len(answers) < WORK_PER_S
    assert alice.count("lives_met") == 1
    assert len(alice.seal._asked) <= 256
    at.now_s += 1
    at.seats["bob"].send([status()], "alice")
    assert alice.taken == [("bob", status())]


def test_half_joins_cost_a_bounded_number_of_signatures() -> None:
    """Somebody with the entry key greets from ever new lives, and never shows a certificate that holds."""
    at = table("alice")
    alice = at.seats["alice"]
    for number in range(3 * HELLO_PER_S):
        mallory = PairTable(identity("mallory", authority=seeded_key("no authority"))).seats["mallory"]
        mallory.seal.life = number.to_bytes(16, "big")
        entry = mallory.seal._entry(pair_seal._GREETING.pack(1, alice.seal.life), GREETING, ring(1).newest)
        alice.receive(entry, ("eve", number))
    assert len(captured(at, HELLO, "alice")) <= HELLO_PER_S
    assert alice.count("packets_deferred") >= 2 * HELLO_PER_S
    assert alice.count("lives_met") == 0


def test_a_flood_with_a_live_tag_and_far_counters_costs_no_keys() -> None:
    at = table("alice", "bob")
    alice, bob = at.seats["alice"], at.seats["bob"]
    sound = raw(alice, "bob", b"\0" + status())
    for number in range(3 * WORK_PER_S):
        bob.receive(sound[:24] + (number << 23).to_bytes(8, "little") + sound[32:], EVE)
    assert bob.count("packets_deferred") >= WORK_PER_S
    bob.receive(sound, alice.address)
    assert bob.taken == [("alice", status())]


@pytest.mark.parametrize("kind", [GREETING, HELLO, PAIR])
def test_no_answer_before_the_cookie_is_three_times_as_long(kind: int) -> None:
    """An entry key holder that has not named this life, or anybody at all, asks with the shortest there is."""
    at = table("alice")
    alice = at.seats["alice"]
    mallory = PairTable(identity("mallory")).seats["mallory"]
    for plain in (b"", pair_seal._GREETING.pack(1, bytes(16)), bytes(200)):
        datagram = mallory.seal._entry(plain, kind, ring(1).newest)
        alice.receive(datagram, EVE)
        answers = [one for _, one, to in at.captured if to == EVE]
        assert sum(map(len, answers)) <= 3 * len(datagram)
        at.captured.clear()
        at.now_s += 1


def test_when_too_many_were_met_a_new_life_begins() -> None:
    at = table("alice", "bob")
    alice = at.seats["alice"]
    life = alice.seal.life
    for number in range(LIVES_MAX):
        alice.seal._met.setdefault(number.to_bytes(16, "big"), alice.seal._by_name["bob"])
    at.sit(identity("carol")).send([status()], "alice")
    assert alice.seal.life != life
    assert alice.count("lives_met") == 0
    at.now_s += 1
    at.meet()
    assert alice.count("lives_met") == 2


def test_a_thousand_restarts_repeat_no_key_and_nonce() -> None:
    at = PairTable(identity("bob"))
    lives = {at.sit(identity("alice")).seal.life for _ in range(1000)}
    assert len(lives) == 1000


def test_a_fork_begins_a_new_life() -> None:
    at = table("alice", "bob")
    alice = at.seats["alice"]
    life = alice.seal.life
    alice.seal._pid = os.getpid() + 1
    alice.send([status()], "bob")
    assert alice.seal.life != life
    assert not any(one[8:24] == life for _, one, _ in at.captured[-1:])


def test_a_point_of_low_order_makes_no_secret() -> None:
    at = table("alice")
    mallory = at.sit(identity("mallory"))
    mallory.seal._public = bytes(32)
    mallory.send([status()], "alice")
    assert at.seats["alice"].count("lives_met") == 0


def test_bytes_of_any_kind_raise_nothing() -> None:
    """Inside sound seals, too."""
    at = table("alice", "bob")
    alice, bob = at.seats["alice"], at.seats["bob"]
    random = Random(11)
    for _ in range(3000):
        made = random.randbytes(random.choice((0, 1, 2, 3, 20, 60, 300)))
        if made and random.random() < 0.7:
            made = bytes((random.randrange(5),)) + made[1:]
        alice.receive(raw(bob, "alice", made), bob.address)
        alice.receive(made, EVE)
        kind = random.choice((GREETING, HELLO))
        if random.random() < 0.5:
            made = made[:1] + alice.seal.life + made[1:]
        alice.receive(bob.seal._entry(made, kind, ring(1).newest), bob.address)
    at.deliver()
    bob.send([status()], "alice")
    assert alice.taken[-1] == ("bob", status())
