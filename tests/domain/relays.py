"""Three domains of four in a line, in virtual time, relays killed and replaced under load, and what must hold of it.

    python -m tests.domain.relays --seeds 0:100 [--messages 8] [--seconds 240] [--history DIR]

In every second seed relays are also cut off from their own domain, but not from the others, or stand still, until their
domain has gone on without them: they come back as their next incarnations. Each run is judged twice: by what the
programs sent and were handed, and by the audit of their histories, which have the messages of all domains under one
name (domain/history.py). `--history` leaves the histories of all seeds, for `antiphon audit DIR`.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

import antiphon
from antiphon.domain import CommunicationDomain, DomainMessage
from antiphon.faults import Delay, Partition
from antiphon.history.segments import segment_file
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.testing import FaultPlan, Host, NetworkFault, simulate
from antiphon.testing.fault_plan import KillProgram, PauseProgram, SimulationFault
from antiphon.testing.simulate import Result
from tests.pipeline.inprocess import table_of

SECOND_NS = 1000 * MILLISECOND_NS
DOMAINS = ("A", "B", "C")
NEIGHBOURS = {"A": ("B",), "B": ("A", "C"), "C": ("B",)}
ROUTES = {"A": {"C": "B"}, "B": {}, "C": {"A": "B"}}
PLACES = ("1", "2", "3", "4")
LINK_PORT = 7500


@dataclass
class Told:
    """What one life of a member sent and was handed, in order."""

    domain: str
    events: list[tuple[str, str, str, tuple[str, ...]]] = field(default_factory=list)
    """ "sent" or "got", name of the message, order, domains."""
    complete: bool = False
    """From the first view of the group on."""
    ended: bool = False
    """To the end."""


def names_of(domain: str) -> list[str]:
    return [domain + place for place in PLACES]


class Program:
    """What each member does; the first two of a domain are relays."""

    def __init__(self, seed: int, messages: int) -> None:
        self.seed = seed
        self.messages = messages
        self.told: list[Told] = []
        self.present: dict[str, Told] = {}
        """By host, its present life."""

    def begin_life(self, host: Host, complete: bool) -> Told:
        self.present[host.name] = Told(host.name[0], complete=complete)
        self.told.append(self.present[host.name])
        return self.present[host.name]

    async def __call__(self, host: Host) -> None:
        domain, place = host.name[0], int(host.name[1])
        self.begin_life(host, complete=host.starts == 1)
        random = Random(f"{self.seed} {host.name} {host.starts}")
        addresses = dict(host.addresses)
        members = {name: f"{addresses[name]}:7400" for name in names_of(domain)}
        async with antiphon.Node(host.name, address=host.at(), rejoin=True) as node:
            if host.starts == 1:
                group = await node.join(domain, members=members, stack="domain", timeout_s=60)
            else:
                others = [where for name, where in members.items() if name != host.name]
                group = await node.join(domain, contacts=others, stack="domain", timeout_s=60)
            relay = place <= 2
            links = {
                other: [f"{addresses[other + at]}:{LINK_PORT}" for at in ("1", "2")]
                for other in NEIGHBOURS[domain]
                if other < domain
            }
            async with CommunicationDomain(
                group,
                domain,
                DOMAINS,
                listen=host.at(LINK_PORT) if relay else None,
                links=links if relay else None,
                routes=ROUTES[domain],
            ) as everywhere:
                reading = asyncio.create_task(self.read(everywhere, host))
                for number in range(self.messages):
                    await asyncio.sleep(random.uniform(0.01, 0.2))
                    to = random.sample(DOMAINS, random.randint(1, 3)) if random.random() < 0.7 else []
                    order = random.choice(("causal", "agreed", "safe"))
                    name = f"{host.name}.{host.starts}.{number}"
                    self.present[host.name].events.append(("sent", name, order, tuple(sorted({domain, *to}))))
                    await everywhere.send(name.encode(), to=to, order=order)  # type: ignore[arg-type]
                await host.ending.wait()
                self.present[host.name].ended = True
                reading.cancel()

    async def read(self, everywhere: CommunicationDomain, host: Host) -> None:
        async for event in everywhere:
            if isinstance(event, DomainMessage):
                told = self.present[host.name]
                told.events.append(("got", event.payload.decode(), event.order, event.domains))
            elif isinstance(event, antiphon.Excluded):
                self.begin_life(host, complete=False)

    # ---- judging ---------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        domains = {name: to for told in self.told for kind, name, _, to in told.events if kind == "sent"}
        order = {name: level for told in self.told for kind, name, level, _ in told.events if kind == "sent"}
        past = self.pasts()
        whole = [told for told in self.told if told.complete]
        for told in self.told:
            handed = [name for kind, name, _, _ in told.events if kind == "got"]
            assert len(handed) == len(set(handed)), "delivered twice"
            assert all(told.domain in domains[name] for name in handed)
        for told in whole:
            seen: set[str] = set()
            for kind, name, _, _ in told.events:
                if kind == "got":
                    lacking = {each for each in past[name] if told.domain in domains[each]} - seen
                    assert not lacking, f"{told.domain} delivers {name} before {sorted(lacking)[:3]}"
                    seen.add(name)
        lasting = {name for told in self.told if told.ended for kind, name, *_ in told.events if kind == "sent"}
        for told in whole:
            if told.ended:
                got = {name for kind, name, *_ in told.events if kind == "got"}
                assert {name for name in lasting if told.domain in domains[name]} <= got, "something was lost"
                for fellow in whole:
                    if fellow.ended and fellow.domain == told.domain:
                        assert got == {name for kind, name, *_ in fellow.events if kind == "got"}
        ordered = [
            [name for kind, name, _, _ in told.events if kind == "got" and order[name] != "causal"] for told in whole
        ]
        for one in ordered:
            for other in ordered:
                both = {name for name in set(one) & set(other) if len(domains[name]) > 1}
                globals_of = [[name for name in own if name in both] for own in (one, other)]
                assert globals_of[0] == globals_of[1], "two orders of global messages"

    def pasts(self) -> dict[str, set[str]]:
        """What came before each message, by what its sender had sent and delivered."""
        direct: dict[str, list[str]] = {}
        for told in self.told:
            before: list[str] = []
            for kind, name, _, _ in told.events:
                if kind == "sent":
                    direct[name] = list(before)
                before.append(name)
        full: dict[str, set[str]] = {}

        def find(name: str) -> set[str]:
            if name not in full:
                full[name] = set()
                for earlier in direct.get(name, []):
                    full[name] |= {earlier} | find(earlier)
            return full[name]

        for name in direct:
            find(name)
        return full


def play(seed: int, messages: int, faults: Sequence[SimulationFault]) -> tuple[Program, Result]:
    """Run it; the audit is in the result."""
    program = Program(seed, messages)
    plan = FaultPlan(Delay(MILLISECOND_NS, 5 * MILLISECOND_NS), faults, heal_ns=8 * SECOND_NS)
    names = [name for domain in DOMAINS for name in names_of(domain)]
    return program, simulate(dict.fromkeys(names, program), seed=seed, faults=plan)


def run(seed: int, messages: int, faults: Sequence[SimulationFault], history: Path | None = None) -> Program:
    """Run it; an AssertionError if anything does not hold."""
    program, result = play(seed, messages, faults)
    if history is not None:
        keep(result, history / f"seed-{seed}")
    assert result.kept, result.report("")
    program.judge()
    return program


def keep(result: Result, directory: Path) -> None:
    """Write the logs as the recorder would."""
    directory.mkdir(parents=True, exist_ok=True)
    for log in result.rows:
        if log:
            rows = [replace(row, run=directory.name) for row in log]
            pq.write_table(table_of(rows), segment_file(directory, log[0].process, log[0].incarnation, 0))


def kills(seed: int) -> list[KillProgram]:
    """One relay of each of two domains, or of all three, started again later or never."""
    random = Random(f"kills {seed}")
    return [
        KillProgram(
            random.choice((f"{domain}1", f"{domain}2")),
            random.randrange(SECOND_NS // 2, 2 * SECOND_NS),
            restart_ns=random.choice((None, SECOND_NS)),
        )
        for domain in random.sample(DOMAINS, random.randint(2, 3))
    ]


def seclusions(seed: int) -> list[SimulationFault]:
    """Relays that are cut off from their own domain, and from nobody else, or stand still, for three seconds."""
    random = Random(f"seclusions {seed}")
    found: list[SimulationFault] = []
    for domain in random.sample(DOMAINS, random.randint(1, 2)):
        relay = random.choice((f"{domain}1", f"{domain}2"))
        at_ns = random.randrange(SECOND_NS // 2, 2 * SECOND_NS)
        fellows = frozenset(names_of(domain)) - {relay}
        if random.random() < 0.3:
            found.append(PauseProgram(relay, at_ns, 3 * SECOND_NS))
            continue
        for sources, destinations in ((frozenset({relay}), fellows), (fellows, frozenset({relay}))):
            found.append(NetworkFault(Partition(sources, destinations, at_ns, at_ns + 3 * SECOND_NS)))
    return found


def faults_of(seed: int) -> list[SimulationFault]:
    """What a seed of the campaign does."""
    return [*kills(seed)[:1], *seclusions(seed)] if seed % 2 else [*kills(seed)]


def main() -> None:
    """Run many seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:50", help="from:to, the last one excluded")
    parser.add_argument("--messages", type=int, default=8, help="of each member")
    parser.add_argument("--seconds", type=float, help="begin no further seed after so long")
    parser.add_argument("--history", type=Path, help="a directory to leave the histories in")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    begun_s = time.monotonic()
    done = failed = got = lives = 0
    for seed in range(first, last):
        if given.seconds is not None and time.monotonic() > begun_s + given.seconds:
            break
        done += 1
        try:
            program = run(seed, given.messages, faults_of(seed), given.history)
            got += sum(kind == "got" for told in program.told for kind, *_ in told.events)
            lives += sum(not told.complete for told in program.told)
        except AssertionError as error:
            failed += 1
            print(f"seed {seed}: {str(error)[:300]}", flush=True)
    print(f"{done} seeds, {failed} failed, {got} deliveries, {lives} times somebody came back or came later")


if __name__ == "__main__":
    main()
