"""A replicated ledger on disk, under all faults, while members are killed: one, or most of them at about the same time,
some by a loss of power; then the others are stopped, too. All are started again. No line that was acknowledged to
anybody is lost.

Where most are killed, none is started again before the last one is dead. Then the first one founds the group anew,
under another name: the history of a group ends with its last member, and the audit judges each by itself."""

import asyncio
from random import Random

import antiphon
from antiphon.testing import FaultPlan, Host, Result
from antiphon.testing.fault_plan import CALLS_MAX, SECOND_NS, KillProgram, SimulationFault, draw_plan
from antiphon.testing.simulate import ACTIVE_S
from tests.programs.common import PATIENCE_S, Play, names, node_at, until_ending
from tests.programs.ledger import Returned, watch
from tests.programs.ledgers import Ledger, LedgerJudge, keep_books

STACKS: tuple[antiphon.StackName, ...] = ("vector", "label", "domain", "conversation")
FOUND_S = 2.0
SPACING_S = 0.25
KILLING_S = 1.5
"""So long after the first kill all are dead that are to be."""


class Lives:
    """What the programs of one run know of each other's lives."""

    def __init__(self, stack: antiphon.StackName, dead_s: float) -> None:
        self.judge = LedgerJudge()
        self.stack = stack
        self.dead_s = dead_s
        """When all are dead; infinite: never."""
        self.is_founded = False

    def may_found(self, host: Host) -> bool:
        """Whether this life founds the group anew: the first one of the first member when all were dead."""
        first = not self.is_founded and host.name == next(iter(host.addresses))
        self.is_founded = self.is_founded or first
        return first


async def main(host: Host, lives: Lives) -> Returned:
    members = host.members()
    anew = asyncio.get_running_loop().time() > lives.dead_s
    async with node_at(host) as node:
        if host.starts == 1:
            group = await node.join("ledger", members=members, policy="primary", stack=lives.stack)
        else:
            founds = anew and lives.may_found(host)
            group = await node.join(
                "ledger again" if anew else "ledger",
                contacts=[address for name, address in members.items() if founds or name != host.name],
                stack=lives.stack,
                timeout_s=PATIENCE_S,
                found_after_s=FOUND_S,
            )
        async with Ledger(group, path=host.disk / "ledger", founders=list(members)) as ledger:
            await until_ending(host, keep_books(host, ledger, lives.judge, SPACING_S), watch(ledger))
            return group.view.id, list(ledger.lines)


def check(result: Result, judge: LedgerJudge) -> None:
    assert result.returned, "nobody is left"
    lines = {name: returned[1] for name, returned in result.returned.items()}
    longest = max(lines.values(), key=len)
    assert any(line.endswith("*") for line in longest), "nothing was written since all was well again"
    for name, own in lines.items():
        assert own == longest[: len(own)], f"{name} has other lines than the others"
    judge.check(lines.values())


def plan_of(seed: int, hosts: list[str]) -> tuple[FaultPlan, float]:
    """All faults, but with kills of our own: a third of the seeds kill one member, a third most, a third all. The plan,
    and when all are dead."""
    drawn = draw_plan("all", hosts, int(ACTIVE_S * SECOND_NS), seed)
    faults: list[SimulationFault] = [fault for fault in drawn.faults if not isinstance(fault, KillProgram)]
    random = Random(f"ledger {seed}")
    first_s = 1.5 + 2.5 * random.random()
    count = (1, 1 + len(hosts) // 2, len(hosts))[seed % 3]
    dead_s = float("inf") if count == 1 else first_s + KILLING_S
    at_once = count == len(hosts) and random.random() < 0.5  # the power of the whole room goes
    for name in random.sample(hosts, count):
        after_s = 0.0 if at_once else random.random() ** 2
        wait_s = random.random() + (0.0 if count == 1 else KILLING_S - after_s)
        calls = int(random.random() * CALLS_MAX)
        at_ns, restart_ns = int((first_s + after_s) * SECOND_NS), int(wait_s * SECOND_NS)
        power = random.random() < 0.6 and not at_once
        faults.append(KillProgram(name, at_ns, calls, power=power, restart_ns=restart_ns))
    if count > 1:  # who is in the first sweep about to be started again, having been given up, is in the second one not
        for sweep_s in (0.45, 0.2):
            at_ns, restart_ns = int((dead_s - sweep_s) * SECOND_NS), int((sweep_s + random.random()) * SECOND_NS)
            faults += [KillProgram(name, at_ns, power=False, restart_ns=restart_ns) for name in hosts]
    return FaultPlan(drawn.delay, faults, drawn.heal_ns), dead_s


def play(seed: int) -> Play:
    hosts = names(seed // 3)
    plan, dead_s = plan_of(seed, hosts)
    lives = Lives(STACKS[seed // 9 % len(STACKS)], dead_s)

    async def start(host: Host) -> Returned:
        return await main(host, lives)

    return Play(dict.fromkeys(hosts, start), lambda result: check(result, lives.judge), plan)
