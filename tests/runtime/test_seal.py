"""What is not from a holder of the key, or comes twice, or is from before, has no effect; each on a table of seals."""

import os
from random import Random
from unittest.mock import patch

import pytest

from antiphon.kernel.options import Options
from antiphon.runtime import seal as sealing
from antiphon.runtime.keyring import Keyring
from antiphon.runtime.seal import (
    ASKED_MAX,
    BEACON,
    COUNTER_MAX,
    GREETING,
    HEADER_BYTES,
    HEARS,
    OVERHEAD,
    PACKET,
    SUBKEY_BITS,
    WINDOW,
    WORK_PER_S,
    ReplayWindow,
    derive,
    in_turn,
)
from tests.runtime.seal_table import Table, key, ring

STRANGER = ("stranger", 666)


def counter_of(datagram: bytes) -> int:
    return int.from_bytes(datagram[24:32], "little")


def with_counter(datagram: bytes, counter: int) -> bytes:
    return datagram[:24] + counter.to_bytes(8, "little") + datagram[HEADER_BYTES:]


# ---- what it is for -------------------------------------------------------------------------------------------------


def test_what_is_sealed_comes_out_as_it_was_and_cannot_be_read() -> None:
    table = Table("abc")
    table.meet()
    sealed = table.say("a", b"attack at dawn", "bc")
    assert table.seats["b"].taken == table.seats["c"].taken == [b"attack at dawn"]
    assert len(sealed) == len(b"attack at dawn") + OVERHEAD
    assert b"dawn" not in sealed


def test_packets_fit_an_ethernet_frame() -> None:
    """Of 1,500 bytes, IPv6 takes 40 and UDP 8."""
    assert Options().packet_bytes_max + OVERHEAD + 48 <= 1500
    assert Options.local().packet_bytes_max + OVERHEAD <= 65_507


def test_the_first_packet_is_lost_and_leads_to_a_meeting() -> None:
    table = Table()
    table.say("a", b"first", "b")
    table.say("a", b"second", "b")
    table.say("b", b"third", "a")
    assert table.seats["b"].taken == [b"second"]
    assert table.seats["a"].taken == [b"third"]


def test_a_lost_greeting_is_made_up_for() -> None:
    table = Table()
    a = table.seats.pop("a")  # it hears nothing
    table.send(a, a.seal.seal([b"first"])[0], "b")
    table.seats["a"] = a
    table.now_s += 1
    table.say("a", b"second", "b")
    table.say("a", b"third", "b")
    assert table.seats["b"].taken == [b"third"]


def test_a_late_packet_is_taken_if_it_is_within_the_window() -> None:
    table = Table()
    table.meet()
    a, b = table.seats["a"], table.seats["b"]
    late = a.seal.seal([b"late"])[0]
    a.seal._counter += WINDOW - 2
    table.say("a", b"on", "b")
    b.receive([late], a.address)
    assert b.taken == [b"on", b"late"]


def test_what_is_resent_after_65536_counters_is_sealed_anew_and_taken() -> None:
    """A third party repairs, long after the origin is gone: its own counters count."""
    table = Table("abc")
    table.meet()
    packet = b"of a, who died"
    table.say("a", packet, "c")
    table.seats.pop("a")
    table.seats["c"].seal._counter += 2 * WINDOW
    table.say("c", packet, "b")
    assert table.seats["b"].taken == [packet]


# ---- forgeries ------------------------------------------------------------------------------------------------------


def test_no_single_changed_byte_is_taken() -> None:
    table = Table()
    table.meet()
    a, b = table.seats["a"], table.seats["b"]
    sealed = a.seal.seal([b"packet"])[0]
    for at in range(len(sealed)):
        for bit in (1, 128):
            b.receive([sealed[:at] + bytes((sealed[at] ^ bit,)) + sealed[at + 1 :]], a.address)
    assert b.taken == []
    b.receive([sealed], a.address)
    assert b.taken == [b"packet"], "the forgeries were in the way of the packet itself"


def test_cut_and_glued_packets_are_refused() -> None:
    table = Table()
    table.meet()
    a, b = table.seats["a"], table.seats["b"]
    one, other = a.seal.seal([b"one" * 30, b"other" * 20])
    for at in range(len(one)):
        made = [one[:at], one[:at] + other[at:], one[:HEADER_BYTES] + other[at:]]
        b.receive([data for data in made if data not in (one, other)], a.address)
    b.receive([one + other, one + b"\0", b"", one[:1], one[: OVERHEAD - 1]], a.address)
    assert b.taken == []


def test_a_forged_counter_does_not_move_the_window() -> None:
    table = Table()
    table.meet()
    a, b = table.seats["a"], table.seats["b"]
    captured = table.say("a", b"one", "b")
    for counter in (counter_of(captured) + 2 * WINDOW, COUNTER_MAX - 1, COUNTER_MAX, 2**64 - 1):
        b.receive([with_counter(captured, counter)], a.address)
    table.say("a", b"two", "b")
    assert b.taken == [b"one", b"two"]


def test_the_header_cannot_be_changed() -> None:
    """A class or an epoch that somebody else wrote there says nothing."""
    table = Table("ab", ring(1, 2))
    table.meet()
    a, b = table.seats["a"], table.seats["b"]
    sealed = a.seal.seal([b"\1" + b.seal.life, b"hears", b"packet"], HEARS)
    b.receive([sealed[0][:1] + bytes((PACKET,)) + sealed[0][2:]], a.address)
    b.receive([sealed[1][:2] + (1).to_bytes(2, "little") + sealed[1][4:]], a.address, HEARS)
    assert b.taken == []
    assert b.count("key_epoch") == 2


def test_each_class_is_taken_as_itself_alone() -> None:
    table = Table()
    table.meet()
    a, b = table.seats["a"], table.seats["b"]
    for sealed in (HEARS, BEACON, PACKET):
        for taken in (HEARS, BEACON, PACKET):
            if sealed != taken:
                b.receive(a.seal.seal([b"x"], sealed), a.address, taken)
    assert b.taken == []


def test_another_keyring_of_the_same_epoch_is_refused() -> None:
    table = Table()
    table.meet()
    table.sit("x", ring(1, chance=1))
    table.say("x", b"forged", "ab")
    table.say("x", b"forged", "ab")
    assert table.seats["a"].taken == table.seats["b"].taken == []
    assert table.seats["x"].greeted == []


def test_plain_packets_are_refused() -> None:
    table = Table()
    table.meet()
    b = table.seats["b"]
    before = b.seal.statistics()
    b.receive([b"", b"\0" * 10, bytes(200), b"plain" * 30, Random(1).randbytes(1400)], STRANGER)
    assert b.taken == []
    assert b.count("packets_unreadable") == before["packets_unreadable"] + 5


# ---- replays --------------------------------------------------------------------------------------------------------


def test_what_comes_twice_is_taken_once() -> None:
    table = Table("abc")
    table.meet()
    for number in range(50):
        table.say("a", b"%d" % number, "bc")
    heard = list(table.seats["b"].taken)
    for _ in range(2):
        table.replay("b")
    assert table.seats["b"].taken == heard
    assert table.seats["b"].count("packets_replayed") >= 100


def test_what_is_older_than_the_window_is_refused() -> None:
    table = Table()
    table.meet()
    a, b = table.seats["a"], table.seats["b"]
    old = a.seal.seal([b"old"] * 8)
    a.seal._counter += WINDOW
    table.say("a", b"on", "b")
    b.receive(old, a.address)
    assert b.taken == [b"on"]


@pytest.mark.parametrize("seed", range(6))
def test_the_window_agrees_with_a_set(seed: int) -> None:
    random = Random(seed)
    floor = random.randrange(200_000)
    window = ReplayWindow(floor)
    taken: set[int] = set()
    top = floor
    for _ in range(3000):
        counter = max(
            0, top + random.choice((1, 1, 1, 2, 9, -1, -5, -70, -WINDOW, 1 - WINDOW, WINDOW // 2, 3 * WINDOW))
        )
        expected = counter > floor and counter not in taken and counter > top - WINDOW
        assert window.is_new(counter) == expected, (counter, top, floor)
        if expected and random.random() < 0.8:
            window.take(counter)
            taken.add(counter)
            top = max(top, counter)


def test_a_capture_of_everything_is_nothing_to_a_newcomer() -> None:
    """Neither to a stranger nor to one that was there before, under the same name and at the same address."""
    table = Table("abc")
    table.meet()
    for number in range(20):
        table.say("abc"[number % 3], b"%d" % number, "abc")
    captured = len(table.captured)
    for name in "dab":
        newcomer = table.sit(name)
        table.replay(name, captured)
        table.replay(name, captured)
        assert newcomer.taken == [], f"{name} took {newcomer.taken}"


def test_what_was_sealed_before_a_life_began_is_nothing_to_it() -> None:
    """Though its sender lives on, and has been met."""
    table = Table()
    table.meet()
    for number in range(20):
        table.say("a", b"%d" % number, "b")
    captured = len(table.captured)
    newcomer = table.sit("b")
    table.say("a", b"meeting", "b")
    table.say("a", b"now", "b")
    table.replay("b", captured)
    assert newcomer.taken == [b"now"]


def test_packets_of_the_dead_are_refused() -> None:
    """A dead member's packets keep nobody alive: each was taken once."""
    table = Table("abc")
    table.meet()
    for _ in range(10):
        table.say("c", b"status", "ab")
    table.seats.pop("c")
    taken = len(table.seats["a"].taken)
    for _ in range(3):
        table.now_s += 1
        table.replay("a")
    assert len(table.seats["a"].taken) == taken


def test_own_packets_are_refused() -> None:
    table = Table()
    table.meet()
    a = table.seats["a"]
    for _ in range(5):
        a.receive([table.say("a", b"mirror", "b")], a.address)
    table.replay("a")
    assert a.taken == []


def test_whoever_is_forgotten_cannot_be_replayed() -> None:
    with patch.object(sealing, "LIVES_MAX", 4):
        table = Table()
        table.meet()
        table.say("a", b"once", "b")
        captured = len(table.captured)
        a, b = table.seats["a"], table.seats["b"]
        for name in "cdefg":
            table.now_s += 1
            table.sit(name)
            table.say(name, b"hello", "b")
        assert b.count("lives_met") <= 4
        assert a.seal.life not in b.seal._met, "nobody was forgotten"
        table.seats.pop("a")
        table.replay("b", captured)
        table.replay("b", captured)
        assert b.taken == [b"once"]


def test_whoever_was_forgotten_meets_again() -> None:
    with patch.object(sealing, "LIVES_MAX", 4):
        table = Table()
        table.meet()
        for name in "cdefg":
            table.now_s += 1
            table.sit(name)
            table.say(name, b"hello", "b")
        for _ in range(3):
            table.now_s += 1
            table.say("a", b"again", "b")
            table.say("b", b"back", "a")
        assert table.seats["b"].taken[-1] == b"again"
        assert table.seats["a"].taken[-1] == b"back"


# ---- no key and nonce twice -----------------------------------------------------------------------------------------


def pairs(sealed: list[bytes]) -> list[tuple[bytes, int]]:
    """Which life and counter each of these has: what key and nonce follow from."""
    return [(one[8:24], counter_of(one)) for one in sealed]


def test_a_thousand_restarts_repeat_nothing() -> None:
    """Whatever clock and incarnation they have: neither is part of it."""
    table = Table("")
    used = [pair for _ in range(1000) for pair in pairs(table.sit("a").seal.seal([b"x", b"y", b"z"]))]
    assert len(set(used)) == len(used) == 3000


def test_a_fork_repeats_nothing() -> None:
    table = Table()
    table.meet()
    seal = table.seats["a"].seal
    life, counter = seal.life, seal._counter
    parent = pairs(seal.seal([b"x", b"y"]))
    seal._counter = counter  # what the copy has
    with patch("os.getpid", lambda: -1):
        child = pairs(seal.seal([b"x", b"y"]))
        assert seal.life != life
        seal._counter, seal.life, seal._pid = counter, life, -2
        seal._answer(table.seats["b"].seal.life, ("b", 7400), key(1), False)
        child += pairs([table.captured[-1][1]])
    assert not set(parent) & set(child)


@pytest.mark.processes
def test_a_real_fork_repeats_nothing() -> None:
    table = Table()
    table.meet()
    seal = table.seats["a"].seal
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"".join(one[:HEADER_BYTES] for one in seal.seal([b"x", b"y"])))
        os._exit(0)
    own = pairs(seal.seal([b"x", b"y"]))
    os.waitpid(child, 0)
    told = os.read(read, 4096)
    os.close(read)
    os.close(write)
    other = pairs([told[:HEADER_BYTES], told[HEADER_BYTES:]])
    assert len(set(own + other)) == 4


def test_at_the_end_of_the_counter_a_new_life_begins() -> None:
    with patch.object(sealing, "COUNTER_MAX", 40):
        table = Table()
        for number in range(100):
            table.say("a", b"%d" % number, "b")
        sealed = [data for source, data in table.captured if source.name == "a"]
        assert len(set(pairs(sealed))) == len(sealed)
        assert max(counter for _, counter in pairs(sealed)) < 40
        assert table.seats["b"].taken[-1] == b"99"


def test_subkeys_change_before_their_limit() -> None:
    table = Table()
    table.meet()
    a, b = table.seats["a"], table.seats["b"]
    a.seal._counter = 2**SUBKEY_BITS - 2
    sealed = [table.say("a", b"%d" % number, "b") for number in range(4)]
    assert b.taken == [b"0", b"1", b"2", b"3"]
    first, last = sealed[0], sealed[-1]
    old = derive(key(1), a.seal.life, 0)
    assert sealing.open_sealed(first, old, counter_of(first)) == b"0"
    assert sealing.open_sealed(last, old, counter_of(last)) is None


# ---- floods ---------------------------------------------------------------------------------------------------------


def test_a_flood_of_unknown_lives_costs_little_and_leaves_nothing() -> None:
    table = Table()
    table.meet()
    b = table.seats["b"]
    asked = len(b.seal._asked)
    random = Random(3)
    known = table.captured[0][1]
    flood = [known[:8] + random.randbytes(16) + random.randbytes(100) for _ in range(5 * WORK_PER_S)]
    flood = [with_counter(one, random.randrange(COUNTER_MAX)) for one in flood]
    with patch.object(sealing, "derive", side_effect=derive) as derived:
        b.receive(flood, STRANGER)
    assert derived.call_count <= WORK_PER_S
    assert b.count("packets_deferred") == 4 * WORK_PER_S
    assert (b.count("lives_met"), len(b.seal._asked), b.greeted.count(STRANGER)) == (1, asked, 0)
    table.say("a", b"through", "b")
    assert b.taken == [b"through"], "those that have met were held up"


def test_a_flood_with_a_live_tag_costs_no_keys() -> None:
    """Forged counters within the reach of the subkey that is in use need no new one; others are bounded alike."""
    table = Table()
    table.meet()
    a, b = table.seats["a"], table.seats["b"]
    captured = table.say("a", b"one", "b")
    with patch.object(sealing, "derive", side_effect=derive) as derived:
        b.receive([with_counter(captured, counter) for counter in range(100, 600)], a.address)
        assert derived.call_count == 0
        far = [with_counter(captured, (2 + number) << SUBKEY_BITS) for number in range(2 * WORK_PER_S)]
        b.receive(far, a.address)
        assert derived.call_count <= WORK_PER_S
    table.say("a", b"two", "b")
    assert b.taken == [b"one", b"two"]


def test_strangers_are_asked_seldom_and_briefly() -> None:
    """A replayed packet of a life that nobody has met is answered by less than it has, and not again at once."""
    table = Table()
    table.say("a", b"x" * 28, "")
    shortest = table.captured[-1][1]
    b = table.seats["b"]
    for _ in range(100):
        b.receive([shortest], STRANGER)
    assert b.greeted == [STRANGER]
    greeting = next(data for source, data in table.captured if source is b)
    assert greeting[1] == GREETING
    assert len(greeting) <= len(shortest)
    table.now_s += 1
    b.receive([shortest], STRANGER)
    assert b.greeted == [STRANGER] * 2


def test_strangers_that_were_asked_are_soon_forgotten() -> None:
    table = Table()
    for number in range(3 * ASKED_MAX):
        sealed = table.sit(f"s{number}").seal.seal([b"hello"])
        table.seats["b"].receive(sealed, (f"nobody {number}", 1))
    assert len(table.seats["b"].seal._asked) <= ASKED_MAX


def test_a_stranger_cannot_be_kept_from_meeting_by_false_sources() -> None:
    table = Table()
    a, b = table.seats["a"], table.seats["b"]
    first = a.seal.seal([b"first"])
    b.receive(first, STRANGER)  # somebody was faster
    table.send(a, first[0], "b")
    table.say("a", b"second", "b")
    assert b.taken == [b"second"]


# ---- keys -----------------------------------------------------------------------------------------------------------


def change(table: Table, name: str, *epochs: int, chance: int = 0) -> None:
    table.seats[name].seal.change_keys(ring(*epochs, chance=chance))


def talk(table: Table, names: str) -> None:
    """A while in which everybody says something to everybody."""
    for _ in range(4):
        table.now_s += 1
        for name in names:
            table.say(name, b"talk", "".join(other for other in names if other != name))


def check_all_hear_all(table: Table, names: str) -> None:
    for name in names:
        for other in names:
            table.seats[other].taken.clear()
        table.say(name, b"all", "".join(other for other in names if other != name))
        assert [table.seats[other].taken for other in names if other != name] == [[b"all"]] * (len(names) - 1)


def test_a_new_key_is_used_when_the_last_one_has_it_and_nothing_is_lost() -> None:
    table = Table("abc")
    table.meet()
    for name in "abc":
        check_all_hear_all(table, "abc")
        assert {seat.count("key_epoch") for seat in table.seats.values()} == {1}
        change(table, name, 1, 2)
        check_all_hear_all(table, "abc")
    talk(table, "abc")
    assert {seat.count("key_epoch") for seat in table.seats.values()} == {2}
    check_all_hear_all(table, "abc")
    for name in "abc":
        change(table, name, 2)
    talk(table, "abc")
    check_all_hear_all(table, "abc")


@pytest.mark.parametrize("late", [(1,), (1, 2), (2, 3), (3,)])
def test_a_process_that_was_down_comes_back_by_any_listed_key(late: tuple[int, ...]) -> None:
    table = Table("ab", ring(1, 2, 3))
    table.meet()
    table.sit("c", ring(*late))
    talk(table, "abc")
    check_all_hear_all(table, "abc")
    assert table.seats["a"].count("key_epoch") == max(late)


def test_when_it_is_gone_the_newest_key_is_used_again() -> None:
    table = Table("ab", ring(1, 2))
    table.meet()
    table.sit("c", ring(1))
    talk(table, "abc")
    assert table.seats["a"].count("key_epoch") == 1
    for _ in range(12):
        talk(table, "ab")
        table.seats["a"].seal.choose_key()
    assert table.seats["a"].count("key_epoch") == 2


def test_a_life_that_is_over_holds_nobody_back() -> None:
    table = Table("ab", ring(1, 2))
    table.sit("c", ring(1))
    talk(table, "abc")
    assert table.seats["a"].count("key_epoch") == 1
    table.sit("c", ring(1, 2))
    talk(table, "abc")
    assert {seat.count("key_epoch") for seat in table.seats.values()} == {2}


def test_a_process_without_a_common_key_stays_outside() -> None:
    table = Table("ab", ring(2, 3))
    table.meet()
    table.sit("c", ring(1))
    talk(table, "abc")
    assert table.seats["c"].taken == []
    assert {seat.count("lives_met") for seat in table.seats.values()} == {0, 1}


def test_a_stolen_key_is_worth_nothing_once_it_is_taken_out() -> None:
    """Not even what the thief did with it lasts: counters that it ran up, and meetings."""
    table = Table()
    table.meet()
    a, b = table.seats["a"], table.seats["b"]
    table.sit("x", ring(1))
    talk(table, "abx")
    thief = derive(key(1), a.seal.life, (COUNTER_MAX - 1) >> SUBKEY_BITS)
    header = with_counter(table.say("a", b"one", "b"), COUNTER_MAX - 1)[:HEADER_BYTES]
    forged = thief.encrypt((COUNTER_MAX - 1).to_bytes(12, "little"), b"forged", header)
    b.receive([header + forged], a.address)
    assert b.taken[-1] == b"forged", "a shared key does not tell who sent something"
    for name in "ab":
        change(table, name, 2)
    talk(table, "abx")
    check_all_hear_all(table, "ab")
    b.taken.clear()
    captured = len(table.captured)
    for _ in range(5):
        table.now_s += 1
        table.say("x", b"forged", "ab")
    table.replay("b", captured)
    assert b.taken == []


def test_a_recorded_rotation_cannot_be_read_with_the_old_key() -> None:
    """Nothing of a new key is ever sent: keys travel in files alone."""
    table = Table("ab")
    table.meet()
    for name in "ab":
        change(table, name, 1, 2)
    talk(table, "ab")
    start = len(table.captured)
    talk(table, "ab")
    old = {one.tag: one for one in ring(1).keys}
    new = {one.tag for one in ring(2).keys}
    assert all(data[4:8] in new and data[4:8] not in old for _, data in table.captured[start:])
    secret = key(2).secret
    assert not any(secret[:8] in data for _, data in table.captured)


@pytest.mark.parametrize("step", range(1, 12))
def test_keys_are_taken_in_turn_by_whatever_steps(step: int) -> None:
    keys = ring(1, 2, 3).keys
    chosen = [in_turn(keys, count).epoch for count in range(0, 40 * step, step)]
    assert set(chosen) == {1, 2, 3}


def test_a_keyring_shows_no_secrets() -> None:
    keyring: Keyring = ring(1, 2)
    assert keyring.keys[0].secret.hex()[:8] not in repr(keyring) + repr(keyring.keys)
