"""Whole programs with identities, in virtual time, and attackers among them: outsiders, excluded and revoked members,
readers that would send or lead. All promises hold, everybody has everything, and views are those of a group in peace.

Attackers that are members speak by a seal of their own, with all keys that they have by right (`Insider`).
"""

import asyncio
from collections.abc import Callable

import pytest

import antiphon
from antiphon.kernel.codec import seal
from antiphon.kernel.declaration import Declaration, declare
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import MAIN
from antiphon.kernel.packet_kinds import DATA, STATUS
from antiphon.parts.membership import messages
from antiphon.parts.membership.messages import MembershipMessage, Proposal
from antiphon.parts.ranges import Ranges
from antiphon.runtime.certificates import Revocations
from antiphon.runtime.identity import IdentitySupply
from antiphon.runtime.pair_seal import PairSeal
from antiphon.stacks.registry import offer
from antiphon.testing import FaultPlan, Host, KillProgram, Result, simulate
from antiphon.testing.host import Main
from tests.runtime.identity_table import identity, revoked
from tests.runtime.test_sealed_transport import (
    DELAY,
    FAST,
    GROUP,
    MESSAGES,
    ORDERS,
    SECOND_NS,
    Attacker,
    Strike,
    check_untouched,
    damages,
    floods,
    mirrors,
    replays,
)

TALK_S = 4.0


def member(
    role: str = "member",
    stack: antiphon.StackName = "vector",
    speaks: bool = True,
    revocations: Revocations | None = None,
) -> Main:
    async def main(host: Host) -> tuple[list[str], int, dict[str, int]]:
        """Talk; what was read, how many views there were, and the counters at the end."""
        others = {name: f"{address}:7400" for name, address in host.addresses.items() if name in "abc"}
        read: list[str] = []
        views = 0
        node = antiphon.Node(
            host.name, address=host.at(), incarnation=host.starts, options=FAST, identity=identity(host.name, role),
            linger_s=1.0,
        )  # fmt: skip
        async with node:
            if host.starts == 1 and host.name in others:
                group = await node.join(GROUP, members=others, stack=stack)
            else:
                contacts = [at for name, at in others.items() if name != host.name]
                group = await node.join(GROUP, contacts=contacts, stack=stack)

            async def speak() -> None:
                for number in range(MESSAGES if speaks else 0):
                    await asyncio.sleep(TALK_S / MESSAGES)
                    offered = [order for order in ORDERS if order in offer(stack).levels]
                    await group.send(
                        f"{host.name}{host.starts} {number}".encode(), order=offered[number % len(offered)]
                    )
                if revocations is not None:
                    assert node._identity is not None
                    node._identity.take_revocations(revocations.encoded)

            speaking = asyncio.create_task(speak())
            ending = asyncio.create_task(host.ending.wait())
            reader = group.__aiter__()
            while not ending.done():
                reading = asyncio.ensure_future(anext(reader))
                await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    break
                try:
                    event = reading.result()
                except (StopAsyncIteration, antiphon.ExcludedError):
                    break
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


def attack(strike: Strike, *, faults: str | FaultPlan = "none", seed: int = 1) -> Result:
    mains = {name: member() for name in "abc"} | {"eve": attacker(strike)}
    return simulate(mains, seed=seed, faults=faults, active_s=1)


@pytest.mark.parametrize("strike", [replays, mirrors, damages, floods])
def test_an_attacker_without_keys_changes_nothing(strike: Strike) -> None:
    check_untouched(attack(strike))


@pytest.mark.parametrize("stack", ["vector", "conversation", "domain", "label"])
def test_groups_of_all_stacks_go_on_with_identities(stack: antiphon.StackName) -> None:
    """A member is killed and comes back: views change by proofs, and what it left is resent by others."""
    mains = {name: member(stack=stack) for name in "abc"}
    kill = KillProgram("c", SECOND_NS, restart_ns=SECOND_NS // 2)
    result = simulate(mains, seed=5, faults=FaultPlan(DELAY, [kill], 2 * SECOND_NS))
    assert result.kept, result.report("")
    for name in "ab":
        read, views, _ = result.returned[name]
        assert views == 3, "in, without c, and with c again"
        assert sum(text.startswith("c2 ") for text in read) == MESSAGES


@pytest.mark.parametrize("seed", range(3))
def test_losses_are_repaired_by_whoever_has_the_packet(seed: int) -> None:
    result = simulate({name: member() for name in "abc"}, seed=seed, faults="all", active_s=2)
    assert result.kept, result.report("")


def test_a_capture_and_former_lives_are_nothing_to_a_member_that_comes_back() -> None:
    def strike(eve: Attacker, source: str, destination: str, data: bytes) -> None:
        if eve.network.timeline.now_ns > 2 * SECOND_NS and len(eve.captured) % 40 == 0:
            for was_from, was_to, old in eve.captured[:200]:
                for name in {was_to, "c"}:
                    eve.inject(name, old, eve.own_address(was_from))

    kill = KillProgram("c", SECOND_NS, restart_ns=SECOND_NS // 2)
    result = attack(strike, faults=FaultPlan(DELAY, [kill], 2 * SECOND_NS))
    assert result.kept, result.report("")
    read, views, _ = result.returned["a"]
    assert views == 3
    assert len(read) == len(set(read))


def test_the_dead_are_not_kept_alive_by_what_they_said() -> None:
    def strike(eve: Attacker, source: str, destination: str, data: bytes) -> None:
        if eve.network.timeline.now_ns > 2 * SECOND_NS:
            said = [(to, old) for who, to, old in eve.captured[:1000] if who == "c"]
            for to, old in said[len(eve.captured) % 50 :: 50]:
                eve.inject(to, old, eve.own_address("c"))

    result = attack(strike, faults=FaultPlan(DELAY, [KillProgram("c", 2 * SECOND_NS)], 3 * SECOND_NS))
    assert result.kept, result.report("")
    assert result.returned["a"][1] == 2


# ---- attackers with a certificate -----------------------------------------------------------------------------------


class Insider:
    """A process with an identity that speaks as it likes. It is met by whomever it talks to."""

    def __init__(self, host: Host, name: str, role: str = "member") -> None:
        self.eve = Attacker(host, lambda *_: None)
        self.name = name
        loop = asyncio.get_running_loop()
        supply = IdentitySupply(identity(name, role), name, 0.0)
        self.seal = PairSeal(supply, self.eve.random.randbytes, loop.time, lambda: 1000.0, self._put)
        self._was_seen = 0

    def _put(self, datagram: bytes, where: object) -> None:
        assert isinstance(where, tuple)
        to = next(name for name, address in self.eve.addresses.items() if address == where[0])
        self.eve.inject(to, datagram, self.eve.own_address(self.eve_name))

    @property
    def eve_name(self) -> str:
        return "eve"

    def listen(self) -> None:
        """Take what was sent to eve's address, so that it can meet others."""
        for source, to, data in self.eve.captured[self._was_seen :]:
            if to == "eve":
                self.seal.open([data], [self.eve.own_address(source)])
        self._was_seen = len(self.eve.captured)

    def send(self, packets: list[bytes], to: str) -> None:
        where = self.eve.own_address(to)
        for sealed, _ in self.seal.seal(packets, [where], [to]):
            for datagram in sealed:
                self._put(datagram, where)


Plot = Callable[[Insider], list[bytes]]


def insider(role: str, plot: Plot, name: str = "m") -> Main:
    async def main(host: Host) -> int:
        mallory = Insider(host, name, role)
        while not host.ending.is_set():
            await asyncio.sleep(0.05)
            mallory.listen()
            for to in "abc":
                mallory.send(plot(mallory), to)
        return mallory.eve.sent

    return main


def view_of(mallory: Insider) -> View:
    """The view that all are in, as anybody can guess it."""
    members = tuple(ProcessId(name, 1) for name in "abc")
    return View(1, members, tuple(f"{mallory.eve.addresses[name]}:7400" for name in "abc"))


def membership(kind: int, sender: str, mallory: Insider, **more: object) -> list[bytes]:
    message = MembershipMessage(kind, ProcessId(sender, 1), f"{mallory.eve.addresses['eve']}:7400", 1)
    for name, value in more.items():
        setattr(message, name, value)
    return message.encode(offer("vector").number, wire_id(GROUP), declared_id(), 1400)


def declared_id() -> int:
    """The id that members of such a group declare, which is no secret."""
    return Declaration(declare("vector", "primary", MAIN, FAST)).id


def forged_install(mallory: Insider) -> list[bytes]:
    """A view of a and mallory alone."""
    view = View(2, (ProcessId("a", 1), ProcessId("m", 1)), ("10.0.0.1:7400", "10.66.6.6:7400"))
    proposal = Proposal(view, [], [1, 2], [Ranges([]) for _ in "abc"], [0], [], b"")
    packets = []
    for speaker in ("a", "b", "c", "m"):
        packets += membership(messages.INSTALL, speaker, mallory, accepted=proposal)
    return packets


def everything_as_another(mallory: Insider) -> list[bytes]:
    """Each word about membership, in the name of c, of which most would end something."""
    packets = []
    for kind in messages.MESSAGE_NAMES:
        packets += membership(kind, "c", mallory, about=ProcessId("c", 1), round=65536)
        packets += membership(kind, "c", mallory, about=None)
    return packets


def outdated(mallory: Insider) -> list[bytes]:
    packets = []
    for name in "abc":
        message = MembershipMessage(messages.OUTDATED, ProcessId("b", 1), "10.0.0.1:7400", 5)
        message.about, message.round = ProcessId(name, 1), 1
        packets += message.encode(offer("vector").number, wire_id(GROUP), declared_id(), 1400)
    return packets


def status_as_another(mallory: Insider) -> list[bytes]:
    return [seal(offer("vector").number, kind, wire_id(GROUP), 5, 2, 0, 0, [bytes(60)]) for kind in (STATUS, DATA)]


def joins_unasked(mallory: Insider) -> list[bytes]:
    return membership(messages.JOIN, "m", mallory)


@pytest.mark.parametrize(
    ("role", "plot"),
    [
        ("member", forged_install),
        ("member", everything_as_another),
        ("member", outdated),
        ("member", status_as_another),
        ("guest", joins_unasked),
        ("reader", everything_as_another),
    ],
)
def test_a_process_of_the_cluster_that_is_not_in_the_group_changes_nothing(role: str, plot: Plot) -> None:
    """It has a certificate that holds, and all keys; it speaks in its own name and in those of others."""
    mains = {name: member() for name in "abc"} | {"eve": insider(role, plot)}
    result = simulate(mains, seed=2, faults="none", active_s=1)
    assert result.kept, result.report("")
    assert result.returned["eve"] > 50
    for name in "abc":
        read, views, counters = result.returned[name]
        assert sorted(read) == sorted(f"{who}1 {number}" for who in "abc" for number in range(MESSAGES))
        assert views == 1
        dropped = counters["packets_forbidden"] + counters.get("dropped_author", 0) + counters.get("dropped_proof", 0)
        assert dropped + counters.get("dropped_view", 0) > 10, counters


def test_who_is_revoked_is_excluded_and_cannot_come_back() -> None:
    """a is given the list; b learns of it from a; c is let go, and asks in vain."""
    mains = {"a": member(revocations=revoked("c")), "b": member(), "c": member()}
    result = simulate(mains, seed=7, faults=FaultPlan(DELAY, [], 8 * SECOND_NS))
    for name in "ab":
        _, views, counters = result.returned[name]
        assert views == 2, "in, and without c"
        assert counters["revocations_version"] == 1
        assert counters["lives_met"] == 1


def test_a_reader_reads_and_does_not_send() -> None:
    mains = {"a": member(), "b": member(), "c": member("reader", speaks=False)}
    result = simulate(mains, seed=8, faults=FaultPlan(DELAY, [], 2 * SECOND_NS))
    assert result.kept, result.report("")
    read, views, _ = result.returned["c"]
    assert len(read) == 2 * MESSAGES
    assert views == 1


def test_a_sender_that_is_the_oldest_does_not_lead() -> None:
    """a may not coordinate; c is killed: b leads the change of view."""
    mains = {"a": member("sender"), "b": member(), "c": member()}
    result = simulate(mains, seed=9, faults=FaultPlan(DELAY, [KillProgram("c", SECOND_NS)], 2 * SECOND_NS))
    assert result.kept, result.report("")
    for name in "ab":
        assert result.returned[name][1] == 2
    assert result.returned["b"][2]["packets_forbidden"] == 0, "a did not try"
