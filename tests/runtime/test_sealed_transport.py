"""Attackers on the network of whole programs, in virtual time: they see and send everything, and change nothing.

Each group is attacked while it talks. All promises must hold, every member must have all messages, and the members'
views must be those that they would have had without the attacker.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

import antiphon
from antiphon.faults import Delay, Flight, Observation
from antiphon.kernel.codec import HEADER_SIZE
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.parts.membership import messages
from antiphon.parts.membership.messages import MembershipMessage
from antiphon.runtime import seal as sealing
from antiphon.runtime.keyring import KeySupply, add_key, create_keyring, load_keyring, replace_keys, retire_keys
from antiphon.runtime.seal import HEADER_BYTES, Seal, derive
from antiphon.stacks.registry import DEFAULT, offer
from antiphon.testing import FaultPlan, Host, KillProgram, Result, simulate
from antiphon.testing.environment import simulated_keyring
from antiphon.testing.host import Main
from antiphon.testing.loop import VirtualLoop
from antiphon.testing.network import Network

GROUP = "group"
SECOND_NS = 1_000_000_000
EVE = ("10.66.6.6", 666)
TALK_S = 4.0
MESSAGES = 25
ORDERS: tuple[antiphon.Order, ...] = ("agreed", "causal", "safe")
DELAY = Delay(200_000, 400_000)
FAST = antiphon.Options.fast()
INDEX_COUNTER = 24


def current_network() -> Network:
    """The network that this program is on; attackers do with it what they want."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.program.network


class Attacker:
    """Sees all that passes between hosts, and answers it by `strike`."""

    def __init__(self, host: Host, strike: "Strike") -> None:
        self.random = Random(5)
        self.network = current_network()
        self.members = [name for name in host.addresses if name in "abc"]
        self.addresses = dict(host.addresses)
        self.captured: list[tuple[str, str, bytes]] = []
        """Source, destination and bytes."""
        self.sent = 0
        self._strike = strike
        self.network.layers.append(Observation(self._see))

    def _see(self, now_ns: int, source: str, destination: str, flights: list[Flight]) -> None:
        for _, data in flights:
            self.captured.append((source, destination, data))
            self._strike(self, source, destination, data)

    def inject(self, to: str, data: bytes, whence: tuple[str, int] | None = None, after_ns: int = 1_000_000) -> None:
        """Send a datagram to a member, under any source."""
        self.sent += 1
        timeline = self.network.timeline
        timeline.at(timeline.now_ns + after_ns, lambda: self.network.arrive((to, 7400), data, whence or EVE))

    def own_address(self, name: str) -> tuple[str, int]:
        return (self.addresses[name], 7400)


Strike = Callable[[Attacker, str, str, bytes], None]


def replays(eve: Attacker, source: str, destination: str, data: bytes) -> None:
    """Everything comes again, at once and later, also from other places."""
    eve.inject(destination, data, eve.own_address(source))
    eve.inject(destination, data, None, SECOND_NS)


def mirrors(eve: Attacker, source: str, destination: str, data: bytes) -> None:
    """Everything is thrown back, and goes to everybody else as well."""
    for name in eve.members:
        if name != destination:
            eve.inject(name, data, eve.own_address(source))


def damages(eve: Attacker, source: str, destination: str, data: bytes) -> None:
    """Of everything there are changed, cut and glued copies, which come first."""
    at = eve.random.randrange(len(data))
    other = eve.random.choice(eve.captured)[2]
    for made in (data[:at] + bytes((data[at] ^ 1 << at % 8,)) + data[at + 1 :], data[:at], data[:at] + other[at:]):
        if made != data and made != other:
            eve.inject(destination, made, eve.own_address(source), 0)


def floods(eve: Attacker, source: str, destination: str, data: bytes) -> None:
    """Garbage of all lengths, unknown lives, and known lives with the highest counters."""
    eve.inject(destination, eve.random.randbytes(eve.random.randrange(200)))
    eve.inject(destination, data[:8] + eve.random.randbytes(16) + data[24:])
    for counter in (2**64 - 1, 2**48 - 1, 2**40):
        eve.inject(destination, data[:24] + counter.to_bytes(8, "little") + data[HEADER_BYTES:], after_ns=0)


def strips(eve: Attacker, source: str, destination: str, data: bytes) -> None:
    """What is in the packets, which the attacker is assumed to know, comes in plain, as if seals were not in use."""
    keyring = simulated_keyring(eve.network.timeline.seed)
    counter = int.from_bytes(data[INDEX_COUNTER:HEADER_BYTES], "little")
    key = keyring.by_tag[data[4:8]]
    plain = sealing.open_sealed(data, derive(key, data[8:24], counter >> sealing.SUBKEY_BITS), counter)
    assert plain is not None
    for name in eve.members:
        eve.inject(name, plain, eve.own_address(source))


def forged(kind: int, about: str, eve: Attacker, tag: int = 0) -> bytes:
    """A message about membership, as `about` would send it."""
    process = ProcessId(about, 1)
    message = MembershipMessage(kind, process, f"{eve.addresses[about]}:7400", 1)
    return message.encode(offer(DEFAULT).number, wire_id(GROUP), tag, 1400)[0]


def forges(eve: Attacker, source: str, destination: str, data: bytes) -> None:
    """Plain forgeries of all that members say about membership; where packets are plain, with the right view tag."""
    if len(eve.captured) % 20 == 0 and eve.sent < 1000:
        tag = int.from_bytes(data[16:24], "little") if len(data) >= HEADER_SIZE else 0
        for kind in messages.MESSAGE_NAMES:
            for name in eve.members:
                eve.inject(name, forged(kind, "c", eve, tag), eve.own_address("c"))


def member(insecure: bool = False, keys: Path | None = None, talk_s: float = TALK_S) -> Main:
    """A program that talks; with `keys`, its own are in a file there."""

    async def main(host: Host) -> tuple[list[str], int, dict[str, int]]:
        """Talk; what was read, how many views there were, and the counters at the end."""
        others = {name: f"{address}:7400" for name, address in host.addresses.items() if name in "abc"}
        read: list[str] = []
        views = 0
        node = antiphon.Node(
            host.name,
            address=host.at(),
            incarnation=host.starts,
            options=FAST,
            insecure=insecure,
            keyring=None if keys is None else keys / f"{host.name}.key",
            linger_s=1.0,
        )
        async with node:
            if host.starts == 1:
                group = await node.join(GROUP, members=others)
            else:
                group = await node.join(GROUP, contacts=[at for name, at in others.items() if name != host.name])

            async def speak() -> None:
                for number in range(MESSAGES):
                    await asyncio.sleep(talk_s / MESSAGES)
                    order = ORDERS[number % len(ORDERS)]
                    await group.send(f"{host.name}{host.starts} {number}".encode(), order=order)

            speaking = asyncio.create_task(speak())
            ending = asyncio.create_task(host.ending.wait())
            reader = group.__aiter__()
            while not ending.done():
                reading = asyncio.ensure_future(anext(reader))
                await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    break
                event = reading.result()
                if isinstance(event, antiphon.Message):
                    read.append(event.payload.decode())
                views += isinstance(event, antiphon.ViewChange)
            speaking.cancel()
            counters = node.statistics()
        return read, views, counters

    return main


def attacker(strike: Strike) -> Main:
    async def main(host: Host) -> int:
        eve = Attacker(host, strike)
        await host.ending.wait()
        return eve.sent

    return main


def attack(strike: Strike, *, insecure: bool = False, faults: str | FaultPlan = "none", seed: int = 1) -> Result:
    mains = {name: member(insecure) for name in "abc"} | {"eve": attacker(strike)}
    return simulate(mains, seed=seed, faults=faults, active_s=1)


def check_untouched(result: Result, views: int = 1) -> None:
    """Promises are kept, everybody has everything, once, and no view changed because of the attacker."""
    assert result.kept, result.report("")
    sent = result.returned["eve"]
    assert sent > 100, "there was no attack"
    for name in "abc":
        read, seen, counters = result.returned[name]
        assert sorted(read) == sorted(f"{who}1 {number}" for who in "abc" for number in range(MESSAGES))
        assert seen == views, f"{name} saw {seen} views"
        assert counters["lives_met"] == 2


@pytest.mark.parametrize("strike", [replays, mirrors, damages, floods, strips, forges])
def test_an_attacker_without_keys_changes_nothing(strike: Strike) -> None:
    result = attack(strike)
    check_untouched(result)
    counters = [result.returned[name][2] for name in "abc"]
    if strike is replays:
        assert all(each["packets_replayed"] > 100 for each in counters)
    elif strike is damages:
        assert all(each["packets_forged"] > 100 for each in counters)
    elif strike in (floods, strips, forges):
        assert all(each["packets_unreadable"] > 20 for each in counters)


def test_where_packets_are_plain_a_forgery_ends_it() -> None:
    """What the seal is for; and what the tests above would see without it."""
    result = attack(forges, insecure=True)
    views = [result.returned[name][1] if name in result.returned else 0 for name in "abc"]
    assert views != [1, 1, 1] or not result.kept


def test_a_capture_and_former_lives_are_nothing_to_a_member_that_comes_back() -> None:
    """c is killed and starts again; it is given all that was ever sent, as are the others."""

    def strike(eve: Attacker, source: str, destination: str, data: bytes) -> None:
        now_ns = eve.network.timeline.now_ns
        if now_ns > 2 * SECOND_NS and len(eve.captured) % 40 == 0:
            for was_from, was_to, old in eve.captured[:200]:
                for name in {was_to, "c"}:
                    eve.inject(name, old, eve.own_address(was_from))

    kill = KillProgram("c", SECOND_NS, restart_ns=SECOND_NS // 2)
    result = attack(strike, faults=FaultPlan(DELAY, [kill], 2 * SECOND_NS))
    assert result.kept, result.report("")
    read, views, _ = result.returned["a"]
    assert views == 3, "in, without c, and with c again"
    assert len(read) == len(set(read))
    assert sum(text.startswith("c2 ") for text in read) == MESSAGES
    assert result.returned["c"][1] == 1


def test_the_dead_are_not_kept_alive_by_what_they_said() -> None:
    def strike(eve: Attacker, source: str, destination: str, data: bytes) -> None:
        if eve.network.timeline.now_ns > 2 * SECOND_NS:
            said = [(to, old) for who, to, old in eve.captured[:1000] if who == "c"]
            for to, old in said[:: max(1, len(said) // 3)]:
                eve.inject(to, old, eve.own_address("c"))

    result = attack(strike, faults=FaultPlan(DELAY, [KillProgram("c", 2 * SECOND_NS)], 3 * SECOND_NS))
    assert result.kept, result.report("")
    assert result.returned["a"][1] == result.returned["b"][1] == 2
    assert result.returned["eve"] > 100


# ---- rotation -------------------------------------------------------------------------------------------------------


def copy_keys(directory: Path, name: str) -> None:
    """What an operator does by scp."""
    copied = directory / f".{name}"
    copied.write_bytes((directory / "antiphon.key").read_bytes())
    copied.chmod(0o600)
    copied.rename(directory / f"{name}.key")


def operator(directory: Path, steps: list[tuple[float, Callable[[], object]]]) -> Main:
    async def main(host: Host) -> int:
        loop = asyncio.get_running_loop()
        for at_s, step in steps:
            await asyncio.sleep(at_s - loop.time())
            step()
        await host.ending.wait()
        return len(steps)

    return main


@pytest.mark.parametrize("killed_s", [None, 2.3, 4.2, 6.3])
def test_a_rotation_under_load_loses_nothing(tmp_path: Path, killed_s: float | None) -> None:
    """Files reach the members one by one; one of them is killed at some point, and comes back with the file it has."""
    file = tmp_path / "antiphon.key"
    create_keyring(file)
    for name in "abc":
        copy_keys(tmp_path, name)
    steps: list[tuple[float, Callable[[], object]]] = [
        (1.0, lambda: add_key(file)),
        *((at_s, partial(copy_keys, tmp_path, name)) for at_s, name in ((1.5, "a"), (2.5, "b"), (4.1, "c"))),
        (6.0, lambda: retire_keys(file)),
        *((at_s, partial(copy_keys, tmp_path, name)) for at_s, name in ((6.2, "c"), (7.5, "a"), (8.5, "b"))),
    ]
    mains = {name: member(keys=tmp_path, talk_s=9.0) for name in "abc"} | {"ops": operator(tmp_path, steps)}
    kills = [] if killed_s is None else [KillProgram("c", int(killed_s * 1e9), restart_ns=SECOND_NS // 2)]
    result = simulate(mains, seed=3, faults=FaultPlan(DELAY, kills, 9 * SECOND_NS))
    assert result.kept, result.report("")
    read = {name: result.returned[name][0] for name in "abc"}
    lives = ("a1", "b1", "c1") if killed_s is None else ("a1", "b1", "c2")
    for name in "ab":
        for life in lives:
            assert [text for text in read[name] if text.startswith(life)] == [f"{life} {n}" for n in range(MESSAGES)]
        assert len(read[name]) == len(set(read[name]))
        assert result.returned[name][1] == (1 if killed_s is None else 3), "somebody was shut out"
    assert {result.returned[name][2]["key_epoch"] for name in "abc"} == {2}


@pytest.mark.parametrize("seed", range(2))
def test_many_rotations_with_crashes_lose_nothing(seed: int) -> None:
    """A sample of `make rotations`."""
    from tests.runtime.rotations import campaign

    assert campaign(4, seed)["kills"] == 1


def test_a_stolen_key_is_of_no_use_after_the_rotation(tmp_path: Path) -> None:
    """Eve has the former key and all that was said under it: before it is taken out she is heard, afterwards not."""
    file = tmp_path / "antiphon.key"
    create_keyring(file)
    for name in (*"abc", "eve"):
        copy_keys(tmp_path, name)
    supply = KeySupply(tmp_path / "eve.key")

    async def steal(host: Host) -> list[int]:
        eve = Attacker(host, lambda *_: None)
        thief = Seal(supply.keyring, Random(9).randbytes, asyncio.get_running_loop().time, lambda *_: None)
        told = []
        for _ in range(40):
            await asyncio.sleep(0.2)
            joins = [forged(messages.JOIN, "eve", eve), forged(messages.LEAVE, "c", eve)]
            for name in eve.members:
                for data in thief.seal(joins):
                    eve.inject(name, data, eve.own_address("eve"))
            told.append(sum(data[4:8] == supply.keyring.newest.tag for _, _, data in eve.captured[-50:]))
        for was_from, was_to, old in list(eve.captured[:500]):
            eve.inject(was_to, old, eve.own_address(was_from))
        await host.ending.wait()
        return told

    def replace() -> None:
        replace_keys(file)
        for name in "abc":
            copy_keys(tmp_path, name)

    mains = {name: member(keys=tmp_path) for name in "abc"} | {"eve": steal}
    mains["ops"] = operator(tmp_path, [(2.5, replace)])
    result = simulate(mains, seed=4, faults=FaultPlan(DELAY, [], 4 * SECOND_NS))
    assert result.kept, result.report("")
    told = result.returned["eve"]
    assert told[5] > 0, "the former key was in use"
    assert told[-1] == 0, "the former key is in use still"
    for name in "abc":
        read, views, counters = result.returned[name]
        assert len(read) == len(set(read)) == 3 * MESSAGES
        assert (views, counters["key_epoch"]) == (1, load_keyring(file).newest.epoch)
